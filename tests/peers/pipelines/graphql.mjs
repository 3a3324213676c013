// Checks every operation of a Rust file against GitHub's own schema: MODULES FILE. Prints a list of operations and mistakes.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [modules, file] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { buildSchema, parse, validate } = require("graphql");
const text = readFileSync(`${modules}/node_modules/@octokit/graphql-schema/schema.graphql`, "utf8");
const schema = buildSchema(text, { assumeValidSDL: true, assumeValid: true });
const found = readFileSync(file, "utf8").matchAll(/const (\w+): &str =\s*"((?:query|mutation)[^"]*)";/g);
const checked = [...found].map(([, name, query]) => {
  const joined = query.replace(/\\\n\s*/g, "");
  return { name, mistakes: validate(schema, parse(joined)).map((mistake) => mistake.message) };
});
// A mistake must be found, else nothing was checked.
const control = validate(schema, parse("{repository(owner:1){nothing}}")).length;
process.stdout.write(JSON.stringify({ checked, control }));
