// Opens stores in the stock Neuroglancer client, which our server sends beside them, and reads them with CloudVolume.
//   node viewer/neuroglancer.mjs ZVF FOLDER CLIENT PYTHON     `cargo xtask viewer neuroglancer` starts it
// Each view must show at least 2000 coloured pixels more than the same view without layers: the controls of a layer have some
// 400 before anything is drawn. CloudVolume is asked where that Python has it; otherwise a line says that it was not.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { KINDS } from "./verify/stores.mjs";
import { launchBrowser, runZvf, startServer } from "./verify/tools.mjs";

const [program, folder, client, python] = process.argv.slice(2), LEAST_PIXELS = 2000, TRIES = 30;
runZvf(program, ["demo", folder, "--overwrite"]);
const paths = KINDS.map((kind) => join(folder, `${kind}.zarrvectors`));
const options = ["--precomputed", "--neuroglancer", client];
const server = await startServer(program, [...paths, ...options]), browser = await launchBrowser();
// The same mesh as an octree: it is small, so that a mesh counts as large here.
const cut = await startServer(program, [paths[KINDS.indexOf("mesh")], ...options, "--max-whole-faces", "2000"]);

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

/** The same view without layers. */
function withoutLayers(address) {
  const [client, state] = address.split("#!");
  return `${client}#!${encodeURIComponent(JSON.stringify({ ...JSON.parse(decodeURIComponent(state)), layers: [] }))}`;
}

const counter = await browser.newPage();

/** The view at an address: looked at each second until enough is coloured, `tries` times at most. */
async function look(address, tries, enough) {
  const page = await browser.newPage();
  await page.setViewport({ width: 1000, height: 800 });
  await page.goto(address);
  let count = 0, png = "";
  for (let at = 0; at < tries && count < enough; at++) {
    await new Promise((resolve) => setTimeout(resolve, 1000));
    png = await page.screenshot({ encoding: "base64" });
    count = await countColoured(counter, png);
  }
  await page.close();
  return { count, png };
}

let failures = 0;
try {
  for (const { name, neuroglancer } of [...server.stores, ...cut.stores.map((one) => ({ ...one, name: "mesh in an octree" }))]) {
    assert.ok(neuroglancer, `${name} has no view`);
    const empty = await look(withoutLayers(neuroglancer), 3, Infinity);
    const drawn = await look(neuroglancer, TRIES, empty.count + LEAST_PIXELS);
    writeFileSync(join(folder, `${name}.png`), Buffer.from(drawn.png, "base64"));
    const isDrawn = drawn.count >= empty.count + LEAST_PIXELS;
    if (!isDrawn) failures++;
    console.log(`${isDrawn ? "ok    " : "FAILED"} ${name}: ${drawn.count} coloured pixels in the client, ${empty.count} without layers`);
  }
  failures += readWithCloudVolume();
} finally {
  await browser.close();
  await server.end();
  await cut.end();
}
process.exit(failures ? 1 : 0);

/** Points, vertices, edges, faces and ids as another program decodes them; returns the number of failures. */
function readWithCloudVolume() {
  try { execFileSync(python, ["-c", "import cloudvolume"], { stdio: "ignore" }); } catch { console.log("note   CloudVolume is not installed for this Python: it was not asked"); return 0; }
  const wanted = server.stores.map(({ name, precomputed }) => {
    const path = join(folder, `${name}.zarrvectors`), counts = JSON.parse(runZvf(program, ["query", path, "--count", "--level", "0", "--json"]));
    const objects = name === "point_cloud" ? [] : JSON.parse(runZvf(program, ["object", path, "--limit", "1000000", "--json"]));
    return { kind: name, url: new URL(`${precomputed}${name}`, server.url).href, vertices: counts.vertices, elements: counts.elements, objects: objects.map((one) => String(one.id)) };
  });
  const { precomputed } = cut.stores[0], mesh = wanted.find((one) => one.kind === "mesh");
  wanted.push({ ...mesh, kind: "octree", url: new URL(`${precomputed}mesh`, cut.url).href, whole: mesh.url });
  const script = join(dirname(fileURLToPath(import.meta.url)), "verify/decoded.py");
  try { execFileSync(python, [script, JSON.stringify(wanted)], { stdio: "inherit" }); return 0; } catch { return 1; }
}
