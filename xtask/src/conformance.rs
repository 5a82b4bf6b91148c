//! `conformance`: starts the program that runs corpora against the library.

use crate::Command;
use crate::args::Args;
use crate::house::House;

pub(crate) const COMMAND: Command = Command {
    name: "conformance",
    help: "run corpora of good and hostile inputs against the library

usage: cargo xtask conformance [--hostile DIR]...

Without a folder: the hostile corpus in testdata/. Prints one line per failure and closes with
`N passed, M failed, K skipped`. All options: cargo xtask conformance -- --help",
    run,
};

pub(crate) fn run(house: &House, args: Args) -> anyhow::Result<()> {
    house.cargo(&["run", "--quiet", "--release", "-p", "conformance", "--"]).forward(args).run()
}
