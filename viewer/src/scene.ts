// What is shown of one store: its trees, cells under way, budgets, colours, and what was picked.

import { makeView, project, type View } from "./camera.ts";
import { colourCell, NO_OBJECT, type CellData } from "./colour.ts";
import { depthRange, Renderer, type DrawItem } from "./gl.ts";
import { dot, rotate, type Vec3 } from "./math.ts";
import { formOf, storeOf, StoreFault, type Fault, type StorePool } from "./pool.ts";
import { idTest, type Layer, type State } from "./state.ts";
import { cutTree, Tree, type LevelInfo, type Node, type Sample } from "./tree.ts";
import { namesOf, sampleValues, summarize, type Summary } from "./values.ts";

export interface AttributeInfo { scope: string; name: string; key: string; dtype: string; width: number; categories: unknown[] | null }
export interface KindInfo { kind: string; levels: LevelInfo[]; attributes: AttributeInfo[]; objects: number | null }
export interface StoreInfo {
  version: string;
  axes: { name: string; type: string; unit: string | null }[];
  bounds: [number[], number[]];
  kinds: KindInfo[];
  groups: { count: number; list: { group: number; name: string; store?: string }[] } | null;
  faults: { level: number; error: Fault }[];
  notices: string[];
}

export interface Picked { kind: string; object: string | null; level: number; cell: number[]; row: number; position: number[]; attributes: Record<string, unknown>; exact: boolean }

/** Cells that are loaded at once. More are begun when few are left: cells that are asked for together are joined in requests. */
const LOADS_AT_ONCE = 64;
const FEW_LOADS = 16;
/** Whole numbers with more values than this are no categories, unless the state says so. */
const MAX_CODES = 24;

/** Whether the values of an attribute are whole numbers. */
const isWhole = (about: AttributeInfo | undefined): boolean => !!about && about.width === 1 && (!!about.categories || /^([|<>]?[iu]\d|u?int|bool)/.test(about.dtype));

export class Scene {
  readonly pool: StorePool;
  readonly info: StoreInfo;
  readonly trees = new Map<string, Tree>();
  readonly renderer: Renderer;
  readonly faults: Fault[] = [];
  readonly groups = new Map<number, { store: string; has: (id: bigint) => boolean }>();
  readonly #summaries = new Map<string, { key: string; version: number; summary: Summary }>();
  /** Counts the cells of each kind that came or went. */
  readonly #versions = new Map<string, number>();
  /** What the cells of each kind are coloured by. */
  readonly #coloured = new Map<string, string>();
  readonly frames: number[] = [];
  state: State;
  drawn: { node: Node; tree: Tree }[] = [];
  movedAt = 0;
  firstPicture = 0;
  settled = 0;
  share = 1;
  /** How many vertices the condition leaves, as it is said. */
  counted = "";
  /** Whether the cells that are drawn are outlined. */
  inspects = false;
  /** The part of the picture's width that nothing lies over. */
  freeWidth = 0.9;
  onChange: () => void = () => {};
  onStale: () => void = () => {};
  onFault: (fault: Fault) => void = () => {};
  onNotice: (text: string) => void = () => {};
  #loading = new Set<Node>();
  #frame = 0;
  #dirty = true;
  #held = 0;
  #full = 1;
  #idle: (() => void)[] = [];
  #decoded = 0;
  #lastFrame = 0;

  constructor(pool: StorePool, info: StoreInfo, renderer: Renderer, state: State) {
    this.pool = pool;
    this.info = info;
    this.renderer = renderer;
    this.state = state;
  }

  async start(): Promise<void> {
    const axes = this.info.axes.length, shown = this.state.space.shown;
    this.trees.clear();
    await Promise.all(this.info.kinds.map(async (kind) => {
      const cells = new Map<number, Int32Array>();
      await Promise.all(kind.levels.map(async (level) => {
        try { cells.set(level.level, await this.pool.ask(level.level, "cells", [kind.kind, level.level]).done); }
        catch (error) { this.report(error); }
      }));
      this.trees.set(kind.kind, new Tree(kind.kind, kind.levels, cells, axes, shown));
    }));
    if (!this.groups.size) await this.loadGroups();
  }

  report(error: unknown): void {
    const fault: Fault = error instanceof StoreFault ? error.fault : { class: "Io", key: null, message: (error as Error)?.message ?? String(error), hint: null };
    if (fault.class === "Cancelled" || this.faults.some((known) => known.message === fault.message)) return;
    this.faults.push(fault);
    this.onFault(fault);
  }

  /** The largest side of what the store says it holds. */
  extent(): number {
    const [low, high] = this.bounds();
    return Math.max(1e-12, Math.hypot(high[0] - low[0], high[1] - low[1], high[2] - low[2]));
  }

