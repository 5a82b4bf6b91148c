// Tests of reading over HTTP. The sources are bundled on the fly, as the page has them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

const bundled = await build({ entryPoints: [new URL("../src/source.ts", import.meta.url).pathname], bundle: true, format: "esm", write: false });
const { HttpSource, newCounters } = await import(`data:text/javascript;base64,${Buffer.from(bundled.outputFiles[0].contents).toString("base64")}`);

const signal = () => new AbortController().signal;

/** Lets `answer(call, options)` stand for the network while `work` runs; returns how often it was asked. */
async function withNetwork(answer, work) {
  const real = globalThis.fetch;
  let calls = 0;
  globalThis.fetch = async (_url, options) => answer(calls++, options);
  try { await work(); } finally { globalThis.fetch = real; }
  return calls;
}

const part = (bytes, head, etag) => new Response(bytes, { status: 206, headers: { "Content-Range": head, ...(etag ? { ETag: etag } : {}) } });

test("a body that is shorter than its head says is asked for again", async () => {
  const counters = newCounters(), source = new HttpSource("http://a/s", 4, counters);
  const calls = await withNetwork((call, { cache }) => {
    assert.equal(cache, "no-store", "caches of browsers give empty bodies");
    return part(new Uint8Array(call < 2 ? 0 : 10), "bytes 0-9/20");
  }, async () => {
    const { bytes, total } = await source.get("k", 0, 9, 0, signal());
    assert.deepEqual([bytes.length, total], [10, 20]);
  });
  assert.deepEqual([calls, counters.failed, counters.done], [3, 2, 1]);
});

test("an object that came whole is not asked for again", async () => {
  const source = new HttpSource("http://a/s.tet", 4, newCounters());
  const calls = await withNetwork(() => new Response(new Uint8Array(100)), async () => {
    for (let at = 0; at < 5; at++) assert.equal((await source.get("s.tet", at, at, 0, signal())).bytes.length, 100);
  });
  assert.equal(calls, 1);
});

test("an object that was replaced is counted", async () => {
  const counters = newCounters(), source = new HttpSource("http://a/s", 4, counters);
  await withNetwork((call) => part(new Uint8Array(1), "bytes 0-0/20", call < 2 ? '"a"' : '"b"'), async () => {
    for (const expected of [0, 0, 1]) { await source.get("k", 0, 0, 0, signal()); assert.equal(counters.changed, expected); }
  });
});
