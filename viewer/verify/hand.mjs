// Checks of the page in the hand: controls by a real mouse and real keys, what is read of a store, and whether the picture is the data.

import assert from "node:assert/strict";
import { statSync, truncateSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { KINDS } from "./stores.mjs";
import { countColoured, countOverlay, leave, listFiles, openViewer, shareDiffering, startProxy, takePixels, viewOf } from "./tools.mjs";

const BACKGROUND = "#000000";
const plain = { background: BACKGROUND, scaleBar: false };

/** Opens the sections of the panel. */
const unfold = (page) => page.evaluate(() => document.querySelectorAll("#panel details").forEach((one) => { one.open = true; }));
const centreOf = (page, selector) => page.$eval(selector, (one) => { one.scrollIntoView({ block: "center" }); const box = one.getBoundingClientRect(); return { x: box.x + box.width / 2, y: box.y + box.height / 2, left: box.x, right: box.right }; });
const focused = (page) => page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.tagName);

/** Sliders are drawn and stepped, and controls keep the focus. */
export async function checkControls({ browser, server, note }) {
  const { page, ask, said } = await openViewer(browser, viewOf(server, "mesh", plain));
  await unfold(page);
  const layer = () => ask(() => window.zvfViewer.getState().layers.mesh), camera = () => ask(() => window.zvfViewer.getState().camera);
  const slider = 'input[aria-label="Opacity"]', at = await centreOf(page, slider), before = await camera();
  await page.mouse.move(at.right - 9, at.y);
  await page.mouse.down();
  for (let step = 1; step <= 10; step++) await page.mouse.move(at.right - 9 - ((at.right - at.left - 18) * step) / 10, at.y);
  await page.mouse.up();
  const drawn = (await layer()).opacity;
  for (let i = 0; i < 5; i++) await page.keyboard.press("ArrowRight");
  const stepped = (await layer()).opacity;
  note({ drawn_to: drawn, stepped_to: stepped });
  assert.ok(drawn < 0.15, `the slider was drawn to its end, and is at ${drawn}`);
  assert.ok(Math.abs(stepped - drawn - 0.25) < 0.01, `five steps of 0.05 lead from ${drawn} to ${stepped}`);
  assert.equal(await focused(page), "Opacity");
  await page.focus('input[aria-label="Wireframe"]');
  await page.keyboard.press("Space");
  assert.deepEqual([(await layer()).wireframe, await focused(page)], [true, "Wireframe"]);
  await page.focus('select[aria-label="Colour"]');
  await page.select('select[aria-label="Colour"]', "depth");
  assert.deepEqual([(await layer()).colour.by, await focused(page)], ["depth", "Colour"]);
  assert.deepEqual(await camera(), before, "keys in the panel turn the camera");
  await page.click("#keys");
  assert.ok(await page.evaluate(() => document.getElementById("help").open), "the button with the question mark");
  await page.keyboard.press("Escape");
  await page.focus("#picture");
  const drawnOver = () => countOverlay(page);
  const before_ = await drawnOver();
  await page.keyboard.press("i");
  await ask(() => window.zvfViewer.idle());
  assert.ok((await drawnOver()) > before_ + 500 && !(await page.$eval("#stats", (one) => one.hidden)), "the key I outlines cells and shows figures");
  const inspected = await page.$eval("#stats", (one) => one.textContent);
  for (const part of [/mesh, level 0: \d+ of 8 cells drawn/, /slowest cells\n level 0, cell [\d.]+: \d+ of \d+ vertices/, /last requests\n 20\d 0\/\S+.* bytes, \d+ ms/]) assert.match(inspected, part);
  await leave(page, said);
}

