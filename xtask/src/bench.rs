//! `bench`: compares with other implementations, or measures the inner loops of one crate.

use std::fs;

use crate::args::Args;
use crate::house::House;
use crate::python;

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    if args.flag("--loops") {
        return house.cargo("bench -p bench --bench * --").forward(args).run();
    }
    // The command builds levels and reads files in its own process; both are built together because they share their
    // dependencies.
    let fast = args.flag("--fast-codecs");
    let features = if fast { "bench/remote,bench/fast-codecs" } else { "bench/remote" };
    house.cargo("build --quiet --release -p bench -p zvf-cli --features").arg(features).run()?;
    let folder = house.target().join("bench");
    let is_billion = args.peek("--billion");
    if is_billion && !args.peek("--no-sql") {
        let engines = "build --quiet --release -p zvf-sql -p zvf-cluster";
        house.cargo(engines).words("--features zvf-sql/cluster").run()?;
    } else if !is_billion && wants_python(&args) {
        // This part tests the package as it is released.
        python::release_wheel(house, &folder.join("wheel"))?;
    }
    let run = folder.join("run.json");
    if run.exists() {
        fs::remove_file(&run)?; // of an earlier run
    }
    let program = house.program(house.target().join("release/bench"));
    let is_done = program.arg("--folder").arg(&folder).forward(args).run();
    if run.exists() {
        let page = if is_billion { "docs/src/billion.md" } else { "docs/src/benchmarks.md" };
        let script = house.program("python3").words("-B xtask/benchmarks.py");
        script.arg(&run).arg(page).run()?;
    }
    is_done
}

/// Returns whether the Python part runs: if it is requested, or no part is. A quick run uses the
/// wheel of an earlier run, or reports that there is none, because building it takes longer than
/// everything else.
fn wants_python(args: &Args) -> bool {
    args.peek("python") || !(args.peek("--part") || args.peek("--quick"))
}

#[cfg(test)]
mod tests {
    /// The script that makes the pages, where there is Python: CI has it.
    #[test]
    fn pages_are_what_was_measured() {
        let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/benchmarks_test.py");
        match std::process::Command::new("python3").args(["-B", tests]).output() {
            Ok(done) => assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr)),
            Err(why) => assert_eq!(why.kind(), std::io::ErrorKind::NotFound, "{why}"),
        }
    }
}
