//! `zvf history`: the commits of a store.

mod diff;

use std::path::Path;

use clap::{Args, Subcommand};
use zvf::edit::{self, EditError};
use zvf::format::num::to_u64;

use self::diff::Diff;
use crate::commands::edit::{Committing, Writing, finish};
use crate::outcome::CommandResult;
use crate::session::Session;
use crate::table;

/// Show, compare, undo and check out the commits of a store.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  zvf history log tracts.zarrvectors
  zvf history diff tracts.zarrvectors 3 5
  zvf history undo tracts.zarrvectors
  zvf history checkout tracts.zarrvectors 2 reviewed.zarrvectors")]
pub(crate) enum History {
    Log(Log),
    Show(Show),
    Diff(Diff),
    Undo(Undo),
    Checkout(Checkout),
    Gc(Gc),
}

impl History {
    pub(crate) fn run(self, session: &Session) -> CommandResult {
        match self {
            Self::Log(command) => command.run(session),
            Self::Show(command) => command.run(session),
            Self::Diff(command) => command.run(session),
            Self::Undo(command) => command.run(session),
            Self::Checkout(command) => command.run(session),
            Self::Gc(command) => command.run(session),
        }
    }
}

/// Show the commits of a store, newest first.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf history log tracts.zarrvectors
  zvf history log tracts.zarrvectors --limit 1 --json | jq '.[0].objects'")]
pub(crate) struct Log {
    /// The store: a folder.
    store: String,
    /// Maximum number of commits to show.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

impl Log {
    fn run(self, session: &Session) -> CommandResult {
        let list = edit::log(session.place(&self.store)?, self.limit)?;
        session.print(&list, |out| {
            if list.is_empty() {
                return Ok(writeln!(out, "no commits")?);
            }
            let rows = list.iter().map(|entry| {
                let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
                // Other programs that commit to a repository do not record these counts.
                let count = |name: &str| {
                    let list = entry["objects"][name].as_array();
                    table::format_optional(list.map(|list| to_u64(list.len())))
                };
                let counts = ["added", "removed", "changed"].map(count);
                let first = [entry["head"].to_string(), text("time"), text("writer")];
                first.into_iter().chain(counts).chain([text("message")]).collect()
            });
            let titles = ">head, time, writer, >objects added, >removed, >changed, message";
            Ok(table::print(out, "", titles.split(", "), rows)?)
        })
    }
}

/// Show one commit: its operations, what it changed, and which keys it wrote.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf history show tracts.zarrvectors 3
  zvf history show tracts.zarrvectors 3 --json | jq .operations")]
pub(crate) struct Show {
    /// The store: a folder.
    store: String,
    /// The number of the commit.
    commit: u64,
}

impl Show {
    fn run(self, session: &Session) -> CommandResult {
        let commit = edit::show(session.place(&self.store)?, self.commit)?;
        session.print(&commit, |out| {
            for name in ["head", "txid", "time", "writer", "message", "undoes"] {
                if !commit[name].is_null() {
                    writeln!(
                        out,
                        "{name:8} {}",
                        commit[name]
                            .as_str()
                            .map_or_else(|| commit[name].to_string(), str::to_owned)
                    )?;
                }
            }
            for name in ["vertices", "links", "objects"] {
                writeln!(out, "{name:8} {}", commit["report"][name])?;
            }
            for operation in commit["operations"].as_array().into_iter().flatten() {
                writeln!(out, "{operation}")?;
            }
            for entry in commit["keys"].as_array().into_iter().flatten() {
                writeln!(
                    out,
                    "{} {} -> {}",
                    entry["key"].as_str().unwrap_or_default(),
                    entry["before"].as_u64().map_or_else(|| "nothing".to_owned(), table::bytes),
                    entry["after"].as_u64().map_or_else(|| "nothing".to_owned(), table::bytes),
                )?;
            }
            Ok(())
        })
    }
}

/// Undo commits, by a new commit that restores the former content of every key.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf history undo tracts.zarrvectors
  zvf history undo tracts.zarrvectors 4
  zvf history undo tracts.zarrvectors --to 2 --message 'back to the reviewed state'")]
pub(crate) struct Undo {
    /// The store: a folder.
    store: String,
    /// Undo this commit, the last one in effect: its number or its id, as "zvf history log --json" prints
    /// them.
    #[arg(conflicts_with_all = ["last", "to"])]
    commit: Option<String>,
    /// Undo this many commits; commits that are already undone do not count.
    #[arg(long, value_name = "N", conflicts_with = "to")]
    last: Option<u64>,
    /// Undo everything after this head.
    #[arg(long, value_name = "HEAD")]
    to: Option<u64>,
    #[command(flatten)]
    committing: Committing,
}

impl Undo {
    fn run(self, session: &Session) -> CommandResult {
        let place = self.committing.writing.place(&self.store, session)?;
        let what = match (&self.commit, self.to) {
            (Some(id), _) => edit::Undo::Commit(edit::find_commit(&place, id)?),
            (None, Some(head)) => edit::Undo::To(head),
            (None, None) => edit::Undo::Last(self.last.unwrap_or(1)), // the last one is the usual meaning
        };
        let done = edit::undo(place, what, &self.committing.options());
        finish(done, &self.store, session)
    }
}

/// Create a store with the state of another one at an earlier commit.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf history checkout tracts.zarrvectors 2 reviewed.zarrvectors")]
pub(crate) struct Checkout {
    /// The store: a folder.
    store: String,
    /// The number of the commit; 0 for the store before the first.
    commit: u64,
    /// The new store.
    out: String,
}

impl Checkout {
    fn run(self, session: &Session) -> CommandResult {
        let done = edit::checkout(session.place(&self.store)?, self.commit, Path::new(&self.out))?;
        session.print(&done, |out| {
            Ok(writeln!(out, "{} is {} at commit {}", self.out, self.store, self.commit)?)
        })
    }
}

/// Remove unneeded files of the journal of a store.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf history gc tracts.zarrvectors
  zvf history gc tracts.zarrvectors --keep 50 --dry-run
  zvf history gc tracts.zarrvectors --vacuum")]
pub(crate) struct Gc {
    /// The store: a folder.
    store: String,
    /// Keep files younger than this, such as 24h, 30m or 0s.
    #[arg(long, default_value = "24h", value_name = "TIME")]
    grace: String,
    /// The number of commits that can still be undone.
    #[arg(long, default_value_t = 10, value_name = "N")]
    keep: u64,
    /// Also rewrite the store without rows that no object has, in one commit.
    #[arg(long)]
    vacuum: bool,
    /// Also renumber objects from 0 to n - 1, on all levels and in groups, in one commit that cannot be undone.
    #[arg(long)]
    renumber: bool,
    /// Remove nothing; print what would be removed.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    writing: Writing,
}

impl Gc {
    fn run(self, session: &Session) -> CommandResult {
        let what = || -> Result<edit::Collect, EditError> {
            Ok(edit::Collect {
                grace: edit::parse_duration(&self.grace)?,
                keep: self.keep,
                vacuum: self.vacuum,
                renumber: self.renumber,
                dry_run: self.dry_run,
            })
        };
        let place = self.writing.place(&self.store, session)?;
        let done = what().and_then(|what| edit::gc(place, what));
        finish(done, &self.store, session)
    }
}
