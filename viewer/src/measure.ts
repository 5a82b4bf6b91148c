// Lengths and areas between places that were picked.

import { add, length, scale, subtract, type Vec3 } from "./math.ts";

export type MeasureMode = "off" | "distance" | "path" | "area";
export interface Measure { mode: MeasureMode; points: Vec3[] }

export const MODES: MeasureMode[] = ["off", "distance", "path", "area"];
/** Places of one measure. */
export const MAX_PLACES = 100;

/** The places with one more; a distance has two, and the third begins another one. */
export function withPlace({ mode, points }: Measure, place: Vec3): Vec3[] {
  const before = mode === "distance" && points.length === 2 ? [] : points;
  return [...before, place].slice(-MAX_PLACES);
}

/** The length of each step, of which an area has one more, back to its first place. */
export function stepsOf({ mode, points }: Measure): number[] {
  const ends = mode === "area" && points.length > 2 ? [...points, points[0]] : points;
  return ends.slice(1).map((place, at) => length(subtract(place, ends[at])));
}

/** The area of a polygon, also of one that does not lie in a plane: that of its shadow where that is largest. */
export function areaOf(points: Vec3[]): number {
  let sum: Vec3 = [0, 0, 0];
  const [first] = points;
  for (let at = 1; at + 1 < points.length; at++) {
    const [ax, ay, az] = subtract(points[at], first), [bx, by, bz] = subtract(points[at + 1], first);
    sum = add(sum, [ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx]);
  }
  return length(scale(sum, 0.5));
}

/** What was measured, in words; `say` writes a number with the unit to a power. */
export function describe(measure: Measure, say: (value: number, power: number) => string): string {
  const { mode, points } = measure, total = stepsOf(measure).reduce((sum, one) => sum + one, 0);
  if (mode === "off") return "";
  if (points.length < 2) return points.length ? "Pick another place." : "Pick places in the picture.";
  const parts = [mode === "area" && points.length > 2 ? `area ${say(areaOf(points), 2)}, around it ${say(total, 1)}` : `${mode === "distance" ? "distance" : "length"} ${say(total, 1)}`];
  if (mode === "distance") parts.push(`along the axes ${subtract(points[1], points[0]).map((x) => say(Math.abs(x), 1)).join(", ")}`);
  else parts.push(`${points.length} places`);
  return parts.join("; ");
}
