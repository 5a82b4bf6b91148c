//! `zvf-sql`: SQL over stores, and over Parquet, CSV, JSON and Arrow files beside them.
//!
//! ```text
//! arguments   what is asked, and where the answer goes
//! command     what is done: the statements of the arguments, of standard input, or of the prompt
//! session     the engine with its tables
//! statements  a text as statements, their answers
//! output      answers as tables, CSV, JSON, Arrow and Parquet
//! prompt      lines that are typed, and what was typed before
//! fault       what went wrong as one line and an exit code
//! ```
//!
//! A program of its own, and no part of `zvf`: the engine would be three quarters of it.
#![expect(clippy::doc_markdown, reason = "comments of arguments are help texts, shown as they are")]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "errors and statements of the engine have dozens of variants and get more"
)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod arguments;
mod command;
mod fault;
mod history;
mod output;
mod prompt;
mod session;
mod statements;

use std::process::ExitCode;

use clap::Parser as _;
use tokio::runtime::Builder;

use crate::arguments::Arguments;
use crate::fault::Fault;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return fault::report_arguments(&error),
    };
    let json = arguments.json;
    let done = run(arguments);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => fault.report(json),
    }
}

fn run(arguments: Arguments) -> Result<(), Fault> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(command::run(arguments));
    // A statement that was interrupted may be reading still; nobody waits for it.
    runtime.shutdown_background();
    done
}