/** Ranges, categories and the legend say what the values are. */
export async function checkValues({ browser, server, note }) {
  const { page, ask, said } = await openViewer(browser, viewOf(server, "steps", plain));
  await page.select('select[aria-label="Colour"]', "vertex:value");
  await ask(() => window.zvfViewer.idle());
  const read = () => page.evaluate(() => ({ fields: [...document.querySelectorAll('#panel input[aria-label$="value"]')].map((one) => Number(one.value)), legend: document.querySelector("#legend .ends")?.textContent, wide: [...document.querySelectorAll('#panel input[type="number"]')].every((one) => one.scrollWidth <= one.clientWidth + 1) }));
  const all = await read();
  note({ fields: all.fields, legend: all.legend });
  // Six vertices of sixteen thousand have 60 000; the others run from 0 to 12 345.
  assert.ok(all.fields[0] < 400 && all.fields[1] > 10_000 && all.fields[1] < 13_000, `the fields say ${all.fields}`);
  assert.match(all.legend, /≥ 1[12]\d\d\d/);
  assert.ok(all.wide, "numbers do not fit into their fields");
  await page.evaluate(() => [...document.querySelectorAll("#panel button")].find((one) => one.textContent === "All values").click());
  await ask(() => window.zvfViewer.idle());
  assert.equal((await read()).fields[1], 60_000);
  await page.select('select[aria-label="Colour"]', "vertex:part");
  await ask(() => window.zvfViewer.idle());
  const names = await page.evaluate(() => [...document.querySelectorAll("#panel .category span")].map((one) => one.textContent)), shown = () => ask(() => window.zvfViewer.stats().shown.vertices);
  assert.deepEqual(names, ["0", "1", "2", "3"]);
  const before = await shown();
  await page.click('#panel .category input[aria-label="Show 2"]');
  await ask(() => window.zvfViewer.idle());
  const after = await shown();
  note({ categories: names.length, vertices: before, without_one: after });
  assert.ok(Math.abs(after / before - 0.75) < 0.02, `${after} of ${before} vertices are left without one of four`);
  await page.select('select[aria-label="Colour"]', "axis:z");
  await ask(() => window.zvfViewer.idle());
  const byAxis = await read();
  assert.ok(byAxis.fields[0] < 20 && byAxis.fields[1] > 80, `the axis runs from ${byAxis.fields}`);
  await leave(page, said);
}

/** The count of a condition stays on the page, and is that of the whole data. */
export async function checkCount({ browser, server, zvf, stores, note }) {
  const { page, ask, said } = await openViewer(browser, viewOf(server, "skeleton", plain));
  await unfold(page);
  await page.type('input[aria-label="Condition"]', "z > 30");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /\d/.test(document.getElementById("counted").textContent), { timeout: 60_000 });
  await ask(() => window.zvfViewer.idle());
  const said_ = await page.$eval("#counted", (one) => one.textContent), counted = JSON.parse(zvf(["query", stores.skeleton, "--where", "z > 30", "--count", "--json"])).vertices;
  note({ said: said_, counted });
  assert.ok(said_.startsWith(`${counted.toLocaleString("en")} of `), said_);
  const refused = await ask(() => window.zvfViewer.setState({ where: "link.weight > 1" }).then(() => "", (error) => error.message));
  assert.match(refused, /vertices are drawn, and link\.weight is a value of links/);
  await leave(page, said);
}

/** Far ends of steps have the values and rows that they have where they are stored; conditions cut no line at a wall. */
export async function checkSteps({ browser, server, note }) {
  const { page, ask, said } = await openViewer(browser, viewOf(server, "two", { ...plain, level: 0, edl: false, camera: { projection: "orthographic", orientation: [0, 0, 0, 1], target: [50, 50, 50], distance: 100, fov: 45 }, layers: { polyline: { width: 4, colour: { by: "attribute", scope: "vertex", attribute: "value", map: "grey", range: [0, 1] } } } }));
  const [from, to] = await ask(() => window.zvfViewer.project([[5, 50, 50], [95, 50, 50]]));
  const picture = await takePixels(ask, 1280, 720), bright = (x, y) => Math.max(...[-1, 0, 1].map((dy) => picture.data[((Math.round(y) + dy) * 1280 + Math.round(x)) * 4]));
  const ends = [bright(from[0] + 8, from[1]), bright(to[0] - 8, to[1])];
  const hit = await ask(([x, y]) => window.zvfViewer.pick(x - 3, y), to);
  note({ brightness: ends, picked: hit?.position, value: hit?.attributes.value });
  assert.ok(ends[0] < 70 && ends[1] > 200, `the line runs from ${ends[0]} to ${ends[1]}`);
  assert.deepEqual([Math.round(hit.position[0]), hit.attributes.value], [95, 1], "the far end was clicked");
  const whole = countColoured(picture, BACKGROUND);
  await ask(() => window.zvfViewer.setState({ where: "y > 0" }));
  assert.equal(countColoured(await takePixels(ask, 1280, 720), BACKGROUND), whole, "a condition that all vertices pass changes the picture");
  await leave(page, said);
}

/** Crowded lines are drawn by some of their objects, and the page says so. */
export async function checkCrowdedLines({ browser, server, note }) {
  const found = {};
  for (const points of [20_000, 8_000, 4_000]) {
    const { page, ask, said } = await openViewer(browser, viewOf(server, "tracts", { ...plain, budget: { points } }));
    const { shown, levels } = await ask(() => window.zvfViewer.stats()), detail = await page.$eval("#detail", (one) => one.textContent);
    found[points] = { segments: shown.segments, vertices: shown.vertices, levels, detail };
    assert.ok(shown.segments > points / 3 && shown.vertices <= points * 1.2, `${points}: ${JSON.stringify(shown)}`);
    assert.match(detail, /% of the objects, limited by the budget/);
    await leave(page, said);
  }
  note(found);
}

