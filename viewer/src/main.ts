// The page: opens the store of the address, moves the camera, keeps the address, and offers `window.zvfViewer`.

import { VIEWS, project } from "./camera.ts";
import { add, axisAngle, multiplyQuats, normalizeQuat, rotate, scale, type Quat, type Vec3 } from "./math.ts";
import { decorate, viewIn, withView } from "./figure.ts";
import { formOf, JoinedPool, Pool, type StorePool, type StoreSource } from "./pool.ts";
import { Renderer } from "./gl.ts";
import { MODES, withPlace } from "./measure.ts";
import { showOverlay } from "./overlay.ts";
import { Scene, type Picked, type StoreInfo } from "./scene.ts";
import { checkState, complete, decodeAddress, difference, encodeAddress, mend, mergePatch, packIds, type Layer, type State } from "./state.ts";
import { buildHelp, showCard, showDetail, showFault, showLegend, showNotice, showScaleBar, updatePanel, type Actions } from "./ui.ts";

const byId = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;
const canvas = byId<HTMLCanvasElement>("picture");
/** Stores that are shown at once. */
const MAX_STORES = 8;
const IS_SMALL = Math.min(screen.width, screen.height) < 500 || (navigator as any).deviceMemory <= 2;

/** What the page holds of a store at most, in all. */
const BUDGET_BYTES = (IS_SMALL ? 256 : 1024) * 2 ** 20;

let scene: Scene | null = null;
let defaults: State;
let renderer: Renderer;
let wasm: Promise<WebAssembly.Module> | null = null;
let addressTimer = 0;
let shownValues = "";
const faults: { class: string; key: string | null; message: string; hint: string | null }[] = [];
const ready = deferred();
const marks = { firstPicture: 0, settled: 0 };

function deferred() {
  let resolve!: () => void, reject!: (error: unknown) => void;
  const promise = new Promise<void>((yes, no) => { resolve = yes; reject = no; });
  return { promise, resolve, reject };
}

function report(fault: { class: string; key: string | null; message: string; hint: string | null }): void {
  faults.push(fault);
  showFault(fault, null);
}

function plainFault(error: unknown) {
  const fault = (error as any)?.fault;
  return fault ?? { class: "Io", key: null, message: (error as Error)?.message ?? String(error), hint: null };
}

function defaultLayer(kind: string, info: StoreInfo, software: boolean): Layer {
  const about = info.kinds.find((one) => one.kind === kind)!;
  const isChain = ["streamline", "polyline"].includes(formOf(kind)), attribute = about.attributes.find((one) => one.scope === "vertex" && one.width !== 2);
  const by = isChain ? "direction" : formOf(kind) === "point_cloud" && attribute ? "attribute" : about.objects ? "object" : formOf(kind) === "mesh" ? "constant" : "constant";
  const value = formOf(kind) === "mesh" ? "#d9b9a6" : formOf(kind) === "point_cloud" ? "#8ec5ff" : "#f0c674";
  const chosen = by === "attribute" ? attribute! : null;
  return {
    visible: true, opacity: 1,
    colour: { by, value, scope: chosen ? chosen.scope : null, attribute: chosen ? chosen.name : null, map: formOf(kind) === "point_cloud" ? "turbo" : "viridis", range: null, categories: null, hidden: [] },
    size: { mode: "adaptive", value: 2 }, width: software ? 1 : 2, wireframe: false,
  };
}

function defaultState(store: string | string[], info: StoreInfo): State {
  const software = renderer.software;
  const layers: Record<string, Layer> = {};
  for (const { kind } of info.kinds) layers[kind] = defaultLayer(kind, info, software);
  return {
    v: 1, store, camera: { target: [0, 0, 0], orientation: [0, 0, 0, 1], distance: 1, fov: 45, projection: "perspective" },
    level: "auto", error: null, budget: { points: software ? 300_000 : IS_SMALL ? 500_000 : 3_000_000, bytes: BUDGET_BYTES },
    layers, objects: { mode: "all", ids: [], groups: [] }, where: "", space: { shown: info.axes.map((_, axis) => axis).slice(0, 3), ranges: {} }, clip: { box: null, planes: [] }, selected: null, measure: { mode: "off", points: [] },
    theme: "dark", background: "#0d0f14", edl: true, scaleBar: true, axes: true, stats: false,
  };
}

/** From one corner, a little from above. */
const CORNER: Quat = normalizeQuat(multiplyQuats(axisAngle([0, 0, 1], 0.7), axisAngle([1, 0, 0], 1.12)));

