// Drawing: one program a form of geometry, one draw call a cell, positions relative to the eye.

import { formOf } from "./pool.ts";
import type { View } from "./camera.ts";
import type { CellData } from "./colour.ts";
import type { Layer, State } from "./state.ts";

const COMMON = `#version 300 es
precision highp float;
precision highp int;
`;

// Positions of a cell are relative to its corner; uOffset is that corner relative to the eye, taken in 64 bits.
const VERTEX = `${COMMON}
layout(location=0) in vec3 aPosition;
layout(location=1) in vec4 aColour;
layout(location=2) in vec3 aNormal;
uniform mat4 uMatrix; uniform vec3 uOffset; uniform vec3 uForward; uniform vec2 uShift;
uniform float uPointSize, uWorldSize, uLargest, uPixelsAtOne, uFlat; uniform int uPass;
uniform vec4 uPlanes[12]; uniform int uPlaneCount;
out vec4 vColour; out float vDepth; out vec3 vRelative; out vec3 vNormal; flat out uint vIndex; out float vCut; flat out float vSize;
void main() {
  vec3 relative = aPosition + uOffset;
  gl_Position = uMatrix * vec4(relative, 1.0);
  gl_Position.xy += uShift * gl_Position.w;
  vRelative = relative; vDepth = dot(relative, uForward); vColour = aColour; vNormal = aNormal; vIndex = uint(gl_VertexID);
  float cut = 1e30;
  for (int i = 0; i < 12; i++) { if (i >= uPlaneCount) break; cut = min(cut, uPlanes[i].w - dot(uPlanes[i].xyz, relative)); }
  vCut = cut;
  float scale = uFlat > 0.5 ? uPixelsAtOne : uPixelsAtOne / max(vDepth, 1e-20);
  gl_PointSize = uWorldSize > 0.0 ? clamp(uWorldSize * scale, uPointSize, uLargest) : uPointSize;
  if (uPass == 2) gl_PointSize += 4.0;
  vSize = gl_PointSize;
  if (aColour.a == 0.0 || (uPass >= 2 && aColour.a > 0.9)) gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
}`;

const FRAGMENT = `${COMMON}
in vec4 vColour; in float vDepth; in vec3 vRelative; in vec3 vNormal; flat in uint vIndex; in float vCut; flat in float vSize;
uniform int uForm; uniform float uOpacity, uRound; uniform vec2 uDepthRange; uniform int uDepthColour;
uniform vec3 uForward, uBack; uniform vec4 uSelect; uniform int uPass;
layout(location=0) out vec4 oColour;
void main() {
  if (vColour.a == 0.0 || vCut < 0.0) discard;
  vec3 colour = vColour.rgb;
  if (uDepthColour == 1) {
    float t = clamp((vDepth - uDepthRange.x) / (uDepthRange.y - uDepthRange.x), 0.0, 1.0);
    colour = mix(vec3(1.0, 0.9, 0.55), vec3(0.16, 0.1, 0.42), t);
  }
  if (uForm == 0 && uRound > 0.5 && vSize > 2.5) {
    vec2 p = gl_PointCoord * 2.0 - 1.0; float r = dot(p, p);
    if (r > 1.0) discard;
    colour *= 0.72 + 0.28 * sqrt(1.0 - r);
  }
  if (uForm == 2) {
    vec3 normal = dot(vNormal, vNormal) > 0.01 ? normalize(vNormal) : normalize(cross(dFdx(vRelative), dFdy(vRelative)));
    vec3 toEye = normalize(-vRelative);
    float facing = abs(dot(normal, toEye));
    vec3 half_ = normalize(toEye + vec3(0.35, 0.55, 0.2));
    float shine = pow(max(abs(dot(normal, half_)), 0.0), 40.0);
    float side = 0.5 + 0.5 * dot(normal, normalize(vec3(0.35, 0.55, 0.75)));
    colour = colour * (0.26 + 0.54 * facing + 0.26 * side) + 0.12 * shine;
    if (uPass == 3) colour = mix(colour, uSelect.rgb, 0.9 * pow(1.0 - facing, 3.0));
  }
  // What is not selected steps back, and what is has a rim.
  if (uPass == 1 && vColour.a > 0.9) colour = mix(uBack, colour, 0.3);
  if (uPass == 2) colour = uSelect.rgb;
  oColour = vec4(colour, uPass >= 2 ? 1.0 : uOpacity);
}`;

