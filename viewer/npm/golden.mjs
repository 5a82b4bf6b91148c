// Reads stores with the installed package, in Node, and compares with what the command says of them.
//   node golden.mjs ZVF STORE...     run where the package is installed
// Counts of every kind and level, every position and attribute of level 0, objects, plans, conditions, one faulty question.
// The folder is given twice. As a host that lists names, all is as the command says. As one that cannot, edges that are found
// by a listing alone are missing, which answers say, and stores that are enumerated by a listing alone are refused.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { closeSync, existsSync, fstatSync, openSync, readdirSync, readSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { openStore, StoreError } from "zvf-wasm";

const [program, ...paths] = process.argv.slice(2);
const zvf = (...words) => execFileSync(program, words, { encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "pipe"] });

/** A folder of this machine. */
class FolderSource {
  constructor(folder) { this.folder = folder; }

  async get(key, first, last, suffix) {
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

/** The same folder, whose names are listed. */
class ListedSource extends FolderSource {
  async list(prefix, deep) {
    const top = join(this.folder, prefix), keys = [], sizes = [], folders = [];
    const visit = (below) => {
      for (const entry of readdirSync(join(top, below), { withFileTypes: true })) {
        const name = below ? `${below}/${entry.name}` : entry.name;
        if (!entry.isDirectory()) { keys.push(name); sizes.push(statSync(join(top, name)).size); } else if (deep) visit(name); else folders.push(name);
      }
    };
    if (existsSync(top)) visit("");
    return { keys, sizes, folders };
  }
}

/** Sums that do not depend on the order of vertices. */
function sumRows(rows) {
  const sums = [];
  for (const row of rows) row.forEach((x, i) => { if (Number.isFinite(x)) sums[i] = (sums[i] ?? 0) + x; });
  return sums;
}

function close(a, b, what) {
  assert.equal(a.length, b.length, what);
  a.forEach((x, i) => assert.ok(Math.abs(x - b[i]) <= 1e-4 * Math.max(1, Math.abs(x), Math.abs(b[i])), `${what}: ${a} is not ${b}`));
}

async function compare(path, source) {
  const store = await openStore(source), info = await store.info();
  let vertices = 0, isWhole = true;
  for (const { kind, levels, attributes } of info.kinds) for (const { level, additive } of levels) {
    const what = `${basename(path)}, ${kind}, level ${level}`, selector = ["--kind", kind, "--level", String(level)];
    const native = JSON.parse(zvf("query", path, ...selector, "--count", "--json")), own = await store.count({ kind, level });
    assert.deepEqual([own.vertices, own.parts], [native.vertices, native.parts], what);
    if (own.complete) assert.equal(own.elements, native.elements, what);
    else assert.ok(own.elements <= native.elements, `${what}: ${own.elements} elements of ${native.elements}`);
    isWhole &&= own.complete;
    const columns = level === 0 ? attributes.filter((one) => one.scope === "vertex" && one.width === 1 && !one.categories && /^(float|int|uint)(8|16|32|64)$/.test(one.dtype)).map((one) => one.key) : [];
    const rows = [];
    let cellsAreComplete = true;
    for await (const cell of store.stream({ kind, level, columns })) {
      for (let at = 0; at < cell.ownVertices; at++) {
        const position = info.axes.slice(0, 3).map((_, i) => cell.origin[i] + cell.positions[at * 3 + i]);
        rows.push([...position, ...cell.attributes.map(({ values }) => values[at])]);
      }
      cellsAreComplete &&= cell.complete;
      const sound = await store.validateCell(kind, level, cell.cell);
      assert.deepEqual(sound.findings, [], what);
    }
    if (rows.length) assert.equal(cellsAreComplete, own.complete, what);
    vertices += rows.length;
    if (additive || level > 0) continue;
    // Rows that several objects share come once in cells, and once for each object in tables of chains.
    if (rows.length !== native.vertices) continue;
    const table = zvf("query", path, ...selector, "--attributes", columns.join(",") || "none", "--format", "csv", "-o", "-").trimEnd().split("\n"), names = table[0].split(",");
    const wanted = [...info.axes.slice(0, 3).map(({ name }) => name), ...columns].map((name) => names.indexOf(name));
    if (wanted.includes(-1)) continue;
    close(sumRows(rows), sumRows(table.slice(1).map((line) => { const cells = line.split(","); return wanted.map((at) => (cells[at] === "" ? NaN : Number(cells[at]))); })), what);
  }
  store.close();
  return { vertices, isWhole };
}

/** Streams that this build does not decode, and, without a listing, stores of early layouts: a fault with a class is said. */
const STREAMS = /^ms3_draco/, REFUSED = /^(v0[678]0|ms3_draco)/;

/** The class of the fault that the command ends with where it reads all of a store. */
function nativeFault(path) {
  try { zvf("query", path, "--format", "csv", "-o", "-", "--json"); return null; }
  catch (error) { return JSON.parse(error.stderr.trimEnd().split("\n").at(-1)).class; }
}

/** Reads all stores from one kind of source: what was refused, what was not complete, and all vertices. */
async function compareAll(Source, mayRefuse) {
  const partial = [], refused = [];
  let vertices = 0;
  for (const path of paths) {
    try {
      const found = await compare(path, new Source(path));
      vertices += found.vertices;
      if (!found.isWhole) partial.push(basename(path));
    } catch (error) {
      const isKnown = error instanceof StoreError && error.class === "Unsupported" && mayRefuse.test(basename(path));
      if (!isKnown && !(error instanceof StoreError && error.class === nativeFault(path))) throw error;
      assert.ok(error.key, `${path}: ${error.message}`);
      refused.push(basename(path));
    }
  }
  return { partial, refused, vertices };
}

const listed = await compareAll(ListedSource, STREAMS);
assert.deepEqual(listed.partial, []);
const { partial, refused, vertices } = await compareAll(FolderSource, REFUSED);
assert.ok(refused.length + partial.length < paths.length / 2, `${refused} are refused, ${partial} are not complete`);
const store = await openStore(new FolderSource(paths[0])), { kinds: [{ kind }] } = await store.info();
await assert.rejects(store.count({ kind, where: "no_such_column > 1" }), (error) => error instanceof StoreError && error.class.length > 2);
await assert.rejects(store.loadCell({ kind, level: 99, cell: [0, 0, 0] }), StoreError);
const stopped = new AbortController();
stopped.abort();
await assert.rejects(store.loadCell({ kind, level: 0, cell: [0, 0, 0] }, stopped.signal));
assert.ok((await store.plan({ kind })).bytes > 0);
await assert.rejects(openStore(new FolderSource("/nowhere")), StoreError);
store.close();
console.log(`${paths.length - listed.refused.length} stores, ${listed.vertices} vertices: the same as the command says; ${listed.refused.length} are refused`);
console.log(`without a listing: ${paths.length - refused.length} stores, ${vertices} vertices; edges are missing in ${partial.length}, which say so; ${refused.length} are refused`);
