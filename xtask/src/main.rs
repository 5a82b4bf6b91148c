//! `cargo xtask <command>`: starts the tests, checks and measurements of this workspace.
//!
//! One file per command, with its `run`; `help.txt` has what `--help` prints of each. Only `docs` and `fuzz` would need
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
    let Some((_, run)) = COMMANDS.iter().find(|(known, _)| *known == name) else {
        bail!("no command {name:?}: `cargo xtask help` lists them");
    };
    if args.asks_for_help() {
        writeln!(io::stdout(), "cargo xtask {name}: {}", help_of(&name))?;
        return Ok(());
    }
    run(&House::find()?, args)
}

fn usage() -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "cargo xtask <command> [--help]\n")?;
    for (name, _) in COMMANDS {
        let summary = help_of(name).lines().next().unwrap_or_default();
        writeln!(out, "  {name:12} {summary}")?;
    }
    Ok(())
}

/// Returns the help of a command; its first line is the summary in the list of commands.
fn help_of(name: &str) -> &'static str {
    let section = HELP.split_once(&format!("== {name}\n")).expect("each command has its help");
    section.1.split("\n\n== ").next().unwrap_or_default().trim_end()
}

const HELP: &str = include_str!("../help.txt");

type Run = fn(&House, Args) -> anyhow::Result<()>;

const COMMANDS: [(&str, Run); 24] = [
    ("test", test::run),
    ("ci", ci::run),
    ("clippy", clippy::run),
    ("features", features::run),
    ("no-std", no_std::run),
    ("deny", deny::run),
    ("fixtures", fixtures::run),
    ("tidy", tidy::run),
    ("counts", counts::run),
    ("times", times::run),
    ("api", api::run),
    ("publish", publish::run),
    ("release", release::run),
    ("docs", docs::run),
    ("conformance", conformance::run),
    ("torture", torture::run),
    ("bench", bench::run),
    ("fuzz", fuzz::run),
    ("miri", miri::run),
    ("loom", loom::run),
    ("python", python::run),
    ("viewer", viewer::run),
    ("walk", walk::run),
    ("before", before::run),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_name_of_its_own_and_help() {
        for (i, (name, _)) in COMMANDS.iter().enumerate() {
            assert!(COMMANDS[..i].iter().all(|(other, _)| other != name));
            let (summary, rest) = help_of(name).split_once("\n\n").expect(name);
            assert!(summary.len() <= 70 && !summary.ends_with('.'), "{name}");
            assert!(rest.contains(&format!("cargo xtask {name}")), "{name}");
        }
    }
}