const PICK_FRAGMENT = `${COMMON}
in vec4 vColour; in float vDepth; in vec3 vRelative; in vec3 vNormal; flat in uint vIndex; in float vCut;
uniform uint uCell;
layout(location=0) out uvec4 oPick;
void main() {
  if (vColour.a == 0.0 || vCut < 0.0) discard;
  oPick = uvec4(uCell + 1u, vIndex, floatBitsToUint(vDepth), 1u);
}`;

// Lines wider than a pixel: a quad for each segment, both ends as attributes of the instance.
const WIDE_VERTEX = `${COMMON}
layout(location=0) in vec3 aFrom;
layout(location=1) in vec3 aTo;
layout(location=2) in vec4 aFromColour;
layout(location=3) in vec4 aToColour;
uniform mat4 uMatrix; uniform vec3 uOffset; uniform vec3 uForward; uniform vec2 uSize; uniform float uWidth; uniform int uPass;
uniform vec4 uPlanes[12]; uniform int uPlaneCount;
out vec4 vColour; out float vDepth; out vec3 vRelative; out vec3 vNormal; flat out uint vIndex; out float vCut; flat out float vSize;
void main() {
  vSize = 0.0;
  bool end = (gl_VertexID & 1) == 1; float side = (gl_VertexID & 2) == 2 ? 1.0 : -1.0;
  vec3 a = aFrom + uOffset, b = aTo + uOffset;
  vec4 p = uMatrix * vec4(a, 1.0), q = uMatrix * vec4(b, 1.0);
  if (p.w < 1e-6 && q.w < 1e-6) { gl_Position = vec4(2.0, 2.0, 2.0, 1.0); return; }
  float eps = 1e-6;
  if (p.w < eps) { float t = (eps - p.w) / (q.w - p.w); p = mix(p, q, t); }
  if (q.w < eps) { float t = (eps - q.w) / (p.w - q.w); q = mix(q, p, t); }
  vec2 step = (q.xy / q.w - p.xy / p.w) * uSize; float n = length(step);
  vec2 direction = n > 1e-6 ? step / n : vec2(1.0, 0.0);
  vec4 at = end ? q : p;
  vec2 shift = vec2(-direction.y, direction.x) * side * uWidth + direction * (end ? 1.0 : -1.0) * 0.25 * uWidth;
  gl_Position = at + vec4(shift / uSize * at.w, 0.0, 0.0);
  vRelative = end ? b : a; vDepth = dot(vRelative, uForward); vNormal = vec3(0.0); vIndex = uint(gl_InstanceID);
  vColour = end ? aToColour : aFromColour;
  if (aFromColour.a == 0.0 || aToColour.a == 0.0 || (uPass >= 2 && aFromColour.a > 0.9)) gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
  float cut = 1e30;
  for (int i = 0; i < 12; i++) { if (i >= uPlaneCount) break; cut = min(cut, uPlanes[i].w - dot(uPlanes[i].xyz, vRelative)); }
  vCut = cut;
}`;

const SCREEN_VERTEX = `${COMMON}
void main() { vec2 p = vec2((gl_VertexID << 1) & 2, gl_VertexID & 2); gl_Position = vec4(p * 2.0 - 1.0, 0.0, 1.0); }`;

