// The cells of all levels of one kind, and which of them a view wants: the finest that its budget allows, where the
// error that a level states is more pixels than the target.

import { pixelsPerUnit, project, seesBox, type View } from "./camera.ts";
import type { CellData } from "./colour.ts";
import type { GpuCell } from "./gl.ts";
import type { Vec3 } from "./math.ts";
import { formOf, type Fault } from "./pool.ts";

export interface LevelInfo { level: number; vertices: number; error: number | null; additive: boolean; chunkShape: number[]; binShape: number[] | null; chunks: number }

export interface Sample { values: Float32Array; codes: Map<number, number> | null }

export interface Node {
  level: number;
  cell: number[];
  low: Vec3;
  high: Vec3;
  children: Node[];
  parent: Node | null;
  /** The vertices that are stored of it, once it was loaded. */
  stored: number | null;
  isRoot: boolean;
  data: CellData | null;
  gpu: GpuCell | null;
  bytes: number;
  token: number;
  loading: boolean;
  fault: Fault | null;
  lastUsed: number;
  priority: number;
  /** About how many vertices it may have at most, of those that are stored. */
  limit: number;
  /** The limit that its data was asked for with. */
  loadedLimit: number;
  /** A part of the values that it is coloured by, and how often each whole number comes. */
  sample: Sample | null;
  /** The part of its objects that is drawn, and that its data was asked for with. */
  share: number;
  loadedShare: number;
  /** Milliseconds that loading it took. */
  took: number;
}

export class Tree {
  readonly kind: string;
  readonly levels: LevelInfo[];
  readonly roots: Node[] = [];
  readonly byLevel = new Map<number, Node[]>();
  readonly target: number;
  /** Whether all that is seen is of one level: a crack between levels is worse than a coarser level for all. */
  readonly isUniform: boolean;
  /** Whether a crowded level is drawn by some of its objects, whole. */
  readonly isSampled: boolean;
  /** The part of the objects that is drawn. */
  share = 1;
  /** The cells that finer ones stand for, in the last cut. */
  refined = new Set<Node>();
  /** Why the last cut is not as fine as its target asks for; nothing where it is. */
  limitedBy: "" | "budget" = "";

  /** `shown` are the axes that are drawn, out of `axes`. */
  constructor(kind: string, levels: LevelInfo[], cells: Map<number, Int32Array>, axes: number, shown: number[]) {
    this.kind = kind;
    this.levels = [...levels].sort((a, b) => a.level - b.level);
    const form = formOf(kind), isAdditive = levels.some((info) => info.additive);
    this.target = form === "point_cloud" ? 3 : 1.5;
    this.isSampled = !isAdditive && ["streamline", "polyline", "line"].includes(form);
    this.isUniform = this.isSampled || (!isAdditive && form === "mesh");
    for (const info of this.levels) this.byLevel.set(info.level, makeNodes(info, cells.get(info.level) ?? new Int32Array(0), axes, shown));
    this.#link();
  }

  /** A cell of a level lies below the cell of the next coarser one that holds its middle. */
  #link(): void {
    const numbers = this.levels.map((info) => info.level);
    numbers.forEach((number, at) => {
      const nodes = this.byLevel.get(number)!, parentLevel = numbers[at + 1];
      if (parentLevel === undefined) { for (const node of nodes) { node.isRoot = true; this.roots.push(node); } return; }
      const shape = this.levels[at + 1].chunkShape, parents = new Map<string, Node>();
      for (const parent of this.byLevel.get(parentLevel)!) parents.set(parent.cell.join(), parent);
      const own = this.levels[at].chunkShape;
      for (const node of nodes) {
        const key = node.cell.map((c, i) => Math.floor(((c + 0.5) * own[i]) / shape[i])).join();
        const parent = parents.get(key);
        if (parent) { parent.children.push(node); node.parent = parent; }
        else { node.isRoot = true; this.roots.push(node); }
      }
    });
  }

  info(level: number): LevelInfo { return this.levels.find((info) => info.level === level)!; }

  /** How far the geometry of a level is from the full data, in units of the world. */
  error(level: number): number {
    const info = this.info(level);
    if (this.levels[0].level === level) return 0;
    if (info.error !== null && info.error > 0) return info.error;
    const sizes = info.binShape ?? info.chunkShape.map((size) => size / 32);
    return Math.max(...sizes.slice(0, 3));
  }

  /** How many vertices a cell has; before it is loaded, its part of what the coarser cell above it has of its level, less that of
   * the cells beside it that have come; or those of a usual one. */
  vertices(node: Node): number {
    if (node.data) return (node.stored = node.data.storedVertices);
    if (node.stored !== null) return node.stored;
    const info = this.info(node.level), { parent } = node, above = parent && this.info(parent.level).vertices;
    if (parent && above && (parent.data || parent.stored !== null || parent.parent)) {
      const known = parent.children.map(({ data, stored }) => data?.storedVertices ?? stored).filter((count) => count !== null);
      return Math.max(0, (info.vertices * this.vertices(parent)) / above - known.reduce((sum, count) => sum + count, 0)) / (parent.children.length - known.length);
    }
    return info.chunks > 0 ? info.vertices / info.chunks : 0;
  }
}

