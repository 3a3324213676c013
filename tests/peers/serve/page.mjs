// Opens the page of a service in a browser and prints, as one line of JSON, what it does there.
//
// Arguments: the folder of the modules, the browser, the address of the service, a run that is running.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import path from "node:path";

const [modules, browserPath, origin, run] = process.argv.slice(2);
const require = createRequire(path.join(modules, "package.json"));
const puppeteer = require("puppeteer-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const browser = await puppeteer.launch({
  executablePath: browserPath,
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
});
const seen = { elsewhere: [], errors: [], violations: [], axe: {}, wide: {} };
const looks = { light: {}, dark: { dark: true }, narrow: { narrow: true } };

const open = async (address, look) => {
  const page = await browser.newPage();
  page.on("request", (request) => { if (!request.url().startsWith(origin + "/")) seen.elsewhere.push(request.url()); });
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("console", (message) => {
    const isIcon = message.location().url?.endsWith("/favicon.ico");
    if (message.type() === "error" && !isIcon) seen.errors.push(message.text());
  });
  await page.evaluateOnNewDocument(() => {
    window.refused = [];
    document.addEventListener("securitypolicyviolation", (event) => window.refused.push(event.violatedDirective));
  });
  await page.setViewport({ width: look.narrow ? 390 : 1280, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: look.dark ? "dark" : "light" }]);
  await page.setJavaScriptEnabled(!look.plain);
  await page.goto(origin + address, { waitUntil: "load", timeout: 60000 });
  return page;
};
const judge = async (page, name) => {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  seen.axe[name] = found.violations.map((violation) => violation.id + ": " + violation.nodes[0].html.slice(0, 200));
  seen.wide[name] = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
};
const close = async (page) => {
  seen.violations.push(...await page.evaluate(() => window.refused ?? []));
  await page.close();
};

// First of all what has to be seen while the run is running.
const page = await open("/runs/" + run, {});
const text = (id) => page.$eval("#" + id, (element) => element.textContent);
await page.waitForFunction(() => document.getElementById("live-word").textContent === "live", { timeout: 30000 });
seen.begins = await text("title");
await page.waitForFunction(() => document.querySelector("#work-rows th"), { timeout: 30000 });
seen.works = await page.$$eval("#work-rows th", (rows) => rows.map((row) => row.textContent));
const before = await page.$$eval("#log-lines li", (lines) => lines.length);

const plain = await open("/runs/" + run, { plain: true });
seen.plain = await plain.evaluate(() => ({
  title: document.querySelector("h1").textContent,
  groups: document.querySelectorAll("#group-rows tr").length,
  lines: document.querySelectorAll("#log-lines li").length,
})).catch(() => null);
await plain.close();

for (const [name, look] of Object.entries(looks)) {
  for (const [what, address] of [["home", "/"], ["nodes", "/nodes?state=deployed"], ["run", "/runs/" + run]]) {
    const page = await open(address, look);
    await judge(page, `${what} ${name}`);
    await close(page);
  }
}

await page.bringToFront();
await page.waitForFunction(() => document.getElementById("live-word").textContent === "ended", { timeout: 120000 });
await page.waitForFunction(() => document.querySelector("tr.s-failed, tr.s-succeeded"), { timeout: 30000 });
await new Promise((resolve) => setTimeout(resolve, 1000));
seen.ends = await text("title");
seen.steps = await text("steps");
seen.grew = (await page.$$eval("#log-lines li", (lines) => lines.length)) > before;
seen.doubled = await page.$$eval("#log-lines li", (lines) => {
  const texts = lines.map((line) => line.textContent);
  // Records may be written twice within a second.
  const others = texts.filter((text) => !text.includes("records written"));
  return others.filter((text, position) => others.indexOf(text) !== position);
});
seen.failed = await page.$$eval("#failed-rows tr", (rows) => rows.map((row) => row.lastElementChild.textContent));
seen.report = await page.$eval("#report", (report) => !report.hidden);
await judge(page, "run ended");
// By keyboard: the first stop leads past the navigation, and the log can be reached.
await page.reload({ waitUntil: "load" });
await page.keyboard.press("Tab");
seen.skip = await page.evaluate(() => document.activeElement.getAttribute("href"));
seen.reached = [];
for (let stop = 0; stop < 20; stop += 1) {
  await page.keyboard.press("Tab");
  const id = await page.evaluate(() => document.activeElement.id || document.activeElement.getAttribute("href"));
  seen.reached.push(id);
}
await close(page);
await browser.close();
console.log(JSON.stringify(seen));
