// Checks of what the page does: kinds, picks, states, conditions, faults, keys, several stores.

import assert from "node:assert/strict";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { KINDS, LARGE_IDS } from "./stores.mjs";
import { countColoured, leave, listFiles, openViewer, shareDiffering, takePixels, viewOf } from "./tools.mjs";

const BACKGROUND = "#000000";
const plain = { background: BACKGROUND, scaleBar: false };

/** Picks where something is drawn: each pick is a frame, so places are looked for in one picture and not one by one. */
async function pickSomething(ask) {
  const [width, height] = [1280, 720], picture = await takePixels(ask, width, height), places = [];
  for (let y = 20; y < height - 20; y += 3) for (let x = 330; x < width - 20; x += 3) {
    const at = (y * width + x) * 4;
    if (picture.data[at] + picture.data[at + 1] + picture.data[at + 2] > 60) places.push([x, y]);
  }
  for (const share of [0.5, 0.3, 0.7, 0.1, 0.9, 0.2, 0.8, 0.4, 0.6]) {
    const place = places[Math.floor(places.length * share)], hit = place && await ask(([x, y]) => window.zvfViewer.pick(x, y), place);
    if (hit) return hit;
  }
  return null;
}

/** Each kind is seen, with all of its objects; a store of several kinds shows them one by one. */
export async function checkKinds({ browser, server, zvf, stores, note }) {
  const pixels = {};
  for (const kind of KINDS) {
    const { page, ask, said } = await openViewer(browser, viewOf(server, kind, { ...plain, level: 0 }));
    pixels[kind] = countColoured(await takePixels(ask, 640, 480), BACKGROUND);
    assert.ok(pixels[kind] >= 400, `${kind}: ${pixels[kind]} pixels`);
    const objects = JSON.parse(zvf(["object", stores[kind], "--limit", "1000000", "--json"]));
    const loaded = await ask(() => window.zvfViewer.loadedObjects());
    const wanted = objects.map((one) => String(one.id)).sort();
    assert.deepEqual([...loaded].sort(), wanted, kind);
    assert.deepEqual([said, await ask(() => window.zvfViewer.errors())], [[], []], kind);
    await page.close();
  }
  const { page, ask, said } = await openViewer(browser, viewOf(server, "mixed", { ...plain, level: 0 }));
  const kinds = await ask(() => window.zvfViewer.kinds());
  assert.equal(kinds.length, 3);
  for (const kind of kinds) {
    const layers = Object.fromEntries(kinds.map((one) => [one, { visible: one === kind }]));
    await ask((layers) => window.zvfViewer.setState({ layers }), layers);
    pixels[`mixed ${kind}`] = countColoured(await takePixels(ask, 640, 480), BACKGROUND);
    assert.ok(pixels[`mixed ${kind}`] >= 400, `mixed, ${kind}: ${pixels[`mixed ${kind}`]} pixels`);
  }
  note(pixels);
  await leave(page, said);
}

/** Places of stored vertices are picked, and say what the command says of them. */
export async function checkPicks({ browser, server, zvf, stores, note }) {
  const each = 20, found = {};
  for (const kind of ["point_cloud", "streamline", "skeleton", "mesh"]) {
    const { page, ask, said } = await openViewer(browser, viewOf(server, kind, { ...plain, level: 0, layers: { [kind]: { size: { mode: "fixed", value: 3 } } } }));
    const objects = new Map(), places = await ask(async (each) => {
      const picked = [];
      for (let y = 60; y < 680 && picked.length < each; y += 31) for (let x = 340; x < 1240 && picked.length < each; x += 37) {
        const hit = await window.zvfViewer.pick(x, y);
        if (hit) picked.push({ ...hit, x, y, seen: window.zvfViewer.project([hit.position])[0] });
      }
      return picked;
    }, each);
    assert.equal(places.length, each, `${kind}: ${places.length} places were hit`);
    let furthest = 0;
    for (const hit of places) {
      const distance = Math.hypot(hit.seen[0] - hit.x, hit.seen[1] - hit.y);
      // What is drawn between vertices is hit there: its nearest vertex may be further away.
      if (kind === "point_cloud") { furthest = Math.max(furthest, distance); assert.ok(distance <= 7, `${kind}: ${distance} px off`); }
      assert.ok(hit.exact, kind);
      const about = `${kind} at ${hit.position}`, reach = 1e-4;
      const box = [hit.position.map((x) => x - reach).join(","), hit.position.map((x) => x + reach).join(",")].join(":");
      const rows = zvf(["query", stores[kind], "--bbox", box, "--mode", "crop", "-o", "-", "--format", "csv"]).trim().split("\n");
      const names = rows[0].split(","), row = rows.slice(1).map((line) => Object.fromEntries(line.split(",").map((value, i) => [names[i], value]))).find((row) => hit.object === null || !("object" in row) || row.object === hit.object);
      assert.ok(row, `${about}: no vertex is stored there`);
      for (const [name, value] of Object.entries(row)) {
        if (["x", "y", "z", "object"].includes(name) || !(name in hit.attributes)) continue;
        const picked = hit.attributes[name];
        const same = typeof picked === "number" ? Math.abs(picked - Number(value)) <= 1e-5 * Math.max(1, Math.abs(picked)) : String(picked) === value || Array.isArray(picked);
        assert.ok(same, `${about}: ${name} is ${picked}, stored is ${value}`);
      }
      if (hit.object !== null) {
        if (!objects.has(hit.object)) objects.set(hit.object, JSON.parse(zvf(["object", stores[kind], hit.object, "--json"]))[0]);
        for (const [name, value] of Object.entries(objects.get(hit.object).attributes ?? {})) assert.deepEqual(hit.attributes[name], value, `${about}: ${name}`);
      }
    }
    found[kind] = { places: places.length, objects: objects.size };
    assert.deepEqual(said, [], kind);
    await page.close();
  }
  note(found);
}

