// A saved picture that stands alone: legend, scale bar, axes and a caption in it, and the view itself, which the page opens again.

import { describe } from "./measure.ts";
import { drawAxes, drawMeasure } from "./overlay.ts";
import type { Scene } from "./scene.ts";
import { drawRamp, legendOf, scaleBarOf, withUnit } from "./ui.ts";

/** The name that the view has in a picture. */
const KEYWORD = "zvf-view";
const SIGNATURE = [137, 80, 78, 71, 13, 10, 26, 10];

/** Draws what the page shows around a picture into it. */
export function decorate(sheet: HTMLCanvasElement, scene: Scene, title: string): void {
  const pen = sheet.getContext("2d")!, scale = sheet.width / Math.max(1, scene.renderer.canvas.clientWidth), width = sheet.width / scale, height = sheet.height / scale;
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(scene.state.background.slice(at, at + 2), 16)), isDark = 0.3 * red + 0.6 * green + 0.1 * blue < 128;
  pen.scale(scale, scale);
  if (scene.state.axes) drawAxes(scene, pen, 60, height - 84);
  drawMeasure(scene, pen);
  pen.fillStyle = pen.strokeStyle = isDark ? "#e9ecf1" : "#171a20";
  pen.textBaseline = "alphabetic";
  pen.lineWidth = 2;
  if (scene.state.scaleBar) {
    const { pixels, label } = scaleBarOf(scene), left = width / 2 - pixels / 2, y = height - 34;
    pen.beginPath();
    for (const [at, to] of [[left, y - 6], [left, y], [left + pixels, y], [left + pixels, y - 6]]) pen.lineTo(at, to);
    pen.stroke();
    pen.textAlign = "center";
    pen.font = "13px system-ui, sans-serif";
    pen.fillText(label, width / 2, height - 16);
  }
  pen.textAlign = "left";
  pen.font = "12px system-ui, sans-serif";
  pen.fillText([title, scene.state.where && `where ${scene.state.where}`, describe(scene.state.measure, (value, power) => withUnit(scene, value, power)), ...scene.detail()].filter(Boolean).join(" · ").slice(0, 160), 14, 22);
  let y = height - 20;
  for (const { title, ramp, items } of legendOf(scene).reverse()) {
    const left = width - 196;
    for (const { name, colour } of [...items].reverse()) {
      const ink: CanvasRenderingContext2D["fillStyle"] = pen.fillStyle;
      pen.fillStyle = `rgb(${colour.map(Math.round).join()})`;
      pen.fillRect(left, y - 10, 11, 11);
      pen.fillStyle = ink;
      pen.fillText(name.slice(0, 26), left + 19, y);
      y -= 18;
    }
    if (ramp) {
      pen.fillText(ramp.ends[0], left, y);
      pen.textAlign = "right";
      pen.fillText(ramp.ends[1], width - 16, y);
      pen.textAlign = "left";
      pen.drawImage(drawRamp(ramp.map), left, y - 28, 180, 12);
      y -= 34;
    }
    pen.fillText(title.slice(0, 30), left, y);
    y -= 24;
  }
  pen.setTransform(1, 0, 0, 1, 0, 0);
}

/** A picture with a view in it, as text of its own. */
export async function withView(picture: Blob, view: unknown): Promise<Blob> {
  const bytes = new Uint8Array(await picture.arrayBuffer()), text = new TextEncoder().encode(`iTXt${KEYWORD}\0\0\0\0\0${JSON.stringify(view)}`), chunk = new Uint8Array(text.length + 8), fields = new DataView(chunk.buffer);
  fields.setUint32(0, text.length - 4);
  chunk.set(text, 4);
  fields.setUint32(text.length + 4, checksum(text));
  // The last twelve bytes are the end of a picture.
  return new Blob([bytes.slice(0, -12), chunk, bytes.slice(-12)], { type: "image/png" });
}

/** The view in a picture; nothing where there is none. */
export async function viewIn(picture: Blob): Promise<Record<string, unknown> | null> {
  const bytes = new Uint8Array(await picture.arrayBuffer()), fields = new DataView(bytes.buffer);
  if (!SIGNATURE.every((byte, at) => bytes[at] === byte)) return null;
  for (let at = 8; at + 12 <= bytes.length; ) {
    const length = fields.getUint32(at), text = new TextDecoder().decode(bytes.subarray(at + 4, at + 8 + length)), head = `iTXt${KEYWORD}\0\0\0\0\0`;
    if (text.startsWith(head)) return JSON.parse(text.slice(head.length));
    at += length + 12;
  }
  return null;
}

/** The checksum of a part of a picture (CRC-32). */
function checksum(bytes: Uint8Array): number {
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return (sum ^ 0xffffffff) >>> 0;
}
