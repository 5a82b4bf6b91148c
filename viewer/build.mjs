// Bundles the page into crates/zvf-serve/page. The reader in WebAssembly is expected in pkg/ (cargo xtask viewer build
// makes it). Files that only tools differ in are not written: no times, no paths.

import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
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

let packed = 0;
const outputs = {};
for (const [name, bytes] of Object.entries(files)) {
  // The page and the reader are stored compressed; the server and `zvf viewer` unpack what a client cannot.
  const gz = gzipSync(bytes, { level: 9 });
  gz[9] = 255; // the system that packed it does not matter
  packed += gz.length;
  writeFileSync(join(out, `${name}.gz`), gz);
  outputs[name] = sha256(bytes);
  console.log(`${name.padEnd(20)} ${String(bytes.length).padStart(9)} ${String(gz.length).padStart(9)} gzipped`);
}
console.log(`${"all".padEnd(20)} ${"".padStart(9)} ${String(packed).padStart(9)}`);

const inputs = {};
for (const name of readdirSync(join(here, "src")).sort()) inputs[`viewer/src/${name}`] = sha256(readFileSync(join(here, "src", name)));
const crate = join(here, "..", "crates", "zvf-wasm");
inputs["crates/zvf-wasm/Cargo.toml"] = sha256(readFileSync(join(crate, "Cargo.toml")));
for (const name of readdirSync(join(crate, "src")).sort()) inputs[`crates/zvf-wasm/src/${name}`] = sha256(readFileSync(join(crate, "src", name)));
for (const name of ["build.mjs", "package.json", "tsconfig.json"]) inputs[`viewer/${name}`] = sha256(readFileSync(join(here, name)));
writeFileSync(join(out, "BUILT.json"), JSON.stringify({ inputs, outputs, packedBytes: packed }, null, 1) + "\n");

function sha256(bytes) { return createHash("sha256").update(bytes).digest("hex"); }