/** Neighbouring ids above 2^53 are loaded, found, selected and picked as themselves. */
export async function checkLargeIds({ browser, server }) {
  const { page, ask, said } = await openViewer(browser, viewOf(server, "ids", plain));
  assert.deepEqual((await ask(() => window.zvfViewer.loadedObjects())).sort(), LARGE_IDS);
  for (const id of LARGE_IDS) {
    assert.deepEqual(await ask((id) => window.zvfViewer.search(id), id), [{ kind: "polyline", object: id }]);
    await ask((id) => window.zvfViewer.setState({ objects: { mode: "only", ids: [id] } }), id);
    assert.deepEqual(await ask(() => window.zvfViewer.loadedObjects()), [id]);
    const hit = await pickSomething(ask);
    assert.equal(hit?.object, id);
  }
  await leave(page, said);
}

/** An address gives the same state and the same picture; a bad one is told. */
export async function checkAddress({ browser, server, note }) {
  const { page, ask, said } = await openViewer(browser, viewOf(server, "streamline", plain));
  await ask(() => window.zvfViewer.setState({ clip: { box: [[0, 0, 0], [60, 100, 100]] }, camera: { fov: 30, projection: "orthographic" }, layers: { streamline: { width: 3 } } }));
  const [url, state] = await ask(() => [window.zvfViewer.url(), window.zvfViewer.getState()]), before = await takePixels(ask, 640, 480);
  assert.ok(url.length < 2048, `${url.length} characters`);
  const other = await openViewer(browser, url);
  assert.deepEqual(await other.ask(() => window.zvfViewer.getState()), state);
  const differs = shareDiffering(before, await takePixels(other.ask, 640, 480));
  note({ address_characters: url.length, pixels_that_differ: `${(differs * 100).toFixed(3)} %` });
  assert.ok(differs <= 0.005, `${differs} of the pixels differ`);
  for (const bad of ['{"v":9}', "{", '{"store":"../data/streamline/","camera":{"fov":999}}']) {
    const page = await openViewer(browser, `${server.url.replace(/\/$/, "")}/view/#!${encodeURIComponent(bad)}`, { wait: false });
    await page.page.waitForFunction(() => window.zvfViewer?.errors().length > 0, { polling: 200, timeout: 120_000 });
    await page.page.close();
  }
  for (const patch of [{ where: "nothing >" }, { where: "no_such_column > 1" }, { camera: { distance: -1 } }, { space: { shown: [0, 1, 1] } }, 7]) {
    const message = await ask(async (patch) => { try { await window.zvfViewer.setState(patch); return null; } catch (error) { return error.message; } }, patch);
    assert.ok(message, JSON.stringify(patch));
  }
  assert.deepEqual(await ask(() => window.zvfViewer.getState()), state);
  assert.deepEqual([...said, ...other.said], []);
  await page.close();
  await other.page.close();
}

