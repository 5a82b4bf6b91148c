//! `zvf edit`.

mod packed;
mod select;
mod verb;

use std::io::{self, BufReader, Write};
use std::path::Path;

use anyhow::Context as _;
use clap::{ArgAction, Args};
use zvf::edit::{CommitOptions, EditError, Editor, Place, Refresh};
use zvf::format::Class;
use zvf::format::num::to_u64;
use zvf::publish::CommitGate;

use self::packed::PackedStore;
use self::verb::Verb;
use crate::arguments::choice;
use crate::interrupt::Interrupted;
use crate::outcome::{CommandResult, Outcome, refuse};
use crate::session::Session;
use crate::stdin::Stdin;
use crate::table;

/// Change a store: move, add and remove vertices, objects, links, groups and columns.
///
/// By a script, which has one JSON object per line; the key "op" names the operation. Without begin and commit the
/// whole script is one transaction. The first fault drops the open transaction; earlier commits stay. A single
/// operation can also be given as a subcommand.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:
  zvf edit tracts.zarrvectors --script fixes.jsonl --message 'split merged tracts'
  zvf edit move tracts.zarrvectors --object 7 --index 0 --to 1,2,3
  zvf edit rm tracts.zarrvectors --objects 7,9 --dry-run
  zvf edit set tracts.zarrvectors t=0.5 --object 7 --index 0:3 --show-script
  echo '{\"op\":\"vertex.move\",\"vertices\":{\"object\":7,\"index\":0},\"to\":[1,2,3]}' | zvf edit tracts.zarrvectors
  zvf edit tracts.zarrvectors --script fixes.jsonl --dry-run --json | jq .commits")]
pub(crate) struct Edit {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// The store: a folder, a packed file or a URL.
    #[arg(required = true)]
    store: Option<String>,
    /// The script: a file, or - for standard input.
    #[arg(long, default_value = "-", value_name = "FILE")]
    script: String,
    /// Print what would be written, and write nothing.
    #[arg(long, global = true)]
    dry_run: bool,
    /// Answer each line of the script with one JSON line as soon as it is done.
    #[arg(long)]
    replies: bool,
    /// Print the script line that the subcommand stands for, and change nothing.
    #[arg(long, global = true)]
    show_script: bool,
    /// The commit message of transactions that have none.
    #[arg(long, value_name = "TEXT", global = true)]
    message: Option<String>,
    /// Refuse to commit if the head is another commit.
    #[arg(long, value_name = "N", global = true)]
    if_head: Option<u64>,
    /// What to do about vertices outside the bounds of the store.
    #[arg(long = "bounds", value_name = "BOUNDS", value_parser = choice(&BOUNDS), default_value = "grow",
        action = ArgAction::Set, global = true)]
    refuse_bounds: bool,
    /// What to do about coarser levels: mark them as outdated, or rebuild them in the same commit.
    #[arg(long, value_parser = choice(&LEVELS), default_value = "none", global = true)]
    refresh: Refresh,
    #[command(flatten)]
    writing: Writing,
}

/// How a store is opened for writing.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Writing")]
pub(crate) struct Writing {
    /// Assume a single writer, for backends without conditional writes.
    #[arg(long, global = true)]
    single_writer: bool,
    /// Accept changes by programs that do not know the journal, and continue from them.
    #[arg(long, global = true)]
    accept_foreign: bool,
}

/// Options of commands that make one commit.
#[derive(Debug, Args)]
pub(crate) struct Committing {
    /// The commit message.
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Print what would be written, and write nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

impl Committing {
    /// Returns the options of the commit.
    pub(crate) fn options(self) -> CommitOptions {
        let (message, dry_run) = (self.message, self.dry_run);
        CommitOptions { message, dry_run, ..CommitOptions::default() }
    }
}

impl Writing {
    /// Returns the address of a store that is written.
    pub(crate) fn place(self, address: &str, session: &Session) -> anyhow::Result<Place> {
        let place = session.place(address)?;
        let place = if self.single_writer { place.with_single_writer() } else { place };
        Ok(if self.accept_foreign { place.with_foreign_accepted() } else { place })
    }
}

/// The ways in which a commit treats coarser levels.
pub(crate) const LEVELS: [(&str, Refresh, &str); 3] = [
    ("none", Refresh::None, "Coarser levels keep their vertices and are marked as outdated"),
    ("stale", Refresh::Stale, "Outdated levels are rebuilt"),
    ("all", Refresh::All, "All levels are rebuilt"),
];
/// Whether vertices outside the bounds of the store are refused.
pub(crate) const BOUNDS: [(&str, bool, &str); 2] =
    [("grow", false, "Extend them"), ("refuse", true, "Refuse the transaction")];

impl Edit {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        let address = match (&self.verb, &self.store) {
            (Some(verb), _) => verb.store(),
            (None, store) => store.as_deref().unwrap_or_default(), // required without a verb
        };
        let packed = PackedStore::unpack(address, session).await?;
        let unpacked = packed.as_ref().map(PackedStore::folder);
        let mut place = self.writing.place(unpacked.as_deref().unwrap_or(address), session)?;
        if packed.is_some() {
            // Nothing is done before the file is replaced.
            place = place.with_gate(CommitGate::default());
        }
        if self.show_script && self.verb.is_none() {
            return refuse("--show-script prints the script line of a subcommand");
        }
        let line = self.verb.as_ref().map(|verb| {
            verb.to_line(|kind| Ok(zvf::edit::has_objects(&place, kind)?))
                .map(|line| line.to_string())
        });
        let line = line.transpose()?;
        if let (true, Some(line)) = (self.show_script, &line) {
            writeln!(session.out(), "{line}")?;
            return Ok(Outcome::Clean);
        }
        let mut folder = Path::new(".");
        let mut lines: Box<dyn io::BufRead> = match (line, self.script.as_str()) {
            (Some(line), _) => Box::new(io::Cursor::new(line)),
            (None, "-") => Box::new(BufReader::new(Stdin::new(session.interrupt()))),
            (None, file) => {
                folder = Path::new(file).parent().unwrap_or(Path::new(""));
                let opened = std::fs::File::open(file);
                Box::new(BufReader::new(opened.with_context(|| format!("cannot open {file}"))?))
            }
        };
        let mut editor = Editor::open(place, folder, self.options())?;
        let done = self.go_through(&mut editor, &mut lines, session)?;
        let interrupt = session.interrupt();
        // Before the gate nothing was committed; after it the report states what was.
        if interrupt.has_signal() && !interrupt.gate().is_entered() {
            return Err(Interrupted.into());
        }
        let mut report = editor.report(done.as_ref().err());
        drop(editor);
        if let Some(packed) = packed {
            report["store"] = address.into();
            if report["changed"] == true && !self.dry_run {
                packed.pack(session).await?;
            }
        }
        show(&report, session)?;
        done.map(|()| Outcome::Clean).map_err(anyhow::Error::from)
    }

