// Bundles the page into crates/zvf-serve/page. The reader in WebAssembly is expected in pkg/ (cargo xtask viewer build
// makes it). Files that only tools differ in are not written: no times, no paths.
//   node build.mjs TOOL     TOOL packs (viewer/bindings)

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "..", "crates", "zvf-serve", "page");
mkdirSync(out, { recursive: true });

const common = { bundle: true, minify: true, format: "esm", target: "es2022", legalComments: "none", write: false, absWorkingDir: here };
const bundle = async (entry) => Buffer.from((await build({ ...common, entryPoints: [entry] })).outputFiles[0].contents);

const files = {
  "index.html": Buffer.from(readFileSync(join(here, "src/index.html"), "utf8").replace(/\n+/g, "\n")),
  "viewer.css": Buffer.from((await build({ entryPoints: [join(here, "src/viewer.css")], minify: true, write: false })).outputFiles[0].contents),
  "viewer.js": await bundle("src/main.ts"),
  "worker.js": await bundle("src/worker.ts"),
  "zvf_wasm_bg.wasm": readFileSync(join(here, "pkg/zvf_wasm_bg.wasm")),
};

// The requests that the page sends, as `cargo xtask viewer check` lists them: another number for other requests.
const protocol = 1;
const [tool] = process.argv.slice(2);
let packed = 0;
const outputs = {};
for (const [name, bytes] of Object.entries(files)) {
  // The page and the reader are stored compressed; the server and `zvf viewer` unpack what a client cannot.
  const plain = join(here, "pkg", `${name}.plain`), path = join(out, `${name}.gz`);
  writeFileSync(plain, bytes);
  execFileSync(tool, ["pack", plain, path]);
  rmSync(plain);
  const gz = readFileSync(path);
  packed += gz.length;
  outputs[name] = sha256(bytes);
  console.log(`${name.padEnd(20)} ${String(bytes.length).padStart(9)} ${String(gz.length).padStart(9)} gzipped`);
}
console.log(`${"all".padEnd(20)} ${"".padStart(9)} ${String(packed).padStart(9)}`);

const root = join(here, "..");
const inputs = {};
for (const folder of ["viewer/src", "viewer/bindings/src"]) addFolder(folder);
for (const name of ["build.mjs", "package.json", "package-lock.json", "tsconfig.json", "bindings/Cargo.toml", "bindings/Cargo.lock"]) addFile(`viewer/${name}`);

function addFolder(folder) {
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (entry.isDirectory()) addFolder(`${folder}/${entry.name}`);
    else addFile(`${folder}/${entry.name}`);
  }
}

function addFile(path) { inputs[path] = sha256(readFileSync(join(root, path))); }

writeFileSync(join(out, "BUILT.json"), JSON.stringify({ protocol, inputs, outputs, packedBytes: packed }, null, 1) + "\n");

function sha256(bytes) { return createHash("sha256").update(bytes).digest("hex"); }