async function open(address: Record<string, unknown>, source: StoreSource | null, dropped = ""): Promise<void> {
  scene?.pool.close();
  scene = null;
  const named = typeof address.store === "string" ? [address.store] : Array.isArray(address.store) ? address.store.map(String) : [];
  const stores = [...new Set(named.filter(Boolean))].slice(0, MAX_STORES), store = stores.length > 1 ? stores : stores[0] ?? "";
  if (!source && !stores.length) { byId("status").textContent = "Drop a store here: a folder, or a .tet pack."; ready.resolve(); return; }
  byId("status").textContent = "Opening…";
  // Not streaming: a host that sends another type than application/wasm does no harm.
  wasm ??= fetch("zvf_wasm_bg.wasm").then((answer) => answer.arrayBuffer()).then((bytes) => WebAssembly.compile(bytes));
  const { pool, info } = await openStores(await wasm, stores, source, Number((address as any).budget?.bytes) || BUDGET_BYTES);
  defaults = defaultState(store, info);
  const made = new Scene(pool, info, renderer, defaults);
  made.freeWidth = freeWidth();
  defaults.camera = made.cameraFor(...made.bounds(), info.axes.length < 3 ? [0, 0, 0, 1] : CORNER);
  // What is wrong of the address is left out, and the rest is used.
  const { given, wrong } = mend(address, (given) => { const state = complete<State>(given, defaults); return checkLayers(state, info) || checkState(state, info.axes.length); });
  for (const text of wrong) report({ class: "InvalidArgument", key: null, message: `The address is used without this part: ${text}`, hint: null });
  made.state = structuredClone(complete<State>(given, defaults));
  made.onFault = (fault) => {
    faults.push(fault);
    // A host that is gone fails everywhere, which is said once.
    if (fault.class === "Io" && made.state.store) void explainHost(made, fault);
    else void wasChanged(made).then((changed) => (changed ? made.onStale() : showFault(fault, actions.retry)));
  };
  made.onStale = () => {
    if (isStale) return;
    isStale = true;
    const fault = { class: "FileChanged", key: null, message: "The store was changed while it was shown: what is drawn may be of both.", hint: "reload the page" };
    faults.push(fault);
    showFault(fault, () => location.reload(), "Reload");
  };
  isStale = false;
  if (made.state.where.trim()) {
    try { await tryCondition(made, made.state.where); } catch (error) { report({ ...plainFault(error), message: `The condition of the address is not used: ${plainFault(error).message}` }); made.state.where = ""; }
  }
  made.onNotice = showNotice;
  made.onChange = changed;
  for (const { level, error } of info.faults) report({ ...error, message: `level ${level}: ${error.message}` });
  await made.start();
  scene = made;
  const name = dropped ? storeName(dropped, null) : storesName(store, source);
  document.title = `${name} – zvf`;
  byId("title").textContent = name;
  byId("status").textContent = "";
  document.body.classList.remove("empty");
  applyLook();
  updatePanel(made, actions);
  if (made.state.where.trim()) void countCondition(made);
  await made.idle();
  ready.resolve();
}

/** Opens one store, or several as one: the workers and the memory are shared out. */
async function openStores(module: WebAssembly.Module, stores: string[], source: StoreSource | null, budget: number): Promise<{ pool: StorePool; info: StoreInfo }> {
  const workers = IS_SMALL ? 1 : Math.max(1, Math.min(4, (navigator.hardwareConcurrency || 2) - 1));
  const count = source ? 1 : stores.length, bytes = Math.min(160 * 2 ** 20, budget / 4);
  const openOne = async (address: string): Promise<{ name: string; pool: Pool; info: StoreInfo }> => {
    const pool = new Pool("worker.js", Math.max(1, Math.floor(workers / count)));
    const url = source ? undefined : new URL(address, location.href.split("#")[0]).href;
    const name = url ? (url.replace(/\/+$/, "").endsWith(".tet") ? decodeURIComponent(url.replace(/\/+$/, "").split("/").pop()!) : "") : source!.name;
    await pool.open(module, source ?? { url, name, keys: await keysOf(url!) }, bytes / count, count);
    return { name: storeName(address, source), pool, info: await pool.ask(0, "info", []).done };
  };
  if (count === 1) return openOne(stores[0] ?? "");
  const opened = await Promise.allSettled(stores.map(openOne));
  const good = opened.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  // A store that cannot be opened is told, and the others are shown.
  for (const [at, one] of opened.entries()) if (one.status === "rejected") report({ ...plainFault(one.reason), message: `${storeName(stores[at], null)}: ${plainFault(one.reason).message}` });
  if (!good.length) throw (opened[0] as PromiseRejectedResult).reason;
  const names = new Map<string, number>();
  for (const one of good) {
    const before = names.get(one.name) ?? 0;
    names.set(one.name, before + 1);
    if (before) one.name = `${one.name}-${before + 1}`;
  }
  const pool = new JoinedPool(good);
  return { pool, info: pool.join(good.map((one) => one.info)) };
}