/** Conditions leave what the query counts; nothing is drawn outside of a clipping box. */
export async function checkConditions({ browser, server, zvf, stores, note }) {
  const counts = {};
  for (const [name, where] of [["point_cloud", "x < 40"], ["point_cloud", "x >= 20 and y < 50"], ["skeleton", "z > 30"], ["streamline", "x < 50"]]) {
    const { page, ask, said } = await openViewer(browser, viewOf(server, name, { ...plain, level: 0, where, budget: { points: 10_000_000 } }));
    const { vertices } = (await ask(() => window.zvfViewer.stats())).shown, counted = JSON.parse(zvf(["query", stores[name], "--where", where, "--count", "--json"]));
    counts[`${name}: ${where}`] = vertices;
    assert.equal(vertices, counted.vertices, `${name}, ${where}`);
    await leave(page, said);
  }
  note(counts);
  const { page, ask, said } = await openViewer(browser, viewOf(server, "mesh", { ...plain, edl: false, camera: { projection: "orthographic", orientation: [0, 0, 0, 1], target: [50, 50, 50], distance: 130, fov: 45 } }));
  await ask(() => window.zvfViewer.setState({ clip: { box: [[20, 30, 0], [60, 70, 100]] } }));
  const picture = await takePixels(ask, 640, 480), [[x0, y1], [x1, y0]] = await ask(() => window.zvfViewer.project([[20, 30, 50], [60, 70, 50]])), sx = 480 / 720;
  let outside = 0, inside = 0;
  for (let y = 0; y < 480; y++) for (let x = 0; x < 640; x++) {
    const at = (y * 640 + x) * 4, lit = picture.data[at] + picture.data[at + 1] + picture.data[at + 2] > 24;
    const px = (x - 320) / sx + 640, py = y / sx;
    if (!lit) continue;
    if (px < x0 - 2 || px > x1 + 2 || py < y0 - 2 || py > y1 + 2) outside++; else inside++;
  }
  assert.ok(inside > 400 && outside === 0, `${inside} pixels inside, ${outside} outside`);
  await leave(page, said);
}

/** A store that does not say which chunks it has, as those before 0.9: the server lists them. */
export async function checkListing({ browser, folder, stores, note, restart, zvf }) {
  const silent = join(folder, "silent.zarrvectors");
  zvf(["convert", stores.point_cloud, silent, "--chunk-shape", "25", "--shard", "none", "--overwrite"]);
  let removed = 0;
  for (const path of listFiles(silent).filter((path) => path.endsWith("zarr.json"))) {
    const document = JSON.parse(readFileSync(path, "utf8"));
    if (!document.attributes?.nonempty_chunks) continue;
    delete document.attributes.nonempty_chunks;
    writeFileSync(path, JSON.stringify(document));
    removed++;
  }
  const own = await restart([silent, stores.point_cloud]);
  try {
    const seen = [];
    for (const name of ["silent", "point_cloud"]) {
      const { page, ask, said } = await openViewer(browser, viewOf(own, name, { ...plain, level: 0 }));
      seen.push((await ask(() => window.zvfViewer.stats())).shown.vertices);
      assert.deepEqual([said, await ask(() => window.zvfViewer.errors())], [[], []]);
      await page.close();
    }
    note({ removed, vertices: seen });
    assert.ok(removed > 0 && seen[0] > 0 && seen[0] === seen[1], `${seen}`);
  } finally { await own.end(); }
}

