//! `torture`: starts the program that tries to break promises on purpose.

use crate::Command;
use crate::args::Args;
use crate::house::House;

pub(crate) const COMMAND: Command = Command {
    name: "torture",
    help: "try to break what the library promises

usage: cargo xtask torture mutate [--n N] [--seed S]
       cargo xtask torture exhaust
       cargo xtask torture powerloss [--states N] [--seed S]
       cargo xtask torture kill9 [--what build|create|overwrite|ingest] [--loops N] [--writers N]
                                 [--dir DIR] [--seed S]
       cargo xtask torture diskfull [--from KIB] [--to KIB] [--step KIB]
       cargo xtask torture sigbus [--n N] [--seed S]
       cargo xtask torture stores [--n N] [--seed S]

Each subcommand prints one JSON line, {\"name\",\"n\",\"failures\",\"seed\"}, and fails on any failure.",
    run,
};

pub(crate) fn run(house: &House, args: Args) -> anyhow::Result<()> {
    if args.peek("--what") {
        // The command that `kill9` kills lies beside the program.
        house.cargo(&["build", "--quiet", "--release", "-p", "zvf-cli", "--bin", "zvf"]).run()?;
    }
    house.cargo(&["run", "--quiet", "--release", "-p", "torture", "--"]).forward(args).run()
}