/** A mesh is of one level wherever it is looked at from, and the page says of which. */
export async function checkOneLevel({ browser, server, note }) {
  const look = (distance) => ({ target: [50, 50, 98], orientation: [0.4, 0.1, 0.1, 0.9], distance, fov: 45 });
  const { page, ask, said } = await openViewer(browser, viewOf(server, "sphere", { ...plain, budget: { points: 30_000 }, camera: look(300) })), found = [];
  for (const distance of [300, 120, 60, 30, 12, 5]) {
    await ask((camera) => window.zvfViewer.setState({ camera }), look(distance));
    found.push(await ask(() => window.zvfViewer.stats().levels));
  }
  const detail = await page.$eval("#detail", (one) => one.textContent);
  note({ levels: found, detail });
  assert.ok(found.every((levels) => levels.length === 1), JSON.stringify(found));
  assert.ok(new Set(found.flat()).size > 1, `all of ${JSON.stringify(found)} are one level: nothing was refined`);
  assert.match(detail, /level \d/);
  await leave(page, said);
}

/** A sphere in many cells is lit as one in a single cell: at most 0.2 % of its pixels differ by more than 24 in all. */
export async function checkSeams({ browser, server, note }) {
  const pictures = [];
  const view = { ...plain, level: 0, edl: false, camera: { orientation: [0.3, 0.2, 0.1, 0.9], target: [50, 50, 50], distance: 120, fov: 45 }, budget: { points: 1_000_000 } };
  for (const name of ["rough", "whole"]) {
    const { page, ask, said } = await openViewer(browser, viewOf(server, name, view));
    pictures.push(await takePixels(ask, 1280, 720));
    await leave(page, said);
  }
  const differs = shareDiffering(...pictures), covered = countColoured(pictures[1], BACKGROUND) / (1280 * 720);
  note({ pixels_that_differ: `${(100 * differs / covered).toFixed(3)} %` });
  assert.ok(covered > 0.1 && differs / covered <= 0.002, `${differs / covered} of the pixels differ`);
}

/** A cell that was cut short is named with class and key, and costs that cell and not its neighbours; cut links cost what they join. */
export async function checkCutCell({ browser, folder, stores, note, restart, zvf }) {
  const broken = join(folder, "broken.zarrvectors");
  for (const [name, part] of [["point_cloud", "vertices"], ["sphere", "vertices"], ["sphere", "links"]]) {
    zvf(["convert", stores[name], broken, "--chunk-shape", "25", "--shard", "none", "--overwrite"]); // a file for each chunk
    const files = listFiles(join(broken, "0", part)).filter((path) => !path.endsWith("zarr.json"));
    const all = JSON.parse(zvf(["query", stores[name], "--count", "--json"]));
    truncateSync(files[0], statSync(files[0]).size - 5);
    const own = await restart([broken]);
    try {
      const { page, ask, said } = await openViewer(browser, viewOf(own, "broken", { ...plain, level: 0, budget: { points: 10_000_000 } }));
      const { shown } = await ask(() => window.zvfViewer.stats()), errors = await ask(() => window.zvfViewer.errors()), text = await page.$$eval("[role=alert], [role=status], [role=log]", (all) => all.map((one) => one.textContent).join(" "));
      note({ [`${name}/${part}`]: { cells: files.length, drawn: shown.vertices, of: all.vertices, faces: shown.faces, class: errors[0]?.class, key: errors[0]?.key } });
      assert.ok(errors.length === 1 && errors[0].key.startsWith(`0/${part}`) && text.includes(errors[0].class) && text.includes(errors[0].key), `${JSON.stringify(errors)}: ${text}`);
      assert.ok(shown.vertices > all.vertices * 0.8 && (part === "links" ? shown.vertices === all.vertices && shown.faces < all.elements : shown.vertices < all.vertices), JSON.stringify(shown));
      assert.ok(name === "point_cloud" || shown.faces > all.vertices, JSON.stringify(shown));
      assert.deepEqual(said.filter((line) => line.startsWith("uncaught")), []);
      await page.close();
    } finally { await own.end(); }
  }
}

/** A level of a mesh is read about once: at most half more than is stored of it. */
export async function checkReads({ browser, server, stores, note }) {
  const stored = listFiles(join(stores.sphere, "0")).reduce((sum, path) => sum + statSync(path).size, 0);
  const { page, ask, said, requests } = await openViewer(browser, viewOf(server, "sphere", { ...plain, level: 0, budget: { points: 10_000_000 } }));
  const { bytes } = await ask(() => window.zvfViewer.stats());
  note({ requests: requests.length, read: bytes.transferred, stored });
  assert.ok(bytes.transferred <= stored * 1.5 + 50_000, `${bytes.transferred} bytes were read of ${stored}`);
  await leave(page, said);
}

