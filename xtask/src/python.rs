//! `python`: builds the Python package and tests it in its own environment.
//!
//! The environment is below the target folder and created once: the first run installs the dependencies of the tests,
//! later ones only the package, until the list of versions (`xtask/python.txt`) changes. Without `--wheel` the package is built
//! with the profile of tests, which takes a fraction of the time.
//!
//! The tests of the reference's public facade run unchanged from its source archive, against
//! `zvf.compat` in its place (`crates/zvf-py/tests/reference`): that folder lists the files, and
//! the tests with intended differences.

use std::path::{Path, PathBuf};

use anyhow::ensure;

use crate::args::Args;
use crate::house::{House, Program, list_with, remove_folder};

/// The packages of the environment: all of the list.
const TOOLS: [&str; 2] = ["-r", "xtask/python.txt"];

/// Further packages of the tests of the reference.
const REFERENCE_TOOLS: [&str; 6] = ["numpy", "zarr>=3", "obstore", "pytest", "dask", "pyyaml"];

/// The reference, whose source archive contains its tests.
const REFERENCE: &str = "zarr-vectors==0.9.2";

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    let (wheel, reference) = (args.flag("--wheel"), args.flag("--reference-tests"));
    let seconds = if args.flag("--all-values") { "inf" } else { "1" };
    let features: &[&str] = if args.flag("--icechunk") { &["--features", "icechunk"] } else { &[] };
    let python = environment(house, "python-env", &TOOLS)?;
    if wheel {
        ensure!(features.is_empty(), "--wheel builds what people get, which is without icechunk");
        args.end()?;
        return build_wheel(house, &python);
    }
    let built = develop(house, &python, features)?;
    if reference {
        return run_reference_tests(house, &built, args);
    }
    let package = house.path("crates/zvf-py");
    let config = package.join("pyproject.toml");
    // The examples in the installed package, which has the compiled module.
    let words = "{} -m pytest -q -c {} --rootdir {} {} --pyargs zvf";
    let tests = package.join("tests");
    let pytest = house.line(words, &[&python, &config, &package, &tests]);
    // In CI the package is built with everything else, and so with the made-up format.
    let has_dots = if house.is_ci { "1" } else { "" };
    let pytest = pytest.env("ZVF_RANDOM_SECONDS", seconds).env("ZVF_HAS_DOTS", has_dots);
    pytest.forward(args).run()?;
    check_types(house, &python, &config)?;
    run_examples(house, &python)
}

/// Runs the tests of the reference's facade, unchanged, against `zvf.compat`.
fn run_reference_tests(house: &House, wheel: &Path, args: Args) -> anyhow::Result<()> {
    let python = environment(house, "python-reference", &REFERENCE_TOOLS)?;
    install(house, &python, wheel)?;
    let folder = house.target().join("python-reference-tests");
    let archive = folder.join("zarr_vectors-0.9.2.tar.gz");
    if !archive.exists() {
        let pip = "{} -m pip download --quiet --no-deps --no-binary :all: {} --dest {}";
        house.line(pip, &[&python, &REFERENCE, &folder]).run()?;
    }
    // Unpacked again each time: the tests must be the published ones.
    let extracted = folder.join("zarr_vectors-0.9.2");
    remove_folder(&extracted)?;
    house.line("{} -m tarfile -e {} {}", &[&python, &archive, &folder]).run()?;
    let plugin = house.path("crates/zvf-py/tests/reference").display().to_string();
    let pytest = "{} -m pytest -q -p zvf_as_reference --rootdir {} -c /dev/null -W ignore {}";
    let pytest = house.line(pytest, &[&python, &folder, &extracted.join("tests")]);
    pytest.env("PYTHONPATH", &plugin).forward(args).run()
}

/// Checks the sources with mypy and pyright, and the stubs of the compiled module against the module.
fn check_types(house: &House, python: &Path, config: &Path) -> anyhow::Result<()> {
    house.line("{} -m mypy --config-file {}", &[&python, &config]).run()?;
    house.line("{} -m pyright --project {}", &[&python, &config]).run()?;
    house.line("{} -m mypy.stubtest --ignore-disjoint-bases zvf._zvf", &[&python]).run()
}

/// Runs every example program, and every notebook of the book from its first cell to its last.
fn run_examples(house: &House, python: &Path) -> anyhow::Result<()> {
    for path in files_in(&house.path("crates/zvf-py/examples"), "py")? {
        house.program(python).arg(path).run()?;
    }
    for path in files_in(&house.path("docs/notebooks"), "ipynb")? {
        house.line("{} -c {} {}", &[&python, &RUN_NOTEBOOK, &path]).run()?;
    }
    Ok(())
}

/// Runs a notebook; the first cell that raises ends it with its error.
pub(crate) const RUN_NOTEBOOK: &str = "import sys, nbformat, nbclient
nbclient.NotebookClient(nbformat.read(sys.argv[1], 4), timeout=300).execute()
print('ran', sys.argv[1])";

/// Returns the files of a folder with this ending, by name.
fn files_in(folder: &Path, ending: &str) -> anyhow::Result<Vec<PathBuf>> {
    let found = list_with(folder, ending)?;
    ensure!(!found.is_empty(), "no .{ending} in {}", folder.display());
    Ok(found)
}

