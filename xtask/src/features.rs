//! `features`: a feature adds items and never changes one, so each must build alone, and with none.

use crate::Command;
use crate::args::Args;
use crate::cargo_toml::members;
use crate::house::House;

pub(crate) const COMMAND: Command = Command {
    name: "features",
    help: "check each published crate with no feature, and with each alone

usage: cargo xtask features

Warnings are denied: what is unused without a feature is found here. A feature that the sources of a crate do not name only
turns on features below: there it is checked, and not once more. `ci features` then runs the tests of the programs, and of
all crates whose features its first step leaves out, with all features.",
    run,
};

pub(crate) fn run(house: &House, args: Args) -> anyhow::Result<()> {
    args.end()?;
    for member in members(house)?.iter().filter(|member| member.is_checked()) {
        check(house, &["-p", &member.name, "--no-default-features"])?;
        let sources = format!("crates/{}", member.name);
        for feature in &member.features {
            let named = ["-rqF", "--include=*.rs", &format!("feature = \"{feature}\""), &sources];
            if house.program("grep").args(&named).output().is_some() {
                let alone = ["-p", &member.name, "--no-default-features", "--features", feature];
                check(house, &alone)?;
            }
        }
    }
    Ok(())
}

/// Checks this selection; the crates of others that it has in common with another one are not
/// compiled again.
fn check(house: &House, selection: &[&str]) -> anyhow::Result<()> {
    house.cargo(&["clippy", "--quiet"]).args(selection).args(&["--", "-D", "warnings"]).run()
}