/** Requests and megabytes of a first picture on a static host: what is there, and names that it can only try. */
const MOST_ASKED = { large: [60, 5, 0], tracts: [60, 3, 0], sphere: [60, 2, 0], skeleton: [110, 1, 0] };

/** Four readers ask one source: a first picture takes few requests, no byte comes twice, and going back asks for nothing. */
export async function checkRequests({ browser, writePage, folder, serveFolder, note }) {
  const site = join(folder, "page");
  writePage(site);
  const host = await serveFolder(folder), found = {};
  try {
    for (const [name, [requests, megabytes, tried]] of Object.entries(MOST_ASKED)) {
      host.asked.length = 0;
      const prepare = (page) => page.evaluateOnNewDocument(() => Object.defineProperty(navigator, "hardwareConcurrency", { value: 8 }));
      const { page, ask, said } = await openViewer(browser, `${host.url}/page/index.html#!${encodeURIComponent(JSON.stringify({ ...plain, store: `../${name}.zarrvectors/` }))}`, { prepare });
      await ask(() => window.zvfViewer.idle());
      const all = host.asked.filter(({ path }) => path.includes(".zarrvectors/")), there = all.filter(({ status }) => status < 400), bytes = there.reduce((sum, { first, last }) => sum + last - first + 1, 0);
      found[name] = { requests: there.length, tried: all.length - there.length, MB: +(bytes / 1e6).toFixed(2) };
      assert.ok(there.length <= requests && bytes <= megabytes * 1e6 && all.length - there.length <= tried, `${name}: ${JSON.stringify(found[name])}`);
      assert.deepEqual(there.filter((one, at) => there.slice(0, at).some((other) => other.path === one.path && other.first <= one.last && one.first <= other.last)), [], `${name}: what has come is asked for again`);
      // A host without a listing hides nothing of a store that lists its links and names its attributes, or says that it has none.
      const missing = await page.evaluate(() => [...document.querySelectorAll("#panel details")].find((one) => one.firstChild.textContent === "What may be missing")?.textContent ?? "");
      assert.equal(missing, "", name);
      for (const turn of [[0, 0, 0, 1], [0.5, 0.5, 0.5, 0.5]]) await ask((orientation) => window.zvfViewer.setState({ camera: { orientation } }), turn);
      found[name].turned = host.asked.filter(({ path }) => path.includes(".zarrvectors/")).length - all.length;
      assert.ok(found[name].turned <= requests / 2, `${name}: turning asks for ${found[name].turned} more`);
      assert.deepEqual([said.filter((line) => !/404/.test(line)), await ask(() => window.zvfViewer.errors())], [[], []], name);
      await page.close();
    }
  } finally { host.end(); note(found); }
}

/** Answers whose body is empty are asked for again. */
export async function checkEmptyBodies({ browser, server, note }) {
  const proxy = await startProxy(server.url, { spoil: { left: 4 } });
  const { page, ask, said } = await openViewer(browser, viewOf(proxy, "mesh", { ...plain, level: 0 }));
  const { shown, requests } = await ask(() => window.zvfViewer.stats()), errors = await ask(() => window.zvfViewer.errors());
  note({ vertices: shown.vertices, failed: requests.failed, errors: errors.length });
  assert.deepEqual([errors, said], [[], []]);
  assert.ok(shown.vertices > 1000 && requests.failed >= 4);
  await page.close();
  proxy.end();
}

/** Where a frame takes long, less is drawn while the camera moves. */
export async function checkMoving({ browser, server, note }) {
  const { page, ask, said } = await openViewer(browser, viewOf(server, "large", { level: 0, budget: { points: 10_000_000 } }));
  const rest = await ask(() => window.zvfViewer.frame());
  await page.mouse.move(800, 360);
  await page.mouse.down();
  for (let i = 0; i < 25; i++) { await page.mouse.move(800 + 6 * i, 360 + i); await new Promise((resolve) => setTimeout(resolve, 40)); }
  const { share } = await ask(() => window.zvfViewer.stats());
  await page.mouse.up();
  note({ frame_at_rest_ms: Math.round(rest), share_while_moving: share });
  assert.ok(rest < 180 || share < 0.6, `frames take ${rest} ms, and ${share} of the points are drawn while it moves`);
  await leave(page, said);
}

