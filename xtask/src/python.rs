//! `python`: builds the Python package and tests it in an environment of its own.
//!
//! The environment lies below the target folder and is made once: the first run installs what the tests need, later
//! ones only the package. Without `--wheel` the package is built as tests are, which takes a fraction of the time.

use std::path::{Path, PathBuf};

use anyhow::ensure;

use crate::Command;
use crate::args::Args;
use crate::house::House;

pub(crate) const COMMAND: Command = Command {
    name: "python",
    help: "build the Python package and run its tests

usage: cargo xtask python [--wheel] [PYTEST ARGUMENT]..

Makes an environment below the target folder, builds the package into it with maturin, runs its tests and the
examples of its documentation with pytest, checks the types of its sources with mypy and pyright and the stubs of its
compiled half, and runs the example programs and the notebooks of the book. With --wheel it builds the
release wheel and the source archive instead, looks at the wheel with auditwheel, and tries each in a fresh
environment. Needs python3 of at least 3.10.",
    run,
};

/// What the environment holds besides the package.
const TOOLS: [&str; 13] = [
    "maturin>=1.8,<2",
    "numpy",
    "pytest",
    "hypothesis",
    "pyarrow",
    "polars",
    "mypy",
    "auditwheel",
    "dask[distributed]",
    "ray",
    "nbclient",
    "ipykernel",
    "pyright",
];

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    let wheel = args.flag("--wheel");
    let python = environment(house, "python-env", &TOOLS)?;
    if wheel {
        args.end()?;
        return build_wheel(house, &python);
    }
    develop(house, &python)?;
    let package = house.path("crates/zvf-py");
    let config = package.join("pyproject.toml").display().to_string();
    let root = package.display().to_string();
    let tests = package.join("tests").display().to_string();
    // The examples of the package as it is installed: its compiled half lies there.
    let installed = ["--pyargs", "zvf"];
    house
        .program(&python)
        .args(&["-m", "pytest", "-q", "-c", &config, "--rootdir", &root, &tests])
        .args(&installed)
        .forward(args)
        .run()?;
    check_types(house, &python, &config)?;
    run_examples(house, &python)
}

/// The sources by mypy and pyright, and the stubs of the compiled half beside the module as it is.
fn check_types(house: &House, python: &Path, config: &str) -> anyhow::Result<()> {
    house.program(python).args(&["-m", "mypy", "--config-file", config]).run()?;
    house.program(python).args(&["-m", "pyright", "--project", config]).run()?;
    let stubs = ["-m", "mypy.stubtest", "--ignore-disjoint-bases", "zvf._zvf"];
    house.program(python).args(&stubs).run()
}

/// Every example program, and every notebook of the book from its first cell to its last.
fn run_examples(house: &House, python: &Path) -> anyhow::Result<()> {
    for path in files_in(&house.path("crates/zvf-py/examples"), "py")? {
        house.program(python).args(&[&path]).run()?;
    }
    for path in files_in(&house.path("docs/notebooks"), "ipynb")? {
        house.program(python).args(&["-c", RUN_NOTEBOOK, &path]).run()?;
    }
    Ok(())
}

/// Runs a notebook; the first cell that raises ends it with its error.
const RUN_NOTEBOOK: &str = "import sys, nbformat, nbclient
nbclient.NotebookClient(nbformat.read(sys.argv[1], 4), timeout=300).execute()
print('ran', sys.argv[1])";

/// The files of a folder with this ending, by name.
fn files_in(folder: &Path, ending: &str) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|own| own == ending) {
            found.push(path.display().to_string());
        }
    }
    ensure!(!found.is_empty(), "no .{ending} in {}", folder.display());
    found.sort();
    Ok(found)
}

/// The interpreter of an environment below the target folder, made with `tools` where it is not there.
pub(crate) fn environment(house: &House, name: &str, tools: &[&str]) -> anyhow::Result<PathBuf> {
    let folder = house.target().join(name);
    let python = folder.join("bin/python");
    if !python.exists() {
        house.program("python3").args(&["-m", "venv", &folder.display().to_string()]).run()?;
        let install = ["-m", "pip", "install", "--quiet"];
        house.program(&python).args(&install).args(tools).run()?;
    }
    Ok(python)
}

/// Builds the package as tests are built, and installs it.
fn develop(house: &House, python: &Path) -> anyhow::Result<()> {
    let manifest = house.path("crates/zvf-py/Cargo.toml").display().to_string();
    let out = house.target().join("python-wheels").display().to_string();
    let build = ["-m", "maturin", "build", "--quiet", "--manifest-path", &manifest];
    house.program(python).args(&build).args(&["--out", &out]).run()?;
    install(house, python, &newest(&out, "whl")?)
}

fn install(house: &House, python: &Path, file: &Path) -> anyhow::Result<()> {
    let file = file.display().to_string();
    let args = ["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", &file];
    house.program(python).args(&args).run()
}

/// Builds the release wheel and the source archive, and tries the wheel in a fresh environment.
fn build_wheel(house: &House, python: &Path) -> anyhow::Result<()> {
    let manifest = house.path("crates/zvf-py/Cargo.toml").display().to_string();
    let out = house.target().join("wheels").display().to_string();
    let build = ["-m", "maturin", "build", "--release", "--manifest-path", &manifest];
    house.program(python).args(&build).args(&["--out", &out, "--sdist"]).run()?;
    let wheel = newest(&out, "whl")?;
    house
        .program(python)
        .args(&["-m", "auditwheel", "show", &wheel.display().to_string()])
        .run()?;
    ensure!(newest(&out, "gz")?.exists(), "no source archive in {out}");
    let fresh = environment(house, "python-fresh", &TOOLS)?;
    install(house, &fresh, &wheel)?;
    house.program(&fresh).args(&["-m", "zvf", "--version"]).run()
}

/// The file that was written last, of those in a folder with this ending.
fn newest(folder: &str, ending: &str) -> anyhow::Result<PathBuf> {
    let mut found: Vec<(std::time::SystemTime, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|own| own == ending) {
            found.push((path.metadata()?.modified()?, path));
        }
    }
    found.sort();
    found.pop().map(|(_, path)| path).ok_or_else(|| anyhow::anyhow!("no .{ending} in {folder}"))
}
