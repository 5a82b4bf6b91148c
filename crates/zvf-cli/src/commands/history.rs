//! `zvf log`, `zvf show` and `zvf undo`.

use std::io::Write;

use clap::Args;
use zvf::format::num::to_u64;

use crate::commands::edit::{Committing, finish};
use crate::outcome::CommandResult;
use crate::session::Session;
use crate::table::{self, Table};

/// Show the commits of a store, newest first.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf log tracts.zarrvectors
  zvf log tracts.zarrvectors --limit 1 --json | jq '.[0].objects'")]
pub(crate) struct Log {
    /// The store: a folder.
    store: String,
    /// Maximum number of commits to show.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

impl Log {
    pub(crate) fn run(self, session: &Session, out: &mut dyn Write) -> CommandResult {
        let list = zvf::edit::log(session.place(&self.store)?, self.limit)?;
        session.print(out, &list, |out| {
            if list.is_empty() {
                return Ok(writeln!(out, "no commits")?);
            }
            let mut rows =
                Table::titled(">head, time, writer, >objects added, >removed, >changed, message");
            for entry in &list {
                let text =
                    |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
                // Other programs that commit to a repository do not record these counts.
                let count = |name: &str| {
                    let list = entry["objects"][name].as_array();
                    table::format_optional(list.map(|list| to_u64(list.len())))
                };
                rows.row(vec![
                    entry["head"].to_string(),
                    text(&entry["time"]),
                    text(&entry["writer"]),
                    count("added"),
                    count("removed"),
                    count("changed"),
                    text(&entry["message"]),
                ]);
            }
            Ok(rows.print("", out)?)
        })
    }
}

/// Show one commit: its operations, what it changed, and which keys it wrote.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf show tracts.zarrvectors 3
  zvf show tracts.zarrvectors 3 --json | jq .operations")]
pub(crate) struct Show {
    /// The store: a folder.
    store: String,
    /// The number of the commit.
    commit: u64,
}

impl Show {
    pub(crate) fn run(self, session: &Session, out: &mut dyn Write) -> CommandResult {
        let commit = zvf::edit::show(session.place(&self.store)?, self.commit)?;
        session.print(out, &commit, |out| {
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
  zvf undo tracts.zarrvectors
  zvf undo tracts.zarrvectors 4
  zvf undo tracts.zarrvectors --to 2 --message 'back to the reviewed state'")]
pub(crate) struct Undo {
    /// The store: a folder.
    store: String,
    /// Undo this commit, the last one in effect: its number or its id, as "zvf log --json" prints
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
    pub(crate) fn run(self, session: &Session, out: &mut dyn Write) -> CommandResult {
        let place = self.committing.writing.place(&self.store, session)?;
        let what = match (&self.commit, self.to) {
            (Some(id), _) => zvf::edit::Undo::Commit(zvf::edit::find_commit(&place, id)?),
            (None, Some(head)) => zvf::edit::Undo::To(head),
            (None, None) => zvf::edit::Undo::Last(self.last.unwrap_or(1)), // the last one is the usual meaning
        };
        let done = zvf::edit::undo(place, what, &self.committing.options());
        finish(done, &self.store, session, out)
    }
}