/** Where `zvf serve` lists the names of a store, if it can. The page of a static host names its policy itself; nothing is
 * listed there. */
async function keysOf(url: string): Promise<string | null> {
  const { origin, pathname } = new URL(url), found = /^(.*\/)data\/([^/]+)\/$/.exec(pathname);
  const isStatic = document.querySelector("meta[http-equiv='Content-Security-Policy']") !== null;
  if (!found || origin !== location.origin || isStatic) return null;
  const keys = `${origin}${found[1]}api/${found[2]}/keys`;
  try { return (await (await fetch(keys)).json()).keys ? keys : null; } catch { return null; }
}

/** The name that is shown; a slash stands between the store and its kinds. */
function storesName(store: string | string[], source: StoreSource | null): string {
  return (Array.isArray(store) ? store : [store]).map((one) => storeName(one, source)).join(", ");
}

function storeName(store: string, source: StoreSource | null): string {
  return (source?.name || decodeURIComponent(store.split("?")[0].replace(/\/+$/, "").split("/").pop() ?? "")).replace(/\.(zarrvectors|zarr|tet)$/, "") || "zvf";
}

function applyLook(): void {
  const theme = scene!.state.theme, light = theme === "light" || (theme === "auto" && matchMedia("(prefers-color-scheme: light)").matches);
  document.documentElement.dataset.theme = light ? "light" : "dark";
  byId("stats").hidden = !scene!.state.stats;
  showLegend(scene!);
}

function changed(): void {
  if (!scene) return;
  marks.firstPicture ||= scene.firstPicture;
  marks.settled ||= scene.settled;
  showScaleBar(scene);
  showOverlay(scene, (box) => void actions.patch({ clip: { box } }));
  showDetail(scene);
  // Panel and legend say what the cells have that came in between.
  const { summary } = scene, values = scene.isIdle() ? JSON.stringify([scene.info.kinds.map(({ kind }) => [scene!.range(kind), summary.call(scene, kind).bars, scene!.categories(kind)?.length]), scene.drawn.reduce((sum, { node }) => sum + (node.data?.ids.length ?? 0), 0)]) : shownValues;
  if (values !== shownValues) { shownValues = values; showLegend(scene); updatePanel(scene, actions); }
  if (scene.state.stats) byId("stats").textContent = statsText();
  clearTimeout(addressTimer);
  addressTimer = setTimeout(writeAddress, 500) as unknown as number;
}

function statsText(): string {
  const s = scene!.statistics(), mega = (n: number) => `${(n / 2 ** 20).toFixed(1)} MB`;
  showLegend(scene!);
  return [`${s.shown.vertices.toLocaleString("en")} vertices of ${s.budget.points.toLocaleString("en")}`, ...(s.shown.thinned ? [`${s.shown.thinned} crowded cells thinned`] : []), `${s.shown.cells} cells, levels ${s.levels.join(", ")}`, `${s.ms.last.toFixed(0)} ms, p95 ${s.ms.p95.toFixed(0)} ms, ${(1000 / Math.max(1, s.ms.p50)).toFixed(0)} fps`, `${s.requests.done} requests, ${s.requests.inFlight} under way`, `${mega(s.bytes.transferred)} received`, `${mega(s.bytes.gpu)} GPU, ${mega(s.bytes.cpu)} CPU, ${mega(s.bytes.wasm)} WASM of ${mega(s.budget.bytes)}`, ...(scene!.inspects ? scene!.inspect() : [])].join("\n");
}

function addressState(): unknown {
  const state = { ...scene!.state, objects: { ...scene!.state.objects, ids: packIds(scene!.state.objects.ids) } };
  const rest = (difference(state, { ...defaults, v: 0, store: "" }) ?? {}) as Record<string, unknown>;
  return rest;
}

/** The view as a file has it: with the addresses of its stores. */
function savedState(): object {
  return { ...(addressState() as object), store: [scene!.state.store].flat().map((store) => store && new URL(store, location.href.split("#")[0]).href) };
}

function writeAddress(): void {
  if (!scene || !scene.state.store) return;
  const fragment = encodeAddress(addressState()), isLong = fragment.length > MAX_ADDRESS;
  if (!isLong) history.replaceState(null, "", fragment);
  else if (!wasLong) report({ class: "LimitExceeded", key: null, message: "This view does not fit into an address.", hint: "save it as a file (View, Save view), and drop that file on the page" });
  wasLong = isLong;
}

