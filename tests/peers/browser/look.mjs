// Opens a page in a browser and prints, as one line of JSON, what it does there.
//
// Arguments: the folder of the modules, the browser, the page, and a text to search for.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import path from "node:path";

const [modules, browserPath, file, wanted] = process.argv.slice(2);
const require = createRequire(path.join(modules, "package.json"));
const puppeteer = require("puppeteer-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const url = pathToFileURL(file).href;
const browser = await puppeteer.launch({
  executablePath: browserPath,
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
});
const seen = { requests: [], errors: [], violations: [], dialogs: [], axe: {}, open: 0 };

const watched = async (look) => {
  const page = await browser.newPage();
  page.on("request", (request) => { if (request.url() !== url) seen.requests.push(request.url()); });
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error") seen.errors.push(message.text()); });
  page.on("dialog", async (dialog) => { seen.dialogs.push(dialog.message()); await dialog.dismiss(); });
  await page.evaluateOnNewDocument(() => {
    window.refused = [];
    document.addEventListener("securitypolicyviolation", (event) => window.refused.push(event.violatedDirective));
  });
  await page.setViewport({ width: look.narrow ? 390 : 1280, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: look.dark ? "dark" : "light" }]);
  await page.setJavaScriptEnabled(!look.plain);
  const begun = Date.now();
  await page.goto(url, { waitUntil: "load", timeout: 120000 });
  seen.open ||= Date.now() - begun;
  return page;
};
const ended = async (page) => {
  seen.violations.push(...await page.evaluate(() => window.refused ?? []));
  await page.close();
};

for (const [name, look] of Object.entries({ light: {}, dark: { dark: true }, narrow: { narrow: true } })) {
  const page = await watched(look);
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  seen.axe[name] = found.violations.map((violation) => violation.id + ": " + violation.nodes[0].html.slice(0, 200));
  await ended(page);
}

const page = await watched({});
const matches = () => page.$eval("#matches", (output) => output.textContent);
const settled = async (before) => {
  await page.waitForFunction((text) => document.getElementById("matches").textContent !== text, {}, before);
  return matches();
};
seen.elements = await page.evaluate(() => document.querySelectorAll("*").length);
seen.all = await matches();
await page.focus("#q");
// All at once: on a busy machine the page would search for half of it between two keys.
await page.keyboard.sendCharacter(wanted);
seen.searched = await settled(seen.all);
seen.found = await page.$$eval("#found a", (links) => links.map((link) => link.textContent));
await page.click("#found a");
seen.shown = await page.$eval("#machine", (dialog) => dialog.open && document.getElementById("machine-name").textContent);
seen.about = await page.$eval("#machine-about", (about) => about.textContent);
await page.keyboard.press("Escape");
seen.closed = await page.$eval("#machine", (dialog) => !dialog.open);
await page.click("#reset");
seen.reset = await settled(seen.searched);
const racks = await page.$$eval("#by-rack option", (options) => options.map((option) => option.value));
await page.select("#by-rack", racks[1]);
seen.byRack = await settled(seen.reset);
await page.click("#reset");
await page.click("#unfold");
seen.unfolded = await page.$$eval("details.stage", (stages) => stages.every((stage) => stage.open));
await page.focus(".canvas");
const width = () => page.$eval("svg.graph", (graph) => Number(graph.getAttribute("width")));
const before = await width();
await page.keyboard.press("-");
seen.zoomed = (await width()) < before;
await ended(page);

const plain = await watched({ plain: true });
seen.plain = await plain.$eval("h1", (title) => title.textContent);
seen.toolsHidden = await plain.$eval(".tools", (tools) => tools.hidden);
await plain.close();

await browser.close();
console.log(JSON.stringify(seen));
