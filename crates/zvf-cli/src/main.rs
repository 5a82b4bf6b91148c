//! The `zvf` program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    zvf_cli::main_with(std::env::args_os())
}
