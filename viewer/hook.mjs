// Drives the page through its hook and compares what it shows with what was asked for.
//   node viewer/hook.mjs PAGE_URL POINTS STREAMLINES     names of stores that the running server has

import assert from "node:assert/strict";
import puppeteer from "puppeteer-core";

const [root, points, chains] = process.argv.slice(2);
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", protocolTimeout: 300_000,
  args: ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"],
});
const told = [];
async function open(name, more = {}) {
  const page = await browser.newPage();
  await page.setViewport({ width: 640, height: 480 });
  page.on("console", (message) => { if (message.type() === "error") told.push(message.text()); });
  page.on("pageerror", (error) => told.push(String(error)));
  await page.goto(`${root}/view/#!${encodeURIComponent(JSON.stringify({ store: `../data/${name}/`, ...more }))}`);
  await page.evaluate(() => window.zvfViewer.ready);
  const ask = (work, ...args) => page.evaluate(work, ...args);
  return { page, ask };
}
const passed = [];
async function step(name, work) { await work(); passed.push(name); console.log(`ok ${name}`); }

const one = await open(chains);
await step("objects: only some, all but some, none", async () => {
  const all = await one.ask(() => window.zvfViewer.loadedObjects());
  assert.ok(all.length > 3);
  const few = all.slice(0, 2).sort();
  await one.ask((ids) => window.zvfViewer.setState({ objects: { mode: "only", ids } }), few);
  assert.deepEqual((await one.ask(() => window.zvfViewer.loadedObjects())).sort(), few);
  await one.ask((ids) => window.zvfViewer.setState({ objects: { mode: "except", ids } }), few);
  assert.equal((await one.ask(() => window.zvfViewer.loadedObjects())).length, all.length - 2);
  await one.ask(() => window.zvfViewer.setState({ objects: { mode: "all", ids: [] } }));
});
await step("search finds an id", async () => {
  const found = await one.ask(() => window.zvfViewer.search(window.zvfViewer.loadedObjects()[1]));
  assert.equal(found.length >= 1, true);
});
await step("colours by everything", async () => {
  for (const by of ["constant", "object", "direction", "depth"]) await one.ask((by) => window.zvfViewer.setState({ layers: { [window.zvfViewer.kinds()[0]]: { colour: { by } } } }), by);
  await one.ask(() => window.zvfViewer.setState({ layers: { [window.zvfViewer.kinds()[0]]: { width: 3, opacity: 0.5 } } }));
});
await step("faults of states are told, and the state stays", async () => {
  const before = await one.ask(() => window.zvfViewer.getState());
  for (const patch of [{ where: "nothing >" }, { where: "no_such_column > 1" }, { camera: { distance: -1 } }, { layers: { streamline: { colour: { by: "attribute", attribute: "none" } } } }, 7]) {
    const message = await one.ask(async (patch) => { try { await window.zvfViewer.setState(patch); return null; } catch (error) { return error.message; } }, patch);
    assert.ok(message, JSON.stringify(patch));
  }
  assert.deepEqual(await one.ask(() => window.zvfViewer.getState()), before);
});
await step("the address gives the same state", async () => {
  await one.ask(() => window.zvfViewer.setState({ clip: { box: [[0, 0, 0], [50, 100, 100]] }, camera: { fov: 30 } }));
  const [url, state] = await one.ask(() => [window.zvfViewer.url(), window.zvfViewer.getState()]);
  assert.ok(url.length < 2048, url);
  const other = await browser.newPage();
  await other.setViewport({ width: 640, height: 480 });
  await other.goto(url);
  await other.evaluate(() => window.zvfViewer.ready);
  assert.deepEqual(await other.evaluate(() => window.zvfViewer.getState()), state);
  await other.close();
});
await step("a bad address is told", async () => {
  const page = await browser.newPage();
  await page.goto(`${root}/view/#!{"v":9}`);
  await page.evaluate(() => window.zvfViewer.ready);
  assert.match((await page.evaluate(() => window.zvfViewer.errors()))[0].message, /version 9/);
  await page.close();
});
await one.page.close();

const two = await open(points, { level: 0, budget: { points: 10_000_000 } });
await step("a condition leaves what the query counts", async () => {
  const all = await two.ask(() => window.zvfViewer.stats().shown.vertices);
  await two.ask(() => window.zvfViewer.setState({ where: "x < 200" }));
  const some = await two.ask(() => window.zvfViewer.stats().shown.vertices);
  assert.ok(some > 0 && some < all, `${some} of ${all}`);
  console.log(JSON.stringify({ all, "x < 200": some }));
});
assert.deepEqual(told, []);
await browser.close();
console.log(`${passed.length} passed`);
