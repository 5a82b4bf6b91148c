//! `cargo xtask <command>`: starts the tests, checks and measurements of this workspace.
//!
//! One file per command, each with a [`Command`]: its name, its help and its `run`. Only `docs` and `fuzz` would need
//! the network, to install tools, which they never do. Heavy work is in separate programs (`proof`, `torture`),
//! started from here.

mod api;
mod args;
mod before;
mod bench;
mod cargo_toml;
mod ci;
mod clippy;
mod conformance;
mod counts;
mod deny;
mod docs;
mod features;
mod fixtures;
mod fuzz;
mod house;
mod loom;
mod miri;
mod no_std;
mod parts;
mod publish;
mod python;
mod release;
mod sql;
mod test;
mod tidy;
mod times;
mod torture;
mod viewer;
mod walk;

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::bail;

use crate::args::Args;
use crate::house::House;

/// One command of `cargo xtask`.
pub(crate) struct Command {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// The text of `--help`; the first line is the summary in the list of commands.
    pub(crate) help: &'static str,
    /// Runs it.
    pub(crate) run: fn(&House, Args) -> anyhow::Result<()>,
}

fn main() -> ExitCode {
    match dispatch() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            house::say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn dispatch() -> anyhow::Result<()> {
    let mut args = Args::new(env::args_os().skip(1));
    let name = args.next().and_then(|name| name.into_string().ok()).unwrap_or_default();
    if matches!(name.as_str(), "" | "help" | "-h" | "--help") {
        return usage();
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        bail!("no command {name:?}: `cargo xtask help` lists them");
    };
    if args.asks_for_help() {
        writeln!(io::stdout(), "cargo xtask {name}: {}", command.help)?;
        return Ok(());
    }
    (command.run)(&House::find()?, args)
}

fn usage() -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "cargo xtask <command> [--help]\n")?;
    for command in COMMANDS {
        let summary = command.help.lines().next().unwrap_or_default();
        writeln!(out, "  {:12} {summary}", command.name)?;
    }
    Ok(())
}

const COMMANDS: &[&Command] = &[
    &test::COMMAND,
    &ci::COMMAND,
    &clippy::COMMAND,
    &features::COMMAND,
    &no_std::COMMAND,
    &deny::COMMAND,
    &fixtures::COMMAND,
    &tidy::COMMAND,
    &counts::COMMAND,
    &times::COMMAND,
    &api::COMMAND,
    &publish::COMMAND,
    &release::COMMAND,
    &docs::COMMAND,
    &conformance::COMMAND,
    &torture::COMMAND,
    &bench::COMMAND,
    &fuzz::COMMAND,
    &miri::COMMAND,
    &loom::COMMAND,
    &python::COMMAND,
    &viewer::COMMAND,
    &walk::COMMAND,
    &before::COMMAND,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_name_of_its_own_and_help() {
        for (i, command) in COMMANDS.iter().enumerate() {
            assert!(COMMANDS[..i].iter().all(|other| other.name != command.name));
            let (summary, rest) = command.help.split_once("\n\n").expect(command.name);
            assert!(summary.len() <= 70 && !summary.ends_with('.'), "{}", command.name);
            assert!(rest.contains(&format!("cargo xtask {}", command.name)), "{}", command.name);
        }
    }
}