/** Characters of an address that everything copies whole. */
const MAX_ADDRESS = 8192;
let wasLong = false;

function saveFile(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}


async function setState(patch: unknown): Promise<void> {
  if (!scene) throw new Error("no store is open");
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) throw new Error("expected an object");
  const before = scene.state, merged = complete<State>(mergePatch(before, patch), defaults);
  if (merged.camera) merged.camera = { ...merged.camera, orientation: Array.isArray(merged.camera.orientation) && merged.camera.orientation.length === 4 ? normalizeQuat(merged.camera.orientation) : merged.camera.orientation };
  if (merged.space.shown.join() !== before.space.shown.join()) {
    // Other axes have other places: the box and the camera are made for them, unless the patch names them.
    if (!(patch as any).clip) merged.clip = { box: null, planes: [] };
    const shows = merged.space.shown.filter((axis) => axis in merged.space.ranges);
    for (const axis of shows) delete merged.space.ranges[axis];
  }
  const wrong = checkLayers(merged, scene.info) || checkState(merged, scene.info.axes.length);
  if (wrong) throw new Error(wrong);
  // A faulty condition is told before anything is let go of.
  if (merged.where !== before.where && merged.where.trim()) await tryCondition(scene, merged.where);
  scene.state = structuredClone(merged);
  if (merged.where !== before.where) void countCondition(scene);
  await apply(before, scene.state, !!(patch as any).camera);
}

/** Says what is wrong with the layers of a state, for this store. */
function checkLayers(state: State, info: StoreInfo): string {
  for (const [kind, layer] of Object.entries(state.layers)) {
    const about = info.kinds.find((one) => one.kind === kind);
    if (!about) return `layers.${kind}: the store has ${info.kinds.map((one) => one.kind).join(", ")}`;
    const { by, attribute, scope } = layer.colour, axes = scope === "axis" ? info.axes : [];
    if (by === "attribute" && attribute && ![...about.attributes, ...axes.map(({ name }) => ({ name, scope }))].some((one) => one.name === attribute && (!scope || one.scope === scope))) return `layers.${kind}.colour.attribute: there is no ${attribute}; there are ${about.attributes.map((one) => one.name).join(", ") || "none"}`;
  }
  return "";
}

/** Fails where a condition is at fault; asks the coarsest level, which is small. */
async function tryCondition({ info, pool }: Scene, where: string): Promise<void> {
  const [{ kind, levels }] = info.kinds;
  await pool.ask(0, "count", [{ where, level: levels.at(-1)!.level, kind, drawn: true }]).done;
}

/** Levels with more vertices are not read to count what a condition leaves. */
const COUNTED_VERTICES = 5_000_000;

/** Says how many vertices the condition leaves: of the finest level that is small enough to be counted. */
async function countCondition(of: Scene): Promise<void> {
  const { where } = of.state, [{ kind, levels }] = of.info.kinds, level = levels.find(({ vertices }) => vertices <= COUNTED_VERTICES) ?? levels.at(-1)!;
  of.counted = where.trim() ? "counting…" : "";
  updatePanel(of, actions);
  if (!where.trim()) return;
  try {
    const { vertices } = await of.pool.ask(0, "count", [{ where, level: level.level, kind }]).done;
    if (of.state.where === where) of.counted = `${vertices.toLocaleString("en")} of ${level.vertices.toLocaleString("en")} vertices of level ${level.level}.`;
  } catch (error) { of.counted = plainFault(error).message; }
  if (of === scene) updatePanel(of, actions);
}

/** Whether the store was changed under the page: what does not fit together is then no fault of the store. */
const wasChanged = ({ pool }: Scene): Promise<boolean> => pool.changed().catch(() => false);

/** Says why a host does not answer: gone, or closed to other pages. */
async function explainHost(of: Scene | null, fault: { class: string; key: string | null; message: string; hint: string | null }): Promise<void> {
  const now = performance.now();
  if (now - explainedAt < 10_000) return;
  explainedAt = now;
  const store = [of ? of.state.store : ((decodeAddress(location.hash).state?.store ?? "") as string | string[])].flat()[0], url = new URL(store, location.href.split("#")[0]), isOwn = url.origin === location.origin;
  let isRefused = false, isThere = true;
  const note = () => { isRefused = true; };
  document.addEventListener("securitypolicyviolation", note);
  try { await fetch(`${url.href.replace(/\/+$/, "")}${url.pathname.endsWith(".tet") ? "" : "/zarr.json"}`, { mode: isOwn ? "same-origin" : "no-cors", cache: "no-store" }); } catch { isThere = false; }
  await new Promise((resolve) => setTimeout(resolve, 50)); // the refusal is told after the request has failed
  document.removeEventListener("securitypolicyviolation", note);
  const said = isRefused ? { message: `This page reads its own host only, and ${url.href} is on another.`, hint: `zvf serve ${url.href}` }
    : !isThere ? { message: isOwn ? `The server of this page, ${url.host}, does not answer.` : `${url.host} does not answer.`, hint: isOwn ? "is zvf serve still running?" : "is the address right?" }
    : isOwn ? fault : { message: `${url.host} answers, but does not let other pages read its files.`, hint: "its answers need the header Access-Control-Allow-Origin" };
  showFault({ class: fault.class, key: null, ...said }, of ? actions.retry : () => location.reload());
}
let explainedAt = -Infinity;
let isStale = false;