function makeNodes(info: LevelInfo, cells: Int32Array, axes: number, shown: number[]): Node[] {
  const nodes: Node[] = [], shape = info.chunkShape;
  for (let at = 0; at + axes <= cells.length; at += axes) {
    const cell = Array.from(cells.subarray(at, at + axes));
    const side = (i: number, step: number) => (i < shown.length ? (cell[shown[i]] + step) * shape[shown[i]] : 0);
    nodes.push({
      level: info.level, cell, low: [side(0, 0), side(1, 0), side(2, 0)], high: [side(0, 1), side(1, 1), side(2, 1)], children: [], parent: null, stored: null, isRoot: false,
      data: null, gpu: null, bytes: 0, token: 0, loading: false, fault: null, lastUsed: 0, priority: 0, limit: Infinity, loadedLimit: Infinity, share: 1, loadedShare: 1, sample: null, took: 0,
    });
  }
  return nodes;
}

export interface Cut { draw: Node[]; want: Node[]; }

export interface CutOptions {
  level: "auto" | number;
  error: number | null;
  points: number;
  clip: [Vec3, Vec3] | null;
  planes: { normal: number[]; offset: number }[];
  /** The part of each axis that is shown, by its number. */
  ranges: Record<string, [number, number]>;
}

/** No cell alone takes more of the budget: others would go without. */
const LARGEST_SHARE = 0.25;
/** What is refined stays so until the budget is exceeded by this: what cells have is known better once they have come, and none should
 * come for nothing. */
const KEPT_ROOM = 1.08;
/** Cells keep this many vertices, however crowded they are. */
const FEWEST = 64;

/** Gives each of `nodes`, which are all drawn, its part of a budget, and returns what they take of it. */
function shareBudget(tree: Tree, nodes: Node[], points: number): number {
  let total = 0;
  for (const node of nodes) total += tree.vertices(node);
  const share = total > points ? points / total : 1;
  for (const node of nodes) node.limit = share < 1 ? Math.max(FEWEST, Math.ceil(tree.vertices(node) * share)) : Math.ceil(points);
  return Math.min(total, points);
}

/** A level of at most this many vertices is read without a coarser one before it, which would cost as many requests. */
const LIGHT_VERTICES = 150_000;

/** Whether the cells below a cell are read without it: few points are soon there, and their levels have few arrays. */
const isSkipped = (tree: Tree, { children: [child] }: Node): boolean => !!child && formOf(tree.kind) !== "point_cloud" && !tree.info(child.level).additive && tree.info(child.level).vertices <= LIGHT_VERTICES;

/** Whether it is known how full the cells below a cell are: not before it or a coarser one has come, where these are read. */
function isKnown(tree: Tree, node: Node): boolean {
  if (isSkipped(tree, node)) return true;
  for (let at: Node | null = node; at; at = at.parent) if (at.data || at.stored !== null || at.fault) return true;
  return false;
}

/** Whether a cell has to be asked for: it is not there, or has far fewer or more vertices than it may have. */
function isWanted(node: Node): boolean {
  if (node.fault) return false;
  const { data, limit, loadedLimit, share, loadedShare } = node;
  if (!data || share !== loadedShare) return true;
  const isThin = data.ownVertices < data.storedVertices;
  return (isThin && limit > 2 * loadedLimit) || (data.ownVertices > 1.5 * limit && loadedLimit > 1.5 * limit);
}

