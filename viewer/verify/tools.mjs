// What the checks in a browser need: the command, its server, and pages that note everything that is said.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createServer, request as sendRequest } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import puppeteer from "puppeteer-core";

/** Runs the command `zvf` and returns what it prints. */
export function runZvf(program, words, options = {}) {
  return execFileSync(program, words, { encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "pipe"], ...options });
}

/** The files below a folder. */
export const listFiles = (folder) => readdirSync(folder, { withFileTypes: true, recursive: true }).filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name)).sort();

/** Runs the command with `--json` and returns the document. */
export const askZvf = (program, words) => JSON.parse(runZvf(program, [...words, "--json"]));

/** Starts `zvf serve` on a free port of this machine; `end` stops it and waits for it. Where ZVF_PAGE names a folder, the page is that
 * one and not the one that the command was built with. */
export async function startServer(program, words) {
  const child = spawn(program, ["serve", ...words, "--bind", "127.0.0.1:0", "--json"], { stdio: ["ignore", "pipe", "inherit"] });
  const line = await new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).once("line", resolve);
    child.once("exit", (code) => reject(new Error(`zvf serve ended with ${code}`)));
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const said = JSON.parse(line), proxy = process.env.ZVF_PAGE ? await startProxy(said.url, { page: process.env.ZVF_PAGE }) : null;
  return { ...said, url: proxy?.url ?? said.url, pid: child.pid, end: () => { proxy?.end(); child.kill("SIGINT"); return ended; } };
}

/** Starts Chromium without a screen, with a GPU made of software; CHROMIUM names another program. */
export function launchBrowser() {
  return puppeteer.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", protocolTimeout: 600_000,
    args: ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist", "--hide-scrollbars", "--enable-precise-memory-info"],
  });
}

/** Opens the viewer with a state; `said` has errors and warnings, refusals of the policy, and requests to other hosts. */
export async function openViewer(browser, url, { width = 1280, height = 720, wait = true, prepare = null } = {}) {
  const page = await browser.newPage(), said = [], requests = [];
  await page.setViewport({ width, height });
  page.on("console", (message) => { if (["error", "warn"].includes(message.type())) said.push(`${message.type()}: ${message.text()}`); });
  page.on("pageerror", (error) => said.push(`uncaught: ${error}`));
  const origin = new URL(url).origin;
  page.on("request", (request) => { const to = request.url(); requests.push(to); if (!to.startsWith(origin) && !/^(data|blob|about):/.test(to)) said.push(`another host: ${to}`); });
  await page.evaluateOnNewDocument(() => { addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`)); });
  if (prepare) await prepare(page);
  await page.goto(url);
  if (wait) await page.evaluate(() => window.zvfViewer.ready);
  const ask = (work, ...words) => page.evaluate(work, ...words);
  return { page, ask, said, requests };
}

/** Closes a page that has said nothing: no fault, no warning, no request to another host. */
export async function leave(page, said) {
  assert.deepEqual(said, []);
  await page.close();
}

/** How many pixels of what is drawn over the picture lie between two colours. */
export const countOverlay = (page, low = [0, 0, 0, 1], high = [255, 255, 255, 255]) => page.$eval("#overlay", (one, low, high) => { const sheet = new OffscreenCanvas(one.width, one.height), pen = sheet.getContext("2d", { willReadFrequently: true }); pen.drawImage(one, 0, 0); const { data } = pen.getImageData(0, 0, one.width, one.height); let count = 0; for (let at = 0; at < data.length; at += 4) if (low.every((x, i) => data[at + i] >= x && data[at + i] <= high[i])) count++; return count; }, low, high);

/** A server before another one: it gives the files of a folder for those of the page, holds files of stores back for `hold.ms`, and
 * empties `spoil.left` parts of cells, as caches of browsers do. */
export async function startProxy(url, { page: folder = process.env.ZVF_PAGE ?? null, hold = { ms: 0 }, spoil = { left: 0 } }) {
  const origin = new URL(url), { headers } = await fetch(new URL("view/", url)), policy = headers.get("content-security-policy");
  const proxy = createServer((request, answer) => {
    const [, name] = /^\/view\/([^/?]*)$/.exec(request.url) ?? [];
    if (folder && name !== undefined) {
      const path = join(folder, name || "index.html"), type = { html: "text/html", js: "text/javascript", css: "text/css", wasm: "application/wasm" }[path.split(".").pop()];
      const isPacked = existsSync(`${path}.gz`);
      answer.writeHead(200, { "Content-Type": type, "Content-Security-Policy": policy, ...(isPacked ? { "Content-Encoding": "gzip" } : {}) });
      answer.end(readFileSync(isPacked ? `${path}.gz` : path));
      return;
    }
    const forward = () => {
      if (answer.destroyed) return;
      const far = sendRequest({ host: origin.hostname, port: origin.port, path: request.url, method: request.method, headers: { ...request.headers, host: origin.host } }, (reply) => {
        const isSpoilt = reply.statusCode === 206 && /^\/data\/.*\/c\//.test(request.url) && spoil.left-- > 0;
        answer.writeHead(reply.statusCode, isSpoilt ? { ...reply.headers, "content-length": "0" } : reply.headers);
        if (isSpoilt) { reply.resume(); answer.end(); } else reply.pipe(answer);
      });
      far.on("error", () => answer.destroy());
      answer.on("close", () => far.destroy());
      request.pipe(far);
    };
    if (hold.ms && request.url.startsWith("/data/")) setTimeout(forward, hold.ms);
    else forward();
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${proxy.address().port}/`, end: () => { proxy.closeAllConnections(); proxy.close(); } };
}

/** The address of a state, at the server's viewer. */
export const viewOf = (server, store, more = {}) => {
  const data = [store].flat().map((name) => `../data/${name}/`);
  return `${server.url.replace(/\/$/, "")}/view/#!${encodeURIComponent(JSON.stringify({ store: data.length === 1 ? data[0] : data, ...more }))}`;
};

/** A picture of the page's scene as pixels: { width, height, data }. */
export function takePixels(ask, width, height, transparent = false) {
  return ask(async ({ width, height, transparent }) => {
    const bitmap = await createImageBitmap(await window.zvfViewer.screenshot({ width, height, transparent })), canvas = new OffscreenCanvas(width, height), pen = canvas.getContext("2d");
    pen.drawImage(bitmap, 0, 0);
    const { data } = pen.getImageData(0, 0, width, height);
    let text = "";
    for (let at = 0; at < data.length; at += 0x8000) text += String.fromCharCode(...data.subarray(at, at + 0x8000));
    return btoa(text);
  }, { width, height, transparent }).then((text) => ({ width, height, data: Buffer.from(text, "base64") }));
}

/** How many pixels differ from `background`, given as #rrggbb. */
export function countColoured({ data }, background) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(background.slice(at, at + 2), 16));
  let count = 0;
  for (let at = 0; at < data.length; at += 4) if (Math.abs(data[at] - r) + Math.abs(data[at + 1] - g) + Math.abs(data[at + 2] - b) > 24) count++;
  return count;
}