/// Returns the interpreter of an environment below the target folder; installs `tools` where the list changed.
pub(crate) fn environment(house: &House, name: &str, tools: &[&str]) -> anyhow::Result<PathBuf> {
    let folder = house.target().join(name);
    let (python, ready) = (folder.join("bin/python"), folder.join("ready"));
    let versions = house.path("xtask/python.txt");
    let requirements = tools.join("\n") + &std::fs::read_to_string(&versions)?;
    if std::fs::read_to_string(&ready).ok().is_none_or(|found| found != requirements) {
        if !python.exists() {
            house.line("python3 -m venv {}", &[&folder]).run()?;
        }
        house.line("{} -m pip install --quiet -c {}", &[&python, &versions]).args(tools).run()?;
        std::fs::write(&ready, requirements)?;
    }
    Ok(python)
}

/// Builds the package with the profile of tests, with these options of maturin, and installs it; returns the wheel.
fn develop(house: &House, python: &Path, features: &[&str]) -> anyhow::Result<PathBuf> {
    let out = house.target().join("python-wheels");
    let maturin = maturin(house, python, "build --quiet", &out).args(features);
    let maturin = match house.ci_cargo()? {
        Some(cargo) => maturin.env("CARGO", &cargo.display().to_string()),
        None => maturin,
    };
    maturin.run()?;
    let wheel = newest(&out, "whl")?;
    install(house, python, &wheel)?;
    Ok(wheel)
}

fn install(house: &House, python: &Path, file: &Path) -> anyhow::Result<()> {
    let pip = "{} -m pip install --quiet --force-reinstall --no-deps {}";
    house.line(pip, &[&python, &file]).run()
}

/// Returns a command of maturin that writes the package into `out`.
fn maturin(house: &House, python: &Path, words: &str, out: &Path) -> Program {
    let manifest = house.path("crates/zvf-py/Cargo.toml");
    let maturin = format!("{{}} -m maturin {words} --manifest-path {{}} --out {{}}");
    house.line(&maturin, &[&python, &manifest, &out])
}

/// Builds the released wheel into `out`; returns the file.
pub(crate) fn release_wheel(house: &House, out: &Path) -> anyhow::Result<PathBuf> {
    let python = environment(house, "python-env", &TOOLS)?;
    maturin(house, &python, "build --quiet --release --strip", out).run()?;
    newest(out, "whl")
}

/// Builds the released wheel and the source archive, and tests each in a fresh environment.
fn build_wheel(house: &House, python: &Path) -> anyhow::Result<()> {
    // Not `wheels`: pip leaves there what it builds of the archive.
    let out = house.empty_folder(RELEASED)?;
    let wheel = release_wheel(house, &out)?;
    check_policy(house, python, &wheel)?;
    try_in_fresh_environment(house, &wheel, &[])?;
    maturin(house, python, "sdist", &out).run()?;
    // The contents of the archive are tested, not its speed: it is built with the profile of tests.
    let archive = newest(&out, "gz")?;
    try_in_fresh_environment(house, &archive, &["--config-settings", "build-args=--profile dev"])
}

/// Fails unless the wheel runs on every Linux system of its policy.
fn check_policy(house: &House, python: &Path, wheel: &Path) -> anyhow::Result<()> {
    let show = house.line("{} -m auditwheel show {}", &[&python, &wheel]);
    let output = show.run_keeping(|line| !line.trim().is_empty())?.join(" ");
    let file = wheel.display();
    ensure!(output.contains("manylinux_"), "{file} fits no policy of manylinux: {output}");
    Ok(())
}

/// Installs a wheel or an archive with its dependencies only, and writes and reads a store with it.
fn try_in_fresh_environment(house: &House, file: &Path, words: &[&str]) -> anyhow::Result<()> {
    let folder = house.target().join("python-fresh");
    remove_folder(&folder)?;
    let python = environment(house, "python-fresh", &["pip"])?;
    house.line("{} -m pip install --quiet {}", &[&python, &file]).args(words).run()?;
    house.line("{} -c {}", &[&python, &TRIAL]).run()?;
    house.line("{} -m zvf --version", &[&python]).run()?;
    house.line("{} --version", &[&folder.join("bin/zvf")]).run()
}

/// The folder of the released wheel and the source archive.
pub(crate) const RELEASED: &str = "python-release";
/// Writes a store and reads it.
const TRIAL: &str = "import tempfile, numpy as np, zvf
ds = zvf.points(tempfile.mkdtemp() + '/a.zarrvectors', np.eye(3), attributes={'mass': np.arange(3.0)})
assert ds.read(where='mass > 1')['mass'].tolist() == [2.0] and ds.validate(level=5).ok";

/// Returns the newest file with this ending in a folder.
pub(crate) fn newest(folder: &Path, ending: &str) -> anyhow::Result<PathBuf> {
    let mut found = files_in(folder, ending)?;
    found.sort_by_cached_key(|path| path.metadata().and_then(|m| m.modified()).ok());
    Ok(found.pop().expect("an empty list is an error"))
}