async function apply(before: State, after: State, keepsCamera: boolean): Promise<void> {
  const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);
  if (!same(before.space.shown, after.space.shown)) {
    await scene!.changeAxes();
    if (!keepsCamera) after.camera = scene!.cameraFor(...scene!.bounds());
  } else if (before.where !== after.where || !same(before.space.ranges, after.space.ranges)) scene!.reload();
  for (const kind of Object.keys(after.layers)) {
    const a = before.layers[kind], b = after.layers[kind];
    if (same(a, b)) continue;
    const wide = (layer: Layer) => scene!.isWide(layer);
    if (scene!.columns(a).join() !== scene!.columns(b).join()) scene!.reload(kind);
    else if (wide(a) !== wide(b) || a.wireframe !== b.wireframe) scene!.reload(kind, true);
    else if (!same(a.colour, b.colour)) scene!.recolour(kind);
  }
  if (!same(before.objects, after.objects) || !same(before.selected, after.selected)) scene!.recolour();
  if (!same({ ...before, camera: 0 }, { ...after, camera: 0 })) { applyLook(); updatePanel(scene!, actions); }
  scene!.touch();
  await scene!.idle();
  showLegend(scene!);
}

const actions: Actions = {
  patch: (patch) => setState(patch).catch((error) => { report({ ...plainFault(error), class: plainFault(error).class === "Io" ? "InvalidArgument" : plainFault(error).class }); updatePanel(scene!, actions); }),
  async select(kind, object) {
    if (!scene) return;
    const finest = scene.trees.get(kind)!.levels[0].level;
    const found = await scene.pool.ask(0, "object", [kind, finest, object]).done;
    const side = (list: number[]): Vec3 => [0, 1, 2].map((i) => list[scene!.state.space.shown[i]] ?? 0) as Vec3;
    const camera = found.bounds ? scene.cameraFor(side(found.bounds[0]), side(found.bounds[1])) : scene.state.camera;
    await setState({ selected: { kind, object }, camera });
  },
  centre(position) { void setState({ camera: { target: position } }); },
  frameAll() { if (scene) void setState({ camera: scene.cameraFor(...scene.bounds()) }); },
  async screenshot() {
    if (scene) saveFile(`${byId("title").textContent}.png`, await screenshot({ figure: true }));
  },
  saveView() {
    const state = savedState();
    saveFile(`${byId("title").textContent}.zvf-view.json`, new Blob([JSON.stringify(state, null, 1)], { type: "application/json" }));
  },
  retry() { scene?.retry(); },
};

