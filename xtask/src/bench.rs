//! `bench`: starts the benches of the published crates.

use crate::Command;
use crate::args::Args;
use crate::house::House;

pub(crate) const COMMAND: Command = Command {
    name: "bench",
    help: "measure: parse, walk, look up, place, plan

usage: cargo xtask bench [FILTER] [OPTIONS OF CRITERION]

Runs every bench of zvf-format whose name contains FILTER.",
    run,
};

fn run(house: &House, args: Args) -> anyhow::Result<()> {
    let bench = ["bench", "-p", "zvf-format", "--all-features", "--bench", "*", "--"];
    house.cargo(&bench).forward(args).run()
}