  bounds(): [Vec3, Vec3] {
    const [low, high] = this.info.bounds, { shown } = this.state.space, side = (list: number[], i: number) => list[shown[i]] ?? 0;
    return [[side(low, 0), side(low, 1), side(low, 2)], [side(high, 0), side(high, 1), side(high, 2)]];
  }

  view(width = this.renderer.canvas.width, height = this.renderer.canvas.height): View {
    return makeView(this.state.camera, width, height, this.extent());
  }

  layer(kind: string): Layer { return this.state.layers[kind]; }

  /** Something has changed: a frame is drawn, and cells are chosen anew. */
  touch(moved = false): void {
    if (moved) this.movedAt = performance.now();
    this.#dirty = true;
    if (!this.#frame) this.#frame = requestAnimationFrame(() => { this.#frame = 0; this.frame(); });
  }

  get moving(): boolean { return performance.now() - this.movedAt < 180; }

  frame(): void {
    if (this.renderer.gl.isContextLost()) return;
    // Asked before the frame: a long one would outlast the movement that it is part of.
    const start = performance.now(), view = this.view(), moving = this.moving;
    this.choose(view);
    const items = this.items(moving ? this.share : 1);
    const distance = this.state.camera.distance, reach = this.extent() / 2;
    depthRange[0] = Math.max(0, distance - reach); depthRange[1] = distance + reach;
    this.renderer.draw(view, items, this.state, this.planes(view), false, null, moving);
    this.renderer.finish();
    const took = performance.now() - start;
    this.frames.push(took);
    if (this.frames.length > 240) this.frames.shift();
    // While the camera moves, as much of each cell is drawn as fits in a tenth of a second.
    if (moving) {
      this.share = Math.min(1, Math.max(0.02, this.share * Math.min(1.5, Math.max(0.4, 80 / took))));
      this.touch();
    } else if (this.share < 1 && this.#lastFrame !== this.movedAt) {
      this.#lastFrame = this.movedAt;
      this.touch();
    }
    if (!this.firstPicture && items.length) this.firstPicture = performance.now();
    this.#dirty = false;
    this.settle();
    this.onChange();
    if (moving) setTimeout(() => this.touch(), 200);
  }

  isIdle(): boolean { return !this.#loading.size && !this.#dirty && !this.moving; }

  settle(): void {
    if (!this.isIdle()) return;
    if (this.pool.statistics().counters.changed) this.onStale();
    // Colours by the range of what is there now, and not of what came first.
    for (const kind of this.trees.keys()) if (this.#coloured.has(kind) && this.#coloured.get(kind) !== this.#colouring(kind)) return this.recolour(kind);
    if (!this.settled) this.settled = performance.now();
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  idle(): Promise<void> {
    this.touch();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  planes(view: View): Float32Array {
    const { box, planes } = this.state.clip, list: number[] = [], eye = view.eye;
    // Relative to the eye, as positions are.
    const push = (normal: Vec3, offset: number) => list.push(normal[0], normal[1], normal[2], offset - (normal[0] * eye[0] + normal[1] * eye[1] + normal[2] * eye[2]));
    if (box) for (let i = 0; i < Math.min(3, box[0].length); i++) {
      const unit: Vec3 = [0, 0, 0];
      unit[i] = 1; push(unit, box[1][i]);
      unit[i] = -1; push([-0 + (i === 0 ? -1 : 0), i === 1 ? -1 : 0, i === 2 ? -1 : 0], -box[0][i]);
    }
    for (const plane of planes) push(plane.normal as Vec3, plane.offset);
    return Float32Array.from(list);
  }

  /** Chooses what is drawn and asks for what is missing. */
  choose(view: View): void {
    const now = performance.now(), drawn: { node: Node; tree: Tree }[] = [], want: { node: Node; tree: Tree }[] = [];
    const visible = [...this.trees.values()].filter((tree) => this.layer(tree.kind)?.visible);
    const clip = this.state.clip.box ? ([this.state.clip.box[0].concat([0, 0]).slice(0, 3), this.state.clip.box[1].concat([0, 0]).slice(0, 3)] as [Vec3, Vec3]) : null;
    // What memory does not hold is not asked for: the target rises instead.
    const points = (this.state.budget.points * this.#full) / Math.max(1, visible.length);
    for (const tree of visible) {
      const cut = cutTree(tree, view, { level: this.state.level, error: this.state.error, points, clip, planes: this.state.clip.planes, ranges: this.state.space.ranges });
      for (const node of cut.draw) { node.lastUsed = now; drawn.push({ node, tree }); }
      for (const node of cut.want) want.push({ node, tree });
    }
    this.drawn = drawn;
    want.sort((a, b) => b.node.priority - a.node.priority);
    const wanted = new Set(want.map(({ node }) => node));
    for (const node of this.#loading) if (!wanted.has(node) && !node.isRoot) { this.pool.cancel(node.token); }
    const most = this.#loading.size <= FEW_LOADS ? LOADS_AT_ONCE : 0;
    for (const { node, tree } of want) {
      if (this.#loading.size >= most) break;
      if (!this.#loading.has(node)) void this.load(node, tree);
    }
    this.evict();
  }

  async load(node: Node, tree: Tree): Promise<void> {
    const layer = this.layer(tree.kind), columns = this.columns(layer);
    const where = this.condition(), { limit, share } = node;
    this.#loading.add(node);
    const begun = performance.now();
    const { done, token } = this.pool.ask(hashCell(node.cell, node.level), "loadCell", [{ kind: tree.kind, level: node.level, cell: node.cell, where, columns, axes: this.state.space.shown, ...(Number.isFinite(limit) ? { limit } : {}), ...(share < 1 ? { share } : {}) }]);
    node.token = token;
    try {
      const data: CellData = await done;
      for (const fault of data.faults) this.report(new StoreFault(fault));
      if (this.trees.get(tree.kind) !== tree || where !== this.condition() || columns.join() !== this.columns(this.layer(tree.kind)).join()) return; // asked for before a change
      this.#decoded += bytesOf(data);
      if (node.data) this.drop(node);
      node.took = performance.now() - begun;
      node.loadedLimit = limit;
      node.loadedShare = share;
      this.place(node, tree, data);
    } catch (error) {
      const fault = error instanceof StoreFault ? error.fault : null;
      if (fault?.class !== "Cancelled") {
        node.fault = fault ?? { class: "Io", key: null, message: String(error), hint: null };
        this.report(error);
      }
    } finally {
      this.#loading.delete(node);
      this.touch();
    }
  }

  /** The condition for vertices: that of the state, and the part of the axes that are not drawn. */
  condition(): string {
    const { where, space } = this.state, parts = where.trim() ? [`(${where})`] : [];
    for (const [axis, [low, high]] of Object.entries(space.ranges)) {
      const { name } = this.info.axes[Number(axis)];
      parts.push(`${name} >= ${low} and ${name} < ${high}`);
    }
    return parts.length === 1 && where.trim() ? where : parts.join(" and ");
  }

  columns(layer: Layer): string[] {
    return layer.colour.by === "attribute" && layer.colour.attribute && layer.colour.scope !== "axis" ? [layer.colour.scope === "object" ? `object.${layer.colour.attribute}` : layer.colour.attribute] : [];
  }

  place(node: Node, tree: Tree, data: CellData): void {
    if (formOf(tree.kind) === "point_cloud") shuffle(data);
    node.data = data;
    this.#versions.set(tree.kind, (this.#versions.get(tree.kind) ?? 0) + 1);
    node.sample = this.#sample(tree.kind, data);
    const layer = this.layer(tree.kind);
    if (!this.#coloured.has(tree.kind)) this.#coloured.set(tree.kind, "");
    node.gpu = this.renderer.upload(data, this.colours(tree, data), tree.kind, this.isWide(layer), layer.wireframe);
    node.bytes = bytesOf(data) + node.gpu.bytes;
    this.#held += node.bytes;
    if (node.gpu.normals) this.#joinNormals(tree, node);
  }

  /** Vertices that two cells draw get the normal that their own cell gives them: it knows all faces around them. */
  #joinNormals(tree: Tree, node: Node): void {
    const axes = this.info.axes.length, own = node.cell.join();
    const take = (to: Node, from: Node, key: string): void => {
      const { data } = to, { rows, normals, ownVertices } = from.data!;
      for (const ghost of ghostsOf(data!, axes).get(key) ?? []) {
        const at = findRow(rows, ownVertices, data!.rows[ghost]);
        if (at >= 0) for (let k = 0; k < 3; k++) data!.normals![ghost * 4 + k] = normals![at * 4 + k];
      }
      this.renderer.shade(to.gpu!, data!.normals!);
    };
    for (const other of tree.byLevel.get(node.level) ?? []) {
      const key = other.cell.join();
      if (other === node || !other.data?.normals || !ghostsOf(node.data!, axes).has(key)) continue;
      take(node, other, key);
      take(other, node, own);
    }
  }

  isWide(layer: Layer): boolean { return layer.width * Math.min(2, globalThis.devicePixelRatio || 1) > 1.01; }

  /** The values that a kind is coloured by, of the vertices of a cell. */
  values(kind: string, data: CellData): { width: number; values: Float32Array } | undefined {
    const { by, scope, attribute } = this.layer(kind).colour;
    if (by !== "attribute") return undefined;
    if (scope !== "axis") return data.attributes[0];
    const axis = this.state.space.shown.findIndex((shown) => this.info.axes[shown].name === attribute), values = new Float32Array(data.slots.length);
    for (let i = 0; i < values.length; i++) values[i] = axis < 0 ? NaN : data.origin[axis] + data.positions[i * 3 + axis];
    return { width: 1, values };
  }

  #sample(kind: string, data: CellData): Sample {
    return sampleValues(this.values(kind, data), data.ownVertices, isWhole(this.attribute(kind)));
  }

  /** What is known of the values that a kind is coloured by: of its coarsest cells, which are always there, or of all. */
  summary(kind: string): Summary {
    const { by, scope, attribute } = this.layer(kind).colour, key = `${by} ${scope} ${attribute}`, version = this.#versions.get(kind) ?? 0, known = this.#summaries.get(kind);
    if (known && known.key === key && known.version === version) return known.summary;
    const tree = this.trees.get(kind), withData = (nodes: Node[]) => nodes.filter((node) => node.data && node.sample);
    const roots = tree ? withData(tree.roots) : [], nodes = roots.length || !tree ? roots : withData([...tree.byLevel.values()].flat());
    const summary = summarize(nodes.map((node) => node.sample!));
    this.#summaries.set(kind, { key, version, summary });
    return summary;
  }

  range(kind: string): [number, number] {
    return this.layer(kind).colour.range ?? this.summary(kind).range;
  }

  /** The names of the whole numbers that a kind is coloured by, where they are categories. */
  categories(kind: string): { code: number; name: string; count: number }[] | null {
    const { colour } = this.layer(kind), about = this.attribute(kind);
    if (colour.by !== "attribute" || !about || colour.categories === false) return null;
    // Who gives numbers a range means a ramp.
    if (colour.categories === null && colour.range && !about.categories) return null;
    const { codes } = this.summary(kind);
    if (about.categories) return about.categories.map((name, code) => ({ code, name: String(name), count: codes?.get(code) ?? 0 }));
    if (!codes || !(colour.categories || codes.size <= MAX_CODES)) return null;
    const names = namesOf(about.name);
    return [...codes].sort(([a], [b]) => a - b).map(([code, count]) => ({ code, name: names[code] ?? String(code), count }));
  }

  /** What the colours of a kind depend on, apart from its state. */
  #colouring(kind: string): string {
    return this.layer(kind).colour.by === "attribute" ? `${this.range(kind)} ${!!this.categories(kind)}` : "";
  }

  attribute(kind: string): AttributeInfo | undefined {
    const { attribute, scope } = this.layer(kind).colour;
    const all = this.info.kinds.find((info) => info.kind === kind)?.attributes ?? [];
    if (scope === "axis") return { scope, name: attribute!, key: "", dtype: "f8", width: 1, categories: null };
    return all.find((info) => info.name === attribute && (scope ? info.scope === scope : true));
  }

  colours(tree: Tree, data: CellData): Uint8Array {
    const layer = this.layer(tree.kind), { objects, selected } = this.state;
    const named = idTest(objects.ids), store = storeOf(tree.kind), inGroups = (id: bigint) => objects.groups.some((group) => this.groups.get(group)?.store === store && this.groups.get(group)!.has(id));
    const isVisible = (id: bigint | null) => {
      if (objects.mode === "all") return true;
      const listed = id !== null && (named(id) || inGroups(id));
      return objects.mode === "only" ? listed : !listed;
    };
    return colourCell(data, {
      layer, isVisible, groupOf: (id) => this.groupOf(id, store), range: this.range(tree.kind), values: this.values(tree.kind, data),
      isUnit: this.summary(tree.kind).most <= 1.0001, categories: !!this.categories(tree.kind), selected: selected && selected.kind === tree.kind ? BigInt(selected.object) : null,
    });
  }

  groupOf(id: bigint, store: string): number | null {
    for (const [group, of] of this.groups) if (of.store === store && of.has(id)) return group;
    return null;
  }

  async loadGroups(): Promise<void> {
    const list = (this.info.groups?.list ?? []).slice(0, 256);
    await Promise.all(list.map(async ({ group, store = "" }) => {
      try {
        const members = await this.pool.ask(group, "group", [group]).done;
        if (members.range) { const [start, stop] = members.range.map(BigInt); this.groups.set(group, { store, has: (id) => id >= start && id < stop }); }
        else { const ids = new Set<bigint>(members.ids.map(BigInt)); this.groups.set(group, { store, has: (id) => ids.has(id) }); }
      } catch (error) { this.report(error); }
    }));
  }

  recolour(kind?: string): void {
    for (const tree of this.trees.values()) if (!kind || tree.kind === kind) {
      const { by, scope, attribute } = this.layer(tree.kind).colour, key = `${by} ${scope} ${attribute}`;
      if (this.#summaries.get(tree.kind)?.key !== key) {
        for (const nodes of tree.byLevel.values()) for (const node of nodes) if (node.data) node.sample = this.#sample(tree.kind, node.data);
      }
      this.#coloured.set(tree.kind, this.#colouring(tree.kind));
      for (const nodes of tree.byLevel.values()) for (const node of nodes) if (node.data && node.gpu) this.renderer.recolour(node.gpu, node.data, this.colours(tree, node.data));
    }
    this.touch();
  }

  /** Asks again for cells that could not be read. */
  retry(): void {
    this.faults.length = 0;
    this.pool.forget();
    for (const tree of this.trees.values()) for (const nodes of tree.byLevel.values()) for (const node of nodes) node.fault = null;
    this.touch();
  }

  /** Lets go of all cells of a kind, which are then asked for anew. */
  reload(kind?: string, keepData = false): void {
    for (const tree of this.trees.values()) if (!kind || tree.kind === kind) for (const nodes of tree.byLevel.values()) for (const node of nodes) {
      const data = node.data;
      if (node.loading || this.#loading.has(node)) this.pool.cancel(node.token);
      if (data) this.drop(node);
      this.#versions.set(tree.kind, (this.#versions.get(tree.kind) ?? 0) + 1);
      node.fault = null;
      if (!keepData) node.stored = null;
      if (keepData && data) this.place(node, tree, data);
    }
    this.touch();
  }

  /** Draws other axes: all cells lie elsewhere then. */
  async changeAxes(): Promise<void> {
    this.reload();
    this.drawn = [];
    await this.start();
    this.touch();
  }

  /** Makes the buffers of a context anew. */
  restore(): void {
    this.renderer.restore();
    this.reload(undefined, true);
  }

  drop(node: Node): void {
    if (node.gpu) this.renderer.remove(node.gpu);
    this.#held -= node.bytes;
    node.data = node.gpu = node.sample = null;
    node.bytes = 0;
  }

  /** Lets go of what was not drawn for longest, never of what is drawn or of the coarsest level. */
  evict(): void {
    // The readers' memory is part of the budget, but some of it is always left for what is drawn.
    const { bytes } = this.state.budget, cap = Math.max(bytes * 0.3, bytes * 0.95 - this.#readersBytes());
    if (this.#held <= cap) { this.#full = Math.min(1, this.#full * 1.02); return; }
    const drawn = new Set(this.drawn.map(({ node }) => node)), candidates: Node[] = [];
    for (const tree of this.trees.values()) for (const nodes of tree.byLevel.values()) for (const node of nodes) if (node.data && !node.isRoot && !drawn.has(node)) candidates.push(node);
    candidates.sort((a, b) => a.lastUsed - b.lastUsed);
    for (const node of candidates) { if (this.#held <= cap * 0.9) return; this.drop(node); }
    if (this.#held > cap) this.#full = Math.max(0.05, this.#full * 0.8);
  }

  /** What may be missing of what is shown. */
  missing(): string[] {
    const hidesLinks = this.drawn.some(({ node, tree }) => node.data?.complete === false && ["graph", "skeleton", "mesh"].includes(formOf(tree.kind)));
    return [...new Set(this.info.notices), ...(hidesLinks ? ["Edges and faces between chunks that are not neighbours: this host does not list what it has, so they cannot be found."] : [])];
  }

  #readersBytes(): number { const { wasm, cache } = this.pool.statistics(); return wasm + cache; }

  items(share: number): DrawItem[] {
    const items: DrawItem[] = [], { selected } = this.state;
    for (const { node, tree } of this.drawn) if (node.gpu && node.data) items.push({ gpu: node.gpu, data: node.data, layer: this.layer(tree.kind), share, coarseness: tree.levels.findIndex((info) => info.level === node.level), isSelected: selected?.kind === tree.kind && node.data.ids.includes(BigInt(selected.object)), spacing: this.#spacing(tree, node) });
    return items;
  }

  /** About how far points of a cell are from each other: its points on a sheet through its box. */
  #spacing(tree: Tree, { low, high, data }: Node): number {
    if (formOf(tree.kind) !== "point_cloud" || !data) return 0;
    const sides = [0, 1, 2].map((i) => high[i] - low[i]).sort((a, b) => b - a);
    return Math.sqrt((sides[0] * (sides[1] || sides[0])) / Math.max(64, data.ownVertices)); // a few are no sheet
  }

  /** What is drawn at a pixel of the canvas, as far as the page has it. */
  peek(x: number, y: number): { picked: Picked; node: Node; value: string } | null {
    const view = this.view(), nodes = this.drawn.filter(({ node }) => node.gpu && node.data);
    const hit = this.renderer.pick(view, this.items(1), this.planes(view), x, y);
    if (!hit) return null;
    const { node, tree } = nodes[hit.item], data = node.data!;
    const row = this.#nearestVertex(view, data, node.gpu!.wide ? [data.segments[hit.vertex * 2], data.segments[hit.vertex * 2 + 1]] : this.#around(data, hit.vertex), x, y);
    const position: Vec3 = [0, 1, 2].map((i) => data.origin[i] + data.positions[row * 3 + i]) as Vec3;
    const slot = data.slots[row], object = slot === NO_OBJECT ? null : String(data.ids[slot]);
    // The far end of a step into another chunk has its row there.
    const axes = this.info.axes.length, ghost = row - data.ownVertices, cell = ghost < 0 ? node.cell : Array.from(data.ghostCells.subarray(ghost * axes, (ghost + 1) * axes));
    const values = this.values(tree.kind, data), own = values ? Array.from(values.values.subarray(row * values.width, (row + 1) * values.width)) : [];
    const name = this.categories(tree.kind)?.find(({ code }) => code === own[0])?.name;
    const value = own.length ? `${this.layer(tree.kind).colour.attribute} ${name ?? own.map((one) => Number(one.toPrecision(5))).join(", ")}` : "";
    return { node, value, picked: { kind: tree.kind, object, level: node.level, cell, row: data.rows[row], position, attributes: {}, exact: false } };
  }

  /** What is at a pixel of the canvas, with everything that the store says of it. */
  async pick(x: number, y: number): Promise<Picked | null> {
    const found = this.peek(x, y);
    if (found) await this.describe(found.picked, found.node);
    return found?.picked ?? null;
  }

  /** The vertices of the elements that are drawn up to this one. */
  #around(data: CellData, vertex: number): number[] {
    const found = new Set([vertex]);
    if (data.faces.length) { for (let f = 0; f < data.faces.length; f += 3) if (data.faces[f + 2] === vertex) { found.add(data.faces[f]); found.add(data.faces[f + 1]); } }
    else for (let s = 0; s < data.segments.length; s += 2) if (data.segments[s + 1] === vertex) found.add(data.segments[s]);
    return [...found];
  }

  #nearestVertex(view: View, data: CellData, rows: number[], x: number, y: number): number {
    let best = rows[0], nearest = Infinity;
    for (const row of rows) {
      const at = project(view, [0, 1, 2].map((i) => data.origin[i] + data.positions[row * 3 + i]) as Vec3);
      const distance = at ? Math.hypot(at[0] - x, at[1] - y) : Infinity;
      if (distance < nearest) { nearest = distance; best = row; }
    }
    return best;
  }

  /** Adds what the full data says: attributes of the object, then of the vertex, where this is a vertex of level 0. */
  async describe(picked: Picked, { loadedLimit, loadedShare }: Node): Promise<void> {
    const finest = this.trees.get(picked.kind)!.levels[0].level;
    try {
      if (picked.object !== null) {
        const object = await this.pool.ask(0, "object", [picked.kind, finest, picked.object, false]).done;
        Object.assign(picked.attributes, object.attributes);
      }
      const info = this.info.kinds.find((kind) => kind.kind === picked.kind)!;
      if (info.attributes.some((attribute) => attribute.scope === "vertex")) {
        const columns = info.attributes.filter((attribute) => attribute.scope === "vertex").map((attribute) => attribute.key);
        const cell: CellData = await this.pool.ask(hashCell(picked.cell, picked.level), "loadCell", [{ kind: picked.kind, level: picked.level, cell: picked.cell, where: this.condition(), columns, axes: this.state.space.shown, ...(Number.isFinite(loadedLimit) ? { limit: loadedLimit } : {}), ...(loadedShare < 1 ? { share: loadedShare } : {}) }]).done;
        const at = cell.rows.subarray(0, cell.ownVertices).indexOf(picked.row);
        if (at >= 0) for (const attribute of cell.attributes) {
          const values = Array.from(attribute.values.subarray(at * attribute.width, (at + 1) * attribute.width)), about = info.attributes.find((a) => a.key === attribute.name);
          picked.attributes[attribute.name] = values.length === 1 ? (about?.categories?.[values[0]] ?? values[0]) : values;
        }
      }
      picked.exact = picked.level === finest;
    } catch (error) { this.report(error); }
  }

  statistics() {
    const shown = { vertices: 0, segments: 0, faces: 0, cells: this.drawn.length, thinned: 0 }, levels = new Set<number>();
    for (const { node } of this.drawn) if (node.data) {
      const counted = countShown(node.data, this.colours(this.trees.get(this.drawn.find((d) => d.node === node)!.tree.kind)!, node.data));
      shown.vertices += counted.vertices; shown.segments += counted.segments; shown.faces += counted.faces;
      if (node.data.ownVertices < node.data.storedVertices) shown.thinned++;
      levels.add(node.level);
    }
    const { counters, wasm, cache, recent } = this.pool.statistics(), sorted = [...this.frames].sort((a, b) => a - b);
    let gpu = 0, cpu = 0;
    for (const tree of this.trees.values()) for (const nodes of tree.byLevel.values()) for (const node of nodes) if (node.gpu) { gpu += node.gpu.bytes; cpu += node.bytes - node.gpu.bytes; }
    const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
    const { transferred, ...requests } = counters;
    return {
      shown, share: this.share, levels: [...levels].sort((a, b) => a - b), ms: { last: this.frames[this.frames.length - 1] ?? 0, p50: at(0.5), p95: at(0.95) },
      requests, recent, bytes: { transferred, decoded: this.#decoded, gpu, cpu, wasm, cache }, budget: { ...this.state.budget },
    };
  }

  /** A cell, as it was loaded. */
  describeCell({ level, cell, data, bytes, took }: Node): string {
    return `level ${level}, cell ${cell.join(".")}: ${data?.ownVertices ?? 0} of ${data?.storedVertices ?? 0} vertices, ${Math.ceil(bytes / 1024)} kB, ${took.toFixed(0)} ms`;
  }

  /** The cells of each level, those that took longest, those under way, and the last requests, a line each. */
  inspect(): string[] {
    const lines: string[] = [], slowest = this.drawn.map(({ node }) => node).sort((a, b) => b.took - a.took).slice(0, 4);
    for (const tree of this.trees.values()) for (const level of tree.levels.map((info) => info.level)) {
      const nodes = this.drawn.filter((one) => one.tree === tree && one.node.level === level).map(({ node }) => node), all = tree.byLevel.get(level)?.length ?? 0;
      if (nodes.length) lines.push(`${tree.kind}, level ${level}: ${nodes.length} of ${all} cells drawn`);
    }
    const { recent } = this.pool.statistics();
    return [...lines, "slowest cells", ...slowest.map((node) => ` ${this.describeCell(node)}`), ...[...this.#loading].slice(0, 4).map((node) => ` under way: level ${node.level}, cell ${node.cell.join(".")}`), ...(recent.length ? ["last requests"] : []), ...recent.map(({ key, status, bytes, ms }) => ` ${status} ${key} ${bytes.toLocaleString("en")} bytes, ${ms.toFixed(0)} ms`)];
  }

  /** Objects of the cells that are drawn whose id has `part` in it: some of them, and how many there are. */
  objectsInView(part: string, most: number): { list: { kind: string; object: string }[]; total: number } {
    const list: { kind: string; object: string }[] = [];
    let total = 0;
    for (const tree of this.trees.values()) {
      const ids = new Set<bigint>();
      for (const { node, tree: of } of this.drawn) if (of === tree) for (const id of node.data?.ids ?? []) ids.add(id);
      const found = [...ids].filter((id) => !part || String(id).includes(part)).sort((a, b) => (a < b ? -1 : 1));
      total += found.length;
      for (const id of found.slice(0, most - list.length)) list.push({ kind: tree.kind, object: String(id) });
    }
    return { list, total };
  }

  /** A box of the axes that are drawn, as one of all axes of the store. */
  storeBox(box: [number[], number[]]): [number[], number[]] {
    const { shown, ranges } = this.state.space;
    const side = (at: 0 | 1) => this.info.axes.map((_, axis) => { const i = shown.indexOf(axis); return i >= 0 ? box[at][i] : (ranges[axis]?.[at] ?? this.info.bounds[at][axis]); });
    return [side(0), side(1)];
  }

  /** The objects of the cells that are drawn. */
  loadedObjects(kind?: string): string[] {
    const ids = new Set<string>();
    for (const { node, tree } of this.drawn) if (node.data && (!kind || tree.kind === kind)) {
      const colours = this.colours(tree, node.data), seen = new Set<number>();
      node.data.slots.forEach((slot, i) => { if (slot !== NO_OBJECT && colours[i * 4 + 3] !== 0 && i < node.data!.ownVertices) seen.add(slot); });
      for (const slot of seen) ids.add(String(node.data.ids[slot]));
    }
    return [...ids];
  }

  /** A camera that sees a box. */
  cameraFor(low: Vec3, high: Vec3, orientation = this.state.camera.orientation): State["camera"] {
    const camera = this.state.camera, target = [0, 1, 2].map((i) => (low[i] + high[i]) / 2) as Vec3;
    const canvas = this.renderer.canvas, aspect = canvas.width / Math.max(1, canvas.height), half = [0, 1, 2].map((i) => (high[i] - low[i]) / 2) as Vec3;
    const right = rotate(orientation, [1, 0, 0]), up = rotate(orientation, [0, 1, 0]), back = rotate(orientation, [0, 0, 1]);
    const tangent = Math.tan((camera.fov * Math.PI) / 360), across = tangent * aspect * this.freeWidth, along = tangent * 0.88, isFlat = camera.projection === "orthographic";
    let distance = 1e-9;
    // Each corner of the box is within the part of the picture that is free.
    for (let corner = 0; corner < 8; corner++) {
      const at = [0, 1, 2].map((i) => ((corner >> i) & 1 ? half[i] : -half[i])) as Vec3, near = isFlat ? 0 : dot(at, back);
      distance = Math.max(distance, Math.abs(dot(at, right)) / across + near, Math.abs(dot(at, up)) / along + near);
    }
    return { ...camera, target, orientation, distance };
  }

  /** What is shown of each kind, and how far it is from what is stored. */
  detail(): string[] {
    const lines: string[] = [], unit = this.info.axes[this.state.space.shown[0]]?.unit ?? "", { shown } = this.state.space;
    for (const tree of this.trees.values()) {
      const nodes = this.drawn.filter((one) => one.tree === tree);
      if (!nodes.length) continue;
      const levels = [...new Set(nodes.map(({ node }) => node.level))].sort((a, b) => a - b), error = Math.max(...levels.map((level) => tree.error(level)));
      const parts = [`${levels.length > 1 ? "levels" : "level"} ${levels.join(", ")}`];
      parts.push(error > 0 && shown.length ? `within ${Number(error.toPrecision(2))} ${unit}`.trim() : "as stored");
      const share = Math.min(...nodes.map(({ node }) => node.loadedShare)), isThinned = nodes.some(({ node }) => node.data && node.data.ownVertices < node.data.storedVertices);
      if (share < 1) parts.push(`${Math.round(share * 100)} % of the objects`);
      else if (isThinned) parts.push("thinned");
      if (tree.limitedBy || isThinned) parts.push("limited by the budget");
      lines.push(`${this.trees.size > 1 ? `${tree.kind}: ` : ""}${parts.join(", ")}`);
    }
    return lines;
  }
}

/** The vertices of other cells, by the cell that they belong to. */
function ghostsOf(data: CellData, axes: number): Map<string, number[]> {
  if (data.ghostsOf) return data.ghostsOf;
  const found = (data.ghostsOf = new Map<string, number[]>());
  for (let at = 0, ghost = data.ownVertices; at + axes <= data.ghostCells.length; at += axes, ghost++) {
    const key = data.ghostCells.subarray(at, at + axes).join(), list = found.get(key);
    if (list) list.push(ghost); else found.set(key, [ghost]);
  }
  return found;
}

/** Where a row stands among the first of a list, which rise; -1 where it does not. */
function findRow(rows: Uint32Array, count: number, row: number): number {
  let low = 0, high = count;
  while (low < high) { const middle = (low + high) >> 1; if (rows[middle] < row) low = middle + 1; else high = middle; }
  return low < count && rows[low] === row ? low : -1;
}

export function hashCell(cell: number[], level: number): number {
  let hash = level + 1;
  // Neighbours of one shard go to the same worker, so that its index is read once.
  for (const at of cell) hash = (hash * 31 + Math.floor(at / 2) + 7) >>> 0;
  return hash;
}

export function bytesOf(data: CellData): number {
  return data.positions.byteLength + data.slots.byteLength + data.ids.byteLength + data.rows.byteLength + data.segments.byteLength + data.faces.byteLength + data.attributes.reduce((sum, attribute) => sum + attribute.values.byteLength, 0);
}

function countShown(data: CellData, colours: Uint8Array) {
  const own = (i: number) => i < data.ownVertices && colours[i * 4 + 3] !== 0;
  let vertices = 0, segments = 0, faces = 0;
  for (let i = 0; i < data.ownVertices; i++) if (colours[i * 4 + 3] !== 0) vertices++;
  for (let s = 0; s < data.segments.length; s += 2) if (own(data.segments[s])) segments++;
  for (let f = 0; f < data.faces.length; f += 3) if (own(data.faces[f])) faces++;
  return { vertices, segments, faces };
}

/** Orders points by a hash, so that a prefix of them is spread over the cell; always in the same way. */
export function shuffle(data: CellData): void {
  const n = data.ownVertices;
  if (n < 2 || data.segments.length || data.faces.length) return;
  let seed = 2463534242;
  const random = (below: number) => { seed ^= seed << 13; seed >>>= 0; seed ^= seed >>> 17; seed ^= seed << 5; seed >>>= 0; return seed % below; };
  const { positions: p, slots, rows } = data;
  for (let i = n - 1; i > 0; i--) {
    const j = random(i + 1);
    for (let k = 0; k < 3; k++) { const t = p[i * 3 + k]; p[i * 3 + k] = p[j * 3 + k]; p[j * 3 + k] = t; }
    const s = slots[i]; slots[i] = slots[j]; slots[j] = s;
    const r = rows[i]; rows[i] = rows[j]; rows[j] = r;
    for (const { width, values } of data.attributes) for (let k = 0; k < width; k++) { const t = values[i * width + k]; values[i * width + k] = values[j * width + k]; values[j * width + k] = t; }
  }
}

