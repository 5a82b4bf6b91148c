// What is drawn over the picture: the axes with their names, the clipping box, and handles that move its faces.

import { project } from "./camera.ts";
import { rotate, scale, add, type Vec3 } from "./math.ts";
import { stepsOf } from "./measure.ts";
import type { Scene } from "./scene.ts";
import { withUnit } from "./ui.ts";

const AXIS_COLOURS = ["#ff5a5a", "#4fd167", "#5b93ff"];
/** Pixels from the middle of the axes to their tips. */
const AXIS_LENGTH = 34;
const CORNERS = [0, 1, 2, 3, 4, 5, 6, 7];

type Box = [Vec3, Vec3];

const byId = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;

/** Draws axes and box anew, and puts the handles where they belong. */
export function showOverlay(scene: Scene, move: (box: Box) => void): void {
  const canvas = byId<HTMLCanvasElement>("overlay"), ratio = Math.min(2, devicePixelRatio || 1);
  const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const pen = canvas.getContext("2d")!;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  if (scene.inspects) drawCells(scene, pen);
  const isWide = innerWidth > 640, hasPanel = isWide && !document.getElementById("panel")!.classList.contains("closed");
  if (scene.state.axes) drawAxes(scene, pen, hasPanel ? 350 : 60, isWide ? canvas.clientHeight - 60 : 120);
  const box = boxOf(scene);
  if (box) drawBox(scene, pen, box);
  drawMeasure(scene, pen);
  placeHandles(scene, box, move);
}

function boxOf(scene: Scene): Box | null {
  const { box } = scene.state.clip;
  return box && box[0].length === 3 ? (box as Box) : null;
}

/** The screen's place of a point, in CSS pixels. */
function place(scene: Scene, point: Vec3): [number, number] | null {
  const { canvas } = scene.renderer, at = project(scene.view(), point), ratio = canvas.width / Math.max(1, canvas.clientWidth);
  return at && [at[0] / ratio, at[1] / ratio];
}

/** The axes with their names, around a place. */
export function drawAxes(scene: Scene, pen: CanvasRenderingContext2D, x: number, y: number): void {
  const { orientation } = scene.state.camera, inverse: [number, number, number, number] = [-orientation[0], -orientation[1], -orientation[2], orientation[3]];
  const tips = scene.state.space.shown.map((axis, i) => ({ name: scene.info.axes[axis].name, colour: AXIS_COLOURS[i], at: rotate(inverse, [i === 0 ? 1 : 0, i === 1 ? 1 : 0, i === 2 ? 1 : 0]) }));
  pen.font = "600 12px system-ui, sans-serif";
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.lineWidth = 2;
  // The one that points to the eye is drawn last.
  for (const { name, colour, at } of tips.sort((a, b) => a.at[2] - b.at[2])) {
    pen.strokeStyle = pen.fillStyle = colour;
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(x + at[0] * AXIS_LENGTH, y - at[1] * AXIS_LENGTH);
    pen.stroke();
    pen.fillText(name.slice(0, 12), x + at[0] * (AXIS_LENGTH + 12), y - at[1] * (AXIS_LENGTH + 12));
  }
}

/** The places that are measured between, with the length of each step. */
export function drawMeasure(scene: Scene, pen: CanvasRenderingContext2D): void {
  const { measure } = scene.state, { points } = measure;
  if (measure.mode === "off" || !points.length) return;
  const steps = stepsOf(measure), ends = steps.length === points.length ? [...points, points[0]] : points;
  pen.lineWidth = 2;
  pen.strokeStyle = MEASURE_COLOUR;
  pen.font = "600 12px system-ui, sans-serif";
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  steps.forEach((step, at) => {
    const a = place(scene, ends[at]), b = place(scene, ends[at + 1]), middle = place(scene, scale(add(ends[at], ends[at + 1]), 0.5));
    if (!a || !b || !middle) return;
    pen.beginPath();
    pen.moveTo(a[0], a[1]);
    pen.lineTo(b[0], b[1]);
    pen.stroke();
    const text = withUnit(scene, step, 1), { width } = pen.measureText(text);
    pen.fillStyle = "rgb(13 15 20 / 80%)";
    pen.fillRect(middle[0] - width / 2 - 4, middle[1] - 9, width + 8, 18);
    pen.fillStyle = MEASURE_COLOUR;
    pen.fillText(text, middle[0], middle[1]);
  });
  pen.fillStyle = MEASURE_COLOUR;
  for (const at of points.map((point) => place(scene, point))) if (at) { pen.beginPath(); pen.arc(at[0], at[1], 4, 0, 7); pen.fill(); }
}