/** Every control has a name and can be reached; fingers zoom; a phone keeps to its budget. */
export async function checkAccess({ browser, server, note }) {
  const { page, ask, said } = await openViewer(browser, viewOf(server, "mixed", { clip: { box: [[0, 0, 0], [50, 50, 50]] } }));
  await page.evaluate(() => document.querySelectorAll("#panel details").forEach((one) => { one.open = true; }));
  const controls = await page.evaluate(() => [...document.querySelectorAll("button, input, select, textarea, [tabindex]")].filter((one) => one.offsetParent !== null || one.id === "picture").map((one) => ({ tag: one.tagName, name: one.getAttribute("aria-label") || one.labels?.[0]?.textContent || one.textContent || one.title || one.placeholder || "" })));
  assert.deepEqual(controls.filter((one) => !one.name.trim()), []);
  const seen = new Set();
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press("Tab");
    const focus = await page.evaluate(() => { const one = document.activeElement, style = getComputedStyle(one); return { name: one.getAttribute("aria-label") ?? one.textContent?.slice(0, 30) ?? one.tagName, outline: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1 }; });
    assert.ok(focus.outline, `the focus is not seen on ${focus.name}`);
    seen.add(focus.name);
  }
  await page.focus("#picture");
  const before = await ask(() => window.zvfViewer.getState().camera);
  for (const key of ["ArrowLeft", "ArrowUp", "+"]) await page.keyboard.press(key);
  const after = await ask(() => window.zvfViewer.getState().camera);
  assert.notDeepEqual(after.orientation, before.orientation);
  assert.ok(after.distance < before.distance);
  await page.keyboard.press("?");
  assert.ok(await page.evaluate(() => document.getElementById("help").open));
  await leave(page, said);
  const phone = await openViewer(browser, viewOf(server, "large"), { prepare: (page) => page.emulate({ viewport: { width: 390, height: 844, deviceScaleFactor: 3, isMobile: true, hasTouch: true }, userAgent: "Mozilla/5.0 (Linux; Android 14) Mobile" }) });
  const far = await phone.ask(() => window.zvfViewer.getState().camera.distance);
  const client = await phone.page.createCDPSession(), points = (gap) => [{ x: 195 - gap, y: 300, id: 0 }, { x: 195 + gap, y: 300, id: 1 }];
  await client.send("Input.dispatchTouchEvent", { type: "touchStart", touchPoints: points(30) });
  for (const gap of [40, 55, 70, 90]) await client.send("Input.dispatchTouchEvent", { type: "touchMove", touchPoints: points(gap) });
  await client.send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [] });
  await phone.ask(() => window.zvfViewer.idle());
  assert.ok((await phone.ask(() => window.zvfViewer.getState().camera.distance)) < far, "pinching does not zoom");
  const { budget, bytes } = await phone.ask(() => window.zvfViewer.stats()), held = bytes.gpu + bytes.cpu + bytes.wasm;
  note({ controls: controls.length, reached_by_tab: seen.size, phone_MiB: Math.round(held / 2 ** 20), phone_budget_MiB: budget.bytes / 2 ** 20, phone_points: budget.points });
  assert.ok(budget.bytes <= 256 * 2 ** 20 && held <= 256 * 2 ** 20 && budget.points <= 500_000, `${held} bytes on a phone`);
  assert.deepEqual(phone.said, []);
  await phone.page.close();
}

/** Several stores at once: kinds, ids, picks and groups are those of the store they belong to. */
export async function checkSeveralStores({ browser, server, note }) {
  const { page, ask, said } = await openViewer(browser, viewOf(server, ["skeleton", "streamline"], { ...plain, level: 0 }));
  const kinds = await ask(() => window.zvfViewer.kinds());
  assert.deepEqual(kinds, ["skeleton/skeleton", "streamline/streamline"]);
  const hits = {};
  for (const kind of kinds) {
    await ask((layers) => window.zvfViewer.setState({ layers }), Object.fromEntries(kinds.map((one) => [one, { visible: one === kind }])));
    const hit = await pickSomething(ask);
    assert.equal(hit?.kind, kind);
    await ask((selected) => window.zvfViewer.setState({ selected }), { kind, object: hit.object });
    assert.deepEqual(await ask(() => window.zvfViewer.getState().selected), { kind, object: hit.object });
    assert.ok((await ask((id) => window.zvfViewer.search(id), hit.object)).some((one) => one.kind === kind && one.object === hit.object));
    hits[kind] = hit.object;
  }
  await ask((layers) => window.zvfViewer.setState({ layers }), Object.fromEntries(kinds.map((one) => [one, { visible: true }])));
  // An id is one of all stores: both show theirs.
  await ask(() => window.zvfViewer.setState({ objects: { mode: "only", ids: ["1"] } }));
  for (const kind of kinds) assert.deepEqual(await ask((kind) => window.zvfViewer.loadedObjects(kind), kind), ["1"], kind);
  await ask(() => window.zvfViewer.setState({ objects: { mode: "all", ids: [] } }));
  const groups = await ask(async () => window.zvfViewer.getState().objects.groups.length);
  note({ picked: hits, groups });
  assert.deepEqual([said, await ask(() => window.zvfViewer.errors())], [[], []]);
  await page.close();
}

