// Tests of asking several stores as one. The sources are bundled on the fly, as the page has them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

const bundled = await build({ entryPoints: [new URL("../src/pool.ts", import.meta.url).pathname], bundle: true, format: "esm", write: false });
const { JoinedPool, formOf, storeOf } = await import(`data:text/javascript;base64,${Buffer.from(bundled.outputFiles[0].contents).toString("base64")}`);

test("several stores are asked as one", async () => {
  const asked = [];
  const store = (name) => ({
    ask: (index, op, args) => { asked.push([name, op, ...args]); return { done: Promise.resolve(op === "search" ? [{ kind: "mesh", object: "7" }] : null), token: 5 }; },
    cancel: (token) => asked.push([name, "cancel", token]),
    changed: () => Promise.resolve(name === "b"),
    forget: () => asked.push([name, "forget"]),
  });
  const info = (low, high, groups) => ({ axes: [{ name: "x", unit: "um" }], bounds: [[low], [high]], kinds: [{ kind: "mesh" }], groups: { count: groups.length, list: groups.map((name, group) => ({ group, name })) }, faults: [], notices: [] });
  const pool = new JoinedPool([{ name: "a", pool: store("a") }, { name: "b", pool: store("b") }]);
  const joined = pool.join([info(0, 5, ["left", "right"]), info(-3, 4, ["left"])]);
  assert.deepEqual(joined.kinds.map(({ kind }) => kind), ["a/mesh", "b/mesh"]);
  assert.deepEqual(joined.bounds, [[-3], [5]]);
  assert.deepEqual(joined.groups.list.map(({ group, store, name }) => [group, store, name]), [[0, "a", "a: left"], [1, "a", "a: right"], [2, "b", "b: left"]]);
  await pool.ask(0, "cells", ["b/mesh", 2]).done;
  await pool.ask(0, "loadCell", [{ kind: "a/mesh", level: 1 }]).done;
  await pool.ask(0, "group", [2]).done;
  assert.deepEqual(asked, [["b", "cells", "mesh", 2], ["a", "loadCell", { kind: "mesh", level: 1 }], ["b", "group", 0]]);
  assert.deepEqual(await pool.ask(0, "search", ["7"]).done, [{ kind: "a/mesh", object: "7" }, { kind: "b/mesh", object: "7" }]);
  const { token } = pool.ask(0, "cells", ["b/mesh", 0]);
  pool.cancel(token);
  assert.deepEqual(asked.at(-1), ["b", "cancel", 5]);
  assert.equal(await pool.changed(), true);
  pool.forget();
  assert.deepEqual(asked.slice(-2), [["a", "forget"], ["b", "forget"]]);
  assert.equal(formOf("mesh") + storeOf("mesh") + storeOf("x/y/mesh"), "meshx/y");
});
