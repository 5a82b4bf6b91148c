// Draws the pictures of the book: each kind of `zvf demo` as the viewer shows it.
//   node viewer/pictures.mjs ZVF FOLDER DOCS_SRC     FOLDER has room for stores

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { deflateSync } from "node:zlib";
import { KINDS } from "./verify/stores.mjs";
import { launchBrowser, openViewer, runZvf, startServer, takePixels, viewOf } from "./verify/tools.mjs";

const [program, folder, docs] = process.argv.slice(2), MAX_BYTES = 150_000;
const DARK = "#0d0f14";

/** How each is seen, and how near. Pictures are drawn twice as large and averaged, so that edges are smooth. */
const SCENES = {
  point_cloud: { zoom: 0.7, layers: { point_cloud: { size: { mode: "fixed", value: 5 } } } },
  line: { zoom: 0.62, layers: { line: { width: 3.5, colour: { by: "object" } } } },
  polyline: { zoom: 0.8, layers: { polyline: { width: 4, colour: { by: "attribute", scope: "vertex", attribute: "intensity", map: "magma" } } } },
  streamline: { zoom: 0.76, layers: { streamline: { width: 3, colour: { by: "direction" } } } },
  graph: { zoom: 0.72, layers: { graph: { width: 4, colour: { by: "object" } } } },
  skeleton: { zoom: 0.74, layers: { skeleton: { width: 4, colour: { by: "object" } } } },
  mesh: { zoom: 0.68, layers: { mesh: { colour: { by: "constant", value: "#d9b9a6" } } } },
};

runZvf(program, ["demo", folder, "--overwrite"]);
const server = await startServer(program, KINDS.map((kind) => join(folder, `${kind}.zarrvectors`))), browser = await launchBrowser();
mkdirSync(join(docs, "guide/pictures"), { recursive: true });
try {
  for (const kind of KINDS) await draw(kind, 560, 350, join(docs, `guide/pictures/${kind}.png`));
  await draw("streamline", 900, 450, join(docs, "introduction.png"));
} finally {
  await browser.close();
  await server.end();
}

async function draw(kind, width, height, path) {
  const { zoom, layers } = SCENES[kind], url = viewOf(server, kind, { level: 0, background: DARK, budget: { points: 5_000_000 }, layers });
  const { page, ask, said } = await openViewer(browser, url, { width, height });
  await ask((zoom) => { const { camera } = window.zvfViewer.getState(); return window.zvfViewer.setState({ camera: { distance: camera.distance * zoom } }); }, zoom);
  const png = encodePng(halve(await takePixels(ask, width * 2, height * 2)));
  assert.deepEqual([said, await ask(() => window.zvfViewer.errors())], [[], []]);
  assert.ok(png.length <= MAX_BYTES, `${path} has ${png.length} bytes, more than ${MAX_BYTES}`);
  writeFileSync(path, png);
  console.log(`${path}: ${width} x ${height}, ${png.length} bytes`);
  await page.close();
}

/** Half as large: each pixel is the mean of four. */
function halve({ width, height, data }) {
  const out = Buffer.alloc((width / 2) * (height / 2) * 3);
  for (let y = 0, o = 0; y < height; y += 2) for (let x = 0; x < width; x += 2) for (let c = 0; c < 3; c++) {
    const at = (y * width + x) * 4 + c;
    out[o++] = (data[at] + data[at + 4] + data[at + width * 4] + data[at + width * 4 + 4] + 2) >> 2;
  }
  return { width: width / 2, height: height / 2, data: out };
}

/** A PNG file whose rows have the filter that leaves the smallest numbers. */
function encodePng({ width, height, data }) {
  const stride = width * 3, rows = [], before = Buffer.alloc(stride);
  let last = before;
  for (let y = 0; y < height; y++) {
    const row = data.subarray(y * stride, (y + 1) * stride);
    let best = null, least = Infinity;
    for (let filter = 0; filter < 5; filter++) {
      const out = Buffer.alloc(stride + 1);
      let sum = 0;
      out[0] = filter;
      for (let i = 0; i < stride; i++) {
        const a = i >= 3 ? row[i - 3] : 0, b = last[i], c = i >= 3 ? last[i - 3] : 0, p = a + b - c;
        const pa = Math.abs(p - a), pb = Math.abs(p - b), pc = Math.abs(p - c), paeth = pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
        const value = (row[i] - [0, a, b, (a + b) >> 1, paeth][filter]) & 255;
        out[i + 1] = value;
        sum += value < 128 ? value : 256 - value;
      }
      if (sum < least) { least = sum; best = out; }
    }
    rows.push(best);
    last = row;
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0); head.writeUInt32BE(height, 4); head[8] = 8; head[9] = 2;
  return Buffer.concat([Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]), chunk("IHDR", head), chunk("IDAT", deflateSync(Buffer.concat(rows), { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
}

function chunk(type, data) {
  const all = Buffer.concat([Buffer.from(type, "latin1"), data]), out = Buffer.alloc(data.length + 12);
  out.writeUInt32BE(data.length, 0);
  all.copy(out, 4);
  out.writeUInt32BE(crc32(all), data.length + 8);
  return out;
}

function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) { crc ^= byte; for (let k = 0; k < 8; k++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0); }
  return ~crc >>> 0;
}
