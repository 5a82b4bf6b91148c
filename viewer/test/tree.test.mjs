// Tests of which cells are drawn. The sources are bundled on the fly, as the page has them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

const bundle = async (name) => {
  const built = await build({ entryPoints: [new URL(`../src/${name}.ts`, import.meta.url).pathname], bundle: true, format: "esm", write: false });
  return import(`data:text/javascript;base64,${Buffer.from(built.outputFiles[0].contents).toString("base64")}`);
};
const { cutTree, Tree } = await bundle("tree"), { makeView } = await bundle("camera"), { sampleValues, summarize } = await bundle("values");

/** Levels of the cube of 100: [vertices, error, cells along each axis], the finest first. */
function makeTree(kind, levels) {
  const cells = new Map(), infos = levels.map(([vertices, error, side], level) => {
    const list = [];
    for (let x = 0; x < side; x++) for (let y = 0; y < side; y++) for (let z = 0; z < side; z++) list.push(x, y, z);
    cells.set(level, Int32Array.from(list));
    return { level, vertices, error, additive: false, chunkShape: [100 / side, 100 / side, 100 / side], binShape: null, chunks: side ** 3 };
  });
  return new Tree(kind, infos, cells, 3, [0, 1, 2]);
}
const look = (distance, target = [50, 50, 50]) => makeView({ target, orientation: [0, 0, 0, 1], distance, fov: 45, projection: "perspective" }, 1280, 720, 173);
const options = (points) => ({ level: "auto", error: null, points, clip: null, planes: [], ranges: {} });
/** Cuts until nothing is wanted, as if everything came. */
function settle(tree, view, budget) {
  for (let round = 0; round < 20; round++) {
    const { draw, want } = cutTree(tree, view, options(budget));
    if (!want.length) return draw;
    for (const node of want) {
      const stored = tree.info(node.level).vertices / tree.info(node.level).chunks, own = Math.min(stored * (node.share ?? 1), node.limit);
      Object.assign(node, { data: { ownVertices: own, storedVertices: stored }, loadedLimit: node.limit, loadedShare: node.share ?? 1 });
    }
  }
  assert.fail("it never settles");
}
const sum = (nodes) => nodes.reduce((sum, { data }) => sum + data.ownVertices, 0);

test("a mesh is of one level, from near and far", () => {
  for (const [distance, target] of [[400, [50, 50, 50]], [150, [50, 50, 50]], [40, [50, 50, 100]], [5, [80, 80, 100]]]) {
    const tree = makeTree("mesh", [[250_000, 0, 8], [60_000, 0.3, 4], [15_000, 1, 2]]), draw = settle(tree, look(distance, target), 120_000);
    assert.equal(new Set(draw.map(({ level }) => level)).size, 1, `from ${distance}`);
    assert.ok(sum(draw) <= 120_000, `from ${distance}: ${sum(draw)}`);
  }
});

test("crowded lines are drawn by some of their objects, whole, and never by fewer than the budget allows", () => {
  for (const budget of [300_000, 150_000, 100_000, 50_000, 20_000]) {
    const tree = makeTree("streamline", [[2_000_000, 0, 4], [600_000, 0.3, 2], [160_000, 1, 1], [40_000, 8, 1]]), draw = settle(tree, look(180), budget);
    assert.ok(sum(draw) > budget / 2 && sum(draw) <= budget, `${budget}: ${sum(draw)}`);
    assert.equal(new Set(draw.map(({ level }) => level)).size, 1);
    assert.ok(draw.every(({ share, limit }) => share === tree.share && limit === Infinity), `${budget}: all cells have the same objects`);
    assert.equal(tree.limitedBy, "budget");
  }
});

test("how full a cell is, is known from the coarser one above it: a level that does not fit is not asked for", () => {
  // Nine tenths of it lie in one corner, whose cells come last.
  const tree = makeTree("streamline", [[2_000_000, 0, 4], [200_000, 1, 2], [50_000, 8, 1]]), asked = new Set(), isFull = ({ cell }) => cell.every((at) => at < 1);
  const part = (node) => tree.info(node.level).vertices * (node.level === 2 ? 1 : node.level === 1 ? (isFull(node) ? 0.9 : 0.1 / 7) : isFull({ cell: node.cell.map((at) => at >> 1) }) ? 0.9 / 8 : 0.1 / 56);
  for (let round = 0; round < 10; round++) {
    const { want } = cutTree(tree, look(180), options(300_000)), some = want.some((node) => !isFull(node)) ? want.filter((node) => !isFull(node)) : want;
    for (const node of some.length ? some : want) {
      asked.add(node.level);
      Object.assign(node, { data: { ownVertices: part(node) * node.share, storedVertices: part(node) }, loadedLimit: node.limit, loadedShare: node.share });
    }
  }
  assert.deepEqual([...asked], [2, 1]);
});

test("a light level of lines or links is read without a coarser one before it, unless that is enough", () => {
  const levels = [[2_000_000, 0, 4], [100_000, 1, 2], [50_000, 8, 1]], asked = (kind, distance) => [...new Set(cutTree(makeTree(kind, levels), look(distance), options(300_000)).want.map(({ level }) => level))];
  for (const kind of ["streamline", "mesh", "skeleton"]) assert.deepEqual([asked(kind, 180), asked(kind, 20_000)], [[1], [2]], kind);
  assert.deepEqual(asked("point_cloud", 180), [2]);
});

test("a finer cell without a coarser one above it holds up nothing", () => {
  const tree = makeTree("streamline", [[80_000, 0, 4], [10_000, 2, 2]]), cells = new Map([[0, Int32Array.from([...tree.byLevel.get(0).flatMap(({ cell }) => cell), 9, 9, 9])], [1, Int32Array.from(tree.byLevel.get(1).flatMap(({ cell }) => cell))]]);
  const strayed = new Tree("streamline", tree.levels, cells, 3, [0, 1, 2]);
  assert.equal(strayed.roots.filter(({ level }) => level === 0).length, 1);
  assert.ok(settle(strayed, makeView({ target: [120, 120, 120], orientation: [0.5, 0.5, 0.5, 0.5], distance: 400, fov: 45, projection: "perspective" }, 1280, 720, 173), 300_000).every(({ level }) => level === 0));
});

test("a crowded cell does not take the place of a coarser one that shows more", () => {
  const tree = makeTree("graph", [[2_000_000, 0, 1], [40_000, 3, 1]]);
  assert.ok(sum(settle(tree, look(180), 100_000)) >= 40_000);
});

test("ranges leave out the few values that lie far out", () => {
  const spread = Float32Array.from({ length: 1000 }, (_, i) => (i < 6 ? 60 : i / 1000)), flat = Float32Array.from({ length: 1000 }, (_, i) => i % 10);
  const of = (values, isWhole) => summarize([sampleValues({ width: 1, values }, values.length, isWhole)]);
  const { range, least, most } = of(spread, false);
  assert.ok(range[1] < 1.1 && most === 60 && least < 0.01, `${range}`);
  assert.deepEqual(of(flat, true).range, [0, 9]);
  assert.deepEqual([...of(flat, true).codes].sort()[3], [3, 100]);
  assert.equal(of(spread, false).codes, null);
});
