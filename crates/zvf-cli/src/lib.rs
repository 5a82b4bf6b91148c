//! The `zvf` command: what Zarr Vectors stores hold, and answers from them.
//!
//! One file a subcommand, in `commands`; what all of them need beside it. Whatever a program could want
//! too is in the library `zvf`: here are arguments, tables for people, files and exit codes.
//!
//! A program that carries the command (the Python package does) runs it with [`main_with`], or with
//! [`call`], which gives back what would have been printed.
#![forbid(unsafe_code)]
#![expect(clippy::doc_markdown, reason = "comments of arguments are help texts, shown as they are")]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod arguments;
mod call;
mod cli;
mod commands;
mod interrupt;
mod outcome;
mod progress;
mod session;
mod table;
mod target;

pub use call::{Failure, Reply, Stop, call, call_with_progress, main_with};
