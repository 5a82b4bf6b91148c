//! Tests of the page: measurements in headless Chromium, the JavaScript package in Node, the stock
//! Neuroglancer client; and the pictures of the book, which are made the same way.
//!
//! All of them use the command `zvf` of this workspace, on stores in a folder below the target
//! folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::build::{build_reader, find_tools, rebuild_page, tool};
use crate::args::Args;
use crate::house::{House, list, list_with};

/// Tests the page in headless Chromium, with the required measurements.
pub(super) fn verify(house: &House, mut args: Args) -> anyhow::Result<()> {
    find_tools(house)?;
    if !args.flag("--kept") {
        rebuild_page(house)?;
    }
    let folder = house.empty_folder("viewer-verify")?;
    let (zvf, script) = (house.build_command()?, house.path("viewer/acceptance.mjs"));
    find_browser()?;
    house.program("node").args(&[script, zvf, folder]).forward(args).run()
}

/// Packs the JavaScript package and the files of `args`, installs it elsewhere, and reads stores.
pub(super) fn pack_package(house: &House, args: Args) -> anyhow::Result<()> {
    find_tools(house)?;
    let pkg = house.path("viewer/pkg");
    if !pkg.join("zvf_wasm_bg.wasm").is_file() {
        build_reader(house, "web", &pkg)?;
    }
    let folder = house.empty_folder("viewer-npm")?;
    let package = folder.join("package");
    let script = house.path("viewer/npm/build.mjs");
    house.line("node {} {}", &[&script, &package]).run()?;
    for file in args.into_words().map(PathBuf::from) {
        fs::copy(&file, package.join(file.file_name().context("no name of a file")?))?;
    }
    let types = house.path("viewer/npm/tsconfig.json");
    house.line("{} --project {}", &[&tool(house, "tsc"), &types]).run()?;
    let pack = "npm pack --ignore-scripts --pack-destination {} {}";
    house.line(pack, &[&folder, &package]).run()?;
    let packed = list_with(&folder, "tgz")?.pop().context("npm pack left no package")?;
    let user = folder.join("user");
    fs::create_dir(&user)?;
    fs::write(user.join("package.json"), "{\"private\": true, \"type\": \"module\"}")?;
    let install = "npm install --offline --no-audit --no-fund --prefix {} {}";
    house.line(install, &[&user, &packed]).run()?;
    fs::copy(house.path("viewer/npm/golden.mjs"), user.join("golden.mjs"))?;
    let mut words = vec![user.join("golden.mjs"), house.build_command()?];
    words.extend(unpack_stores(house, &folder.join("stores"))?);
    house.program("node").args(&words).run()
}

/// Makes the pictures of the book.
pub(super) fn draw_pictures(house: &House, args: Args) -> anyhow::Result<()> {
    args.end()?;
    find_tools(house)?;
    find_browser()?;
    let folder = house.empty_folder("viewer-pictures")?;
    let script = house.path("viewer/pictures.mjs");
    let words = [script, house.build_command()?, folder, house.path("docs/src")];
    house.program("node").args(&words).run()
}

/// Tests the stock Neuroglancer client of its Python package, and `CloudVolume` where it is installed.
pub(super) fn try_neuroglancer(house: &House, mut args: Args) -> anyhow::Result<()> {
    let python = args.next().context("name a Python that has the package neuroglancer: PYTHON")?;
    args.end()?;
    find_tools(house)?;
    find_browser()?;
    let find = "import neuroglancer, os; print(os.path.dirname(neuroglancer.__file__))";
    let found = house.program(&python).args(&["-c", find]).output();
    let found =
        found.context("this Python has no package neuroglancer: pip install neuroglancer")?;
    let client = Path::new(found.trim()).join("static/client");
    ensure!(client.join("index.html").is_file(), "{} has no client", client.display());
    let folder = house.empty_folder("viewer-neuroglancer")?;
    let script = house.path("viewer/neuroglancer.mjs");
    let words = [script, house.build_command()?, folder, client];
    house.program("node").args(&words).args(&[python]).run()
}

/// Unpacks the archived stores, and returns their folders.
fn unpack_stores(house: &House, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    house.cargo("run --quiet -p archives --example unpack all").arg(folder).run()?;
    list(folder)
}

/// Fails where the browser is missing.
fn find_browser() -> anyhow::Result<()> {
    let program = std::env::var_os("CHROMIUM").map_or_else(|| BROWSER.into(), PathBuf::from);
    ensure!(
        program.is_file(),
        "{} is missing: install Chromium (Debian: `apt-get install chromium`), or name it in CHROMIUM",
        program.display()
    );
    Ok(())
}

const BROWSER: &str = "/usr/bin/chromium";
