//! The `zvf` command: reads, writes and checks Zarr Vectors stores.
//!
//! Each subcommand has a file in `commands`. Everything that a program could use is in the library `zvf`: this crate
//! has arguments, tables, files and exit codes.
//!
//! A program that embeds the command (the Python package does) runs it with [`main_with`], or with [`call`], which
//! returns its output.
#![forbid(unsafe_code)]
#![expect(clippy::doc_markdown, reason = "comments of arguments are help texts, shown as they are")]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod arguments;
mod call;
mod cli;
mod commands;
mod global_options;
mod interrupt;
mod outcome;
mod progress;
mod session;
mod stdin;
mod table;
mod target;

pub use call::{Reply, call, call_with_progress, main_with};
pub use interrupt::Interrupt as Stop;
pub use outcome::Failure;

#[cfg(test)]
mod tests {
    mod surface;
}