/** The share of pixels that differ between two pictures of one size. */
export function shareDiffering(a, b) {
  let count = 0;
  for (let at = 0; at < a.data.length; at += 4) if (Math.abs(a.data[at] - b.data[at]) + Math.abs(a.data[at + 1] - b.data[at + 1]) + Math.abs(a.data[at + 2] - b.data[at + 2]) > 24) count++;
  return count / (a.width * a.height);
}

/** Milliseconds of a frame of 100 000 points of 2 px in plain WebGL 2, which times are scaled by. */
export async function measureBare(browser) {
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 720 });
  const ms = await page.evaluate(() => {
    const canvas = document.createElement("canvas");
    canvas.width = 1280; canvas.height = 720;
    const gl = canvas.getContext("webgl2"), program = gl.createProgram();
    for (const [type, text] of [[gl.VERTEX_SHADER, "#version 300 es\nin vec3 p; void main(){gl_Position=vec4(p,1.0);gl_PointSize=2.0;}"], [gl.FRAGMENT_SHADER, "#version 300 es\nprecision mediump float; out vec4 c; void main(){c=vec4(1.0);}"]]) {
      const shader = gl.createShader(type);
      gl.shaderSource(shader, text); gl.compileShader(shader); gl.attachShader(program, shader);
    }
    gl.linkProgram(program); gl.useProgram(program);
    const points = new Float32Array(300_000).map(() => Math.random() * 2 - 1);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, points, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(0); gl.vertexAttribPointer(0, 3, gl.FLOAT, false, 0, 0); gl.enable(gl.DEPTH_TEST);
    const times = [];
    for (let i = 0; i < 9; i++) {
      const start = performance.now();
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT); gl.drawArrays(gl.POINTS, 0, 100_000);
      gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
      times.push(performance.now() - start);
    }
    return times.sort((a, b) => a - b)[4];
  });
  await page.close();
  return ms;
}

/** A random number generator that gives the same every time. */
export function randomFrom(seed) {
  let state = seed >>> 0;
  return () => { state = (state + 0x6d2b79f5) >>> 0; let x = state; x = Math.imul(x ^ (x >>> 15), x | 1); x ^= x + Math.imul(x ^ (x >>> 7), x | 61); return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32; };
}
