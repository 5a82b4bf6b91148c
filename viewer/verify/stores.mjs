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
  make("two", (to) => { writeFileSync(join(folder, "two.csv"), "x,y,z,object,value\n5,50,50,0,0\n95,50,50,0,1\n"); runZvf(zvf, ["create", join(folder, "two.csv"), to, "--kind", "polyline", "--chunk-shape", "50"]); });
  make("steps", (to) => { writeValues(join(folder, "steps.csv")); runZvf(zvf, ["create", join(folder, "steps.csv"), to]); });
  make("tracts", (to) => { writeTracts(join(folder, "tracts.csv")); runZvf(zvf, ["create", join(folder, "tracts.csv"), to, "--kind", "streamline"]); runZvf(zvf, ["pyramid", to, "--in-place"]); });
  make("sphere", (to) => { writeSphere(join(folder, "sphere.ply"), 200); runZvf(zvf, ["create", join(folder, "sphere.ply"), to, "--chunk-shape", "25"]); runZvf(zvf, ["pyramid", to, "--in-place"]); });
  make("rough", (to) => { writeSphere(join(folder, "rough.ply"), 20); runZvf(zvf, ["create", join(folder, "rough.ply"), to, "--chunk-shape", "25"]); });
  make("whole", (to) => runZvf(zvf, ["create", join(folder, "rough.ply"), to, "--chunk-shape", "1000"]));
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

/** Makes the stores whose frames are measured: 10^7 points, 20 000 streamlines, 500 000 faces, 200 neurons. */
export function makeLargeStores(zvf, folder) {
  const stores = {}, make = (name, write, options = []) => {
    stores[name] = join(folder, `${name}.zarrvectors`);
    if (existsSync(stores[name])) return;
    runZvf(zvf, ["create", ...[write()].flat(), stores[name], ...options]);
    runZvf(zvf, ["pyramid", stores[name], "--in-place"]);
  };
  const write = (name, writer, ...words) => { const path = join(folder, name); writer(path, ...words); return path; };
  make("cloud", () => write("cloud.npy", writePoints, 10_000_000));
  make("bundles", () => write("bundles.csv", writeTracts, 20_000, 100), ["--kind", "streamline"]);
  make("surface", () => write("surface.ply", writeSphere, 354));
  make("neurons", () => Array.from({ length: 200 }, (_, at) => write(`neuron-${at}.swc`, writeNeuron, at)));
  return stores;
}

/** A tree of twenty branches of two hundred nodes that leave an earlier one. */
function writeNeuron(path, seed) {
  const random = randomFrom(seed), nodes = [[random() * 500, random() * 500, random() * 500]], rows = [`1 1 ${nodes[0].join(" ")} 5 -1`];
  for (let branch = 0; branch < 20; branch++) {
    let from = Math.floor(random() * nodes.length);
    const way = [random() - 0.5, random() - 0.5, random() - 0.5];
    for (let step = 0; step < 200; step++) {
      nodes.push(nodes[from].map((x, axis) => x + 2 * way[axis] + random() - 0.5));
      rows.push(`${nodes.length} 3 ${nodes.at(-1).map((x) => x.toFixed(3)).join(" ")} 0.5 ${from + 1}`);
      from = nodes.length - 1;
    }
  }
  writeFileSync(path, `${rows.join("\n")}\n`);
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

/** Points whose values lie between 0 and 12 345, but for six, and which are of four parts. */
function writeValues(path) {
  const random = randomFrom(5), rows = Array.from({ length: 16_000 }, (_, i) => `${[0, 1, 2].map(() => (random() * 100).toFixed(3)).join()},${i % 2700 === 5 ? 60000 : (random() * 12_345).toFixed(1)},${i % 4}`);
  writeFileSync(path, `x,y,z,value,part\n${rows.join("\n")}\n`);
}

/** Bent lines. */
function writeTracts(path, lines = 2000, vertices = 40) {
  const random = randomFrom(11), rows = [];
  for (let line = 0; line < lines; line++) {
    const [x, y, z, bend] = [random() * 30, random() * 100, random() * 100, random() * 20];
    for (let i = 0; i < vertices; i++) rows.push(`${(x + (i * 68) / vertices).toFixed(3)},${(y + bend * Math.sin(i / 9)).toFixed(3)},${(z + bend * Math.cos(i / 7)).toFixed(3)},${line}`);
  }
  writeFileSync(path, `x,y,z,object\n${rows.join("\n")}\n`);
}

/** A sphere of `side` times twice as many vertices in the cube of 100. */
function writeSphere(path, side) {
  const wide = 2 * side, vertices = ["50 50 98"], faces = [];
  for (let row = 1; row < side; row++) for (let at = 0; at < wide; at++) {
    const up = (Math.PI * row) / side, round = (2 * Math.PI * at) / wide;
    vertices.push([50 + 48 * Math.sin(up) * Math.cos(round), 50 + 48 * Math.sin(up) * Math.sin(round), 50 + 48 * Math.cos(up)].map((x) => x.toFixed(5)).join(" "));
  }
  vertices.push("50 50 2");
  const place = (row, at) => 1 + (row - 1) * wide + (at % wide);
  for (let at = 0; at < wide; at++) {
    faces.push(`3 0 ${place(1, at)} ${place(1, at + 1)}`, `3 ${vertices.length - 1} ${place(side - 1, at + 1)} ${place(side - 1, at)}`);
    for (let row = 1; row + 1 < side; row++) faces.push(`3 ${place(row, at)} ${place(row + 1, at)} ${place(row + 1, at + 1)}`, `3 ${place(row, at)} ${place(row + 1, at + 1)} ${place(row, at + 1)}`);
  }
  writeFileSync(path, ["ply", "format ascii 1.0", `element vertex ${vertices.length}`, "property float x", "property float y", "property float z", `element face ${faces.length}`, "property list uchar int vertex_indices", "end_header", ...vertices, ...faces].join("\n") + "\n");
}