/** Which cells are to be drawn now, and which are wanted for it, most urgent first. */
export function cutTree(tree: Tree, view: View, options: CutOptions): Cut {
  const shape = new Map(tree.levels.map((info) => [info.level, info.chunkShape])), ranges = Object.entries(options.ranges).map(([axis, range]) => ({ axis: Number(axis), range }));
  const isInRange = (node: Node) => ranges.every(({ axis, range }) => { const size = shape.get(node.level)![axis], low = node.cell[axis] * size; return low < range[1] && low + size >= range[0]; });
  const visible = (node: Node) => seesBox(view, node.low, node.high) && meets(node, options.clip) && options.planes.every((plane) => isBehind(node, plane)) && isInRange(node);
  if (options.level !== "auto") {
    const level = tree.byLevel.has(options.level) ? options.level : tree.levels[0].level;
    const wanted = (tree.byLevel.get(level) ?? []).filter(visible);
    for (const node of wanted) node.priority = closeness(view, node);
    // A level that was asked for by its number is shown as finely as the budget goes.
    const total = shareBudget(tree, wanted, options.points);
    tree.share = tree.isSampled ? shareOf(wanted.reduce((sum, node) => sum + tree.vertices(node), 0), options.points) : 1;
    tree.limitedBy = total < wanted.reduce((sum, node) => sum + tree.vertices(node), 0) ? "budget" : "";
    if (tree.isSampled) for (const node of wanted) { node.share = tree.share; node.limit = Infinity; }
    wanted.sort((a, b) => b.priority - a.priority);
    return { draw: wanted.filter((node) => node.data), want: wanted.filter(isWanted) };
  }
  const target = options.error ?? tree.target, refined = new Set<Node>();
  tree.limitedBy = "";
  const heap = new Heap();
  const push = (node: Node) => {
    const error = tree.error(node.level) * pixelsPerUnit(view, node.low, node.high);
    node.priority = error * closeness(view, node);
    if (node.children.length && error > target && isKnown(tree, node)) heap.push(node);
  };
  const roots = tree.roots.filter(visible);
  const chosen = tree.isUniform ? refineAlike(tree, view, options.points, target, visible, refined) : 0;
  const most = Math.max(1000, Math.floor(options.points * LARGEST_SHARE));
  let total = tree.isUniform ? 0 : shareBudget(tree, roots, options.points);
  if (!tree.isUniform) for (const root of roots) push(root);
  for (let node = heap.pop(); node; node = heap.pop()) {
    const children = node.children.filter(visible);
    const additive = tree.info(children[0]?.level ?? node.level).additive;
    const gain = children.reduce((sum, child) => sum + Math.min(most, tree.vertices(child)), 0), shown = Math.min(node.limit, tree.vertices(node));
    const cost = gain - (additive ? 0 : shown);
    if (!children.length) continue;
    // What is thinned to less than its coarser cell shows less than that.
    const isThinned = !additive && gain < shown && children.some((child) => tree.vertices(child) > most);
    if (total + cost > options.points * (tree.refined.has(node) ? KEPT_ROOM : 1) || isThinned) { tree.limitedBy = "budget"; continue; }
    total += cost;
    refined.add(node);
    for (const child of children) { child.limit = most; push(child); }
  }
  tree.refined = refined;
  const draw: Node[] = [], want: Node[] = [];
  const complete = (node: Node): boolean => !visible(node) || (refined.has(node) ? node.children.every(complete) : !!node.data || !!node.fault);
  const walk = (node: Node, covered: boolean): void => {
    if (!visible(node)) return;
    const isRefined = refined.has(node);
    const additive = isRefined && tree.info(node.children[0].level).additive;
    if (isWanted(node) && (!isRefined || additive || (node.isRoot && !isSkipped(tree, node)))) { if (node.isRoot) node.priority += 1e12; want.push(node); }
    if (!isRefined) { if (node.data && !covered) draw.push(node); return; }
    const replaced = !additive && complete(node) || (!additive && !node.data);
    if (!replaced && node.data && !covered) draw.push(node);
    for (const child of node.children) walk(child, covered || (!replaced && !additive && !!node.data));
  };
  // A finer cell without a coarser one above it: what it holds is in others of the level that is drawn.
  for (const root of roots) if (root.level >= chosen) walk(root, false);
  want.sort((a, b) => b.priority - a.priority);
  return { draw, want };
}

/** A level that is this much too large is sampled, where its objects can be. */
const LEAST_SHARE = 0.25;

