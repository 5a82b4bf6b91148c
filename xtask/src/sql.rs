//! `conformance --sql`: the crates with an SQL engine, which no other step builds.
//!
//! ```text
//! clippy, test      the lints and tests of the heavy crates: including all archived stores queried in SQL and with `zvf query`,
//!                   by one process, and stores of each kind by two executors
//! agreement         the demo stores, and named ones, in SQL and with `zvf query`
//! torture           statements on one to three executors, and executors, schedulers and clients that are lost
//! DuckDB            three statements for each table, on the table and on the Parquet file it was written to
//! docs              the commands of the pages with SQL queries
//! ```

use std::path::{Path, PathBuf};

use anyhow::ensure;

use crate::args::Args;
use crate::docs;
use crate::house::{HEAVY, House, list, say};
use crate::python::environment;

/// Runs all steps.
pub(crate) fn run(house: &House, args: Args) -> anyhow::Result<()> {
    let stores: Vec<PathBuf> = args.into_words().map(PathBuf::from).collect();
    let packages = packages();
    let clippy = house.cargo("clippy --lib --bins --all-features").args(&packages);
    clippy.words("-- -D warnings").run()?;
    house.cargo("test --all-features").args(&packages).run()?;
    let programs = house.build_programs(&[])?;
    build(house)?;
    let demo = house.empty_folder("sql")?.join("demo");
    house.line("{} demo --quiet {}", &[&programs.join("zvf"), &demo]).run()?;
    let stores = std::iter::once(&demo).chain(&stores);
    house.program(programs.join("examples/agreement")).args(&stores.collect::<Vec<_>>()).run()?;
    house.line("{} --moments 2", &[&programs.join("examples/cluster-torture")]).run()?;
    duckdb(house, &programs, &demo)?;
    docs::run::run(house, true)
}

/// Runs the statements on clusters that lose processes, and the reference results.
pub(crate) fn torture(house: &House, args: Args) -> anyhow::Result<()> {
    let programs = house.build_programs(&[])?;
    build(house)?;
    house.program(programs.join("examples/cluster-torture")).forward(args).run()
}

/// Builds their programs and examples with all features, so that the engine is compiled once.
pub(crate) fn build(house: &House) -> anyhow::Result<()> {
    let built = ["--quiet", "--profile", "test", "--all-features", "--bins", "--examples"];
    house.cargo("build").args(&packages()).args(&built).run()
}

fn packages() -> Vec<&'static str> {
    HEAVY.iter().flat_map(|name| ["-p", *name]).collect()
}

/// Compares the tables of the demo stores with `DuckDB` on their exported files.
fn duckdb(house: &House, programs: &Path, demo: &Path) -> anyhow::Result<()> {
    let python = environment(house, "sql-env", &["duckdb"])?;
    let stores = list(demo)?;
    ensure!(!stores.is_empty(), "no demo stores in {}", demo.display());
    say("DuckDB");
    let script = house.path("crates/zvf-sql/tests/compare_with_duckdb.py");
    house.line("{} {} {}", &[&python, &script, &programs.join("zvf-sql")]).args(&stores).run()
}