async function screenshot({ width = canvas.width, height = canvas.height, transparent = false, figure = false }: { width?: number; height?: number; transparent?: boolean; figure?: boolean } = {}): Promise<Blob> {
  if (!scene) throw new Error("no store is open");
  if (!(width >= 1 && height >= 1 && width <= 8192 && height <= 8192)) throw new Error("a picture has 1 to 8192 pixels a side");
  const view = scene.view(width, height);
  scene.choose(view);
  const pixels = renderer.picture(view, scene.items(1), scene.state, scene.planes(view), transparent);
  scene.touch();
  const sheet = document.createElement("canvas");
  sheet.width = width; sheet.height = height;
  sheet.getContext("2d")!.putImageData(new ImageData(pixels as Uint8ClampedArray<ArrayBuffer>, width, height), 0, 0);
  if (figure) decorate(sheet, scene, byId("title").textContent ?? "");
  const saved = await new Promise<Blob>((resolve, reject) => sheet.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture cannot be written"))), "image/png"));
  return figure ? withView(saved, savedState()) : saved;
}

// --- the camera by pointer, touch and keys -------------------------------------------------------------------------

const pointers = new Map<number, { x: number; y: number }>();
let travelled = 0;

function orbit(dx: number, dy: number): void {
  const { camera } = scene!.state, up: Vec3 = [0, 0, 1];
  const isFlat = scene!.state.space.shown.length < 3;
  if (isFlat) { pan(dx, dy); return; }
  const turned = multiplyQuats(axisAngle(up, -dx * 0.006), multiplyQuats(camera.orientation, axisAngle([1, 0, 0], -dy * 0.006)));
  camera.orientation = normalizeQuat(turned);
  scene!.touch(true);
}

function pan(dx: number, dy: number): void {
  const { camera } = scene!.state, step = (2 * camera.distance * Math.tan((camera.fov * Math.PI) / 360)) / canvas.clientHeight;
  camera.target = add(camera.target, rotate(camera.orientation, scale([-dx, dy, 0], step)));
  scene!.touch(true);
}

function zoom(factor: number, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2): void {
  const { camera } = scene!.state, before = camera.distance;
  camera.distance = Math.min(scene!.extent() * 20, Math.max(scene!.extent() * 1e-7, before * factor));
  // What is under the pointer stays there.
  const step = (2 * (before - camera.distance) * Math.tan((camera.fov * Math.PI) / 360)) / canvas.clientHeight;
  camera.target = add(camera.target, rotate(camera.orientation, scale([x - canvas.clientWidth / 2, canvas.clientHeight / 2 - y, 0], step)));
  scene!.touch(true);
}

async function pickAt(x: number, y: number): Promise<Picked | null> {
  if (!scene) return null;
  const ratio = canvas.width / canvas.clientWidth;
  return scene.pick(x * ratio, y * ratio);
}

/** Adds what is at a place to what is measured. */
async function measureAt(x: number, y: number): Promise<void> {
  const ratio = canvas.width / canvas.clientWidth, found = scene!.peek(x * ratio, y * ratio);
  if (found) await actions.patch({ measure: { points: withPlace(scene!.state.measure, found.picked.position as Vec3) } });
  else { byId("status").textContent = "Nothing is here to measure from."; setTimeout(() => { byId("status").textContent = ""; }, 2000); }
}

async function click(x: number, y: number): Promise<void> {
  if (scene!.state.measure.mode !== "off") return measureAt(x, y);
  const picked = await pickAt(x, y);
  showCard(picked, scene!, actions);
  const selected = picked && picked.object !== null ? { kind: picked.kind, object: picked.object } : null;
  if (JSON.stringify(selected) !== JSON.stringify(scene!.state.selected)) await actions.patch({ selected });
}

canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); pointers.set(event.pointerId, { x: event.clientX, y: event.clientY }); travelled = 0; });
canvas.addEventListener("pointermove", (event) => {
  const last = pointers.get(event.pointerId);
  if (!last || !scene) return;
  const dx = event.clientX - last.x, dy = event.clientY - last.y, others = [...pointers].filter(([id]) => id !== event.pointerId);
  travelled += Math.abs(dx) + Math.abs(dy);
  if (others.length === 1) {
    const other = others[0][1], before = Math.hypot(last.x - other.x, last.y - other.y), now = Math.hypot(event.clientX - other.x, event.clientY - other.y);
    if (before > 0 && now > 0) zoom(before / now, (event.clientX + other.x) / 2, (event.clientY + other.y) / 2);
    pan(dx / 2, dy / 2);
  } else if (event.buttons & 6 || event.shiftKey) pan(dx, dy);
  else orbit(dx, dy);
  pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
});
// --- what is under the pointer -------------------------------------------------------------------------------------

let hoverTimer = 0;
/** How long the pointer rests before it is asked what lies under it: longer where asking is dear. */
let hoverDelay = 70;

function hover(event: PointerEvent): void {
  const box = byId("hover");
  clearTimeout(hoverTimer);
  box.hidden = true;
  if (!scene || event.buttons || event.pointerType === "touch") return;
  const { clientX: x, clientY: y } = event;
  hoverTimer = setTimeout(() => {
    if (!scene || scene.moving || !scene.drawn.length) return;
    const ratio = canvas.width / canvas.clientWidth, begun = performance.now(), found = scene.peek(x * ratio, y * ratio);
    hoverDelay = Math.min(1000, Math.max(70, 3 * (performance.now() - begun)));
    canvas.style.cursor = found ? "pointer" : "";
    if (!found) return;
    const { picked, value } = found;
    box.textContent = [picked.object === null ? "" : `object ${picked.object}`, value, scene.inspects ? scene.describeCell(found.node) : ""].filter(Boolean).join(" · ") || "vertex";
    box.style.left = `${Math.min(x + 14, innerWidth - 220)}px`;
    box.style.top = `${y + 14}px`;
    box.hidden = false;
  }, hoverDelay) as unknown as number;
}
canvas.addEventListener("pointermove", hover);
canvas.addEventListener("pointerleave", () => { clearTimeout(hoverTimer); byId("hover").hidden = true; });

