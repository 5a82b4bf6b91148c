//! `viewer`: the page that looks at stores, built, checked for freshness, and tried in a browser.
//!
//! What is built lies in `crates/zvf-serve/page`, so that nobody needs Node to build the server. `BUILT.json` beside it
//! names every source of the page and the SHA-256 that it had when the page was built.

use std::fmt::Write as _;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::Command;
use crate::args::Args;
use crate::house::House;

pub(crate) const COMMAND: Command = Command {
    name: "viewer",
    help: "check, build or try the page that shows stores

usage: cargo xtask viewer check|build|verify [PAGE_URL OUT STORE..]

check   compares the sources of the page with what they were when it was built; no Node is needed
build   compiles the reader to WebAssembly, checks types, runs unit tests and bundles the page; needs Node, `npm install`
        in viewer/, and wasm-bindgen of the version in Cargo.lock
verify  build, then the page is compared with the one that is kept; with a URL of a running server, a folder and
        names of its stores, each is opened in headless Chromium and looked at",
    run,
};

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    let what = args.next().and_then(|what| what.into_string().ok()).unwrap_or_default();
    match what.as_str() {
        "check" => {
            args.end()?;
            check(house)
        }
        "build" => {
            args.end()?;
            build(house)
        }
        "verify" => verify(house, args),
        other => bail!("{other:?}: expected check, build or verify"),
    }
}

fn built(house: &House) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(house.path(BUILT)).context(BUILT)?;
    serde_json::from_str(&text).context(BUILT)
}

/// Lets `sha256sum` compare what was written down with what is there.
fn check(house: &House) -> anyhow::Result<()> {
    let built = built(house)?;
    let inputs = built["inputs"].as_object().context("BUILT.json has no inputs")?;
    ensure!(!inputs.is_empty(), "BUILT.json names no inputs");
    let mut list = String::new();
    for (name, sum) in inputs {
        writeln!(list, "{}  {name}", sum.as_str().context("a sum is text")?)?;
    }
    let file = house.target().join("viewer-inputs.sha256");
    std::fs::create_dir_all(house.target())?;
    std::fs::write(&file, list)?;
    let file = file.display().to_string();
    let checked = house.program("sha256sum").args(&["--check", "--quiet", &file]).run();
    checked.context("the page is out of date: run `cargo xtask viewer build` and commit it")?;
    let packed = built["packedBytes"].as_u64().context("BUILT.json has no size")?;
    ensure!(
        packed <= MAX_PACKED_BYTES,
        "the page has {packed} bytes, more than {MAX_PACKED_BYTES}"
    );
    Ok(())
}

fn build(house: &House) -> anyhow::Result<()> {
    let target = "wasm32-unknown-unknown";
    house
        .cargo(&["build", "-p", "zvf-wasm", "--lib", "--profile", "wasm", "--target", target])
        .run()?;
    let wasm = house.target().join(target).join("wasm/zvf_wasm.wasm").display().to_string();
    let pkg = house.path("viewer/pkg").display().to_string();
    house.program("wasm-bindgen").args(&["--target", "web", "--out-dir", &pkg, &wasm]).run()?;
    let program = |name: &str| house.path("viewer/node_modules/.bin").join(name);
    let bare = house.path("viewer/pkg/zvf_wasm_bg.wasm").display().to_string();
    let mut options = vec!["-Oz", "-o", &bare, &bare];
    options.extend(WASM_FEATURES);
    house.program(program("wasm-opt")).args(&options).run()?;
    let project = house.path("viewer").display().to_string();
    house.program(program("tsc")).args(&["--noEmit", "--project", &project]).run()?;
    let tests = house.path("viewer/test").display().to_string();
    house.program("node").args(&["--test", &tests]).run()?;
    let script = house.path("viewer/build.mjs").display().to_string();
    house.program("node").args(&[&script]).run()
}

fn verify(house: &House, args: Args) -> anyhow::Result<()> {
    let before = built(house)?;
    build(house)?;
    ensure!(before == built(house)?, "the page was out of date, and is now built: commit it");
    let script = house.path("viewer/acceptance.mjs").display().to_string();
    house.program("node").args(&[&script]).forward(args).run()
}

const BUILT: &str = "crates/zvf-serve/page/BUILT.json";
/// Bytes of the whole page on the wire.
const MAX_PACKED_BYTES: u64 = 1_100_000;
/// What every browser has that has WebGL 2 and modules in workers.
const WASM_FEATURES: [&str; 6] = [
    "--enable-bulk-memory",
    "--enable-nontrapping-float-to-int",
    "--enable-sign-ext",
    "--enable-mutable-globals",
    "--enable-reference-types",
    "--enable-multivalue",
];
