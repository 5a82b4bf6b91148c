// Tests of what the address holds. The sources are bundled on the fly, as the page has them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

const bundled = await build({ entryPoints: [new URL("../src/state.ts", import.meta.url).pathname], bundle: true, format: "esm", write: false });
const { checkState, complete, decodeAddress, difference, encodeAddress, idTest, mend, mergePatch, packIds } = await import(`data:text/javascript;base64,${Buffer.from(bundled.outputFiles[0].contents).toString("base64")}`);

const DEFAULTS = {
  v: 1, store: "a", camera: { target: [0, 0, 0], orientation: [0, 0, 0, 1], distance: 1, fov: 45, projection: "perspective" }, level: "auto", error: null,
  budget: { points: 1e6, bytes: 2 ** 28 }, layers: {}, objects: { mode: "all", ids: [], groups: [] }, where: "", space: { shown: [0, 1, 2], ranges: {} }, clip: { box: null, planes: [] }, selected: null, measure: { mode: "off", points: [] },
  theme: "auto", background: "#000000", edl: true, scaleBar: true, axes: true, stats: false,
};

test("merges patches as RFC 7396 has it", () => {
  assert.deepEqual(mergePatch({ a: { b: 1, c: 2 }, d: [1, 2] }, { a: { b: null, e: 3 }, d: [3] }), { a: { c: 2, e: 3 }, d: [3] });
  assert.deepEqual(mergePatch(1, { a: null }), {});
});

test("packs neighbouring ids into ranges beyond 2^53", () => {
  assert.deepEqual(packIds(["9007199254740993", "9007199254740994", "9007199254740995", "-4", "7", "8"]), ["-4", "7", "8", "9007199254740993..9007199254740996"]);
  const has = idTest(["3", "9007199254740993..9007199254740995"]);
  assert.deepEqual([3n, 4n, 9007199254740993n, 9007199254740994n, 9007199254740995n].map(has), [true, false, true, true, false]);
});

test("an address gives back what was put into it", () => {
  const state = { ...DEFAULTS, where: "radius > 2 & name = \"é#%\"", clip: { box: [[0, 0, 0], [1, 1, 1]], planes: [] } };
  const { state: read, fault } = decodeAddress(encodeAddress({ ...difference(state, { ...DEFAULTS, v: 0 }) }));
  assert.equal(fault, "");
  assert.deepEqual(complete(read, DEFAULTS), state);
});

test("faults of addresses and states are told", () => {
  assert.match(decodeAddress("#!{").fault, /cannot be read/);
  assert.match(decodeAddress('#!{"v":2}').fault, /version 2/);
  assert.deepEqual(decodeAddress("").state, null);
  assert.equal(checkState(DEFAULTS, 3), "");
  for (const [change, words] of [
    [{ camera: { ...DEFAULTS.camera, distance: 0 } }, "camera.distance"], [{ level: 1.5 }, "level"], [{ objects: { mode: "all", ids: [7], groups: [] } }, "objects.ids"],
    [{ clip: { box: [[0, 0], [1, 1]], planes: [] } }, "clip.box"], [{ background: "red" }, "background"], [{ v: 3 }, "v:"],
  ]) assert.ok(checkState({ ...DEFAULTS, ...change }, 3).startsWith(words), words);
});

test("of a bad address only the bad part is left out", () => {
  const layer = { visible: true, opacity: 1, colour: { by: "object", value: "#112233", scope: null, attribute: null, map: "viridis", range: null, categories: null, hidden: [] }, size: { mode: "fixed", value: 2 }, width: 1, wireframe: false };
  const defaults = { ...DEFAULTS, layers: { mesh: layer } };
  const fault = (given) => { const state = complete(given, defaults); return Object.keys(state.layers).some((kind) => kind !== "mesh") ? "layers.nokind: the store has mesh" : checkState(state, 3); };
  const { given, wrong } = mend({ camera: { fov: 999, distance: 7 }, layers: { nokind: { opacity: 0.5 }, mesh: { opacity: 0.25, colour: { by: "attribute" } } }, where: "x > 1", edl: false }, fault);
  assert.deepEqual(given, { camera: { distance: 7 }, layers: { mesh: { opacity: 0.25 } }, where: "x > 1", edl: false });
  assert.equal(wrong.length, 3);
  assert.deepEqual(mend({ where: "x" }, fault), { given: { where: "x" }, wrong: [] });
});