/** Refines all that is visible to one level, and returns it: the coarsest whose error is small enough, or the finest that the budget
 * allows. */
function refineAlike(tree: Tree, view: View, points: number, target: number, visible: (node: Node) => boolean, refined: Set<Node>): number {
  const levels = tree.levels.map((info) => {
    const nodes = tree.byLevel.get(info.level)!.filter(visible), error = tree.error(info.level);
    const most = nodes.reduce((largest, node) => Math.max(largest, pixelsPerUnit(view, node.low, node.high)), 0);
    return { level: info.level, nodes, pixels: error * most, total: Math.min(info.vertices, nodes.reduce((sum, node) => sum + tree.vertices(node), 0)) };
  }).reverse();
  const room = tree.isSampled ? points / LEAST_SHARE : points;
  let chosen = levels[0];
  // Coarsest first; a level that does not fit, or of which too little is known, ends the search.
  for (const next of levels.slice(1)) {
    if (!tree.byLevel.get(chosen.level)!.every((node) => isKnown(tree, node) || !visible(node))) break;
    if (chosen.pixels <= target || !next.nodes.length) break;
    if (next.total > room) { tree.limitedBy = "budget"; break; }
    chosen = next;
  }
  if (!chosen) return 0;
  const share = shareOf(chosen.total, points);
  // A little more or less room changes nothing: all cells would be asked for again.
  if (!tree.isSampled) tree.share = 1;
  else if (share === 1 || share < tree.share || share > tree.share * 1.5) tree.share = share;
  if (tree.share < 1) tree.limitedBy = "budget";
  for (const { level, nodes, total } of levels) {
    for (const node of nodes) {
      node.share = !tree.isSampled ? 1 : level > chosen.level ? shareOf(total, points) : tree.share;
      node.limit = tree.isSampled || total <= points ? Infinity : Math.max(FEWEST, Math.ceil((tree.vertices(node) * points) / total));
      node.priority = closeness(view, node);
      if (level > chosen.level && node.children.some(visible)) refined.add(node);
    }
  }
  return chosen.level;
}

/** The part of `total` that `points` are, in steps of a square root of two. */
const shareOf = (total: number, points: number): number => (total <= points ? 1 : 2 ** (Math.floor(2 * Math.log2(points / total)) / 2));

function meets(node: Node, clip: [Vec3, Vec3] | null): boolean {
  return !clip || [0, 1, 2].every((i) => node.high[i] >= clip[0][i] && node.low[i] <= clip[1][i]);
}

function isBehind(node: Node, plane: { normal: number[]; offset: number }): boolean {
  let nearest = 0;
  for (let i = 0; i < 3; i++) nearest += plane.normal[i] * (plane.normal[i] > 0 ? node.low[i] : node.high[i]);
  return nearest <= plane.offset;
}

/** How much of the picture a cell may fill, more in its middle than at its rim. */
function closeness(view: View, node: Node): number {
  const middle: Vec3 = [(node.low[0] + node.high[0]) / 2, (node.low[1] + node.high[1]) / 2, (node.low[2] + node.high[2]) / 2];
  const side = Math.hypot(node.high[0] - node.low[0], node.high[1] - node.low[1], node.high[2] - node.low[2]);
  const filled = Math.min(1, Math.max(0.05, (side * pixelsPerUnit(view, node.low, node.high)) / view.height));
  const at = project(view, middle);
  if (!at) return 0.25 * filled;
  const dx = at[0] / view.width - 0.5, dy = at[1] / view.height - 0.5;
  return filled / (1 + 4 * (dx * dx + dy * dy));
}

/** Nodes by their priority, the highest first. */
class Heap {
  readonly #list: Node[] = [];

  push(node: Node): void {
    const list = this.#list;
    let at = list.push(node) - 1;
    while (at > 0) {
      const up = (at - 1) >> 1;
      if (list[up].priority >= node.priority) break;
      list[at] = list[up];
      at = up;
    }
    list[at] = node;
  }

  pop(): Node | undefined {
    const list = this.#list, first = list[0], last = list.pop();
    if (!last || !list.length) return first;
    let at = 0;
    for (;;) {
      let down = 2 * at + 1;
      if (down >= list.length) break;
      if (down + 1 < list.length && list[down + 1].priority > list[down].priority) down++;
      if (list[down].priority <= last.priority) break;
      list[at] = list[down];
      at = down;
    }
    list[at] = last;
    return first;
  }
}
