//! `features`: a feature adds items and never changes one, so each must build alone, and with none.

use crate::Command;
use crate::args::Args;
use crate::cargo_toml::members;
use crate::house::House;

pub(crate) const COMMAND: Command = Command {
    name: "features",
    help: "check each published crate with no feature, and with each alone

usage: cargo xtask features

Warnings are denied: what is unused without a feature is found here.",
    run,
};

pub(crate) fn run(house: &House, args: Args) -> anyhow::Result<()> {
    args.end()?;
    for member in members(house)?.iter().filter(|member| member.is_checked()) {
        let check = ["clippy", "-p", &member.name, "--no-default-features"];
        let deny = ["--", "-D", "warnings"];
        house.cargo(&check).args(&deny).run()?;
        for feature in member.features.iter().filter(|name| !SHARED.contains(&name.as_str())) {
            house.cargo(&check).args(&["--features", feature]).args(&deny).run()?;
        }
    }
    Ok(())
}

/// Internal features that others share.
const SHARED: [&str; 1] = ["net"];
