// Tests of reading over HTTP. The sources are bundled on the fly, as the page has them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

const bundled = await build({ entryPoints: [new URL("../src/source.ts", import.meta.url).pathname], bundle: true, format: "esm", write: false });
const { HttpSource } = await import(`data:text/javascript;base64,${Buffer.from(bundled.outputFiles[0].contents).toString("base64")}`);

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

/** An object of 100 000 bytes, whose parts are noted in `asked`. */
const whole = Uint8Array.from({ length: 100_000 }, (_, i) => (i * 7) % 251);
function serveWhole(asked, { etag = () => '"a"', size = whole.length } = {}) {
  return (_call, { headers }) => {
    const [, from, to] = /bytes=(\d*)-(\d*)/.exec(headers.Range), first = from ? Number(from) : Math.max(0, size - Number(to)), last = from && to ? Math.min(Number(to), size - 1) : size - 1;
    asked.push([first, last]);
    return part(whole.slice(first, last + 1), `bytes ${first}-${last}/${size}`, etag());
  };
}
const CACHE = 2 ** 20;
const newSource = (atOnce = 4, cache = CACHE) => new HttpSource("http://a/s", atOnce, cache);
async function get(source, first, last, from = signal()) {
  const { bytes, first: start } = await source.get("k", first, last, 0, from);
  assert.deepEqual([Buffer.compare(bytes, whole.slice(first, last + 1)), start], [0, first]);
}

test("a body that is shorter than its head says is asked for again", async () => {
  const source = newSource();
  const calls = await withNetwork((call, { cache }) => {
    assert.equal(cache, "no-store", "caches of browsers give empty bodies");
    return part(new Uint8Array(call < 2 ? 0 : 10), "bytes 0-9/20");
  }, async () => {
    const { bytes, total } = await source.get("k", 0, 9, 0, signal());
    assert.deepEqual([bytes.length, total], [10, 20]);
  });
  assert.deepEqual([calls, source.counters.failed, source.counters.done], [3, 2, 1]);
});

test("an object that came whole is not asked for again", async () => {
  const source = new HttpSource("http://a/s.tet", 4, CACHE);
  const calls = await withNetwork(() => new Response(new Uint8Array(100)), async () => {
    for (let at = 0; at < 5; at++) { const { bytes, status, total } = await source.get("s.tet", at, at, 0, signal()); assert.deepEqual([bytes.length, status, total], [1, 206, 100]); }
  });
  assert.equal(calls, 1);
});

test("what several ask for is fetched once, and what lies side by side is one request", async () => {
  const source = newSource(), asked = [];
  await withNetwork(serveWhole(asked), async () => {
    await Promise.all([get(source, 20, 39), get(source, 20, 39), get(source, 30, 49), get(source, 8000, 9000), get(source, 70_000, 71_000)]);
    assert.deepEqual(asked, [[20, 9000], [70_000, 71_000]]);
    await get(source, 10, 8999);
    await get(source, 100, 9000);
    await get(source, 8500, 9100);
  });
  assert.deepEqual(asked.slice(2), [[10, 19], [9001, 9100]]);
});

test("rows that lie apart are asked for without what lies between, and not two by two", async () => {
  const source = newSource(16), asked = [];
  let atOnce = 0, most = 0;
  const answer = serveWhole(asked);
  await withNetwork(async (...words) => {
    most = Math.max(most, ++atOnce);
    await new Promise((resolve) => setTimeout(resolve, 5));
    atOnce--;
    return answer(...words);
  }, () => Promise.all(Array.from({ length: 32 }, (_, i) => [get(source, i * 3000, i * 3000 + 11), get(source, i * 3000 + 900, i * 3000 + 911)]).flat()));
  assert.deepEqual(asked.sort(([a], [b]) => a - b), Array.from({ length: 32 }, (_, i) => [i * 3000, i * 3000 + 911]));
  assert.equal(most, 4);
});

test("the index of a small shard brings the shard", async () => {
  const source = newSource(), asked = [];
  await withNetwork(serveWhole(asked, { size: 9000 }), async () => {
    const { bytes, total, first } = await source.get("k", -1, -1, 100, signal());
    assert.deepEqual([bytes.length, total, first], [100, 9000, 8900]);
    await get(source, 0, 4000);
    assert.equal((await source.get("k", -1, -1, 0, signal())).bytes.length, 9000);
  });
  assert.deepEqual(asked, [[0, 8999]]);
});

