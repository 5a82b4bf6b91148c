//! `bench`: compares with other implementations, or measures the inner loops of one crate.

use std::fs;

use crate::Command;
use crate::args::Args;
use crate::house::House;
use crate::python;

pub(crate) const COMMAND: Command = Command {
    name: "bench",
    help: "measure: against the Python reference, and the inner loops alone

usage: cargo xtask bench [--quick] [--resume] [--part NAME].. [--place DIR].. [WORKLOAD] [--turns N]
                         [--scale X] [--threads N]
       cargo xtask bench --billion [--points N] [--only points|streamlines] [--no-sql] [--resume]
       cargo xtask bench --loops [FILTER] [OPTIONS OF CRITERION]

Without --loops: installs the reference and what else does the same work below the target folder, makes
the data, and runs every piece of work (or those whose name contains WORKLOAD) in turns on all sides;
prints tables of medians and ratios, of requests, bytes and memory, next to what the machine takes for the
same bytes. Who cannot be installed is in the table, with the reason. When all parts ran,
docs/src/benchmarks.md is written with its plots. --quick takes smaller data and five minutes. Needs python3.
The part python builds the release wheel; with --quick only where the part is named.
With --resume, the parts that an earlier run with the same settings finished are taken from its files, and only the others run.
--part runs one part of the table, and may be repeated. With --place, the parts that write do so in these folders: of a disk,
or of a memory file system. With --fast-codecs our side is built with the feature of that name.

With --billion: stores of a hundredth, a tenth and all of N vertices, ingested in tasks, with levels, validated, asked and
drawn, and asked in SQL by one process and by executors; writes docs/src/billion.md, with small pictures in docs/src/billion. Takes
an hour on two cores and 80 GB of disk for a billion, and builds what brings an SQL engine. --only takes one kind of data, --no-sql asks
nothing in SQL and builds no engine; then no page is written. --resume takes the stores that an earlier run finished from
its files, whichever of them it was asked for.
With --loops: every loop of single functions (crates/bench/benches) whose name contains FILTER.",
    run,
};

fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
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
