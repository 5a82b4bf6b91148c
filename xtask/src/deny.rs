//! `deny`: licences, bans, sources and advisories of all dependencies.

use crate::Command;
use crate::args::Args;
use crate::house::House;
use crate::parts::ADVISORIES;

pub(crate) const COMMAND: Command = Command {
    name: "deny",
    help: "check licences, bans, sources and known advisories of dependencies

usage: cargo xtask deny

Needs cargo-deny. The first three need no network and must hold. Advisories need a database that
is fetched; when it cannot be, that part is left out.",
    run,
};

pub(crate) fn run(house: &House, args: Args) -> anyhow::Result<()> {
    args.end()?;
    let hint = "cargo-deny is missing: `cargo install cargo-deny --locked`";
    house.cargo("deny --version").require(hint)?;
    house.cargo("deny --all-features check bans licenses sources").run()?;
    let is_fetched = house.cargo("deny fetch db").run().is_ok();
    if !ADVISORIES.settle(is_fetched) {
        return Ok(());
    }
    house.cargo("deny --all-features check --disable-fetch advisories").run()
}
