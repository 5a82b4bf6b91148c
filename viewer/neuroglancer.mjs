// Looks at every store of a running server in the stock Neuroglancer client, which that server serves beside them.
//   zvf serve STORE... --precomputed --neuroglancer CLIENT_FOLDER --json | node viewer/neuroglancer.mjs FOLDER_FOR_PICTURES
// Each view must show at least 300 pixels that are no grey; the line that the server prints says which views there are.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import puppeteer from "puppeteer-core";

const [folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const line = await new Promise((resolve) => createInterface({ input: process.stdin }).once("line", resolve));
const { stores } = JSON.parse(line);
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", protocolTimeout: 300_000,
  args: ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"],
});
const LEAST_PIXELS = 300, TRIES = 20;

/** Pixels of the picture that are coloured: the panels of the client are grey. */
async function countColoured(page, png) {
  return page.evaluate(async (data) => {
    const picture = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
    const canvas = new OffscreenCanvas(picture.width, picture.height), pen = canvas.getContext("2d");
    pen.drawImage(picture, 0, 0);
    const { data: bytes } = pen.getImageData(10, 60, picture.width - 330, picture.height - 80);
    let count = 0;
    for (let at = 0; at < bytes.length; at += 4) if (Math.max(bytes[at], bytes[at + 1], bytes[at + 2]) - Math.min(bytes[at], bytes[at + 1], bytes[at + 2]) > 60) count++;
    return count;
  }, png);
}

const counter = await browser.newPage();
try {
  for (const { name, neuroglancer } of stores) {
    assert.ok(neuroglancer, `${name} has no view`);
    const page = await browser.newPage();
    await page.setViewport({ width: 1000, height: 800 });
    await page.goto(neuroglancer);
    let count = 0, png = "";
    for (let at = 0; at < TRIES && count < LEAST_PIXELS; at++) {
      await new Promise((resolve) => setTimeout(resolve, 2000));
      png = await page.screenshot({ encoding: "base64" });
      count = await countColoured(counter, png);
    }
    writeFileSync(`${folder}/${name}.png`, Buffer.from(png, "base64"));
    console.log(`${count >= LEAST_PIXELS ? "ok" : "not ok"} ${name}: ${count} coloured pixels`);
    assert.ok(count >= LEAST_PIXELS, name);
    await page.close();
  }
} finally {
  await browser.close();
}
process.exit(0);
