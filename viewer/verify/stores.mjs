// The stores that the checks look at, made with the command out of nothing.

import { closeSync, existsSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { randomFrom, runZvf } from "./tools.mjs";

export const KINDS = ["point_cloud", "line", "polyline", "streamline", "graph", "skeleton", "mesh"];

/** Makes all stores below `folder`, and returns their paths by name. Those that are there from an earlier run are kept. */
export function makeStores(zvf, folder, { points }) {
  const path = (name) => join(folder, `${name}.zarrvectors`), stores = {};
  if (!KINDS.every((kind) => existsSync(path(kind)))) runZvf(zvf, ["demo", folder, "--overwrite"]);
  for (const kind of KINDS) stores[kind] = path(kind);
  const make = (name, create) => { stores[name] = path(name); if (!existsSync(path(name))) create(path(name)); };
  make("large", (to) => {
    const file = join(folder, `large-${points}.npy`);
    writePoints(file, points);
    runZvf(zvf, ["create", file, to]);
    runZvf(zvf, ["pyramid", to, "--in-place"]);
  });
  make("ids", (to) => { writeChains(join(folder, "ids.csv")); runZvf(zvf, ["create", join(folder, "ids.csv"), to, "--kind", "polyline", "--keep-ids"]); });
  make("times", (to) => { writeTimes(join(folder, "times.csv")); runZvf(zvf, ["create", join(folder, "times.csv"), to]); });
  make("crowded", (to) => { writeSurface(join(folder, "crowded.ply"), 600); runZvf(zvf, ["create", join(folder, "crowded.ply"), to, "--chunk-shape", "4000,4000,4000"]); });
  make("mixed", (to) => {
    const parts = [["mesh", "ply"], ["skeleton", "swc"], ["point_cloud", "csv"]].map(([kind, format]) => {
      const part = join(folder, `part.${format}`);
      runZvf(zvf, ["query", stores[kind], "-o", part, "--overwrite"]);
      return part;
    });
    runZvf(zvf, ["create", ...parts, to, "--triangles"]);
  });
  return stores;
}

/** Points in a unit cube, as an array of NumPy. */
function writePoints(path, count) {
  const head = `{'descr': '<f4', 'fortran_order': False, 'shape': (${count}, 3), }`, length = Math.ceil((10 + head.length + 1) / 64) * 64 - 10;
  const start = Buffer.concat([Buffer.from("\x93NUMPY\x01\x00", "latin1"), Buffer.from([length & 255, length >> 8]), Buffer.from(`${head.padEnd(length - 1)}\n`)]);
  const file = openSync(path, "w"), random = randomFrom(7), batch = 100_000;
  writeSync(file, start);
  for (let at = 0; at < count; at += batch) {
    const values = new Float32Array(3 * Math.min(batch, count - at));
    for (let i = 0; i < values.length; i++) values[i] = random();
    writeSync(file, Buffer.from(values.buffer));
  }
  closeSync(file);
}

/** Ids that a number of JavaScript cannot tell apart. */
export const LARGE_IDS = ["9007199254740992", "9007199254740993", "9007199254740994"];

function writeChains(path) {
  const rows = LARGE_IDS.flatMap((id, line) => Array.from({ length: 40 }, (_, i) => `${i * 2.5},${20 + line * 30 + 8 * Math.sin(i / 4)},${10 + line * 5},${id}`));
  writeFileSync(path, `x,y,z,object\n${rows.join("\n")}\n`);
}

/** Points of four axes: each tenth of the time is somewhere else. */
function writeTimes(path) {
  const random = randomFrom(3), rows = Array.from({ length: 4000 }, (_, i) => { const t = i % 10; return `${t * 10 + random() * 8},${random() * 50},${random() * 50},${t}`; });
  writeFileSync(path, `x,y,z,t\n${rows.join("\n")}\n`);
}

/** A surface of `side` by `side` vertices. */
function writeSurface(path, side) {
  const lines = ["ply", "format ascii 1.0", `element vertex ${side * side}`, "property float x", "property float y", "property float z", `element face ${(side - 1) * (side - 1) * 2}`, "property list uchar int vertex_indices", "end_header"];
  for (let y = 0; y < side; y++) for (let x = 0; x < side; x++) lines.push(`${x} ${y} ${(30 * Math.sin(x / 40) * Math.cos(y / 50)).toFixed(3)}`);
  for (let y = 0; y + 1 < side; y++) for (let x = 0; x + 1 < side; x++) { const a = y * side + x; lines.push(`3 ${a} ${a + 1} ${a + side}`, `3 ${a + 1} ${a + side + 1} ${a + side}`); }
  writeFileSync(path, `${lines.join("\n")}\n`);
}
