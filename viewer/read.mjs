// Reads stores with the reader in WebAssembly, in Node: every cell of every level. Prints one line of JSON a store, to be
// compared with what `zvf query --count` says.
//   node viewer/read.mjs STORE...

import { existsSync, openSync, readFileSync, readSync, fstatSync, closeSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import init, { memoryBytes, openStore } from "./pkg/zvf_wasm.js";

await init({ module_or_path: readFileSync(new URL("./pkg/zvf_wasm_bg.wasm", import.meta.url)) });

class FolderSource {
  requests = 0;
  constructor(folder) { this.folder = folder; }
  async get(key, first, last, suffix) {
    this.requests++;
    const path = join(this.folder, key);
    if (!existsSync(path) || statSync(path).isDirectory()) return { status: 404, bytes: new Uint8Array(0), first: 0, total: 0, etag: null };
    const file = openSync(path), total = fstatSync(file).size;
    const start = suffix > 0 ? Math.max(0, total - suffix) : Math.max(0, first), end = suffix > 0 || last < 0 ? total : Math.min(total, last + 1);
    const bytes = new Uint8Array(Math.max(0, end - start));
    readSync(file, bytes, 0, bytes.length, start);
    closeSync(file);
    return { status: suffix > 0 || first >= 0 ? 206 : 200, bytes, first: start, total, etag: null };
  }
}

let failures = 0;
for (const path of process.argv.slice(2)) {
  const begun = performance.now();
  try {
    const isPack = path.endsWith(".tet"), source = new FolderSource(isPack ? dirname(path) : path);
    const store = await openStore(source, isPack ? basename(path) : "", 128 * 2 ** 20);
    const info = JSON.parse(await store.info()), axes = info.axes.length, kinds = [];
    for (const { kind, levels, attributes } of info.kinds) for (const { level } of levels) {
      const cells = await store.cells(kind, level), sum = { kind, level, cells: cells.length / axes, vertices: 0, ghosts: 0, segments: 0, faces: 0 }, objects = new Set();
      for (let at = 0; at < cells.length; at += axes) {
        const cell = Array.from(cells.subarray(at, at + axes)), columns = attributes.filter((a) => a.scope === "vertex" && level === 0).map((a) => a.key);
        const loaded = await store.loadCell(JSON.stringify({ kind, level, cell, columns }), at + 1);
        sum.vertices += loaded.ownVertices; sum.ghosts += loaded.slots.length - loaded.ownVertices; sum.segments += loaded.segments.length / 2; sum.faces += loaded.faces.length / 3;
        for (const id of loaded.ids) objects.add(id);
        const bad = loaded.positions.some((x) => !Number.isFinite(x)) || loaded.segments.some((row) => row >= loaded.slots.length) || loaded.faces.some((row) => row >= loaded.slots.length);
        if (bad) throw new Error(`cell ${cell} names what it does not have`);
      }
      const counted = JSON.parse(await store.count(JSON.stringify({ kind, level })));
      const sound = cells.length ? JSON.parse(await store.validateCell(kind, level, cells.slice(0, axes))) : { findings: [] };
      kinds.push({ ...sum, objects: objects.size, counted: counted.vertices, elements: counted.elements, findings: sound.findings.length });
      const additive = levels.find((one) => one.level === level).additive;
      if (!additive && counted.vertices !== sum.vertices) { failures++; kinds.at(-1).failed = "the cells have other vertices than the count"; }
    }
    console.log(JSON.stringify({ store: path, kinds, requests: source.requests, wasm: memoryBytes(), ms: Math.round(performance.now() - begun) }));
    store.free();
  } catch (error) {
    failures++;
    console.log(JSON.stringify({ store: path, failed: typeof error === "string" ? JSON.parse(error) : String(error.stack) }));
  }
}
process.exit(failures ? 1 : 0);
