//! `zvf edit`.

use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use zvf::edit::{CommitOptions, EditError, Editor, Refresh, Result};

use crate::outcome::Outcome;
use crate::session::Session;

/// Change a store by a script: move, add and remove vertices, objects, links, groups and columns.
///
/// The script has one JSON object a line; each names its operation in "op". Without begin and commit all of it is one
/// transaction. The first fault drops the transaction that is open; earlier commits stay.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf edit tracts.zarrvectors --script fixes.jsonl --message 'split merged tracts'
  echo '{\"op\":\"vertex.move\",\"vertices\":{\"object\":7,\"index\":0},\"to\":[1,2,3]}' | zvf edit tracts.zarrvectors
  zvf edit tracts.zarrvectors --script fixes.jsonl --dry-run --json | jq .commits")]
pub(crate) struct Edit {
    /// The store: a folder.
    store: String,
    /// The script: a file, or - for standard input.
    #[arg(long, default_value = "-", value_name = "FILE")]
    script: String,
    /// Do everything but write; say what would be written.
    #[arg(long)]
    dry_run: bool,
    /// Answer each line of the script with one JSON line as soon as it is done.
    #[arg(long)]
    replies: bool,
    /// Why, for the log; of transactions that do not say.
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Refuse to commit on another head than this.
    #[arg(long, value_name = "N")]
    if_head: Option<u64>,
    /// What to do about vertices outside the bounds of the store.
    #[arg(long, value_enum, default_value_t = Bounds::Grow)]
    bounds: Bounds,
    /// What to do about coarser levels: leave them behind, or build them again in the same commit.
    #[arg(long, value_enum, default_value_t = Levels::None)]
    refresh: Levels,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Levels {
    /// They keep their vertices and are marked as behind.
    None,
    /// What is behind is built again.
    Stale,
    /// All are built again.
    All,
}

impl From<Levels> for Refresh {
    fn from(levels: Levels) -> Self {
        match levels {
            Levels::None => Self::None,
            Levels::Stale => Self::Stale,
            Levels::All => Self::All,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bounds {
    /// Extend them.
    Grow,
    /// Refuse the transaction.
    Refuse,
}

impl Edit {
    pub(crate) fn run(self, session: &Session, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        let options = CommitOptions {
            message: self.message.clone(),
            if_head: self.if_head,
            refuse_bounds: self.bounds == Bounds::Refuse,
            dry_run: self.dry_run,
            refresh: self.refresh.into(),
            ..CommitOptions::default()
        };
        let folder = match self.script.as_str() {
            "-" => PathBuf::from("."),
            file => Path::new(file).parent().map_or_else(PathBuf::new, Path::to_owned),
        };
        let mut editor = Editor::open(Path::new(&self.store), &folder, options)?;
        let mut lines: Box<dyn io::BufRead> = match self.script.as_str() {
            "-" => Box::new(BufReader::new(io::stdin())),
            file => Box::new(BufReader::new(
                std::fs::File::open(file).with_context(|| format!("cannot open {file}"))?,
            )),
        };
        let done = self.go_through(&mut editor, &mut lines, out)?;
        let report = editor.report(done.as_ref().err());
        match session.json() {
            true => writeln!(out, "{report}")?,
            false => print(&report, out)?,
        }
        session.print_notices(
            out,
            report["notices"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|notice| notice["text"].as_str().map(str::to_owned)),
        )?;
        out.flush()?;
        done.map(|()| Outcome::Clean).map_err(anyhow::Error::from)
    }

    /// Does line after line; the inner fault is one of the script.
    fn go_through(
        &self,
        editor: &mut Editor,
        lines: &mut dyn io::BufRead,
        out: &mut dyn Write,
    ) -> anyhow::Result<Result<()>> {
        let mut text = String::new();
        let mut number = 0;
        loop {
            text.clear();
            if lines.read_line(&mut text)? == 0 {
                return Ok(editor.finish());
            }
            number += 1;
            match editor.line(number, &text) {
                Ok(Some(reply)) if self.replies => {
                    writeln!(out, "{}", reply.to_json())?;
                    out.flush()?;
                }
                Ok(_) => {}
                Err(error) => return Ok(Err(error)),
            }
        }
    }
}

/// A report for people.
pub(crate) fn print(report: &serde_json::Value, out: &mut dyn Write) -> anyhow::Result<()> {
    let commits = report["commits"].as_array().cloned().unwrap_or_default();
    for commit in &commits {
        let count = |part: &str, name: &str| {
            commit[part][name]
                .as_u64()
                .or_else(|| commit[part][name].as_array().map(|list| list.len() as u64))
                .unwrap_or(0)
        };
        writeln!(
            out,
            "{} {}: vertices +{} -{} moved {} changed {}; links +{} -{}; objects +{} -{} changed {}; {} keys, {} bytes",
            if report["dry_run"] == true { "would be commit" } else { "commit" },
            commit["head"],
            count("vertices", "added"),
            count("vertices", "removed"),
            count("vertices", "moved"),
            count("vertices", "changed"),
            count("links", "added"),
            count("links", "removed"),
            count("objects", "added"),
            count("objects", "removed"),
            count("objects", "changed"),
            commit["keys"],
            commit["bytes"],
        )?;
        for level in commit["levels_stale"].as_array().into_iter().flatten() {
            writeln!(out, "  level {level} is behind now")?;
        }
    }
    if commits.is_empty() && report["error"].is_null() {
        writeln!(out, "nothing changed; the head is {}", report["head"])?;
    }
    Ok(())
}

/// Prints the report of a command that is one commit.
pub(crate) fn finish(
    done: std::result::Result<serde_json::Value, EditError>,
    store: &str,
    session: &Session,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let report = match &done {
        Ok(report) => report.clone(),
        Err(error) => zvf::edit::failure(Path::new(store), error),
    };
    match session.json() {
        true => writeln!(out, "{report}")?,
        false => print(&report, out)?,
    }
    out.flush()?;
    done.map(|_| Outcome::Clean).map_err(anyhow::Error::from)
}
