// Checks with figures: how soon, how many requests and bytes, how long a frame, how much memory.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { makeLargeStores } from "./stores.mjs";
import { leave, measureBare, openViewer, randomFrom, startProxy, viewOf } from "./tools.mjs";

const MIB = 2 ** 20, SCREEN_PIXELS = 1280 * 720;

/** First picture, settled view, requests and bytes of a cloud of points; then close to it. */
export async function checkFirstPicture({ browser, server, factor, zvf, stores, note }) {
  const { page, ask, said } = await openViewer(browser, viewOf(server, "large"));
  const marks = await ask(() => window.zvfViewer.marks()), far = await ask(() => window.zvfViewer.stats());
  note({ firstPicture_ms: Math.round(marks.firstPicture), settled_ms: Math.round(marks.settled), requests: far.requests.sent, bytes: far.bytes.transferred, bytes_per_pixel: +(far.bytes.transferred / SCREEN_PIXELS).toFixed(1), vertices: far.shown.vertices });
  assert.ok(marks.firstPicture <= 1500 * factor, `the first picture came after ${marks.firstPicture} ms`);
  assert.ok(marks.settled <= 8000 * factor, `the view settled after ${marks.settled} ms`);
  assert.ok(far.requests.sent <= 250 && far.bytes.transferred <= 32 * SCREEN_PIXELS, JSON.stringify(far.requests));
  assert.ok(far.shown.vertices <= far.budget.points * 1.1, `${far.shown.vertices} vertices of ${far.budget.points}`);
  const total = JSON.parse(zvf(["info", stores.large, "--json"])), size = storedBytes(total);
  await ask(async () => { const { camera } = window.zvfViewer.getState(); await window.zvfViewer.setState({ camera: { distance: camera.distance / 20 } }); });
  const near = await ask(() => window.zvfViewer.stats());
  note({ near_requests: near.requests.sent - far.requests.sent, near_bytes: near.bytes.transferred - far.bytes.transferred, near_levels: near.levels, store_bytes: size });
  assert.ok(near.levels.includes(0), `levels ${near.levels} are drawn close to it`);
  assert.ok(near.requests.sent - far.requests.sent <= 250 && near.bytes.transferred - far.bytes.transferred <= 32 * SCREEN_PIXELS, JSON.stringify(near.requests));
  // A small cloud fits into the budget whole.
  if (total.levels[0].vertices > 10 * far.budget.points) assert.ok(near.bytes.transferred < size / 2, `${near.bytes.transferred} of ${size} bytes were read`);
  await leave(page, said);
}

/** Bytes of all levels as they are stored. */
const storedBytes = ({ levels }) => levels.reduce((sum, { stored }) => sum + (stored?.bytes ?? 0), 0);

/** A frame of 100 000 points against the same in plain WebGL 2; frames while it moves. */
export async function checkFrames({ browser, server, bare, factor, note }) {
  const { page, ask, said } = await openViewer(browser, viewOf(server, "large", { budget: { points: 100_000 } }));
  const { vertices } = (await ask(() => window.zvfViewer.stats())).shown, times = await ask(() => Array.from({ length: 9 }, () => window.zvfViewer.frame()).sort((a, b) => a - b));
  const most = 3 * bare * Math.max(1, vertices / 100_000) + 20;
  note({ vertices, frame_ms: +times[4].toFixed(1), bare_ms: +bare.toFixed(1), most_ms: +most.toFixed(1) });
  assert.ok(times[4] <= most, `a frame takes ${times[4]} ms`);
  await page.close();
  const moving = await openViewer(browser, viewOf(server, "large"));
  await turn(moving.page, 40);
  const { ms } = await moving.ask(() => window.zvfViewer.stats());
  const most_p95 = 150 * Math.max(factor, (await measureBare(browser)) / 80); // the machine may have more to do by now
  note({ moving_p95_ms: Math.round(ms.p95), most_p95_ms: Math.round(most_p95) });
  assert.ok(ms.p95 <= most_p95, `95 of 100 frames take up to ${ms.p95} ms while it moves`);
  assert.deepEqual([...said, ...moving.said], []);
  await moving.page.close();
}