/** The pointer reads, centres and selects; the list of objects flies to the box of one. */
export async function checkPointer({ browser, server, zvf, stores, note }) {
  const { page, ask, said } = await openViewer(browser, viewOf(server, "skeleton", { ...plain, level: 0 }));
  const first = await ask(() => window.zvfViewer.getState().camera), box = JSON.parse(zvf(["info", stores.skeleton, "--json"])).bounds;
  const [low, high] = Array.isArray(box) ? box : [box.min ?? box.low, box.max ?? box.high];
  const corners = Array.from({ length: 8 }, (_, n) => [0, 1, 2].map((i) => ((n >> i) & 1 ? high : low)[i])), seen = (await ask((corners) => window.zvfViewer.project(corners), corners)).map((at) => at.slice(0, 2));
  const tall = (Math.max(...seen.map(([, y]) => y)) - Math.min(...seen.map(([, y]) => y))) / 720, wide = (Math.max(...seen.map(([x]) => x)) - Math.min(...seen.map(([x]) => x))) / (1280 - 576);
  assert.ok(Math.max(tall, wide) > 0.75 && seen.every(([x, y]) => x > 280 && x < 1000 && y > 0 && y < 720), `the first view fills ${tall} of the height, ${wide} of the width`);
  const picture = await takePixels(ask, 1280, 720), places = [];
  for (let y = 60; y < 660; y += 3) for (let x = 330; x < 1240; x += 3) { const at = (y * 1280 + x) * 4; if (picture.data[at] + picture.data[at + 1] + picture.data[at + 2] > 90) places.push([x, y]); }
  const [x, y] = places[Math.floor(places.length / 3)];
  await page.mouse.move(x, y);
  await page.waitForFunction(() => !document.getElementById("hover").hidden, { timeout: 20_000 });
  const hover = await page.$eval("#hover", (one) => one.textContent);
  assert.match(hover, /object \d+/);
  await page.mouse.click(x, y, { clickCount: 2 });
  await ask(() => window.zvfViewer.idle());
  const target = (await ask(() => window.zvfViewer.getState().camera)).target, [place] = await ask((target) => window.zvfViewer.project([target]), target);
  assert.notDeepEqual(target, first.target);
  assert.ok(Math.hypot(place[0] - 640, place[1] - 360) < 2, "what was clicked twice is in the middle");
  await unfold(page);
  await page.waitForSelector("#panel .list button");
  const id = await page.$eval("#panel .list button", (one) => one.textContent);
  await page.click("#panel .list button");
  await page.waitForFunction((id) => window.zvfViewer.getState().selected?.object === id, { timeout: 20_000 }, id);
  await ask(() => window.zvfViewer.idle());
  const rows = zvf(["query", stores.skeleton, "--objects", id, "-o", "-", "--format", "csv"]).trim().split("\n"), names = rows[0].split(","), axes = ["x", "y", "z"].map((name) => names.indexOf(name));
  const points = rows.slice(1).map((row) => axes.map((at) => Number(row.split(",")[at]))), middle = [0, 1, 2].map((i) => (Math.min(...points.map((p) => p[i])) + Math.max(...points.map((p) => p[i]))) / 2);
  const flown = (await ask(() => window.zvfViewer.getState().camera)).target;
  note({ first_view: { tall: +tall.toFixed(2), wide: +wide.toFixed(2) }, hover, flown_to: id });
  assert.ok(flown.every((x, i) => Math.abs(x - middle[i]) < 1e-3 * 100), `flown to ${flown}, the middle of the object is ${middle}`);
  // What is selected keeps its colours, and what is not steps back.
  const selected = await takePixels(ask, 640, 480);
  await ask(() => window.zvfViewer.setState({ selected: null }));
  const sum = ({ data }) => { let total = 0; for (let at = 0; at < data.length; at += 4) total += data[at] + data[at + 1] + data[at + 2]; return total; };
  assert.ok(sum(selected) !== sum(await takePixels(ask, 640, 480)), "a selection is seen");
  await leave(page, said);
}

