//! Builds the page: the reader for WebAssembly, its bindings, and the bundle; and compares the kept
//! page with the record of its build.
//!
//! Missing tools are installed from lock files: Node packages with `npm ci`, the binding generator
//! with cargo. For system tools, Node and the Rust target, the error names the installation
//! command.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::house::{House, list, read, remove_folder};

/// Compares the sources and the kept page with the record, and runs the tests that send the
/// requests of the page to the server.
pub(super) fn check_page(house: &House) -> anyhow::Result<()> {
    let built = built(house)?;
    let protocol = built["protocol"].as_u64();
    ensure!(
        protocol == Some(PROTOCOL),
        "the page has protocol {protocol:?}, not {PROTOCOL}: {STALE}"
    );
    let packed = built["packedBytes"].as_u64().context("BUILT.json has no size")?;
    ensure!(
        packed <= MAX_PACKED_BYTES,
        "the page has {packed} bytes, more than {MAX_PACKED_BYTES}"
    );
    compare_sums(house, &built["inputs"], "").context(STALE)?;
    let folder = house.empty_folder("viewer-check")?;
    for name in built["outputs"].as_object().context("BUILT.json has no outputs")?.keys() {
        let kept = house.path(&format!("{PAGE}/{name}.gz"));
        let unpack = "gzip --decompress --stdout \"$0\" > \"$1\"";
        house.line("sh -c {} {} {}", &[&unpack, &kept, &folder.join(name)]).run()?;
    }
    compare_sums(house, &built["outputs"], &format!("{}/", folder.display()))?;
    house.cargo("test --quiet --test server -- viewer::").run()
}

/// Compares files below `folder` with recorded sums, using `sha256sum`.
fn compare_sums(house: &House, sums: &Value, folder: &str) -> anyhow::Result<()> {
    let mut listed = String::new();
    for (name, sum) in sums.as_object().context("BUILT.json has no sums")? {
        writeln!(listed, "{}  {folder}{name}", sum.as_str().context("a sum is text")?)?;
    }
    ensure!(!listed.is_empty(), "BUILT.json names no files");
    let file = house.target().join("viewer.sha256");
    fs::write(&file, listed)?;
    house.line("sha256sum --check --quiet {}", &[&file]).run()
}

/// Returns the build record of the page.
fn built(house: &House) -> anyhow::Result<Value> {
    serde_json::from_str(&house.read(&format!("{PAGE}/BUILT.json"))?).context("BUILT.json")
}

/// Builds the page into `crates/zvf-serve/page`.
pub(super) fn build_page(house: &House) -> anyhow::Result<()> {
    find_tools(house)?;
    build_reader(house, "web", &house.path("viewer/pkg"))?;
    let tsc = "{} --noEmit --project {}";
    house.line(tsc, &[&tool(house, "tsc"), &house.path("viewer")]).run()?;
    house.program("node").arg("--test").args(&list(&house.path("viewer/test"))?).run()?;
    let script = house.path("viewer/build.mjs");
    house.line("node {} {}", &[&script, &build_generator(house)?]).run()
}

/// Rebuilds the page, and fails if it differs from the kept one.
pub(super) fn rebuild_page(house: &House) -> anyhow::Result<()> {
    let before = built(house)?;
    build_page(house)?;
    ensure!(before == built(house)?, "the page was out of date, and is now built: commit it");
    Ok(())
}

/// Compiles the reader and writes it with its bindings into `folder`, for pages or for Node.
pub(super) fn build_reader(house: &House, target: &str, folder: &Path) -> anyhow::Result<()> {
    let build = house.cargo("build -p zvf-wasm --lib --profile wasm --target").arg(WASM);
    build.env("RUSTFLAGS", &remap_paths(house)?).run()?;
    let module = house.target().join(WASM).join("wasm/zvf_wasm.wasm");
    let generator = build_generator(house)?;
    remove_folder(folder)?;
    house.line("{} {} {} {}", &[&generator, &target, &module, &folder]).run()?;
    let bare = folder.join("zvf_wasm_bg.wasm");
    // Names are removed in a separate run, because other passes need them.
    for passes in [WASM_PASSES, "--strip-debug"] {
        let optimize = house.line("{} -o {} {}", &[&tool(house, "wasm-opt"), &bare, &bare]);
        optimize.words(passes).words(WASM_FEATURES).run()?;
    }
    Ok(())
}