const MEASURE_COLOUR = "#ffd84d";

/** Cells that are outlined at most. */
const MAX_CELLS = 600;

/** Outlines the cells that are drawn: each level has a colour of its own. */
function drawCells(scene: Scene, pen: CanvasRenderingContext2D): void {
  for (const { node } of scene.drawn.slice(0, MAX_CELLS)) drawBox(scene, pen, [node.low, node.high], `hsl(${(node.level * 67 + 20) % 360} 90% 65% / 70%)`);
}

function drawBox(scene: Scene, pen: CanvasRenderingContext2D, box: Box, colour = "rgb(140 170 220 / 60%)"): void {
  const corner = (n: number): Vec3 => [box[n & 1][0], box[(n >> 1) & 1][1], box[(n >> 2) & 1][2]];
  const places = CORNERS.map((n) => place(scene, corner(n)));
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.beginPath();
  for (const n of CORNERS) for (const step of [1, 2, 4]) {
    const a = places[n], b = places[n | step];
    if (n & step || !a || !b) continue;
    pen.moveTo(a[0], a[1]);
    pen.lineTo(b[0], b[1]);
  }
  pen.stroke();
}

/** A handle in the middle of each face of the box. */
function placeHandles(scene: Scene, box: Box | null, move: (box: Box) => void): void {
  const holder = byId("handles");
  if (!box) { holder.replaceChildren(); return; }
  if (holder.childElementCount !== 6) holder.replaceChildren(...[0, 1, 2, 3, 4, 5].map((face) => makeHandle(scene, face, move)));
  for (let face = 0; face < 6; face++) {
    const at = place(scene, middleOf(box, face)), handle = holder.children[face] as HTMLElement;
    handle.hidden = !at;
    if (at) { handle.style.left = `${at[0]}px`; handle.style.top = `${at[1]}px`; }
  }
}

function middleOf(box: Box, face: number): Vec3 {
  const middle = [0, 1, 2].map((i) => (box[0][i] + box[1][i]) / 2) as Vec3;
  middle[face >> 1] = box[face & 1][face >> 1];
  return middle;
}

function makeHandle(scene: Scene, face: number, move: (box: Box) => void): HTMLElement {
  const handle = document.createElement("button"), axis = face >> 1, name = scene.info.axes[scene.state.space.shown[axis]].name;
  handle.type = "button";
  handle.style.background = AXIS_COLOURS[axis];
  handle.setAttribute("aria-label", `${face & 1 ? "Highest" : "Lowest"} ${name} of the clipping box: drag, or arrow keys`);
  const shift = (by: number) => {
    const box = boxOf(scene);
    if (!box) return;
    const changed: Box = [[...box[0]], [...box[1]]], side = face & 1;
    changed[side][axis] = side ? Math.max(box[0][axis], box[1][axis] + by) : Math.min(box[1][axis], box[0][axis] + by);
    move(changed);
  };
  handle.addEventListener("pointerdown", (event) => { event.stopPropagation(); handle.setPointerCapture(event.pointerId); });
  handle.addEventListener("pointermove", (event) => {
    const box = boxOf(scene);
    if (!box || !handle.hasPointerCapture(event.pointerId)) return;
    // Along the axis as it is seen: pixels that a unit of it has.
    const middle = middleOf(box, face), further = [...middle] as Vec3, step = scene.extent() * 1e-3;
    further[axis] += step;
    const a = place(scene, middle), b = place(scene, further);
    if (!a || !b) return;
    const dx = (b[0] - a[0]) / step, dy = (b[1] - a[1]) / step, square = dx * dx + dy * dy;
    if (square > 0) shift((event.movementX * dx + event.movementY * dy) / square);
  });
  handle.addEventListener("keydown", (event) => {
    const sign = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!sign) return;
    event.preventDefault();
    event.stopPropagation();
    shift(sign * scene.extent() * 0.01);
  });
  return handle;
}
