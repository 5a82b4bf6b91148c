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

test("what lies between two parts is not fetched twice", async () => {
  const whole = Uint8Array.from({ length: 100 }, (_, i) => i), source = new HttpSource("http://a/s", 4, newCounters()), asked = [];
  await withNetwork((_call, { headers }) => {
    const [, first, last] = /bytes=(\d+)-(\d+)/.exec(headers.Range).map(Number);
    asked.push([first, last]);
    return part(whole.slice(first, last + 1), `bytes ${first}-${last}/100`, '"a"');
  }, async () => {
    const get = async (first, last) => { const { bytes, first: start, total } = await source.get("k", first, last, 0, signal()); assert.deepEqual([[...bytes], start, total], [[...whole.slice(first, last + 1)], first, 100]); };
    await get(20, 39);
    await get(25, 30);
    await Promise.all([get(30, 49), get(10, 45)]);
    await get(10, 49);
    await get(60, 69);
    await get(35, 64);
  });
  assert.deepEqual(asked, [[20, 39], [40, 49], [10, 39], [60, 69], [40, 59]]);
});

test("an object that was replaced is counted", async () => {
  const counters = newCounters(), source = new HttpSource("http://a/s", 4, counters);
  await withNetwork((call) => part(new Uint8Array(1), `bytes ${call}-${call}/20`, call < 2 ? '"a"' : '"b"'), async () => {
    for (const [at, expected] of [0, 0, 1].entries()) { await source.get("k", at, at, 0, signal()); assert.equal(counters.changed, expected); }
    assert.equal(await source.check(), true);
  });
  const same = new HttpSource("http://a/s", 4, newCounters());
  await withNetwork(() => part(new Uint8Array(1), "bytes 0-0/20", '"a"'), async () => { await same.get("k", 0, 0, 0, signal()); assert.equal(await same.check(), false); });
});
