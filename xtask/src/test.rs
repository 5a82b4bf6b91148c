//! `test`: the test command of the README.

use std::io::{self, Write};

use crate::Command;
use crate::args::Args;
use crate::house::House;

pub(crate) const COMMAND: Command = Command {
    name: "test",
    help: "run every test, doc tests included

usage: cargo xtask test [ARGS FOR `cargo test`]

Runs the unit, integration and doc tests of the default members with their default features, as the command is built, then
repeats the closing line of each runner. Needs neither network nor clock.",
    run,
};

pub(crate) fn run(house: &House, args: Args) -> anyhow::Result<()> {
    let tests = house.cargo(&["test"]).forward(args);
    let results = tests.run_keeping(|line| line.starts_with("test result:"))?;
    let mut out = io::stdout().lock();
    writeln!(out)?;
    for line in &results {
        writeln!(out, "{line}")?;
    }
    let passed: u64 = results.iter().map(|line| count(line, "passed")).sum();
    let failed: u64 = results.iter().map(|line| count(line, "failed")).sum();
    writeln!(out, "\n{passed} passed, {failed} failed, in {} runs", results.len())?;
    Ok(())
}

/// Returns the number before `what` in `test result: ok. 12 passed; 0 failed; …`.
fn count(line: &str, what: &str) -> u64 {
    let parts = line.split([';', '.']).map(str::trim);
    parts.filter_map(|part| part.strip_suffix(what)?.trim().parse().ok()).next().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_closing_line() {
        let line = "test result: ok. 12 passed; 3 failed; 0 ignored; finished in 0.02s";
        assert_eq!((count(line, "passed"), count(line, "failed"), count(line, "lost")), (12, 3, 0));
    }
}
