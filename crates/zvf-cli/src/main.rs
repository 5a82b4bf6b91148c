//! The `zvf` command: what Zarr Vectors stores hold, and answers from them.
//!
//! One file a subcommand, in `commands`; what all of them need beside it. Whatever a program could want
//! too is in the library: here are arguments, tables for people, files and exit codes.
#![forbid(unsafe_code)]
#![expect(clippy::doc_markdown, reason = "comments of arguments are help texts, shown as they are")]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod arguments;
mod cli;
mod commands;
mod interrupt;
mod outcome;
mod progress;
mod session;
mod table;
mod target;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match cli::Cli::try_parse() {
        Ok(cli) => {
            let json = cli.is_json();
            outcome::report(cli.run(), json)
        }
        Err(error) => arguments::report(&error, arguments::ask_for_json(std::env::args_os())),
    }
}