// Eye-dome lighting: darker where neighbours are nearer to the eye.
const SCREEN_FRAGMENT = `${COMMON}
uniform sampler2D uColours; uniform highp sampler2D uDepths; uniform vec2 uNearFar; uniform float uFlat, uStrength, uSmooth;
layout(location=0) out vec4 oColour;
float logDepth(ivec2 at) {
  float d = texelFetch(uDepths, clamp(at, ivec2(0), textureSize(uDepths, 0) - 1), 0).r;
  if (d >= 1.0) return 1e9;
  float n = uNearFar.x, f = uNearFar.y;
  return uFlat > 0.5 ? d * (f - n) / (f - n) * 8.0 : log2(2.0 * n * f / (f + n - (2.0 * d - 1.0) * (f - n)));
}
float luma(vec2 at) { vec4 c = texture(uColours, at); return dot(c.rgb, vec3(0.299, 0.587, 0.114)); }
// Edges are smoothed along their direction (FXAA).
vec4 smoothed(vec2 at, vec2 texel) {
  float nw = luma(at + vec2(-1.0, -1.0) * texel), ne = luma(at + vec2(1.0, -1.0) * texel);
  float sw = luma(at + vec2(-1.0, 1.0) * texel), se = luma(at + vec2(1.0, 1.0) * texel), m = luma(at);
  float low = min(m, min(min(nw, ne), min(sw, se))), high = max(m, max(max(nw, ne), max(sw, se)));
  if (high - low < 0.04) return texture(uColours, at);
  vec2 step = vec2(-((nw + ne) - (sw + se)), (nw + sw) - (ne + se));
  float least = max((nw + ne + sw + se) * 0.03125, 0.0078125);
  step = clamp(step / (min(abs(step.x), abs(step.y)) + least), -8.0, 8.0) * texel;
  vec4 near = 0.5 * (texture(uColours, at - step / 6.0) + texture(uColours, at + step / 6.0));
  vec4 far = near * 0.5 + 0.25 * (texture(uColours, at - step * 0.5) + texture(uColours, at + step * 0.5));
  float l = dot(far.rgb, vec3(0.299, 0.587, 0.114));
  return l < low || l > high ? near : far;
}
void main() {
  ivec2 at = ivec2(gl_FragCoord.xy); vec2 size = vec2(textureSize(uColours, 0));
  vec4 colour = uSmooth > 0.5 ? smoothed(gl_FragCoord.xy / size, 1.0 / size) : texelFetch(uColours, at, 0);
  float own = logDepth(at), sum = 0.0;
  if (uStrength > 0.0 && own < 1e8) {
    for (int i = 0; i < 4; i++) {
      ivec2 step = ivec2(i == 0 ? 1 : i == 1 ? -1 : 0, i == 2 ? 1 : i == 3 ? -1 : 0);
      float near1 = logDepth(at + step), near2 = logDepth(at + step * 3);
      if (near1 < 1e8) sum += max(0.0, own - near1);
      if (near2 < 1e8) sum += 0.5 * max(0.0, own - near2);
    }
    colour.rgb *= exp(-uStrength * sum);
  }
  oColour = colour;
}`;

interface Program { program: WebGLProgram; at: (name: string) => WebGLUniformLocation | null }

export interface GpuCell {
  vao: WebGLVertexArrayObject;
  buffers: WebGLBuffer[];
  colours: WebGLBuffer;
  indices: number;
  form: 0 | 1 | 2;
  count: number;
  bytes: number;
  wide: { vao: WebGLVertexArrayObject; colours: WebGLBuffer; count: number } | null;
  normals: WebGLBuffer | null;
}

export interface DrawItem { gpu: GpuCell; data: CellData; layer: Layer; share: number; coarseness: number; isSelected: boolean; spacing: number }

export class Renderer {
  readonly gl: WebGL2RenderingContext;
  readonly canvas: HTMLCanvasElement;
  readonly software: boolean;
  #programs: Program[] = [];
  #pickTarget: { frame: WebGLFramebuffer; buffers: WebGLRenderbuffer[] } | null = null;
  #scene: { frame: WebGLFramebuffer; colours: WebGLTexture; depths: WebGLTexture; width: number; height: number } | null = null;

