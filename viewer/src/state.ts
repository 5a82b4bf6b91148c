// What the page shows, as one document: its defaults, patches of it, and its form in the address.

import type { Quat, Vec3 } from "./math.ts";
import { MAX_PLACES, MODES, type Measure } from "./measure.ts";

export type ColourBy = "constant" | "object" | "group" | "attribute" | "direction" | "depth";

export interface Layer {
  visible: boolean;
  opacity: number;
  colour: { by: ColourBy; value: string; scope: string | null; attribute: string | null; map: string; range: [number, number] | null; categories: boolean | null; hidden: number[] };
  size: { mode: "fixed" | "world" | "adaptive"; value: number };
  width: number;
  wireframe: boolean;
}

/** Which axes are drawn, and which part of the others is shown: from the first number up to the second. */
export interface Space { shown: number[]; ranges: Record<string, [number, number]> }

export interface Plane { normal: number[]; offset: number }

export interface State {
  v: 1;
  store: string | string[];
  camera: { target: Vec3; orientation: Quat; distance: number; fov: number; projection: "perspective" | "orthographic" };
  level: "auto" | number;
  error: number | null;
  budget: { points: number; bytes: number };
  layers: Record<string, Layer>;
  objects: { mode: "all" | "only" | "except"; ids: string[]; groups: number[] };
  where: string;
  space: Space;
  clip: { box: [number[], number[]] | null; planes: Plane[] };
  selected: { kind: string; object: string } | null;
  measure: Measure;
  theme: "auto" | "dark" | "light";
  background: string;
  edl: boolean;
  scaleBar: boolean;
  axes: boolean;
  stats: boolean;
}

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A patch as RFC 7396 has it: null removes, objects merge, everything else replaces. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const base = target !== null && typeof target === "object" && !Array.isArray(target) ? target : {};
  const merged: Record<string, unknown> = { ...(base as Record<string, unknown>) };
  for (const [key, value] of Object.entries(patch as Record<string, unknown>)) {
    if (key === "__proto__") continue;
    if (value === null) delete merged[key];
    else merged[key] = mergePatch(merged[key], value);
  }
  return merged;
}


/** Fills what is missing of `state` from `defaults`; arrays and plain values are taken whole. */
export function complete<T>(state: unknown, defaults: T): T {
  if (defaults === null || typeof defaults !== "object" || Array.isArray(defaults)) return (state === undefined ? defaults : state) as T;
  const given = (state ?? {}) as Record<string, unknown>;
  const full: Record<string, unknown> = {};
  for (const key of Object.keys(defaults)) full[key] = complete(given[key], (defaults as Record<string, unknown>)[key]);
  for (const key of Object.keys(given)) if (!(key in full)) full[key] = given[key];
  return full as T;
}

/** What of `state` is not as in `defaults`. */
export function difference(state: unknown, defaults: unknown): unknown {
  if (JSON.stringify(state) === JSON.stringify(defaults)) return undefined;
  const plain = (x: unknown) => x === null || typeof x !== "object" || Array.isArray(x);
  if (plain(state) || plain(defaults)) return state;
  const found: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(state as Record<string, unknown>)) {
    const rest = difference(value, (defaults as Record<string, unknown>)[key]);
    if (rest !== undefined) found[key] = rest;
  }
  return found;
}

/** Ids as ranges: 3, 4, 5, 9 are "3..6" and "9". */
export function packIds(ids: string[]): string[] {
  const numbers = ids.flatMap(unpackOne).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const packed: string[] = [];
  for (let i = 0; i < numbers.length; ) {
    let j = i + 1;
    while (j < numbers.length && numbers[j] <= numbers[j - 1] + 1n) j++;
    const [start, stop] = [numbers[i], numbers[j - 1] + 1n];
    packed.push(stop - start > 2n ? `${start}..${stop}` : String(start));
    if (stop - start === 2n) packed.push(String(start + 1n));
    i = j;
  }
  return packed;
}

