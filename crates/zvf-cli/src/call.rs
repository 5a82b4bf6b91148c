//! The command as functions: the whole program, and one command line whose output is returned.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use crate::cli::Cli;
use crate::interrupt::Interrupt;
use crate::outcome::{self, Failure, Outcome};
use crate::progress::ProgressHook;

/// What a command printed on standard output, and whether it found problems.
///
/// ```
/// let reply = zvf_cli::call(["zvf", "completions", "bash"].map(Into::into), &zvf_cli::Stop::default())?;
/// assert!(!reply.has_findings && !reply.output.is_empty());
/// # Ok::<(), zvf_cli::Failure>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The bytes of standard output.
    pub output: Vec<u8>,
    /// Whether the command ended with the exit code for problems found.
    pub has_findings: bool,
}

/// Runs the command line `args`, the name of the program first, and returns what it printed on standard
/// output. No signal handler is installed: `stop` takes their place.
///
/// # Errors
///
/// When the program would end with an exit code above 1.
pub fn call(args: impl IntoIterator<Item = OsString>, stop: &Interrupt) -> Result<Reply, Failure> {
    call_with_progress(args, stop, |_done, _total| {})
}

/// Runs `args` as [`call`] does and calls `on_progress`, from any thread, with the number of items
/// done and the total if that is known: vertices, cells, rows, whatever the command counts.
///
/// ```
/// let stop = zvf_cli::Stop::default();
/// let args = ["zvf", "completions", "bash"].map(Into::into);
/// let reply = zvf_cli::call_with_progress(args, &stop, |done, total| println!("{done} of {total:?}"))?;
/// assert!(!reply.output.is_empty());
/// # Ok::<(), zvf_cli::Failure>(())
/// ```
///
/// # Errors
///
/// As [`call`].
pub fn call_with_progress(
    args: impl IntoIterator<Item = OsString>,
    stop: &Interrupt,
    on_progress: impl Fn(u64, Option<u64>) + Send + Sync + 'static,
) -> Result<Reply, Failure> {
    let cli = Cli::parse_line(crate::arguments::shield_positions(args))
        .map_err(|error| Failure::new(crate::arguments::summarize(&error.render().to_string())))?;
    // Tables ask a terminal for its width; there is none here.
    let output: Arc<Mutex<Vec<u8>>> = Arc::default();
    let hook = Some(ProgressHook::new(on_progress));
    let run = |runtime| cli.run_on(runtime, stop, hook, output.clone());
    match Interrupt::silent_runtime().and_then(run) {
        Ok(Outcome::Ended(code @ 1..)) => {
            Err(Failure::new(format!("the program ended with exit code {code}")))
        }
        Ok(outcome) => {
            let has_findings = outcome == Outcome::Findings;
            let output =
                std::mem::take(&mut *output.lock().unwrap_or_else(PoisonError::into_inner));
            Ok(Reply { output, has_findings })
        }
        Err(error) => {
            Err(Failure { class: outcome::class(&error), message: outcome::line(&error) })
        }
    }
}

/// Runs the program: parses `args`, listens to signals, prints, and returns the exit code.
pub fn main_with(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = crate::arguments::shield_positions(args);
    match Cli::parse_line(args.clone()) {
        Ok(cli) => {
            let json = cli.is_json();
            outcome::report(cli.run(), json)
        }
        Err(error) => crate::arguments::report(&error, crate::arguments::ask_for_json(args)),
    }
}