/** Turns around what is at a place from now on. */
function centreAt(x: number, y: number): void {
  const ratio = canvas.width / canvas.clientWidth, found = scene?.peek(x * ratio, y * ratio);
  if (found) actions.centre(found.picked.position);
}
canvas.addEventListener("dblclick", (event) => centreAt(event.clientX, event.clientY));

const release = (event: PointerEvent) => {
  const was = pointers.delete(event.pointerId);
  if (was && event.type === "pointerup" && travelled < 5 && event.button === 0 && scene) void click(event.clientX, event.clientY);
};
canvas.addEventListener("pointerup", release);
canvas.addEventListener("pointercancel", release);
canvas.addEventListener("contextmenu", (event) => event.preventDefault());
canvas.addEventListener("wheel", (event) => { event.preventDefault(); if (scene) zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * (event.deltaMode ? 0.05 : 0.0015)))), event.clientX, event.clientY); }, { passive: false });
canvas.addEventListener("webglcontextlost", (event) => { event.preventDefault(); report({ class: "Unavailable", key: null, message: "The graphics were reset; the picture is drawn again.", hint: null }); });
canvas.addEventListener("webglcontextrestored", () => scene?.restore());

document.addEventListener("keydown", (event) => {
  if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement || event.ctrlKey || event.metaKey || event.altKey) return;
  const step = 24, { key } = event, move = event.shiftKey ? pan : orbit;
  if (key === "?") byId<HTMLDialogElement>("help").showModal();
  else if (key === "/") { event.preventDefault(); byId("search").focus(); }
  else if (key.toLowerCase() === "p") togglePanel();
  else if (!scene) return;
  else if (key === "ArrowLeft") move(-step, 0);
  else if (key === "ArrowRight") move(step, 0);
  else if (key === "ArrowUp") move(0, -step);
  else if (key === "ArrowDown") move(0, step);
  else if (key === "+" || key === "=") zoom(0.85);
  else if (key === "-") zoom(1 / 0.85);
  else if (key.toLowerCase() === "f") actions.frameAll();
  else if (key.toLowerCase() === "c") centreAt(canvas.clientWidth / 2, canvas.clientHeight / 2);
  else if (key.toLowerCase() === "i") { scene.inspects = !scene.inspects; void actions.patch({ stats: scene.inspects }); }
  else if (key.toLowerCase() === "s") actions.screenshot();
  else if (key.toLowerCase() === "m") { const mode = MODES[(MODES.indexOf(scene.state.measure.mode) + 1) % MODES.length]; void actions.patch({ measure: { mode, points: mode === "off" ? [] : scene.state.measure.points } }); }
  else if (key === "Backspace") void actions.patch({ measure: { points: scene.state.measure.points.slice(0, -1) } });
  else if (key.toLowerCase() === "t") void actions.patch({ stats: !scene.state.stats });
  else if (key.toLowerCase() === "o") void actions.patch({ camera: { projection: scene.state.camera.projection === "perspective" ? "orthographic" : "perspective" } });
  else if (key >= "1" && key <= "6") void actions.patch({ camera: { orientation: Object.values(VIEWS)[Number(key) - 1] } });
  else if (key === "Enter" && event.target === canvas) void click(canvas.clientWidth / 2, canvas.clientHeight / 2);
  else if (key === "Escape" && scene.state.measure.mode !== "off") void actions.patch({ measure: { mode: "off", points: [] } });
  else if (key === "Escape") { byId("card").hidden = true; void actions.patch({ selected: null }); }
});

function togglePanel(): void {
  const closed = byId("panel").classList.toggle("closed");
  document.body.classList.toggle("covered", !closed);
  byId("menu").setAttribute("aria-expanded", String(!closed));
  if (scene) { scene.freeWidth = freeWidth(); scene.touch(); }
}
byId("menu").addEventListener("click", togglePanel);
byId("keys").addEventListener("click", () => byId<HTMLDialogElement>("help").showModal());

/** The part of the picture's width that the panel leaves, on both sides of the middle. */
function freeWidth(): number {
  const isCovered = innerWidth > 640 && !byId("panel").classList.contains("closed");
  return isCovered ? Math.max(0.45, 1 - 610 / innerWidth) : 0.9;
}

byId<HTMLFormElement>("searchForm").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = byId<HTMLInputElement>("search").value.trim();
  if (!scene || !text) return;
  try {
    const found = await scene.pool.ask(0, "search", [text]).done;
    byId("found").replaceChildren(...found.slice(0, 50).map((one: any) => Object.assign(document.createElement("option"), { value: one.object })));
    if (found.length) await actions.select(found[0].kind, found[0].object);
    else byId("status").textContent = `Nothing is called ${text}.`;
    setTimeout(() => { byId("status").textContent = ""; }, 3000);
  } catch (error) { report(plainFault(error)); }
});