  constructor(canvas: HTMLCanvasElement) {
    this.canvas = canvas;
    const gl = canvas.getContext("webgl2", { antialias: false, alpha: true, premultipliedAlpha: false, powerPreference: "high-performance" });
    if (!gl) throw new Error("This browser has no WebGL 2, which the picture needs.");
    this.gl = gl;
    const info = gl.getExtension("WEBGL_debug_renderer_info");
    this.software = /swiftshader|llvmpipe|software/i.test(String(info ? gl.getParameter(info.UNMASKED_RENDERER_WEBGL) : ""));
    this.restore();
  }

  /** Makes what a context that was lost has lost. */
  restore(): void {
    this.#programs = [[VERTEX, FRAGMENT], [VERTEX, PICK_FRAGMENT], [WIDE_VERTEX, FRAGMENT], [SCREEN_VERTEX, SCREEN_FRAGMENT], [WIDE_VERTEX, PICK_FRAGMENT]].map(([v, f]) => this.#link(v, f));
    this.#pickTarget = null;
    this.#scene = null;
  }

  #link(vertex: string, fragment: string): Program {
    const gl = this.gl, program = gl.createProgram()!;
    for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]] as const) {
      const shader = gl.createShader(kind)!;
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS) && !gl.isContextLost()) throw new Error(`a shader does not compile: ${gl.getShaderInfoLog(shader)}`);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) throw new Error(`a program does not link: ${gl.getProgramInfoLog(program)}`);
    const places = new Map<string, WebGLUniformLocation | null>();
    const at = (name: string) => { if (!places.has(name)) places.set(name, gl.getUniformLocation(program, name)); return places.get(name)!; };
    return { program, at };
  }

  upload(data: CellData, colours: Uint8Array, kind: string, wide: boolean, wireframe: boolean): GpuCell {
    const gl = this.gl, buffers: WebGLBuffer[] = [];
    let bytes = 0;
    const buffer = (target: number, array: ArrayBufferView) => {
      const made = gl.createBuffer()!;
      gl.bindBuffer(target, made);
      gl.bufferData(target, array, gl.STATIC_DRAW);
      buffers.push(made);
      bytes += array.byteLength;
      return made;
    };
    const attribute = (at: number, size: number, type: number, normalized: boolean, stride = 0, offset = 0) => {
      gl.enableVertexAttribArray(at);
      gl.vertexAttribPointer(at, size, type, normalized, stride, offset);
    };
    const form = formOf(kind) === "mesh" ? 2 : formOf(kind) === "point_cloud" ? 0 : 1;
    const vao = gl.createVertexArray()!;
    gl.bindVertexArray(vao);
    buffer(gl.ARRAY_BUFFER, data.positions);
    attribute(0, 3, gl.FLOAT, false);
    const colourBuffer = buffer(gl.ARRAY_BUFFER, colours);
    attribute(1, 4, gl.UNSIGNED_BYTE, true);
    let count = data.ownVertices, indices = 0, wideCell: GpuCell["wide"] = null, normals: WebGLBuffer | null = null;
    if (form === 2) {
      normals = buffer(gl.ARRAY_BUFFER, data.normals ??= vertexNormals(data));
      attribute(2, 3, gl.BYTE, true, 4);
      const list = wireframe ? lineList(data.faces) : data.faces;
      buffer(gl.ELEMENT_ARRAY_BUFFER, list);
      count = indices = list.length;
    } else if (form === 1 && !wide) {
      buffer(gl.ELEMENT_ARRAY_BUFFER, data.segments);
      count = indices = data.segments.length;
    } else if (form === 1) {
      const segments = data.segments, ends = new Float32Array(segments.length * 3);
      for (let i = 0; i < segments.length; i++) { const at = segments[i] * 3; ends[i * 3] = data.positions[at]; ends[i * 3 + 1] = data.positions[at + 1]; ends[i * 3 + 2] = data.positions[at + 2]; }
      const wideVao = gl.createVertexArray()!;
      gl.bindVertexArray(wideVao);
      buffer(gl.ARRAY_BUFFER, ends);
      attribute(0, 3, gl.FLOAT, false, 24, 0); attribute(1, 3, gl.FLOAT, false, 24, 12);
      const wideColours = buffer(gl.ARRAY_BUFFER, endColours(segments, colours));
      attribute(2, 4, gl.UNSIGNED_BYTE, true, 8, 0); attribute(3, 4, gl.UNSIGNED_BYTE, true, 8, 4);
      for (let at = 0; at < 4; at++) gl.vertexAttribDivisor(at, 1);
      wideCell = { vao: wideVao, colours: wideColours, count: segments.length / 2 };
    }
    gl.bindVertexArray(null);
    return { vao, buffers, colours: colourBuffer, indices, form: form as 0 | 1 | 2, count, bytes, wide: wideCell, normals };
  }

  recolour(cell: GpuCell, data: CellData, colours: Uint8Array): void {
    const gl = this.gl;
    gl.bindBuffer(gl.ARRAY_BUFFER, cell.colours);
    gl.bufferSubData(gl.ARRAY_BUFFER, 0, colours);
    if (cell.wide) {
      gl.bindBuffer(gl.ARRAY_BUFFER, cell.wide.colours);
      gl.bufferSubData(gl.ARRAY_BUFFER, 0, endColours(data.segments, colours));
    }
  }

  /** Gives a mesh cell other normals. */
  shade(cell: GpuCell, normals: Int8Array): void {
    if (!cell.normals) return;
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, cell.normals);
    this.gl.bufferSubData(this.gl.ARRAY_BUFFER, 0, normals);
  }

  remove(cell: GpuCell): void {
    for (const buffer of cell.buffers) this.gl.deleteBuffer(buffer);
    this.gl.deleteVertexArray(cell.vao);
    if (cell.wide) this.gl.deleteVertexArray(cell.wide.vao);
  }

  /** Draws a frame to the canvas, or into `pixels` of a picture. */
  draw(view: View, items: DrawItem[], state: State, planes: Float32Array, transparent = false, target: WebGLFramebuffer | null = null, moving = false): void {
    const gl = this.gl, background = transparent ? [0, 0, 0, 0] : [...hexParts(state.background), 1];
    const scene = this.#sceneOf(view.width, view.height);
    gl.bindFramebuffer(gl.FRAMEBUFFER, scene.frame);
    gl.viewport(0, 0, view.width, view.height);
    gl.clearColor(background[0], background[1], background[2], background[3]);
    gl.depthMask(true);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.enable(gl.DEPTH_TEST);
    gl.depthFunc(gl.LEQUAL);
    const opaque = items.filter((item) => item.layer.opacity >= 1), clear = items.filter((item) => item.layer.opacity < 1);
    gl.disable(gl.BLEND);
    const selected = items.filter((item) => item.isSelected), back = hexParts(state.background), pass = selected.length ? 1 : 0;
    this.#drawItems(view, opaque, planes, null, pass, back);
    if (clear.length) {
      gl.enable(gl.BLEND);
      gl.blendFuncSeparate(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA, gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
      gl.depthMask(false);
      this.#drawItems(view, clear, planes, null, pass, back);
      gl.depthMask(true);
      gl.disable(gl.BLEND);
    }
    // What is selected lies over all others, before a rim of its own.
    for (const [number, near] of [[2, 0.02], [3, 0]]) if (selected.length) {
      gl.depthRange(near, near + 0.02);
      this.#drawItems(view, selected.filter((item) => number === 3 || item.gpu.form !== 2), planes, null, number, back);
    }
    gl.depthRange(0, 1);
    gl.bindFramebuffer(gl.FRAMEBUFFER, target);
    gl.disable(gl.DEPTH_TEST);
    const { program, at } = this.#programs[3];
    gl.useProgram(program);
    gl.activeTexture(gl.TEXTURE0);
    gl.bindTexture(gl.TEXTURE_2D, scene.colours);
    gl.activeTexture(gl.TEXTURE1);
    gl.bindTexture(gl.TEXTURE_2D, scene.depths);
    gl.uniform1i(at("uColours"), 0);
    gl.uniform1i(at("uDepths"), 1);
    gl.uniform2f(at("uNearFar"), view.near, view.far);
    gl.uniform1f(at("uFlat"), view.orthographic ? 1 : 0);
    gl.uniform1f(at("uStrength"), state.edl && !(moving && this.software) ? 1.1 : 0);
    gl.uniform1f(at("uSmooth"), moving && this.software ? 0 : 1);
    gl.bindVertexArray(null);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
  }

  #drawItems(view: View, items: DrawItem[], planes: Float32Array, pick: { matrix: Float32Array } | null, pass = 0, back: [number, number, number] = [0, 0, 0]): void {
    const gl = this.gl;
    let used: Program | null = null;
    items.forEach((item, number) => {
      const { gpu, data, layer } = item, isWide = gpu.wide !== null;
      const program = this.#programs[pick ? (isWide ? 4 : 1) : isWide ? 2 : 0];
      const { at } = program;
      if (used !== program) {
        gl.useProgram(program.program);
        gl.uniformMatrix4fv(at("uMatrix"), false, pick ? pick.matrix : Float32Array.from(view.matrix));
        gl.uniform3f(at("uForward"), view.forward[0], view.forward[1], view.forward[2]);
        gl.uniform4fv(at("uPlanes"), planes.length ? planes : new Float32Array(4));
        gl.uniform1i(at("uPlaneCount"), planes.length / 4);
        gl.uniform1f(at("uPixelsAtOne"), view.pixelsAtOne);
        gl.uniform1f(at("uFlat"), view.orthographic ? 1 : 0);
        gl.uniform2f(at("uSize"), view.width, view.height);
        gl.uniform2f(at("uDepthRange"), depthRange[0], depthRange[1]);
        gl.uniform4f(at("uSelect"), 1, 0.86, 0.2, 1);
        gl.uniform3f(at("uBack"), back[0], back[1], back[2]);
        gl.uniform1i(at("uPass"), pass);
        used = program;
      }
      gl.uniform3f(at("uOffset"), data.origin[0] - view.eye[0], data.origin[1] - view.eye[1], data.origin[2] - view.eye[2]);
      const ratio = Math.min(2, globalThis.devicePixelRatio || 1);
      // Points that are far from each other are drawn larger, so that they fill what they stand for.
      const size = Math.max(1, layer.size.value * ratio), { mode } = layer.size;
      gl.uniform1f(at("uPointSize"), mode === "world" ? 1 : size);
      gl.uniform1f(at("uWorldSize"), mode === "world" ? layer.size.value : mode === "adaptive" ? item.spacing : 0);
      gl.uniform1f(at("uLargest"), mode === "world" ? 64 : size * 5);
      gl.uniform1f(at("uRound"), size > 2.5 || mode !== "fixed" ? 1 : 0);
      gl.uniform1f(at("uOpacity"), layer.opacity);
      gl.uniform1i(at("uForm"), gpu.form);
      gl.uniform1i(at("uDepthColour"), layer.colour.by === "depth" ? 1 : 0);
      if (pick) gl.uniform1ui(at("uCell"), number);
      if (isWide) {
        gl.uniform1f(at("uWidth"), Math.max(layer.width * ratio, pick ? 3 : 1) + (pass === 2 ? 4 : 0));
        gl.bindVertexArray(gpu.wide!.vao);
        gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, Math.max(1, Math.floor(gpu.wide!.count * item.share)));
        return;
      }
      gl.bindVertexArray(gpu.vao);
      const count = item.share < 1 ? Math.floor((gpu.count * item.share) / 6) * 6 : gpu.count;
      if (!count) return;
      // Lines of one pixel have a rim where they are drawn around their place.
      const shifts = pass === 2 && gpu.form === 1 ? [[1, 1], [1, -1], [-1, 1], [-1, -1], [0, 0]] : [[0, 0]];
      if (gpu.indices) for (const [x, y] of shifts) {
        gl.uniform2f(at("uShift"), (3 * x * ratio) / view.width, (3 * y * ratio) / view.height);
        gl.drawElements(gpu.form === 2 && !layer.wireframe ? gl.TRIANGLES : gl.LINES, count, gl.UNSIGNED_INT, 0);
      }
      else gl.drawArrays(gl.POINTS, 0, count);
    });
    gl.bindVertexArray(null);
  }

  /** What is nearest to a pixel, within five of it: the number of the item and of the vertex, or of the segment. */
  pick(view: View, items: DrawItem[], planes: Float32Array, x: number, y: number): { item: number; vertex: number; depth: number } | null {
    const gl = this.gl, size = 11;
    if (!this.#pickTarget) {
      const frame = gl.createFramebuffer()!, ids = gl.createRenderbuffer()!, depths = gl.createRenderbuffer()!;
      gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
      gl.bindRenderbuffer(gl.RENDERBUFFER, ids);
      gl.renderbufferStorage(gl.RENDERBUFFER, gl.RGBA32UI, size, size);
      gl.framebufferRenderbuffer(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.RENDERBUFFER, ids);
      gl.bindRenderbuffer(gl.RENDERBUFFER, depths);
      gl.renderbufferStorage(gl.RENDERBUFFER, gl.DEPTH_COMPONENT24, size, size);
      gl.framebufferRenderbuffer(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.RENDERBUFFER, depths);
      this.#pickTarget = { frame, buffers: [ids, depths] };
    }
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.#pickTarget.frame);
    gl.viewport(0, 0, size, size);
    gl.clearBufferuiv(gl.COLOR, 0, [0, 0, 0, 0]);
    gl.depthMask(true);
    gl.clearBufferfv(gl.DEPTH, 0, [1]);
    gl.enable(gl.DEPTH_TEST);
    gl.disable(gl.BLEND);
    // The eleven pixels around the place fill the small picture.
    const sx = view.width / size, sy = view.height / size;
    const cx = (2 * x) / view.width - 1, cy = 1 - (2 * y) / view.height, m = Float32Array.from(view.matrix);
    for (let c = 0; c < 4; c++) {
      m[c * 4] = sx * (view.matrix[c * 4] - cx * view.matrix[c * 4 + 3]);
      m[c * 4 + 1] = sy * (view.matrix[c * 4 + 1] - cy * view.matrix[c * 4 + 3]);
    }
    const small = { ...view, width: size, height: size };
    this.#drawItems(small, items, planes, { matrix: m });
    const pixels = new Uint32Array(size * size * 4);
    gl.readPixels(0, 0, size, size, gl.RGBA_INTEGER, gl.UNSIGNED_INT, pixels);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    let best: { item: number; vertex: number; depth: number } | null = null, nearest = Infinity;
    const asFloat = new Float32Array(pixels.buffer);
    for (let i = 0; i < size * size; i++) {
      if (pixels[i * 4 + 3] === 0) continue;
      const dx = (i % size) - 5, dy = Math.floor(i / size) - 5, distance = dx * dx + dy * dy;
      if (distance < nearest) { nearest = distance; best = { item: pixels[i * 4] - 1, vertex: pixels[i * 4 + 1], depth: asFloat[i * 4 + 2] }; }
    }
    return best;
  }

  #sceneOf(width: number, height: number) {
    if (this.#scene && this.#scene.width === width && this.#scene.height === height) return this.#scene;
    const gl = this.gl;
    if (this.#scene) { gl.deleteFramebuffer(this.#scene.frame); gl.deleteTexture(this.#scene.colours); gl.deleteTexture(this.#scene.depths); }
    const texture = (format: number, filter: number) => {
      const made = gl.createTexture()!;
      gl.activeTexture(gl.TEXTURE0);
      gl.bindTexture(gl.TEXTURE_2D, made);
      gl.texStorage2D(gl.TEXTURE_2D, 1, format, width, height);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, filter);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, filter);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE);
      return made;
    };
    const colours = texture(gl.RGBA8, gl.LINEAR), depths = texture(gl.DEPTH_COMPONENT24, gl.NEAREST), frame = gl.createFramebuffer()!;
    gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, colours, 0);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.TEXTURE_2D, depths, 0);
    this.#scene = { frame, colours, depths, width, height };
    return this.#scene;
  }

  /** The pixels of a picture, rows from the top. */
  picture(view: View, items: DrawItem[], state: State, planes: Float32Array, transparent: boolean): Uint8ClampedArray {
    const gl = this.gl, { width, height } = view;
    const out = gl.createRenderbuffer()!, frame = gl.createFramebuffer()!;
    gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
    gl.bindRenderbuffer(gl.RENDERBUFFER, out);
    gl.renderbufferStorage(gl.RENDERBUFFER, gl.RGBA8, width, height);
    gl.framebufferRenderbuffer(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.RENDERBUFFER, out);
    this.draw(view, items, state, planes, transparent, frame);
    const pixels = new Uint8ClampedArray(width * height * 4), turned = new Uint8ClampedArray(pixels.length);
    gl.readPixels(0, 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, pixels);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.deleteFramebuffer(frame);
    gl.deleteRenderbuffer(out);
    for (let row = 0; row < height; row++) turned.set(pixels.subarray((height - 1 - row) * width * 4, (height - row) * width * 4), row * width * 4);
    return turned;
  }

  /** Waits until the GPU has done what it was told. */
  finish(): void { this.gl.readPixels(0, 0, 1, 1, this.gl.RGBA, this.gl.UNSIGNED_BYTE, new Uint8Array(4)); }
}

