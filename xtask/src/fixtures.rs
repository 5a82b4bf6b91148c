//! `fixtures`: files that the library itself writes, kept in `testdata/` so that a change of its
//! output is seen.
//!
//! They prove stability, not agreement: golden bytes typed by hand are in the tests of each module.

use std::fs;

use anyhow::{Context, ensure};

use crate::Command;
use crate::args::Args;
use crate::house::{House, say};

pub(crate) const COMMAND: Command = Command {
    name: "fixtures",
    help: "write the files in testdata/ that the library makes, or check them

usage: cargo xtask fixtures [--check]

--check fails when writing them again would change one.",
    run,
};

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    let mode = Mode::of(&mut args);
    args.end()?;
    for (name, bytes) in fixtures()? {
        settle(house, mode, &format!("testdata/fixtures/{name}"), &bytes, "fixtures")?;
    }
    Ok(())
}

/// Whether generated files are written or compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Write,
    Check,
}

impl Mode {
    /// `--check` compares.
    pub(crate) fn of(args: &mut Args) -> Self {
        if args.flag("--check") { Self::Check } else { Self::Write }
    }
}

/// Writes one generated file, or refuses when it differs from what `command` would write.
pub(crate) fn settle(
    house: &House,
    mode: Mode,
    path: &str,
    bytes: &[u8],
    command: &str,
) -> anyhow::Result<()> {
    let full = house.path(path);
    if fs::read(&full).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    ensure!(
        mode == Mode::Write,
        "{path} is out of date: run `cargo xtask {command}` and review the diff"
    );
    if let Some(folder) = full.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&full, bytes).with_context(|| format!("cannot write {path}"))?;
    say(&format!("wrote {path}"));
    Ok(())
}

/// Name and content of every fixture.
fn fixtures() -> anyhow::Result<Vec<(&'static str, Vec<u8>)>> {
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixtures_are_up_to_date() {
        run(&House::find().unwrap(), Args::of(&["--check"])).unwrap();
    }
}
