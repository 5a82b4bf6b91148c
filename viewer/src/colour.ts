// Colours of vertices: maps, palettes, and the hidden ones.

import type { Cell } from "../npm/index.ts";
import type { Layer } from "./state.ts";

/** A cell, with the normals that were computed for it, four bytes a vertex, and its vertices of other cells by these. */
export type CellData = Cell & { normals?: Int8Array; ghostsOf?: Map<string, number[]> };

type Stops = readonly (readonly [number, number, number])[];

// Nine stops each of the maps that people know.
export const MAPS: Record<string, Stops> = {
  viridis: [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37]],
  magma: [[0, 0, 4], [28, 16, 68], [79, 18, 123], [129, 37, 129], [181, 54, 122], [229, 80, 100], [251, 135, 97], [254, 194, 135], [252, 253, 191]],
  turbo: [[48, 18, 59], [70, 107, 227], [40, 187, 236], [49, 242, 153], [162, 252, 60], [237, 208, 58], [251, 128, 34], [210, 49, 5], [122, 4, 3]],
  coolwarm: [[59, 76, 192], [98, 130, 234], [141, 176, 254], [184, 208, 249], [221, 221, 221], [245, 196, 173], [244, 154, 123], [222, 96, 77], [180, 4, 38]],
  grey: [[20, 20, 20], [49, 49, 49], [78, 78, 78], [107, 107, 107], [137, 137, 137], [166, 166, 166], [195, 195, 195], [224, 224, 224], [250, 250, 250]],
};

export function sampleMap(name: string, t: number): [number, number, number] {
  const stops = MAPS[name] ?? MAPS.viridis, at = Math.min(1, Math.max(0, t)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(at)), f = at - i, a = stops[i], b = stops[i + 1];
  return [a[0] + (b[0] - a[0]) * f, a[1] + (b[1] - a[1]) * f, a[2] + (b[2] - a[2]) * f];
}

/** Colours far from each other for neighbouring numbers: steps of the golden ratio around the circle of hues. */
export function paletteColour(n: bigint | number): [number, number, number] {
  const number = typeof n === "bigint" ? Number(BigInt.asUintN(32, n)) : n;
  const hue = (number * 0.61803398875 + 0.58) % 1, ring = number % 3;
  return hsl(hue, [0.62, 0.55, 0.7][ring], [0.62, 0.7, 0.56][ring]);
}

function hsl(h: number, s: number, l: number): [number, number, number] {
  const a = s * Math.min(l, 1 - l);
  const f = (n: number) => { const k = (n + h * 12) % 12; return 255 * (l - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))); };
  return [f(0), f(8), f(4)];
}

export function parseHex(text: string, fallback: [number, number, number]): [number, number, number] {
  const hex = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(text);
  return hex ? [parseInt(hex[1], 16), parseInt(hex[2], 16), parseInt(hex[3], 16)] : fallback;
}

export const NO_OBJECT = 0xffffffff;

export interface ColourContext {
  layer: Layer;
  isVisible: (id: bigint | null) => boolean;
  groupOf: (id: bigint) => number | null;
  range: [number, number];
  /** The values that are coloured, where they are. */
  values: { width: number; values: ArrayLike<number> } | undefined;
  /** Whether colours of more than one number run to 1, not to 255. */
  isUnit: boolean;
  categories: boolean;
  selected: bigint | null;
}