/** Between which depths colours by depth run. */
export const depthRange: [number, number] = [0, 1];

export function hexParts(text: string): [number, number, number] {
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16) / 255) as [number, number, number];
}

function endColours(segments: Uint32Array, colours: Uint8Array): Uint32Array {
  const all = new Uint32Array(colours.buffer, colours.byteOffset, colours.length / 4), ends = new Uint32Array(segments.length);
  for (let i = 0; i < segments.length; i++) ends[i] = all[segments[i]];
  return ends;
}

function lineList(faces: Uint32Array): Uint32Array {
  const lines = new Uint32Array(faces.length * 2);
  for (let f = 0, l = 0; f < faces.length; f += 3) for (let k = 0; k < 3; k++) { lines[l++] = faces[f + k]; lines[l++] = faces[f + ((k + 1) % 3)]; }
  return lines;
}

/** Normals weighted by area, a byte each with one of padding. */
function vertexNormals(data: CellData): Int8Array {
  const p = data.positions, sum = new Float32Array(p.length), out = new Int8Array((p.length / 3) * 4);
  // Faces that other cells draw count as well, or the light would break at the walls of cells.
  for (const faces of [data.faces, data.rim]) for (let f = 0; f < faces.length; f += 3) {
    const a = faces[f] * 3, b = faces[f + 1] * 3, c = faces[f + 2] * 3;
    const ux = p[b] - p[a], uy = p[b + 1] - p[a + 1], uz = p[b + 2] - p[a + 2], vx = p[c] - p[a], vy = p[c + 1] - p[a + 1], vz = p[c + 2] - p[a + 2];
    const nx = uy * vz - uz * vy, ny = uz * vx - ux * vz, nz = ux * vy - uy * vx;
    for (const at of [a, b, c]) { sum[at] += nx; sum[at + 1] += ny; sum[at + 2] += nz; }
  }
  for (let i = 0, o = 0; i < sum.length; i += 3, o += 4) {
    const n = Math.hypot(sum[i], sum[i + 1], sum[i + 2]) || 1;
    out[o] = (sum[i] / n) * 127; out[o + 1] = (sum[i + 1] / n) * 127; out[o + 2] = (sum[i + 2] / n) * 127;
  }
  return out;
}