function unpackOne(text: string): bigint[] {
  const range = /^(-?\d+)\.\.(-?\d+)$/.exec(text);
  if (!range) return [BigInt(text)];
  const [start, stop] = [BigInt(range[1]), BigInt(range[2])];
  if (stop - start > 10_000_000n) throw new Error(`objects.ids: ${text} names more than 10 000 000 objects`);
  const ids: bigint[] = [];
  for (let id = start; id < stop; id++) ids.push(id);
  return ids;
}

/** Whether an id is one of those that ids and ranges name, without listing them. */
export function idTest(ids: string[]): (id: bigint) => boolean {
  const single = new Set<bigint>(), ranges: [bigint, bigint][] = [];
  for (const text of ids) {
    const range = /^(-?\d+)\.\.(-?\d+)$/.exec(text);
    if (range) ranges.push([BigInt(range[1]), BigInt(range[2])]);
    else single.add(BigInt(text));
  }
  return (id) => single.has(id) || ranges.some(([start, stop]) => id >= start && id < stop);
}

/** Says what is wrong with a state; an empty text says that nothing is. */
export function checkState(state: State, axes: number): string {
  const finite = (list: unknown, count: number) => Array.isArray(list) && list.length === count && list.every((x) => typeof x === "number" && Number.isFinite(x));
  const oneOf = (value: unknown, words: string[]) => typeof value === "string" && words.includes(value);
  const { camera, budget, objects, clip } = state;
  if (state.v !== 1) return `v: this page knows version 1, not ${JSON.stringify(state.v)}`;
  if (!finite(camera.target, 3)) return "camera.target: expected three numbers";
  if (!finite(camera.orientation, 4) || camera.orientation.every((x) => x === 0)) return "camera.orientation: expected a quaternion";
  if (!(camera.distance > 0 && Number.isFinite(camera.distance))) return "camera.distance: expected a number above 0";
  if (!(camera.fov >= 1 && camera.fov <= 170)) return "camera.fov: expected 1 to 170 degrees";
  if (!oneOf(camera.projection, ["perspective", "orthographic"])) return "camera.projection: expected perspective or orthographic";
  if (state.level !== "auto" && !(Number.isInteger(state.level) && state.level >= 0)) return "level: expected auto or a number";
  if (state.error !== null && !(state.error > 0 && Number.isFinite(state.error))) return "error: expected pixels above 0";
  if (!(budget.points >= 1000 && budget.bytes >= 1 << 20)) return "budget: expected at least 1000 points and 1 MiB";
  if (!oneOf(objects.mode, ["all", "only", "except"])) return "objects.mode: expected all, only or except";
  if (!Array.isArray(objects.ids) || !objects.ids.every((id) => typeof id === "string" && /^-?\d+(\.\.-?\d+)?$/.test(id))) return "objects.ids: expected decimal ids and ranges, as text";
  if (!Array.isArray(objects.groups) || !objects.groups.every((g) => Number.isInteger(g) && g >= 0)) return "objects.groups: expected numbers of groups";
  if (typeof state.where !== "string") return "where: expected a condition, as text";
  const { shown, ranges } = state.space;
  if (!Array.isArray(shown) || shown.length !== Math.min(3, axes) || new Set(shown).size !== shown.length || !shown.every((axis) => Number.isInteger(axis) && axis >= 0 && axis < axes)) return `space.shown: expected ${Math.min(3, axes)} different axes below ${axes}`;
  if (!Object.entries(ranges).every(([axis, range]) => Number(axis) >= 0 && Number(axis) < axes && finite(range, 2) && range[0] < range[1])) return "space.ranges: expected [low, high] by the number of an axis";
  if (clip.box !== null && !(Array.isArray(clip.box) && clip.box.length === 2 && finite(clip.box[0], shown.length) && finite(clip.box[1], shown.length))) return `clip.box: expected [low, high] of ${shown.length} numbers`;
  if (!Array.isArray(clip.planes) || clip.planes.length > 6 || !clip.planes.every((p) => finite(p.normal, 3) && Number.isFinite(p.offset))) return "clip.planes: expected at most six of normal and offset";
  if (!oneOf(state.measure.mode, MODES)) return `measure.mode: expected ${MODES.join(", ")}`;
  if (!Array.isArray(state.measure.points) || state.measure.points.length > MAX_PLACES || !state.measure.points.every((place) => finite(place, 3))) return `measure.points: expected at most ${MAX_PLACES} places of three numbers`;
  if (!oneOf(state.theme, ["auto", "dark", "light"])) return "theme: expected auto, dark or light";
  if (typeof state.background !== "string" || !/^#[0-9a-f]{6}$/i.test(state.background)) return "background: expected #rrggbb";
  for (const [kind, layer] of Object.entries(state.layers)) {
    if (!(layer.opacity >= 0 && layer.opacity <= 1)) return `layers.${kind}.opacity: expected 0 to 1`;
    if (!oneOf(layer.colour.by, ["constant", "object", "group", "attribute", "direction", "depth"])) return `layers.${kind}.colour.by: expected constant, object, group, attribute, direction or depth`;
    if (layer.colour.by === "attribute" && !layer.colour.attribute) return `layers.${kind}.colour.attribute: expected a name`;
    if (![true, false, null].includes(layer.colour.categories)) return `layers.${kind}.colour.categories: expected true, false or null`;
    if (!Array.isArray(layer.colour.hidden) || !layer.colour.hidden.every((code) => Number.isFinite(code))) return `layers.${kind}.colour.hidden: expected numbers`;
    if (layer.colour.range !== null && !finite(layer.colour.range, 2)) return `layers.${kind}.colour.range: expected two numbers`;
    if (!(layer.size.value > 0 && layer.width > 0)) return `layers.${kind}: sizes are above 0`;
  }
  return "";
}

/** Leaves out what is wrong of a state out of an address, one by one; says what that was. */
export function mend(given: Record<string, unknown>, fault: (given: Record<string, unknown>) => string): { given: Record<string, unknown>; wrong: string[] } {
  const wrong: string[] = [], rest = structuredClone(given);
  for (let text = fault(rest); text && wrong.length < 64; text = fault(rest)) {
    wrong.push(text);
    const path = text.slice(0, text.indexOf(":")).split(".");
    // The names of layers may have dots of their own.
    const at = path[0] === "layers" ? Object.keys((rest.layers ?? {}) as object).find((kind) => text.startsWith(`layers.${kind}`)) : undefined;
    const keys = at === undefined ? path : ["layers", at, ...text.slice(`layers.${at}.`.length, Math.max(0, text.indexOf(":", `layers.${at}`.length))).split(".").filter(Boolean)];
    let holder: any = rest;
    // What is wrong may be that something is not there: then the nearest that is there goes.
    while (keys.length > 1 && holder[keys[0]] !== null && typeof holder[keys[0]] === "object" && keys[1] in holder[keys[0]]) holder = holder[keys.shift()!];
    if (!(keys[0] in holder)) return { given: {}, wrong };
    delete holder[keys[0]];
  }
  return { given: rest, wrong };
}

export function encodeAddress(state: unknown): string {
  // Percent-coded, but for what is safe in a fragment and easier to read.
  return "#!" + encodeURIComponent(JSON.stringify(state)).replace(/%22/g, '"').replace(/%2C/g, ",").replace(/%3A/g, ":").replace(/%7B/g, "{").replace(/%7D/g, "}").replace(/%5B/g, "[").replace(/%5D/g, "]").replace(/"/g, "%22");
}

/** The state in a fragment, or why there is none. */
export function decodeAddress(fragment: string): { state: Record<string, unknown> | null; fault: string } {
  if (!fragment.startsWith("#!")) return { state: null, fault: "" };
  try {
    const state: unknown = JSON.parse(decodeURIComponent(fragment.slice(2)));
    if (state === null || typeof state !== "object" || Array.isArray(state)) throw new Error("it is no object");
    const version = (state as Record<string, unknown>).v;
    if (version !== undefined && version !== 1) return { state: null, fault: `The address is of version ${JSON.stringify(version)}; this page knows version 1.` };
    return { state: state as Record<string, unknown>, fault: "" };
  } catch (error) {
    return { state: null, fault: `The address cannot be read: ${(error as Error).message}` };
  }
}

