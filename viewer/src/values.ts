// What is known of the values that vertices are coloured by: their range, how they are spread, and which whole numbers come.

import type { Sample } from "./tree.ts";

/** Values of one cell that are looked at. */
const SAMPLE = 256;
/** More different whole numbers than this are not counted. */
const MAX_COUNTED = 256;
const BARS = 48;

export interface Summary {
  /** What colours run over: the second to the ninety-eighth percentile, where a few values lie far out. */
  range: [number, number];
  least: number;
  most: number;
  /** How many values lie in each part of least to most. */
  bars: number[];
  codes: Map<number, number> | null;
}

export function sampleValues(given: { width: number; values: Float32Array } | undefined, count: number, isWhole: boolean): Sample {
  if (!given || !count) return { values: new Float32Array(0), codes: null };
  const { width, values } = given, step = Math.max(1, Math.floor(count / SAMPLE)), taken: number[] = [];
  let least = Infinity, most = -Infinity, codes: Map<number, number> | null = isWhole ? new Map() : null;
  for (let i = 0; i < count; i++) {
    const value = values[i * width];
    if (Number.isNaN(value)) continue;
    if (i % step === 0) taken.push(value);
    for (let k = 0; k < width; k++) { const one = values[i * width + k]; if (one < least) least = one; if (one > most) most = one; }
    if (codes) { codes.set(value, (codes.get(value) ?? 0) + 1); if (codes.size > MAX_COUNTED) codes = null; }
  }
  // The extremes are always among them.
  if (most >= least) taken.push(least, most);
  return { values: Float32Array.from(taken), codes };
}

export function summarize(samples: Sample[]): Summary {
  const all = new Float32Array(samples.reduce((sum, { values }) => sum + values.length, 0));
  let at = 0;
  for (const { values } of samples) { all.set(values, at); at += values.length; }
  all.sort();
  if (!all.length) return { range: [0, 1], least: 0, most: 1, bars: [], codes: null };
  const least = all[0], most = all[all.length - 1], part = (share: number) => all[Math.min(all.length - 1, Math.floor(all.length * share))];
  const low = part(0.02), high = part(0.98), isSpread = high > low && most - least > 1.25 * (high - low);
  const bars = new Array<number>(BARS).fill(0), span = most - least || 1;
  for (const value of all) bars[Math.min(BARS - 1, Math.floor(((value - least) / span) * BARS))]++;
  let codes: Map<number, number> | null = new Map();
  for (const sample of samples) {
    if (!sample.codes) { codes = null; break; }
    for (const [code, count] of sample.codes) codes.set(code, (codes.get(code) ?? 0) + count);
  }
  return { range: isSpread ? [low, high] : [least, most], least, most, bars, codes };
}

// The classes of the LAS format, by their numbers.
const LAS_CLASSES = ["never classified", "unassigned", "ground", "low vegetation", "medium vegetation", "high vegetation", "building", "low point", "reserved", "water", "rail", "road surface", "reserved", "wire guard", "wire conductor", "transmission tower", "wire connector", "bridge deck", "high noise"];

/** The names of the codes of an attribute, where they are known by its name. */
export const namesOf = (attribute: string): string[] => (/^classification$/i.test(attribute) ? LAS_CLASSES : []);
