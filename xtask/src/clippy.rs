//! `clippy`: the lints of the workspace, in two runs.
//!
//! Published crates must pass every lint. Tests and programs that are never published may unwrap, index, panic and
//! print: there a panic is the report.

use crate::args::Args;
use crate::cargo_toml::published_set;
use crate::house::{House, everything};

pub(crate) fn run(house: &House, args: Args) -> anyhow::Result<()> {
    args.end()?;
    let strict = house.cargo("clippy --no-deps --bins").args(&published_set(house)?);
    strict.words("-- -D warnings").run()?;
    let all = house.cargo("clippy --all-targets").args(&everything()).words("-- -D warnings");
    all.words(LIFTED_IN_TESTS).run()
}

const LIFTED_IN_TESTS: &str = "
    -Aclippy::unwrap_used -Aclippy::expect_used -Aclippy::indexing_slicing
    -Aclippy::arithmetic_side_effects -Aclippy::as_conversions -Aclippy::panic
    -Aclippy::missing_panics_doc -Aclippy::print_stdout -Aclippy::print_stderr
    -Aclippy::wildcard_enum_match_arm -Amissing_docs -Aunreachable_pub";
