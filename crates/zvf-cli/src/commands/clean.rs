//! `zvf clean`.

use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};
use zvf::clean::{Leftover, Status, list, remove};

use crate::outcome::CommandResult;
use crate::session::Session;

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

impl Clean {
    pub(crate) fn run(self, session: &Session) -> CommandResult {
        let failed = || format!("cannot clean {}", self.path);
        let found = list(&self.path).with_context(failed)?;
        let gone = match self.dry_run {
            true => Vec::new(),
            false => remove(&self.path, self.all).with_context(failed)?,
        };
        let line = |leftover: &Leftover| {
            let removed = gone.iter().any(|gone| gone.path == leftover.path);
            let (path, state) = (leftover.path.display().to_string(), leftover.state.name());
            json!({"path": path, "state": state, "removed": removed})
        };
        let lines: Vec<Value> = found.iter().map(line).collect();
        session.print(&lines, |out| {
            for (line, leftover) in lines.iter().zip(&found) {
                let verb = match leftover.state {
                    _ if line["removed"] == true => "removed",
                    Status::InUse => "in use",
                    Status::Resumable => "kept: a command can continue from it",
                    Status::Unused | _ => "to be removed",
                };
                writeln!(out, "{verb}: {}", leftover.path.display())?;
            }
            if lines.is_empty() {
                writeln!(out, "no leftovers next to {}", self.path)?;
            }
            Ok(())
        })
    }
}