/** Four bytes a vertex; the last is 0 where it is hidden, 128 where it is selected, else 255. */
export function colourCell(cell: CellData, context: ColourContext): Uint8Array {
  const count = cell.slots.length, out = new Uint8Array(count * 4), { layer } = context;
  const plain = parseHex(layer.colour.value, [120, 170, 230]);
  const perObject = Array.from(cell.ids, (id) => objectColour(id, context, plain));
  const shown = Array.from(cell.ids, (id) => (context.isVisible(id) ? (id === context.selected ? 128 : 255) : 0));
  const loose = context.isVisible(null) ? 255 : 0;
  const attribute = layer.colour.by === "attribute" ? context.values : undefined;
  const hidden = context.categories && layer.colour.hidden.length ? new Set(layer.colour.hidden) : null;
  const directions = layer.colour.by === "direction" ? vertexDirections(cell) : undefined;
  const table = attribute ? mapTable(layer.colour.map) : null;
  const [low, high] = context.range, span = high > low ? high - low : 1;
  for (let i = 0, o = 0; i < count; i++, o += 4) {
    const slot = cell.slots[i];
    let rgb: readonly number[] = slot === NO_OBJECT ? plain : perObject[slot];
    if (attribute) {
      const w = attribute.width;
      if (w === 3 || w === 4) {
        const k = context.isUnit ? 255 : 1, at = i * w;
        out[o] = attribute.values[at] * k; out[o + 1] = attribute.values[at + 1] * k; out[o + 2] = attribute.values[at + 2] * k;
        out[o + 3] = slot === NO_OBJECT ? loose : shown[slot];
        continue;
      }
      const value = attribute.values[i * w];
      if (Number.isNaN(value)) rgb = [128, 128, 128];
      else if (context.categories) {
        if (hidden?.has(Math.round(value))) continue; // four zeros: it is not drawn
        rgb = paletteColour(Math.round(value));
      }
      else {
        const t = Math.min(255, Math.max(0, Math.round(((value - low) / span) * 255))) * 3;
        out[o] = table![t]; out[o + 1] = table![t + 1]; out[o + 2] = table![t + 2];
        out[o + 3] = slot === NO_OBJECT ? loose : shown[slot];
        continue;
      }
    } else if (directions) {
      rgb = [directions[i * 3], directions[i * 3 + 1], directions[i * 3 + 2]];
    }
    out[o] = rgb[0]; out[o + 1] = rgb[1]; out[o + 2] = rgb[2];
    out[o + 3] = slot === NO_OBJECT ? loose : shown[slot];
  }
  return out;
}

function objectColour(id: bigint, context: ColourContext, plain: [number, number, number]): [number, number, number] {
  const { by } = context.layer.colour;
  if (by === "object") return paletteColour(id);
  if (by === "group") { const group = context.groupOf(id); return group === null ? [128, 128, 128] : paletteColour(group); }
  return plain;
}

function mapTable(name: string): Uint8Array {
  const table = new Uint8Array(256 * 3);
  for (let i = 0; i < 256; i++) table.set(sampleMap(name, i / 255), i * 3);
  return table;
}

/** The mean direction of the segments at each vertex, its parts as red, green and blue. */
function vertexDirections(cell: CellData): Float32Array {
  const sum = new Float32Array(cell.slots.length * 3), p = cell.positions, pairs = cell.segments.length ? cell.segments : edgesOfFaces(cell.faces);
  for (let s = 0; s < pairs.length; s += 2) {
    const a = pairs[s] * 3, b = pairs[s + 1] * 3;
    const dx = Math.abs(p[b] - p[a]), dy = Math.abs(p[b + 1] - p[a + 1]), dz = Math.abs(p[b + 2] - p[a + 2]);
    sum[a] += dx; sum[a + 1] += dy; sum[a + 2] += dz; sum[b] += dx; sum[b + 1] += dy; sum[b + 2] += dz;
  }
  for (let i = 0; i < sum.length; i += 3) {
    const n = Math.hypot(sum[i], sum[i + 1], sum[i + 2]);
    const k = n > 0 ? 225 / n : 0;
    sum[i] = 30 + sum[i] * k; sum[i + 1] = 30 + sum[i + 1] * k; sum[i + 2] = 30 + sum[i + 2] * k;
  }
  return sum;
}

function edgesOfFaces(faces: Uint32Array): Uint32Array {
  const edges = new Uint32Array(faces.length * 2);
  for (let f = 0, e = 0; f < faces.length; f += 3) for (let k = 0; k < 3; k++) { edges[e++] = faces[f + k]; edges[e++] = faces[f + ((k + 1) % 3)]; }
  return edges;
}