/** Frames of large stores against their GL calls alone, made again without the page: while the camera moves, and after it. */
export async function checkPace({ browser, program, folder, restart, note }) {
  const stores = makeLargeStores(program, folder), server = await restart(Object.values(stores));
  try {
    for (const name of Object.keys(stores)) {
      const { page, ask, said } = await openViewer(browser, viewOf(server, name), { prepare: (page) => page.evaluateOnNewDocument(recordCalls) });
      const { vertices } = (await ask(() => window.zvfViewer.stats())).shown, pace = await ask(measurePace);
      note({ [name]: { vertices, ...pace } });
      assert.ok(pace.moving <= 1.5 && pace.still <= 1.5, `${name}: a frame takes ${pace.moving} times its GL calls while the camera moves, ${pace.still} times after it`);
      await leave(page, said);
    }
  } finally { await server.end(); }
}

/** Runs in the page, before it: calls of WebGL are kept while `window.glCalls` is a list. */
function recordCalls() {
  const type = WebGL2RenderingContext.prototype;
  for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(type))) {
    if (typeof value !== "function") continue;
    type[name] = function (...words) {
      window.glCalls?.push(() => value.apply(this, kept));
      const kept = words.map((word) => (window.glCalls && ArrayBuffer.isView(word) && word.slice ? word.slice() : word));
      return value.apply(this, words);
    };
  }
}

/** Runs in the page: turns the camera by small steps, then leaves it; each frame is followed by its own calls alone. */
async function measurePace() {
  const viewer = window.zvfViewer, { target, distance, orientation } = viewer.getState().camera;
  const compare = async (frames, prepare) => {
    let page = 0, bare = 0, calls = 0;
    for (let at = 0; at < frames; at++) {
      await prepare(at);
      window.glCalls = [];
      page += viewer.frame();
      const kept = window.glCalls, start = performance.now();
      window.glCalls = null;
      for (const call of kept) call();
      bare += performance.now() - start;
      calls += kept.length;
    }
    return { ratio: +(page / bare).toFixed(2), ms: Math.round(page / frames), calls: Math.round(calls / frames) };
  };
  const moving = await compare(24, (at) => {
    const [x, y, z, w] = orientation, angle = 0.02 * at, [s, c] = [Math.sin(angle), Math.cos(angle)];
    void viewer.setState({ camera: { target, distance, orientation: [x * c - z * s, y * c + w * s, z * c + x * s, w * c - y * s] } });
    return new Promise((resolve) => setTimeout(resolve, 20));
  });
  await viewer.idle();
  const still = await compare(9, () => undefined);
  return { moving: moving.ratio, moving_ms: moving.ms, still: still.ratio, still_ms: still.ms, calls: still.calls };
}

async function turn(page, steps) {
  await page.mouse.move(640, 360);
  await page.mouse.down();
  for (let i = 0; i < steps; i++) { await page.mouse.move(640 + 8 * Math.sin(i / 3) * i, 360 + 3 * i); await new Promise((resolve) => setTimeout(resolve, 60)); }
  await page.mouse.move(640, 700);
  await page.mouse.up();
  await page.evaluate(() => window.zvfViewer.idle());
}

/** Flies through a store, twice the same way, on little memory. */
export async function checkFlight({ browser, server, seconds, note }) {
  const bytes = 256 * MIB, stops = 30;
  const { page, ask, said } = await openViewer(browser, viewOf(server, "large", { budget: { bytes } }));
  const centre = await ask(() => window.zvfViewer.getState().camera), random = randomFrom(11);
  const way = Array.from({ length: stops }, () => ({ target: centre.target.map((x) => x + (random() - 0.5) * centre.distance * 0.6), distance: centre.distance * 2 ** (-5 * random()), orientation: [random() - 0.5, random() - 0.5, random() - 0.5, random()] }));
  const pause = (seconds * 1000) / (2 * stops), laps = [], most = { held: 0, inFlight: 0, process: 0 };
  for (let lap = 0; lap < 2; lap++) {
    let held = 0;
    for (const [at, camera] of way.entries()) {
      const arrived = Date.now();
      // Most stops are left before all has come.
      await ask((camera) => { void window.zvfViewer.setState({ camera }); }, camera);
      while (Date.now() - arrived < pause) {
        const stats = await ask(() => window.zvfViewer.stats());
        held = Math.max(held, stats.bytes.gpu + stats.bytes.cpu + stats.bytes.wasm);
        most.inFlight = Math.max(most.inFlight, stats.requests.inFlight);
        await new Promise((resolve) => setTimeout(resolve, 120));
      }
      if (at % 10 === 9) { await ask(() => window.zvfViewer.idle()); most.process = Math.max(most.process, rendererBytes(browser.process().pid)); }
    }
    laps.push(held);
    most.held = Math.max(most.held, held);
  }
  const { requests } = await ask(() => window.zvfViewer.stats());
  note({ held_MiB: laps.map((lap) => Math.round(lap / MIB)), budget_MiB: bytes / MIB, largest_process_MiB: Math.round(most.process / MIB), in_flight: most.inFlight, cancelled: requests.cancelled, requests: requests.sent });
  assert.ok(most.held <= 1.1 * bytes, `${most.held} bytes were held`);
  assert.ok(most.process <= 1.4e9, `a process took ${most.process} bytes`);
  assert.ok(most.inFlight <= 16, `${most.inFlight} requests at once`);
  assert.ok(laps[1] <= 1.15 * laps[0], `the second lap held ${laps[1]}, the first ${laps[0]}`);
  await leave(page, said);
}