/** Distances, paths and areas are measured between places that are clicked, by keys alone as well, and stand in the address and the figure. */
export async function checkMeasure({ browser, server, note }) {
  const { page, ask, said } = await openViewer(browser, viewOf(server, "two", { ...plain, level: 0, camera: { projection: "orthographic", orientation: [0, 0, 0, 1], target: [50, 50, 50], distance: 160, fov: 45 }, layers: { polyline: { width: 4 } } }));
  const ends = await ask(() => window.zvfViewer.project([[5, 50, 50], [95, 50, 50]])), text = () => page.$eval("#measured", (one) => one.textContent), measure = () => ask(() => window.zvfViewer.getState().measure);
  await page.keyboard.press("m");
  for (const [at, [x, y]] of ends.entries()) { await page.mouse.click(x + (at ? -3 : 3), y); await page.waitForFunction((count) => window.zvfViewer.getState().measure.points.length === count, { timeout: 20_000 }, at + 1); }
  const distance = await text(), lit = await countOverlay(page, [200, 180, 0, 200], [255, 255, 120, 255]);
  assert.match(distance, /^distance 90; along the axes 90, 0, 0$/);
  assert.ok(lit > 300, `${lit} pixels of the measure are drawn`);
  assert.match(await page.$eval("#detail", (one) => one.textContent), /distance 90/);
  await page.keyboard.press("Backspace");
  await page.waitForFunction(() => window.zvfViewer.getState().measure.points.length === 1, { timeout: 20_000 });
  const said_ = {};
  for (const [mode, points] of [["path", [[0, 0, 0], [3, 4, 0], [3, 4, 12]]], ["area", [[0, 0, 0], [3, 0, 0], [3, 4, 0]]]]) { await ask((measure) => window.zvfViewer.setState({ measure }), { mode, points }); said_[mode] = await text(); }
  note({ distance, ...said_ });
  assert.deepEqual(said_, { path: "length 17; 3 places", area: "area 6, around it 12; 3 places" });
  assert.match(decodeURIComponent(await ask(() => window.zvfViewer.url())), /"measure":\{"mode":"area"/);
  await page.focus("#picture");
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => window.zvfViewer.getState().measure.mode === "off", { timeout: 20_000 });
  assert.deepEqual([await measure(), said], [{ mode: "off", points: [] }, []]);
  await page.close();
}

/** On a phone nothing lies on top of another thing: with the panel open, closed, and with something picked. */
export async function checkPhone({ browser, server, note }) {
  const { page, ask, said } = await openViewer(browser, viewOf(server, "steps", { layers: { point_cloud: { colour: { by: "attribute", scope: "vertex", attribute: "value" } } } }), { prepare: (page) => page.emulate({ viewport: { width: 390, height: 844, deviceScaleFactor: 2, isMobile: true, hasTouch: true }, userAgent: "Mozilla/5.0 (Linux; Android 14) Mobile" }) });
  const overlaps = () => page.evaluate(() => {
    const boxes = ["bar", "panel", "card", "legend", "scale", "detail"].map((id) => ({ id, one: document.getElementById(id) })).filter(({ one }) => !one.hidden && getComputedStyle(one).display !== "none").map(({ id, one }) => ({ id, box: one.getBoundingClientRect() }));
    const found = boxes.filter(({ box }) => box.left < 0 || box.right > innerWidth || box.bottom > innerHeight).map(({ id }) => `${id} is cut off`);
    for (const [at, a] of boxes.entries()) for (const b of boxes.slice(at + 1)) if (a.box.left < b.box.right && b.box.left < a.box.right && a.box.top < b.box.bottom && b.box.top < a.box.bottom) found.push(`${a.id} on ${b.id}`);
    return { shown: boxes.map(({ id }) => id), found };
  });
  const states = { closed: await overlaps() };
  await page.tap("#menu");
  states.open = await overlaps();
  await page.tap("#menu");
  const picture = await takePixels(ask, 390, 844), lit = [...Array(844 * 390).keys()].filter((at) => at % 390 > 40 && at % 390 < 350 && at > 390 * 100 && at < 390 * 700 && picture.data[at * 4] + picture.data[at * 4 + 1] + picture.data[at * 4 + 2] > 250), at = lit[lit.length >> 1];
  await page.touchscreen.tap(at % 390, Math.floor(at / 390));
  await page.waitForFunction(() => !document.getElementById("card").hidden, { timeout: 20_000 });
  states.picked = await overlaps();
  note(Object.fromEntries(Object.entries(states).map(([name, { shown }]) => [name, shown.join(" ")])));
  assert.deepEqual(Object.values(states).flatMap(({ found }) => found), []);
  assert.ok(states.closed.shown.includes("legend") && states.open.shown.includes("panel") && states.picked.shown.includes("card"));
  await leave(page, said);
}

/** What is selected is seen through all that lies before it: its rim is in the picture from both sides. */
export async function checkSelected({ browser, server, note }) {
  const { page, ask, said } = await openViewer(browser, viewOf(server, "skeleton", { ...plain, level: 0, edl: false })), rims = [], unselected = [];
  const rim = async () => { const { data } = await takePixels(ask, 640, 360); let count = 0; for (let at = 0; at < data.length; at += 4) if (Math.abs(data[at] - 255) + Math.abs(data[at + 1] - 219) + Math.abs(data[at + 2] - 51) < 40) count++; return count; };
  for (const orientation of [[0.5, 0.5, 0.5, 0.5], [0.5, -0.5, -0.5, 0.5]]) {
    await ask((orientation) => window.zvfViewer.setState({ camera: { orientation }, selected: null }), orientation);
    unselected.push(await rim());
    await ask(() => window.zvfViewer.setState({ selected: { kind: "skeleton", object: "0" } }));
    rims.push(await rim());
  }
  note({ rims, unselected });
  // The same from both sides but for what perspective changes: nothing hides any of it.
  assert.ok(Math.min(...rims) > 300 && Math.max(...unselected) < 30 && Math.min(...rims) > 0.7 * Math.max(...rims), `${rims} and ${unselected} pixels`);
  await leave(page, said);
}

