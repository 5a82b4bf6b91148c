//! `mutate`: starts the program that damages good stores and validates them.

use crate::Command;
use crate::args::Args;
use crate::house::House;

pub(crate) const COMMAND: Command = Command {
    name: "mutate",
    help: "damage good stores at random and validate them

usage: cargo xtask mutate [--n N] [--seed S] [--only STORE]

One damage each: a byte, a value of a document, a missing or cut object, swapped cells; 10 000 unless
said otherwise. Nothing may panic or hang. The share that is found is printed for each kind, and what
is not found is listed. Fails on any panic or hang.",
    run,
};

fn run(house: &House, args: Args) -> anyhow::Result<()> {
    let program = ["run", "--quiet", "--release", "-p", "torture", "--", "stores"];
    house.cargo(&program).forward(args).run()
}