/// Installs the packages of `package-lock.json` with npm, unless they are installed. Fails with an
/// installation hint when a tool of the system is missing.
pub(super) fn find_tools(house: &House) -> anyhow::Result<()> {
    for name in ["node", "npm"] {
        let version = house.program(name).words("--version");
        version.require(&format!("{name} is missing: {NODE_HINT}"))?;
    }
    let std = sysroot(house)?.join("lib/rustlib").join(WASM);
    ensure!(std.is_dir(), "the Rust target {WASM} is missing: `rustup target add {WASM}`");
    let marker = house.path("viewer/node_modules/.package-lock.json");
    let lock = house.path("viewer/package-lock.json");
    let time = |path: &Path| fs::metadata(path).and_then(|about| about.modified()).ok();
    if time(&marker).is_some_and(|installed| time(&lock).is_some_and(|lock| installed >= lock)) {
        return Ok(());
    }
    house.line("npm ci --prefix {}", &[&house.path("viewer")]).run()
}

/// Builds the generator of bindings, in its own target folder, and returns it.
fn build_generator(house: &House) -> anyhow::Result<PathBuf> {
    let manifest = house.path("viewer/bindings/Cargo.toml");
    let version = locked_version(house, "wasm-bindgen")?;
    let text = read(&manifest)?;
    ensure!(
        text.contains(&format!("wasm-bindgen-cli-support = \"={version}\"")),
        "Cargo.lock has wasm-bindgen {version}: name that version in viewer/bindings/Cargo.toml, and run `cargo update \
         --manifest-path viewer/bindings/Cargo.toml`"
    );
    let target = house.target().join("viewer-bindings");
    let build = house.cargo("build --quiet --locked --manifest-path").arg(manifest);
    build.arg("--target-dir").arg(&target).run()?;
    Ok(target.join("debug/bindings"))
}

/// Returns the version of a package in the lock file.
fn locked_version(house: &House, package: &str) -> anyhow::Result<String> {
    let text = house.read("Cargo.lock")?;
    let start = format!("name = \"{package}\"\nversion = \"");
    let (_, rest) =
        text.split_once(&start).with_context(|| format!("no {package} in Cargo.lock"))?;
    Ok(rest.split('"').next().unwrap_or_default().to_owned())
}

/// Returns flags that remove local paths from messages, so that every machine builds the same
/// bytes.
fn remap_paths(house: &House) -> anyhow::Result<String> {
    let mut flags = vec![format!("--remap-path-prefix={}=", house.path("").display())];
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::home_dir().map(|home| home.join(".cargo")));
    let registries = home.context("no folder of cargo")?.join("registry/src");
    for registry in fs::read_dir(&registries).into_iter().flatten() {
        flags.push(format!("--remap-path-prefix={}=", registry?.path().display()));
    }
    let sources = sysroot(house)?.join("lib/rustlib/src/rust");
    flags.push(format!("--remap-path-prefix={}=rust", sources.display()));
    Ok(flags.join(" "))
}

/// Returns the folder of the toolchain.
fn sysroot(house: &House) -> anyhow::Result<PathBuf> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let printed = house.program(rustc).words("--print sysroot").output();
    Ok(PathBuf::from(printed.context("rustc is missing")?.trim()))
}

/// Returns a program that npm has installed.
pub(super) fn tool(house: &House, name: &str) -> PathBuf {
    house.path("viewer/node_modules/.bin").join(name)
}

const WASM: &str = "wasm32-unknown-unknown";
const NODE_HINT: &str = "install Node 20 or newer with npm (Debian: `apt-get install nodejs npm`)";
/// Passes that make the compressed module smaller. Sorting functions by name puts similar ones next
/// to each other, which saves a twentieth. The passes of `-Oz` save bytes too, but their output is
/// a twentieth larger when compressed.
const WASM_PASSES: &str = "
    --debuginfo --duplicate-function-elimination --duplicate-import-elimination
    --remove-unused-module-elements --vacuum --reorder-functions-by-name";
/// Features of every browser with WebGL 2 and modules in workers.
const WASM_FEATURES: &str = "
    --enable-bulk-memory --enable-nontrapping-float-to-int --enable-sign-ext
    --enable-mutable-globals --enable-reference-types --enable-multivalue";

const PAGE: &str = "crates/zvf-serve/page";
const STALE: &str = "the page is out of date: run `cargo xtask viewer build` and commit it";
/// The version of the requests that the tests of zvf-serve send. The page names the one it was built
/// for: `viewer/build.mjs`.
const PROTOCOL: u64 = 1;
/// The largest compressed size of the page in bytes.
const MAX_PACKED_BYTES: u64 = 1_100_000;
