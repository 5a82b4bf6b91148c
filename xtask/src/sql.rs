//! `conformance --sql`: the crates that bring an SQL engine, which no other step builds.

use std::path::PathBuf;

use crate::args::Args;
use crate::cargo_toml::HEAVY;
use crate::house::House;

/// Tests them, and asks the demo stores, and those that are named, in SQL and as `zvf query` has them.
pub(crate) fn run(house: &House, args: Args) -> anyhow::Result<()> {
    let named: Vec<PathBuf> = args.rest().map(PathBuf::from).collect();
    let packages: Vec<&str> = HEAVY.iter().flat_map(|name| ["-p", *name]).collect();
    house.cargo(&["test", "--all-features"]).args(&packages).run()?;
    let programs = house.build_programs()?;
    let demo = house.target().join("sql-demo");
    if demo.exists() {
        std::fs::remove_dir_all(&demo)?;
    }
    house.program(programs.join("zvf")).args(&["demo", "--quiet"]).args(&[&demo]).run()?;
    let stores: Vec<PathBuf> = std::iter::once(demo).chain(named).collect();
    let run = ["run", "--quiet", "--profile", "test", "--all-features", "--example", "agreement"];
    house.cargo(&run).args(&packages).args(&["--"]).args(&stores).run()
}
