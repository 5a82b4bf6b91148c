// Tries the page in headless Chromium with software GL: figures, and what it does. `cargo xtask viewer verify` starts it.
//   node viewer/acceptance.mjs ZVF FOLDER [--flight SECONDS] [--points N] [--only NAME,..]
// ZVF is the command, FOLDER has room for stores. One line a check, then all figures as JSON; ends with 1 on any failure.

import { createReadStream, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join, normalize } from "node:path";
import { parseArgs } from "node:util";
import { gunzipSync } from "node:zlib";
import * as behaviour from "./verify/behaviour.mjs";
import * as figures from "./verify/figures.mjs";
import * as hand from "./verify/hand.mjs";
import { makeStores } from "./verify/stores.mjs";
import { launchBrowser, measureBare, runZvf, startServer } from "./verify/tools.mjs";

const { values, positionals: [program, folder] } = parseArgs({ allowPositionals: true, options: { flight: { type: "string", default: "120" }, points: { type: "string", default: "1000000" }, only: { type: "string" } } });
mkdirSync(folder, { recursive: true });
const zvf = (words) => runZvf(program, words);
console.log("making stores");
const stores = makeStores(program, folder, { points: Number(values.points) });
const server = await startServer(program, Object.values(stores)), browser = await launchBrowser();

/** A static host that knows ranges and nothing else; `asked` has what it was asked for. */
async function serveFolder(root) {
  const asked = [];
  const host = createServer((request, answer) => {
    const path = join(root, normalize(decodeURIComponent(new URL(request.url, "http://x").pathname)));
    let size;
    try { if (!statSync(path).isFile()) throw new Error(); size = statSync(path).size; } catch { asked.push({ path, status: 404, first: 0, last: -1 }); answer.writeHead(404).end(); return; }
    const range = /^bytes=(\d*)-(\d*)$/.exec(request.headers.range ?? "");
    const first = range ? (range[1] ? Number(range[1]) : Math.max(0, size - Number(range[2]))) : 0, last = range && range[1] && range[2] ? Math.min(size - 1, Number(range[2])) : size - 1;
    asked.push({ path, status: range ? 206 : 200, first, last });
    const type = { html: "text/html", js: "text/javascript", css: "text/css" }[path.split(".").pop()] ?? "application/octet-stream";
    answer.writeHead(range ? 206 : 200, { "Content-Type": type, "Content-Length": last - first + 1, ...(range ? { "Content-Range": `bytes ${first}-${last}/${size}` } : {}) });
    createReadStream(path, { start: first, end: last }).pipe(answer);
  });
  await new Promise((resolve) => host.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${host.address().port}`, asked, end: () => { host.closeAllConnections(); host.close(); } };
}

/** Writes the page for a static host; ZVF_PAGE as for a server. */
function writePage(site) {
  zvf(["view", "--write-page", site, "--overwrite"]);
  const folder = process.env.ZVF_PAGE;
  if (!folder) return;
  const [policy] = /<meta http-equiv="Content-Security-Policy"[^>]*>/.exec(readFileSync(join(site, "index.html"), "utf8"));
  for (const name of ["index.html", "viewer.css", "viewer.js", "worker.js", "zvf_wasm_bg.wasm"]) {
    const bytes = gunzipSync(readFileSync(join(folder, `${name}.gz`)));
    writeFileSync(join(site, name), name === "index.html" ? bytes.toString().replace('<meta charset="utf-8">', (charset) => `${charset}\n${policy}`) : bytes);
  }
}

const bare = await measureBare(browser), factor = Math.max(1, bare / 80), results = { bare_ms: +bare.toFixed(1), factor: +factor.toFixed(2) };
const context = { program, browser, server, zvf, stores, folder, bare, factor, seconds: Number(values.flight), serveFolder, writePage, restart: (words) => startServer(program, words) };
const checks = { ...figures, ...behaviour, ...hand }, wanted = values.only?.split(",");
let failures = 0;
for (const [name, check] of Object.entries(checks)) {
  if (!name.startsWith("check") || (wanted && !wanted.includes(name))) continue;
  const begun = Date.now(), noted = {};
  try {
    await check({ ...context, note: (more) => Object.assign(noted, more) });
    console.log(`ok     ${name} ${JSON.stringify(noted)}`);
  } catch (error) {
    failures++;
    console.log(`FAILED ${name} ${JSON.stringify(noted)}\n${error.stack}`);
  }
  results[name] = { ...noted, seconds: (Date.now() - begun) / 1000 };
}
console.log(JSON.stringify(results));
await browser.close();
await server.end();
process.exit(failures ? 1 : 0);
