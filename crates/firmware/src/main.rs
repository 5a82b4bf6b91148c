//! zvf-format without an operating system and an allocator.
//!
//! Decodes a fragment index and a manifest, visits both, checks that a damaged one is refused, and prints the results:
//! over semihosting on a Cortex-M, to standard output on a host. The text is made in [`report`]; only its output
//! differs.
//!
//! `cargo xtask no-std --run` builds it, reports its size and runs it on an emulated board.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod board;
mod report;

#[cfg(not(target_os = "none"))]
fn main() -> std::process::ExitCode {
    let mut text = String::new();
    let verdict = report::write(&mut text);
    let printed = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
    if verdict.is_ok() && printed.is_ok() {
        std::process::ExitCode::SUCCESS
    } else {
        std::process::ExitCode::FAILURE
    }
}