test("all of an object is asked for without what has come, or is on its way", async () => {
  const source = newSource(), asked = [];
  await withNetwork(serveWhole(asked), async () => {
    const head = get(source, 0, 9);
    await new Promise((resolve) => setTimeout(resolve, 30));
    const { bytes, status } = await source.get("k", -1, -1, 0, signal());
    assert.deepEqual([Buffer.compare(bytes, whole), status], [0, 200]);
    await head;
  });
  assert.deepEqual(asked, [[0, 9], [10, 99_999]]);
});

test("what is not there is asked for once, until all is asked for anew", async () => {
  const source = newSource();
  const calls = await withNetwork(() => new Response(null, { status: 404 }), async () => {
    const answers = await Promise.all([0, 1, 2].map(() => source.get("k", -1, -1, 0, signal())));
    answers.push(await source.get("k", -1, -1, 0, signal()));
    assert.deepEqual(answers.map(({ status }) => status), [404, 404, 404, 404]);
    assert.equal(new Set(answers.map(({ bytes }) => bytes.buffer)).size, 4, "each reader takes its bytes away");
    source.forget();
    await source.get("k", -1, -1, 0, signal());
  });
  assert.equal(calls, 2);
});

test("what nobody waits for any more is not fetched, and what is under way for nobody is aborted", async () => {
  const source = newSource(1), asked = [], [one, two, three] = [0, 0, 0].map(() => new AbortController()), serve = serveWhole(asked);
  let go;
  const held = new Promise((resolve) => { go = resolve; });
  await withNetwork((call, options) => (call === 0 ? held.then(() => serve(call, options)) : serve(call, options)), async () => {
    const first = get(source, 0, 9, one.signal), second = get(source, 0, 9);
    await new Promise((resolve) => setTimeout(resolve, 30));
    const third = get(source, 50_000, 50_009, two.signal), fourth = get(source, 90_000, 90_009);
    one.abort(new Error("given up"));
    two.abort(new Error("given up"));
    await assert.rejects(first, /given up/);
    await assert.rejects(third, /given up/);
    assert.deepEqual([source.counters.inFlight, source.counters.queued], [1, 2], "another still waits for the first part");
    go();
    await Promise.all([second, fourth]);
  });
  assert.deepEqual(asked, [[0, 9], [90_000, 90_009]]);
  await withNetwork((_call, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))), async () => {
    const left = source.get("k", 60_000, 60_009, 0, three.signal);
    await new Promise((resolve) => setTimeout(resolve, 30));
    three.abort(new Error("given up"));
    await assert.rejects(left, /given up/);
    await new Promise((resolve) => setTimeout(resolve, 30));
    assert.deepEqual([source.counters.inFlight, source.counters.cancelled], [0, 1]);
  });
});

test("what is kept has a limit, and so have requests at once", async () => {
  const source = newSource(2, 20_000);
  let most = 0, now = 0;
  const serve = serveWhole([]);
  await withNetwork(async (call, options) => { most = Math.max(most, ++now); await new Promise((resolve) => setTimeout(resolve, 5)); now--; return serve(call, options); }, async () => {
    await Promise.all(Array.from({ length: 8 }, (_, at) => get(source, at * 12_500, at * 12_500 + 3999)));
    assert.ok(source.held <= 20_000, `${source.held} bytes are kept`);
    await get(source, 0, 3999);
  });
  assert.deepEqual([most, source.counters.sent], [2, 9]);
});

test("an object that was replaced is counted, and nothing of the old one is joined to the new one", async () => {
  const source = newSource(), asked = [];
  let etag = '"a"';
  await withNetwork(serveWhole(asked, { etag: () => etag }), async () => {
    await get(source, 0, 99);
    etag = '"b"';
    await get(source, 50_000, 50_099);
    assert.equal(source.counters.changed, 1);
    await get(source, 0, 99);
    assert.equal(await source.check(), true);
  });
  assert.equal(asked.length, 4);
  const same = newSource();
  await withNetwork(serveWhole([]), async () => { await get(same, 0, 9); assert.equal(await same.check(), false); });
});

test("a host that hides the header of parts is told", async () => {
  await withNetwork(() => new Response(new Uint8Array(10), { status: 206 }), () => assert.rejects(newSource().get("k", 0, 9, 0, signal()), /Content-Range, which its host has to expose/));
});

test("an answer of another part than was asked for ends in an error", async () => {
  const source = newSource();
  await withNetwork(() => part(new Uint8Array(10), "bytes 0-9/100000"), () => assert.rejects(source.get("k", 500, 509, 0, signal()), /other parts/));
});
