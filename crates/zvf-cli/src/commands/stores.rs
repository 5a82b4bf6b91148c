//! Commands on whole stores: `zvf vacuum`, `join`, `divide` and `attach`.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use zvf::edit::{self, CommitOptions, Division, Join, MergeIds, Refresh};
use zvf::question::parse_box;

use crate::arguments::choice;
use crate::commands::edit::{BOUNDS, Committing, LEVELS, Writing, finish};
use crate::outcome::{CommandResult, Usage, refuse};
use crate::session::Session;

/// Rewrite a store without rows that no object has, in one commit.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf vacuum tracts.zarrvectors --dry-run")]
pub(crate) struct Vacuum {
    /// The store: a folder.
    store: String,
    /// Print what would be written, and write nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    writing: Writing,
}

impl Vacuum {
    pub(crate) fn run(self, session: &Session) -> CommandResult {
        let done = edit::vacuum(self.writing.place(&self.store, session)?, self.dry_run);
        finish(done, &self.store, session)
    }
}

/// Add the objects, points, links and groups of other stores to one, in one commit.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf join merged.zarrvectors left.zarrvectors right.zarrvectors --group-by-source
  zvf join merged.zarrvectors more.zarrvectors --ids new --dry-run")]
pub(crate) struct JoinStores {
    /// The store that is extended: a folder.
    into: String,
    /// The stores that are added.
    #[arg(required = true)]
    from: Vec<String>,
    /// How ids change: shifted to the next free id, kept, or assigned anew.
    #[arg(long, value_parser = choice(&IDS), default_value = "shift")]
    ids: MergeIds,
    /// What to do about vertices outside the bounds of the store.
    #[arg(long = "bounds", value_name = "BOUNDS", value_parser = choice(&BOUNDS), default_value = "grow",
        action = ArgAction::Set)]
    refuse_bounds: bool,
    /// Put the objects of each store into a group of its name.
    #[arg(long)]
    group_by_source: bool,
    /// What to do about coarser levels: mark them as outdated, or rebuild them in the same commit.
    #[arg(long, value_parser = choice(&LEVELS), default_value = "none", num_args = 0..=1, require_equals = true, default_missing_value = "stale")]
    refresh: Refresh,
    #[command(flatten)]
    committing: Committing,
}

const IDS: [(&str, MergeIds, &str); 3] = [
    ("shift", MergeIds::Shift, "Shifted to the next free id"),
    ("keep", MergeIds::Keep, "Kept"),
    ("new", MergeIds::New, "Assigned anew"),
];

impl JoinStores {
    pub(crate) fn run(self, session: &Session) -> CommandResult {
        let from: anyhow::Result<Vec<_>> =
            self.from.iter().map(|store| session.place(store)).collect();
        let into = self.committing.writing.place(&self.into, session)?;
        let options = CommitOptions {
            refuse_bounds: self.refuse_bounds,
            refresh: self.refresh,
            ..self.committing.options()
        };
        let done = edit::merge(into, &from?, self.ids, self.group_by_source, &options);
        finish(done, &self.into, session)
    }
}

/// Create a store for each group, object, value or box of one.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf divide tracts.zarrvectors parts --by group
  zvf divide scan.zarrvectors halves --by box --bbox 0,0,0:50,100,100 --bbox 50,0,0:100,100,100")]
pub(crate) struct Divide {
    /// The store: a folder. It is not changed.
    store: String,
    /// The folder of the new stores; it must not exist.
    folder: PathBuf,
    /// The criterion: group, object, attribute:NAME or box.
    #[arg(long)]
    by: String,
    /// A box, lowest corner and highest, such as 0,0:10,10; may be repeated.
    #[arg(long = "bbox", alias = "box", value_name = "LO:HI", allow_hyphen_values = true)]
    boxes: Vec<String>,
    /// Exclude what lies on the upper faces of boxes.
    #[arg(long)]
    half_open: bool,
    /// Write nothing; print the stores that would be created.
    #[arg(long)]
    dry_run: bool,
}

impl Divide {
    pub(crate) fn run(self, session: &Session) -> CommandResult {
        let by = match self.by.as_str() {
            "group" => Division::Groups,
            "object" => Division::Objects,
            "box" if self.boxes.is_empty() => return refuse("--by box needs --bbox"),
            "box" => {
                let corners = |text: &String| {
                    let is_box = parse_box(text).filter(|_| text.contains(':'));
                    is_box.ok_or_else(|| {
                        Usage::new(format!("--bbox {text}: expected LO:HI, such as 0,0:10,10"))
                    })
                };
                Division::Boxes(self.boxes.iter().map(corners).collect::<Result<_, _>>()?)
            }
            other => match other.strip_prefix("attribute:") {
                Some(name) => Division::Attribute(name.to_owned()),
                None => {
                    return refuse(format!(
                        "--by {other}: expected group, object, attribute:NAME or box"
                    ));
                }
            },
        };
        let done = edit::split(
            session.place(&self.store)?,
            &self.folder,
            &by,
            self.half_open,
            self.dry_run,
        );
        finish(done, &self.store, session)
    }
}

/// Add columns of a table to the objects of a store, in one commit.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf attach cells.zarrvectors types.csv --key id
  zvf attach cells.zarrvectors types.csv --key code --on object.code --columns type,layer --prefix cell_")]
pub(crate) struct Attach {
    /// The store: a folder.
    store: String,
    /// The table: CSV, or TSV by its name.
    table: PathBuf,
    /// The column of the table that identifies the object of a row.
    #[arg(long, value_name = "COLUMN")]
    key: String,
    /// The column of objects that it matches, such as object.code [default: their ids].
    #[arg(long, value_name = "object.NAME")]
    on: Option<String>,
    /// The columns to add [default: all others].
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    columns: Option<Vec<String>>,
    /// A prefix for the names of the new columns.
    #[arg(long, default_value = "", value_name = "TEXT")]
    prefix: String,
    /// Replace columns of the same name.
    #[arg(long)]
    replace: bool,
    /// What to do about rows without an object.
    #[arg(long = "unmatched", value_name = "UNMATCHED", value_parser = choice(&UNMATCHED),
        default_value = "ignore", action = ArgAction::Set)]
    strict: bool,
    #[command(flatten)]
    committing: Committing,
}

const UNMATCHED: [(&str, bool, &str); 2] =
    [("ignore", false, "Leave them out"), ("error", true, "Fail")];

impl Attach {
    pub(crate) fn run(self, session: &Session) -> CommandResult {
        let join = Join {
            key: self.key,
            on: self.on,
            columns: self.columns,
            prefix: self.prefix,
            replace: self.replace,
            strict: self.strict,
        };
        let place = self.committing.writing.place(&self.store, session)?;
        let done = edit::attach(place, &self.table, &join, &self.committing.options());
        finish(done, &self.store, session)
    }
}
