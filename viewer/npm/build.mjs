// Puts the package for JavaScript together: one script, its types, the module, what the licences ask for.
//   node npm/build.mjs FOLDER     after `cargo xtask viewer build` or npm has made pkg/

import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url)), top = join(here, ".."), root = join(top, ".."), [out] = process.argv.slice(2);
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
await build({ entryPoints: [join(here, "index.ts")], bundle: true, minify: true, format: "esm", target: "es2022", outfile: join(out, "index.js"), legalComments: "none", absWorkingDir: top });
execFileSync(join(top, "node_modules/.bin/tsc"), ["--project", join(here, "tsconfig.json"), "--declaration", "--emitDeclarationOnly", "--noEmit", "false", "--outDir", out], { stdio: "inherit" });
// Only what users see: the types of the sources of the page are no part of the interface.
rmSync(join(out, "src"), { recursive: true, force: true });
rmSync(join(out, "npm/uses.d.ts"), { force: true });
copyFileSync(join(top, "pkg/zvf_wasm_bg.wasm"), join(out, "zvf_wasm_bg.wasm"));
for (const name of ["package.json", "README.md"]) copyFileSync(join(here, name), join(out, name));
for (const name of ["LICENSE-MIT", "LICENSE-APACHE"]) copyFileSync(join(root, name), join(out, name));
const version = /\[workspace\.package\]\nversion = "([^"]+)"/.exec(readFileSync(join(root, "Cargo.toml"), "utf8"))[1];
const about = JSON.parse(readFileSync(join(out, "package.json"), "utf8"));
writeFileSync(join(out, "package.json"), `${JSON.stringify({ ...about, version }, null, 2)}\n`);
for (const name of ["index.js", "zvf_wasm_bg.wasm"]) console.log(`${name.padEnd(20)} ${gzipSync(readFileSync(join(out, name)), { level: 9 }).length} bytes gzipped`);