/** What is not in sight any more is given up while it is on its way; each answer takes long enough to be left. */
export async function checkCancelled({ browser, server, note }) {
  const hold = { ms: 0 }, slow = await startProxy(server.url, { hold });
  try {
    const { page, ask, said } = await openViewer(browser, viewOf(slow, "large"));
    const { target, distance } = await ask(() => window.zvfViewer.getState().camera), before = (await ask(() => window.zvfViewer.stats())).requests.cancelled;
    hold.ms = 8000; // longer than a frame takes on a busy machine
    for (const side of [-1, 1, -1, 1]) {
      await ask((camera) => { void window.zvfViewer.setState({ camera }); }, { target: target.map((x) => x + side * distance * 0.2), distance: distance / 30 });
      const asked = Date.now();
      while (Date.now() - asked < 20_000 && !(await ask(() => window.zvfViewer.stats().requests.inFlight))) await new Promise((resolve) => setTimeout(resolve, 50));
    }
    hold.ms = 0;
    await ask(() => window.zvfViewer.idle());
    const { requests } = await ask(() => window.zvfViewer.stats());
    note({ sent: requests.sent, cancelled: requests.cancelled });
    assert.ok(requests.cancelled > before, "nothing was given up");
    await leave(page, said);
  } finally { slow.end(); }
}

/** The resident memory of the largest renderer of a browser. */
function rendererBytes(root) {
  let most = 0;
  for (const pid of descendants(root)) {
    try {
      if (!readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("--type=renderer")) continue;
      most = Math.max(most, 1024 * Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0));
    } catch { /* it has ended */ }
  }
  return most;
}

function descendants(pid) {
  let own = [];
  try { own = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean); } catch { /* it has ended */ }
  return own.flatMap((child) => [child, ...descendants(child)]);
}

/** A chunk that holds far more than the budget: it is thinned, and fine again when there is room. */
export async function checkCrowded({ browser, server, note }) {
  const { page, ask, said } = await openViewer(browser, viewOf(server, "crowded", { budget: { points: 50_000 }, level: 0 }));
  const few = await ask(() => window.zvfViewer.stats());
  await ask(() => window.zvfViewer.setState({ budget: { points: 1_000_000 } }));
  const all = await ask(() => window.zvfViewer.stats());
  note({ vertices: few.shown.vertices, faces: few.shown.faces, all_vertices: all.shown.vertices });
  assert.ok(few.shown.thinned > 0 && few.shown.vertices <= 55_000 && few.shown.faces > 20_000, JSON.stringify(few.shown));
  assert.equal(all.shown.vertices, 360_000);
  await leave(page, said);
}

/** What a first visit takes on the wire. */
export async function checkWire({ browser, server, note }) {
  const page = await browser.newPage(), client = await page.createCDPSession();
  let bytes = 0;
  const own = new Set();
  await client.send("Network.enable");
  await client.send("Network.setCacheDisabled", { cacheDisabled: true }); // earlier checks have visited the page
  client.on("Network.requestWillBeSent", ({ requestId, request }) => { if (/\/view\//.test(request.url)) own.add(requestId); });
  client.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => { if (own.has(requestId)) bytes += encodedDataLength; });
  await page.goto(viewOf(server, "line"));
  await page.evaluate(() => window.zvfViewer.ready);
  await page.waitForNetworkIdle();
  note({ page_bytes: bytes });
  assert.ok(bytes > 100_000 && bytes <= 1_200_000, `${bytes} bytes`);
  await page.close();
}
