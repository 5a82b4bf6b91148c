//! `zvf clean`.

use std::io::Write;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use zvf::clean::{State, list, remove};

use crate::outcome::Outcome;
use crate::session::Session;
use crate::table;

/// List and remove files that killed commands left next to a store.
///
/// Files of a running command stay. So do files from which a command can continue, unless --all is given.
/// The store itself is never changed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf clean brain.zarrvectors
  zvf clean --dry-run brain.zarrvectors")]
pub(crate) struct Clean {
    /// The store, or the file of a packed store or of an answer; it need not exist.
    path: String,
    /// Only list them.
    #[arg(long)]
    dry_run: bool,
    /// Also remove unfinished builds that "zvf create", "zvf ingest" or "zvf pyramid" could
    /// continue.
    #[arg(long)]
    all: bool,
}

/// One line of the answer.
#[derive(Debug, Serialize)]
struct Line {
    path: String,
    state: &'static str,
    removed: bool,
}

impl Clean {
    pub(crate) fn run(self, session: &Session, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        let failed = || format!("cannot clean {}", self.path);
        let found = list(&self.path).with_context(failed)?;
        let removed = if self.dry_run {
            Vec::new()
        } else {
            remove(&self.path, self.all).with_context(failed)?
        };
        let mut lines = Vec::new();
        for leftover in &found {
            let gone = removed.iter().any(|removed| removed.path == leftover.path);
            let state = leftover.state.name();
            lines.push(Line { path: leftover.path.display().to_string(), state, removed: gone });
        }
        if session.json() {
            table::json(&lines, out)?;
            return Ok(Outcome::Clean);
        }
        for (line, leftover) in lines.iter().zip(&found) {
            let verb = if line.removed {
                "removed"
            } else if leftover.state == State::InUse {
                "in use"
            } else if leftover.state == State::Resumable {
                "kept: a command can continue from it"
            } else {
                "to be removed"
            };
            writeln!(out, "{verb}: {}", line.path)?;
        }
        if lines.is_empty() {
            writeln!(out, "no leftovers next to {}", self.path)?;
        }
        Ok(Outcome::Clean)
    }
}
