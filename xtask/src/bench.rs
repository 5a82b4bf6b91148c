//! `bench`: measures against the peers, or the inner loops of a crate alone.

use crate::Command;
use crate::args::Args;
use crate::house::House;

pub(crate) const COMMAND: Command = Command {
    name: "bench",
    help: "measure: against the Python reference, and the inner loops alone

usage: cargo xtask bench [--quick] [--part NAME] [WORKLOAD] [--turns N] [--scale X]
       cargo xtask bench --validate [STORE] [--turns N]
       cargo xtask bench --pyramid DIR [STORE] [--turns N]
       cargo xtask bench --write DIR [--write DIR..] [WORKLOAD] [--turns N]
       cargo xtask bench --tensor [--fast-codecs] [WORKLOAD] [--quick] [--turns N] [--scale X] [--threads N]
       cargo xtask bench --loops [FILTER] [OPTIONS OF CRITERION]

Without --loops: installs the reference and what else does the same work below the target folder, makes
the data, and runs every piece of work (or those whose name contains WORKLOAD) in turns on all sides;
prints tables of medians and ratios, beside what the machine takes for the same bytes. Who cannot be
installed is in the table, with the reason. When all parts ran, docs/benchmarks.md is written with its
plots. --quick takes smaller data and five minutes. Needs python3.
With --validate: whole stores validated instead, and the most memory that the command holds then.
With --pyramid: levels built, of copies in a folder, and the most memory that is held then.
With --write: writing instead, into folders of a disk or a memory file system, beside the reference and
beside a plain program that creates the same files.
With --tensor: slices of dense arrays instead, beside tetration and python-blosc2, which are installed
below the target folder when they are asked: `b2nd` asks the latter alone. With --fast-codecs our side is built
with the feature of that name.
With --loops: every bench of zvf-format whose name contains FILTER.",
    run,
};

fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    if args.flag("--loops") {
        let bench = ["bench", "-p", "zvf-format", "--all-features", "--bench", "*", "--"];
        return house.cargo(&bench).forward(args).run();
    }
    // Its memory is measured in a process of its own.
    if args.peek("--validate") || args.peek("--pyramid") {
        house.cargo(&["build", "--quiet", "--release", "-p", "zvf-cli"]).run()?;
    }
    let features = if args.flag("--fast-codecs") { "remote,fast-codecs" } else { "remote" };
    let folder = house.target().join("bench").display().to_string();
    let page = house.path("docs/benchmarks.md").display().to_string();
    let bench = [
        "run",
        "--quiet",
        "--release",
        "-p",
        "bench",
        "--features",
        features,
        "--",
        "--folder",
        &folder,
    ];
    let bench = [bench.as_slice(), &["--page", &page]].concat();
    house.cargo(&bench).forward(args).run()
}
