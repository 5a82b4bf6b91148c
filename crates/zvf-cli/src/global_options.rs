//! The options of every subcommand.

use std::io;

use clap::Args;
use zvf::store::RetryHook;
use zvf::{OpenOptions, Timeouts};

use crate::arguments::size;

/// The options of every subcommand.
#[derive(Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Common {
    /// Print JSON instead of text; errors, warnings and progress are lines of JSON on standard error.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print help; "zvf help COMMAND" explains every value and option.
    #[arg(long, short, global = true, action = clap::ArgAction::HelpShort)]
    help: Option<bool>,
    /// Print errors only: no progress and no notes on standard error.
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Set a backend option by its object_store name, before the environment; may be repeated.
    #[arg(long = "storage-option", alias = "storage", global = true, value_name = "KEY=VALUE", value_parser = key_value)]
    storage: Vec<(String, String)>,
    /// Memory limit in bytes, such as 512MiB or 2GB [default: 256MiB for reading, 512MiB for writing, 2GiB for edits].
    #[arg(long, global = true, value_name = "SIZE", value_parser = size)]
    pub(crate) memory_limit: Option<u64>,
}

impl Common {
    /// Returns the options for a command line that runs for this one in parallel with `jobs - 1` others.
    pub(crate) fn words(&self, jobs: u64) -> Vec<String> {
        let storage =
            self.storage.iter().map(|(key, value)| format!("--storage-option={key}={value}"));
        let share = |limit: u64| format!("--memory-limit={}", (limit / jobs.max(1)).max(1));
        storage.chain(self.memory_limit.map(share)).chain(["--quiet".to_owned()]).collect()
    }

    /// Returns the options for opening stores.
    pub(crate) fn options(&self, timeouts: Timeouts) -> OpenOptions {
        let defaults = OpenOptions::default();
        let budget_bytes = self.memory_limit.unwrap_or(defaults.budget_bytes);
        OpenOptions {
            budget_bytes,
            cache_bytes: defaults.cache_bytes.min(budget_bytes / 4),
            storage_options: self.storage.clone(),
            timeouts,
            on_retry: (!self.quiet).then(|| report_retries(self.json)),
            #[cfg(feature = "icechunk")]
            versions: Some(zvf_icechunk::hook()),
            ..defaults
        }
    }
}

/// Reports on standard error that a remote store does not answer.
fn report_retries(json: bool) -> RetryHook {
    RetryHook::new(move |retrying| {
        // A note that standard error does not take has no other place.
        drop(write_note(&mut io::stderr().lock(), &retrying.to_string(), json));
    })
}

/// Writes a note for the reader: text, or a line of JSON.
pub(crate) fn write_note(err: &mut dyn io::Write, note: &str, json: bool) -> io::Result<()> {
    match json {
        true => writeln!(err, "{}", serde_json::json!({"type": "warning", "message": note})),
        false => writeln!(err, "zvf: note: {note}"),
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}
