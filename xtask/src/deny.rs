//! `deny`: licences, bans, sources and advisories of all dependencies.

use crate::args::Args;
use crate::house::House;
use crate::parts::ADVISORIES;

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