    fn options(&self) -> CommitOptions {
        CommitOptions {
            message: self.message.clone(),
            if_head: self.if_head,
            refuse_bounds: self.refuse_bounds,
            dry_run: self.dry_run,
            refresh: self.refresh,
            ..CommitOptions::default()
        }
    }

    /// Applies line after line; an inner fault belongs to the script. After a commit, a signal only
    /// ends the wait for more lines, as if the script ended there; a second one ends the script.
    fn go_through(
        &self,
        editor: &mut Editor,
        lines: &mut dyn io::BufRead,
        session: &Session,
    ) -> anyhow::Result<Result<(), EditError>> {
        let interrupt = session.interrupt();
        let mut text = String::new();
        let mut number = 0;
        loop {
            text.clear();
            let read = lines.read_line(&mut text);
            let has_committed = interrupt.gate().is_entered();
            if matches!(read, Ok(0)) || (read.is_err() && has_committed && interrupt.has_signal()) {
                return Ok(editor.finish());
            }
            number += 1;
            if interrupt.is_stopped() {
                let what = format!(
                    "stopped by a signal before line {number}: the reported commits were made, \
                     the rest of the script was not run"
                );
                return Ok(Err(EditError::new(Class::CommitUnknown, what)));
            }
            read?;
            match editor.line(number, &text) {
                Ok(Some(reply)) if self.replies => {
                    writeln!(session.out(), "{reply}")?;
                    session.out().flush()?;
                }
                Ok(_) => {}
                Err(error) => return Ok(Err(error)),
            }
        }
    }
}

/// Prints a report as text.
pub(crate) fn print(report: &serde_json::Value, out: &mut dyn Write) -> anyhow::Result<()> {
    if let Some(stores) = report["stores"].as_array() {
        let mut names = stores.iter().filter_map(|part| part["store"].as_str());
        return Ok(names.try_for_each(|name| writeln!(out, "{name}"))?);
    }
    if report["removed"].is_object() {
        let removed = |name: &str| report["removed"][name].as_u64().unwrap_or_default();
        let verb = if report["dry_run"] == true { "would remove" } else { "removed" };
        let files = table::format_count(removed("files"), "file");
        writeln!(out, "{verb} {files}, {} of the journal", table::bytes(removed("bytes")))?;
    }
    let commits = report["commits"].as_array().cloned().unwrap_or_default();
    for commit in &commits {
        let count = |part: &str, name: &str| {
            let count = &commit[part][name];
            let ids = count.as_array().map(|ids| to_u64(ids.len()));
            table::count(ids.or(count.as_u64()).unwrap_or_default())
        };
        writeln!(
            out,
            "{} {}: vertices +{} -{} moved {} changed {}; links +{} -{}; objects +{} -{} changed \
             {}; {}, {}",
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
            table::format_count(commit["keys"].as_u64().unwrap_or_default(), "key"),
            table::bytes(commit["bytes"].as_u64().unwrap_or_default()),
        )?;
        for level in commit["levels_stale"].as_array().into_iter().flatten() {
            writeln!(out, "  level {level} is now outdated")?;
        }
        let rebuilt = commit["levels_rebuilt"].as_array().into_iter().flatten();
        for text in rebuilt.filter_map(|rebuilt_level| rebuilt_level["text"].as_str()) {
            writeln!(out, "  {text}")?;
        }
    }
    if commits.is_empty() && report["error"].is_null() {
        writeln!(out, "nothing changed; the head is {}", report["head"])?;
    }
    Ok(())
}

/// Prints a report as text, after results that are JSON otherwise.
pub(crate) fn print_unless_json(
    report: &serde_json::Value,
    session: &Session,
) -> anyhow::Result<()> {
    if session.json() { Ok(()) } else { print(report, &mut session.out()) }
}

/// Prints the report of a command that makes one commit.
pub(crate) fn finish(
    done: Result<serde_json::Value, EditError>,
    store: &str,
    session: &Session,
) -> CommandResult {
    let report = match &done {
        Ok(report) => report.clone(),
        Err(error) => zvf::edit::failure(session.place(store)?, error),
    };
    show(&report, session)?;
    done.map(|_| Outcome::Clean).map_err(anyhow::Error::from)
}

/// Prints a report and its notices.
fn show(report: &serde_json::Value, session: &Session) -> anyhow::Result<()> {
    session.print(report, |out| print(report, out))?;
    let notices = report["notices"].as_array().into_iter().flatten();
    let texts = notices.filter_map(|notice| notice["text"].as_str().map(str::to_owned));
    Ok(session.print_notices(texts)?)
}