/** Each kind at three distances is as it is kept: at most 1 % of the pixels differ by more than 24 in all. ZVF_KEEP=1 keeps new ones. */
export async function checkKept({ browser, server, note }) {
  const { existsSync, mkdirSync, readFileSync, writeFileSync } = await import("node:fs"), folder = new URL("kept/", import.meta.url), differs = {};
  mkdirSync(folder, { recursive: true });
  for (const kind of KINDS) {
    const { page, ask, said } = await openViewer(browser, viewOf(server, kind, plain)), path = new URL(`${kind}.png`, folder), [width, height] = [120, 90];
    const camera = await ask(() => window.zvfViewer.getState().camera);
    await ask((width, height) => { window.sheet = new OffscreenCanvas(3 * width, height); }, width, height);
    for (const [at, nearer] of [1, 0.4, 0.12].entries()) await ask(async ({ at, distance, width, height }) => {
      await window.zvfViewer.setState({ camera: { distance } });
      await window.zvfViewer.idle();
      window.sheet.getContext("2d").drawImage(await createImageBitmap(await window.zvfViewer.screenshot({ width, height })), at * width, 0);
    }, { at, distance: camera.distance * nearer, width, height });
    const png = await ask(async () => { const bytes = new Uint8Array(await (await window.sheet.convertToBlob({ type: "image/png" })).arrayBuffer()); return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")); });
    if (process.env.ZVF_KEEP) writeFileSync(path, Buffer.from(png, "base64"));
    assert.ok(existsSync(path), `${kind} has no picture that is kept: ZVF_KEEP=1 keeps one`);
    differs[kind] = await ask(async (pictures) => {
      const [a, b] = await Promise.all(pictures.map(async (text) => { const bitmap = await createImageBitmap(new Blob([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))])), pen = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d"); pen.drawImage(bitmap, 0, 0); return pen.getImageData(0, 0, bitmap.width, bitmap.height); }));
      let count = 0;
      for (let at = 0; at < a.data.length; at += 4) if (Math.abs(a.data[at] - b.data[at]) + Math.abs(a.data[at + 1] - b.data[at + 1]) + Math.abs(a.data[at + 2] - b.data[at + 2]) > 24) count++;
      return count / (a.width * a.height);
    }, [png, readFileSync(path).toString("base64")]);
    await leave(page, said);
  }
  note(differs);
  assert.ok(Object.values(differs).every((share) => share <= 0.01), JSON.stringify(differs));
}

/** What is wrong with an address or a host is said, and the rest is shown. */
export async function checkFaults({ browser, server, restart, zvf, stores, folder, note }) {
  const bad = await openViewer(browser, viewOf(server, "mesh", { ...plain, camera: { fov: 999 }, layers: { nokind: { opacity: 0.5 }, mesh: { opacity: 0.5, colour: { by: "attribute", attribute: "nope" } } } }));
  const errors = (await bad.ask(() => window.zvfViewer.errors())).map(({ message }) => message).join("\n"), state = await bad.ask(() => window.zvfViewer.getState());
  for (const part of [/camera\.fov/, /layers\.nokind: the store has mesh/, /there is no nope/]) assert.match(errors, part);
  assert.deepEqual([state.layers.mesh.opacity, state.background], [0.5, BACKGROUND], "the rest of the address is used");
  await bad.page.close();
  const none = await openViewer(browser, viewOf(server, "nostore", plain), { wait: false });
  await none.page.waitForFunction(() => document.querySelector("#alerts .alert"), { timeout: 60_000 });
  const text = await none.page.$eval("#alerts", (one) => one.textContent), link = await none.page.$eval("#status a", (one) => one.textContent);
  assert.match(text, /There is no store at http.*nostore/);
  assert.equal(link, "All stores");
  await none.page.close();
  const own = await restart([stores.large]);
  const gone = await openViewer(browser, viewOf(own, "large", { ...plain, budget: { points: 20_000 } }));
  await own.end();
  await gone.ask(() => { void window.zvfViewer.setState({ level: 0, budget: { points: 10_000_000 } }); });
  await gone.page.waitForFunction(() => /does not answer/.test(document.getElementById("alerts").textContent), { timeout: 90_000 });
  await gone.page.close();
  const edited = join(folder, "edited.zarrvectors");
  zvf(["convert", stores.steps, edited, "--shard", "none", "--overwrite"]);
  const second = await restart([edited]);
  try {
    const view = await openViewer(browser, viewOf(second, "edited", { ...plain, level: 0, layers: { point_cloud: { colour: { by: "constant", attribute: null, scope: null } } } }));
    const now = new Date();
    for (const path of listFiles(join(edited, "0")).filter((path) => /\/c\//.test(path))) {
      if (path.includes("/value/")) truncateSync(path, statSync(path).size - 5);
      else utimesSync(path, now, now);
    }
    await view.ask(() => { void window.zvfViewer.setState({ layers: { point_cloud: { colour: { by: "attribute", scope: "vertex", attribute: "value" } } } }); });
    await view.page.waitForFunction(() => /was changed/.test(document.getElementById("alerts").textContent), { timeout: 60_000 });
    assert.equal(await view.page.$$eval("#alerts .alert", (all) => all.length), 1, "it is said once");
    await view.page.close();
  } finally { await second.end(); }
  note({ address: errors.split("\n").length, nostore: text.slice(0, 120) });
}

/** A browser signs in by the address, stays signed in, and other sites cannot ask. */
export async function checkSharing({ restart, stores, folder, program, note }) {
  const { writeFileSync } = await import("node:fs"), token = "c2VjcmV0dG9rZW4tMTY", file = join(folder, "token.txt");
  writeFileSync(file, token);
  const own = await restart([folder, "--auth", file]);
  try {
    const ask = (path, headers = {}) => fetch(new URL(path, own.url), { headers, redirect: "manual" });
    assert.equal((await ask("/")).status, 401);
    const moved = await ask(`/view/?token=${token}`), cookie = moved.headers.get("set-cookie");
    assert.deepEqual([moved.status, moved.headers.get("location")], [303, "/view/"]);
    assert.match(cookie, /HttpOnly; SameSite=Lax/);
    const signed = { cookie: cookie.split(";")[0] };
    const listed = await (await ask("/api/stores", signed)).json();
    assert.ok(listed.length >= 7, `the folder has ${listed.length} stores`);
    assert.equal((await ask("/api/stores", { ...signed, "sec-fetch-site": "cross-site" })).status, 403);
    const body = await (await ask("/data/mesh/zarr.json", signed)).arrayBuffer(), rows = await (await ask("/api/mesh/query?format=csv", signed)).arrayBuffer();
    const sent = Number(/zvf_sent_bytes_total (\d+)/.exec(await (await ask("/metrics", signed)).text())[1]);
    note({ stores: listed.length, sent, bodies: body.byteLength + rows.byteLength });
    assert.ok(sent >= body.byteLength + rows.byteLength, `${sent} bytes are counted of ${body.byteLength + rows.byteLength}`);
  } finally { await own.end(); }
}

/** A saved picture has legend, scale bar and caption in it, and the view itself. */
export async function checkFigure({ browser, server, note }) {
  const { page, ask, said } = await openViewer(browser, viewOf(server, "steps", { background: BACKGROUND, where: "x < 60" }));
  const save = (figure) => ask(async (figure) => {
    const blob = await window.zvfViewer.screenshot({ figure }), bitmap = await createImageBitmap(blob), bytes = new Uint8Array(await blob.arrayBuffer());
    const sheet = new OffscreenCanvas(bitmap.width, bitmap.height), pen = sheet.getContext("2d", { willReadFrequently: true });
    pen.drawImage(bitmap, 0, 0);
    const lit = ([left, top, width, height]) => { const { data } = pen.getImageData(left, top, width, height); let count = 0; for (let at = 0; at < data.length; at += 4) if (data[at] + data[at + 1] + data[at + 2] > 90) count++; return count; };
    const text = new TextDecoder("latin1").decode(bytes), at = text.indexOf("zvf-view\0");
    return { legend: lit([1080, 640, 190, 70]), bar: lit([560, 680, 160, 30]), caption: lit([10, 8, 300, 20]), view: at < 0 ? null : text.slice(at + 13, text.indexOf("IEND") - 8) };
  }, figure);
  const bare = await save(false), figure = await save(true);
  note({ bare, figure: { ...figure, view: figure.view?.length } });
  for (const part of ["legend", "bar", "caption"]) assert.ok(figure[part] > bare[part] + 30, `${part}: ${figure[part]} pixels, ${bare[part]} without it`);
  const view = JSON.parse(figure.view);
  assert.deepEqual([bare.view, view.where, view.background], [null, "x < 60", BACKGROUND]);
  assert.match(view.store[0], /^http.*\/data\/steps\/$/);
  await leave(page, said);
}