// --- stores that are dropped ---------------------------------------------------------------------------------------

async function filesOf(entry: any, path: string, files: Map<string, Blob>): Promise<void> {
  if (entry.isFile) files.set(path, await new Promise<File>((yes, no) => entry.file(yes, no)));
  else {
    const reader = entry.createReader();
    for (;;) {
      const some: any[] = await new Promise((yes, no) => reader.readEntries(yes, no));
      if (!some.length) break;
      await Promise.all(some.map((one) => filesOf(one, path ? `${path}/${one.name}` : one.name, files)));
    }
  }
}

document.addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("drop"); });
document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("drop"); });
document.addEventListener("drop", async (event) => {
  event.preventDefault();
  document.body.classList.remove("drop");
  const entry = event.dataTransfer?.items[0]?.webkitGetAsEntry();
  if (!entry) return;
  try {
    const files = new Map<string, Blob>();
    const isPack = entry.isFile;
    await filesOf(entry, isPack ? entry.name : "", files);
    const view = isPack && entry.name.endsWith(".png") ? await viewIn(files.get(entry.name)!) : null;
    if (view) { await open(view, null); return; }
    if (isPack && entry.name.endsWith(".json")) { await open(JSON.parse(await files.get(entry.name)!.text()), null); return; }
    await open({}, { files, name: isPack ? entry.name : "" }, entry.name);
  } catch (error) { report(plainFault(error)); byId("status").textContent = "This is no store that can be read."; }
});

// --- sizes, themes, and the hook -----------------------------------------------------------------------------------

function resize(): void {
  const ratio = Math.min(2, devicePixelRatio || 1);
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
  canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio));
  scene?.touch();
}

Object.defineProperty(window, "zvfViewer", { value: Object.freeze({
  version: 1,
  ready: ready.promise,
  idle: () => scene?.idle() ?? Promise.resolve(),
  marks: () => ({ ...marks }),
  stats: () => scene?.statistics() ?? null,
  getState: () => (scene ? structuredClone(scene.state) : null),
  setState,
  url: () => location.href.split("#")[0] + encodeAddress(addressState()),
  pick: pickAt,
  project: (points: Vec3[]) => { const ratio = canvas.width / canvas.clientWidth, view = scene!.view(); return points.map((point) => { const at = project(view, point); return at && [at[0] / ratio, at[1] / ratio, at[2]]; }); },
  kinds: () => scene?.info.kinds.map((one) => one.kind) ?? [],
  loadedObjects: (kind?: string) => scene?.loadedObjects(kind) ?? [],
  search: (text: string) => scene!.pool.ask(0, "search", [text]).done.then((found: any[]) => found.map(({ kind, object }) => ({ kind, object }))),
  frame: () => { const start = performance.now(); scene!.frame(); renderer.finish(); return performance.now() - start; },
  screenshot,
  errors: () => structuredClone(faults),
}) });

async function begin(): Promise<void> {
  buildHelp();
  if (innerWidth <= 640) togglePanel();
  renderer = new Renderer(canvas);
  resize();
  new ResizeObserver(resize).observe(canvas);
  const { state, fault } = decodeAddress(location.hash);
  if (fault) report({ class: "InvalidArgument", key: null, message: fault, hint: null });
  await open(state ?? {}, null);
}

window.addEventListener("hashchange", () => {
  const { state, fault } = decodeAddress(location.hash);
  if (fault) report({ class: "InvalidArgument", key: null, message: fault, hint: null });
  else if (state) void open(state, null).catch(failed);
});

function failed(error: unknown): void {
  const fault = plainFault(error), store = [(decodeAddress(location.hash).state?.store ?? "") as string | string[]].flat()[0], url = new URL(store, location.href.split("#")[0]).href;
  document.body.classList.add("empty");
  faults.push(fault);
  if (fault.class === "Io") void explainHost(null, fault);
  else if (fault.class === "NotFound") showFault({ ...fault, message: `There is no store at ${url}`, hint: fault.key ? `it has no ${fault.key}` : null }, null);
  else showFault(fault, null);
  byId("status").textContent = "The store cannot be opened.";
  // Where this page is one of a server, that lists what it has.
  if (/\/view\/$/.test(location.pathname)) byId("status").append(" ", Object.assign(document.createElement("a"), { href: "../", textContent: "All stores" }));
  ready.reject(error);
}
ready.promise.catch(() => {});
begin().catch(failed);
