// A camera that orbits a target, and what it sees.

import { add, dot, multiply, normalizeQuat, orthographic, perspective, rotate, scale, subtract, viewRotation, type Quat, type Vec3 } from "./math.ts";
import type { State } from "./state.ts";

export interface View {
  eye: Vec3;
  forward: Vec3;
  rotation: Float64Array;
  projection: Float64Array;
  /** projection x rotation: positions are relative to the eye. */
  matrix: Float64Array;
  width: number;
  height: number;
  near: number;
  far: number;
  orthographic: boolean;
  /** Pixels that a unit of the world has at distance 1; at any distance when orthographic. */
  pixelsAtOne: number;
}

export function makeView(camera: State["camera"], width: number, height: number, extent: number): View {
  const orientation = normalizeQuat(camera.orientation as Quat);
  const back = rotate(orientation, [0, 0, 1]);
  const isFlat = camera.projection === "orthographic";
  const eye = add(camera.target, scale(back, camera.distance));
  // Equal height at the target in both projections.
  const worldHeight = 2 * camera.distance * Math.tan((camera.fov * Math.PI) / 360);
  const reach = camera.distance + extent * 2;
  const near = isFlat ? -reach : Math.max(camera.distance * 1e-3, reach * 1e-5);
  const projection = isFlat ? orthographic(worldHeight, width / height, near, reach) : perspective(camera.fov, width / height, near, reach);
  const rotation = viewRotation(orientation);
  const pixelsAtOne = isFlat ? height / worldHeight : height / (2 * Math.tan((camera.fov * Math.PI) / 360));
  return { eye, forward: scale(back, -1), rotation, projection, matrix: multiply(projection, rotation), width, height, near, far: reach, orthographic: isFlat, pixelsAtOne };
}

/** The pixel and the depth of a point; null behind the eye. */
export function project(view: View, point: Vec3): [number, number, number] | null {
  const [x, y, z] = subtract(point, view.eye), m = view.matrix;
  const w = m[3] * x + m[7] * y + m[11] * z + m[15];
  if (w <= 0) return null;
  const px = (m[0] * x + m[4] * y + m[8] * z + m[12]) / w, py = (m[1] * x + m[5] * y + m[9] * z + m[13]) / w;
  return [((px + 1) / 2) * view.width, ((1 - py) / 2) * view.height, dot(subtract(point, view.eye), view.forward)];
}

/** Whether a box may be seen; errs on the side of yes. */
export function seesBox(view: View, low: Vec3, high: Vec3): boolean {
  const m = view.matrix, lx = low[0] - view.eye[0], ly = low[1] - view.eye[1], lz = low[2] - view.eye[2];
  const hx = high[0] - view.eye[0], hy = high[1] - view.eye[1], hz = high[2] - view.eye[2];
  for (let side = 0; side < 6; side++) {
    const row = side >> 1, sign = side & 1 ? -1 : 1;
    const a = m[3] + sign * m[row], b = m[7] + sign * m[4 + row], c = m[11] + sign * m[8 + row], d = m[15] + sign * m[12 + row];
    if (a * (a > 0 ? hx : lx) + b * (b > 0 ? hy : ly) + c * (c > 0 ? hz : lz) + d < 0) return false;
  }
  return true;
}

/** Pixels that a unit of the world has at the point of a box that is nearest to the eye. */
export function pixelsPerUnit(view: View, low: Vec3, high: Vec3): number {
  if (view.orthographic) return view.pixelsAtOne;
  let square = 0;
  for (let i = 0; i < 3; i++) {
    const gap = Math.max(low[i] - view.eye[i], view.eye[i] - high[i], 0);
    square += gap * gap;
  }
  return view.pixelsAtOne / Math.max(Math.sqrt(square), view.near);
}

export const VIEWS: Record<string, Quat> = {
  top: [0, 0, 0, 1],
  bottom: [1, 0, 0, 0],
  front: [Math.SQRT1_2, 0, 0, Math.SQRT1_2],
  back: [0, Math.SQRT1_2, Math.SQRT1_2, 0],
  right: [0.5, 0.5, 0.5, 0.5],
  left: [0.5, -0.5, -0.5, 0.5],
};