/** Stores of four axes: any three are drawn, and a part of the fourth is shown. */
export async function checkAxes({ browser, server, zvf, stores, note }) {
  const { page, ask, said } = await openViewer(browser, viewOf(server, "times", { ...plain, level: 0 }));
  const shown = () => ask(() => window.zvfViewer.stats().shown.vertices), all = await shown();
  await ask(() => window.zvfViewer.setState({ space: { ranges: { 3: [2, 4] } } }));
  const some = await shown(), counted = JSON.parse(zvf(["query", stores.times, "--where", "t >= 2 and t < 4", "--count", "--json"])).vertices;
  note({ all, "t in 2..4": some });
  assert.deepEqual([all, some], [4000, counted]);
  await ask(() => window.zvfViewer.setState({ space: { shown: [3, 1, 2], ranges: { 3: null } } }));
  assert.equal(await shown(), 4000);
  // The box that the page copies is one that the command takes, with all axes.
  await ask(() => { navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }; return window.zvfViewer.setState({ space: { shown: [0, 1, 2] }, clip: { box: [[0, 0, 0], [50, 25, 25]] } }); });
  await page.evaluate(() => { document.querySelectorAll("#panel details").forEach((one) => { one.open = true; }); });
  await page.waitForFunction(() => [...document.querySelectorAll("#panel button")].some((one) => one.textContent === "Copy as --bbox"));
  await page.evaluate(() => [...document.querySelectorAll("#panel button")].find((one) => one.textContent === "Copy as --bbox").click());
  const copied = await page.evaluate(() => window.copied), inBox = JSON.parse(zvf(["query", stores.times, ...copied.split(" "), "--count", "--json"])).vertices;
  note({ copied, inBox });
  assert.ok(copied.split(/[ :]/).slice(1).every((side) => side.split(",").length === 4) && inBox > 0 && inBox < 4000, copied);
  await ask(() => window.zvfViewer.setState({ clip: { box: null }, space: { shown: [3, 1, 2] } }));
  const hit = await pickSomething(ask);
  assert.ok(hit && Number.isInteger(Math.round(hit.position[0] * 1e4) / 1e4), JSON.stringify(hit));
  assert.deepEqual([said, await ask(() => window.zvfViewer.errors())], [[], []]);
  await page.close();
}

/** Pictures of any size, also transparent ones. */
export async function checkPictures({ browser, server, note }) {
  const { page, ask, said } = await openViewer(browser, viewOf(server, "mesh", plain));
  const clear = await takePixels(ask, 400, 300, true), full = await takePixels(ask, 4096, 2048);
  let transparent = 0;
  for (let at = 3; at < clear.data.length; at += 4) if (clear.data[at] === 0) transparent++;
  note({ transparent_share: +(transparent / 120_000).toFixed(2), large_pixels: countColoured(full, BACKGROUND) });
  assert.ok(transparent > 10_000 && transparent < 119_000);
  assert.ok(countColoured(full, BACKGROUND) > 40_000);
  await leave(page, said);
}

/** The page that `zvf viewer` writes, from a plain static host, shows the same without our API. */
export async function checkStaticHost({ browser, server, writePage, folder, stores, serveFolder, note }) {
  const site = join(folder, "site");
  writePage(site);
  cpSync(stores.skeleton, join(site, "skeleton.zarrvectors"), { recursive: true });
  const host = await serveFolder(site), other = await openViewer(browser, `${host.url}/index.html#!${encodeURIComponent(JSON.stringify({ ...plain, store: "skeleton.zarrvectors/" }))}`);
  const own = await openViewer(browser, viewOf(server, "skeleton", plain));
  const differs = shareDiffering(await takePixels(own.ask, 640, 480), await takePixels(other.ask, 640, 480));
  const hidden = await other.page.evaluate(() => [...document.querySelectorAll("#panel summary")].find((one) => one.textContent === "What may be missing")?.parentElement.textContent);
  note({ pixels_that_differ: `${(differs * 100).toFixed(3)} %`, requests: other.requests.length, hidden: hidden?.length });
  assert.ok(differs <= 0.01);
  assert.deepEqual([other.requests.filter((url) => url.includes("/api")), other.said, own.said], [[], [], []]);
  await other.page.close();
  await own.page.close();
  host.end();
}

/** A server that fetches a store from another one, which it was allowed to. */
export async function checkRemote({ browser, server, restart, note }) {
  const own = await restart([new URL("data/skeleton/", server.url).href]);
  try {
    const [{ name }] = own.stores, far = await openViewer(browser, viewOf(own, name, plain)), near = await openViewer(browser, viewOf(server, "skeleton", plain));
    const differs = shareDiffering(await takePixels(near.ask, 640, 480), await takePixels(far.ask, 640, 480));
    note({ name, pixels_that_differ: `${(differs * 100).toFixed(3)} %` });
    assert.ok(differs <= 0.005);
    assert.deepEqual([far.said, near.said, await far.ask(() => window.zvfViewer.errors())], [[], [], []]);
    await far.page.close();
    await near.page.close();
  } finally { await own.end(); }
}

