//! `zvf-sql`: SQL over stores, and over Parquet, CSV, JSON and Arrow files beside them.
//!
//! ```text
//! arguments   the command line
//! command     the choice between statements of the arguments, of standard input and of the prompt
//! session     the engine with its tables
//! statements  parsing and execution of statements
//! output      answers as tables, CSV, JSON, Arrow and Parquet
//! prompt      the interactive prompt
//! history     the history of the prompt
//! fault       faults as one line and an exit code
//! ```
//!
//! A separate program from `zvf`, because the engine would be three quarters of the binary.
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
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => fault.report(json),
    }
}

fn run(arguments: Arguments) -> Result<(), Fault> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(command::run(arguments));
    // Do not wait for an interrupted statement that is still reading.
    runtime.shutdown_background();
    result
}
