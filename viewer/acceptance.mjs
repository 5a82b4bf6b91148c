// Opens stores in headless Chromium with software GL and checks what a person would see.
//   node viewer/acceptance.mjs PAGE_URL OUT_FOLDER [NAME...]     the server is running; NAME are its stores
// Prints one line of JSON a store, and ends with 1 on any failure. CHROMIUM names the browser.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import puppeteer from "puppeteer-core";

const [root, out, ...names] = process.argv.slice(2);
mkdirSync(out, { recursive: true });
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist", "--hide-scrollbars"],
});
let failures = 0;
for (const name of names) {
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 720 });
  const told = [], foreign = [];
  page.on("console", (message) => { if (["error", "warn"].includes(message.type())) told.push(message.text()); });
  page.on("pageerror", (error) => told.push(String(error)));
  page.on("request", (request) => { const url = request.url(); if (!url.startsWith(root) && !/^(data|blob):/.test(url)) foreign.push(url); });
  const result = { name };
  try {
    const begun = Date.now();
    await page.goto(`${root}/view/#!${encodeURIComponent(JSON.stringify({ store: `../data/${name}/` }))}`);
    await page.evaluate(() => window.zvfViewer.ready);
    result.ms = Date.now() - begun;
    result.marks = await page.evaluate(() => window.zvfViewer.marks());
    result.stats = await page.evaluate(() => window.zvfViewer.stats());
    result.kinds = await page.evaluate(() => window.zvfViewer.kinds());
    result.objects = (await page.evaluate(() => window.zvfViewer.loadedObjects())).length;
    result.errors = await page.evaluate(() => window.zvfViewer.errors());
    await page.screenshot({ path: join(out, `${name}-page.png`) });
    const png = await page.evaluate(async () => {
      const blob = await window.zvfViewer.screenshot({ width: 960, height: 720 });
      return Array.from(new Uint8Array(await blob.arrayBuffer()));
    });
    writeFileSync(join(out, `${name}.png`), Buffer.from(png));
    // What is drawn must be there, and what is picked must have an id where there are objects.
    result.picked = await page.evaluate(async () => {
      let hit = null, hits = 0;
      for (let y = 100; y < 640; y += 60) for (let x = 330; x < 1000; x += 60) { const one = await window.zvfViewer.pick(x, y); if (one) { hits++; hit = one; if (hits > 3) return { hits, hit }; } }
      return { hits, hit };
    });
    if (!result.picked.hits) throw new Error("nothing was picked");
    result.errors = await page.evaluate(() => window.zvfViewer.errors());
    if (result.errors.length || told.length || foreign.length) throw new Error("something was said, or asked of another host");
    if (!(result.stats.shown.vertices > 0)) throw new Error("nothing is shown");
  } catch (error) {
    failures++;
    result.failed = String(error);
    await page.screenshot({ path: join(out, `${name}-failed.png`) }).catch(() => {});
  }
  console.log(JSON.stringify({ ...result, told, foreign }));
  await page.close();
}
await browser.close();
process.exit(failures ? 1 : 0);
