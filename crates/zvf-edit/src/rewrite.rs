//! Commits changes that another program makes to a copy of a store: levels, shards, codecs, repairs.
//!
//! ```text
//! <root>.zvf/txn/.rewrite.zvf-build-ID/copy/<name>    a copy of hard links, which the program
//!                                                      replaces as any store
//! ```
//!
//! The commit contains the differences between the copy and the store, and can be undone. It conflicts with every
//! transaction that began before it. Levels are also committed from a folder that holds only them, so that a store on an
//! object store is not copied. Not here: the changes themselves.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_publish::{Disk, KeyedFolder};

use crate::changes::Changes;
use crate::commit::{commit_rewrite, open_store_journal, report, report_commit};
use crate::error::{EditError, Result, fail, unsupported};
use crate::journal::{Journal, need_listed};
use crate::options::CommitOptions;
use crate::place::Place;
use crate::snapshot::{Snapshot, parse_doc};
use crate::store_copy::{StoreCopy, compare};

/// A temporary copy of a store with a journal, for a program that replaces stores.
#[derive(Debug)]
pub struct Rewrite {
    journal: Arc<Journal>,
    snap: Snapshot,
    copy: StoreCopy,
}

impl Rewrite {
    /// Copies the store at a place. Returns `None` when it has no journal, so that it may be replaced directly.
    ///
    /// # Errors
    ///
    /// When a pending commit cannot be applied, or the copy cannot be made.
    pub fn begin(place: impl Into<Place>) -> Result<Option<Self>> {
        let place = place.into();
        let journal = open_store_journal(&place)?;
        if journal.pinned.is_some() {
            journal.begin_writing()?;
        } else if journal.head()? == 0 {
            return Ok(None);
        }
        let snap = Snapshot::open(&journal)?;
        let _held = journal.lock(false, Duration::from_secs(30))?;
        let copy = StoreCopy::copy_store_with(&journal, &Changes::default())?;
        Ok(Some(Self { journal, snap, copy }))
    }

    /// Returns the path of the copy. Its files must be replaced, never written in place.
    pub fn path(&self) -> &Path {
        &self.copy.path
    }

    /// Commits the differences between the copy and the store. `pyramid` may have removed levels
    /// and links, `rewrite` cells, and other operations nothing; `rewrite chunks` has made a new
    /// store. The report is that of [`crate::Editor::report`].
    ///
    /// # Errors
    ///
    /// `FileChanged` when files of the copy are missing; `Conflict` when another process committed
    /// since; `LimitExceeded` when the differences are too large for one commit.
    pub fn commit(self, operation: &str, options: &CommitOptions) -> Result<Json> {
        let differences = self.copy.list_differences(&self.journal, operation)?;
        let operation = json!({ "op": operation });
        commit_differences(&self.journal, self.snap.head, differences, &operation, options)
    }
}

/// Commits coarser levels that `zvf_pyramid::build_in_folder` built in the folder `built`, in place of those of the
/// store, as the commit after `head`, which names `operation`. The report is that of [`crate::Editor::report`].
///
/// # Errors
///
/// `Conflict` when the store is no longer at `head`; `LimitExceeded` when the levels are too large for one commit; `Unsupported`
/// in a repository of versions.
pub fn commit_levels(
    store: impl Into<Place>,
    (head, operation): (u64, &Json),
    built: &Path,
    options: &CommitOptions,
) -> Result<Json> {
    let journal = open_store_journal(&store.into())?;
    if journal.pinned.is_some() {
        let text =
            format!("{}: levels of a repository of versions are built in a copy", journal.place);
        return unsupported(text);
    }
    check_is_at(&journal.place, (head, journal.apply_all_pending()?), BUILT)?;
    let differences = match compare_levels(&journal, built) {
        Ok(differences) => differences,
        Err(error) => {
            // What was compared may be on its way to a later commit.
            check_is_at(&journal.place, (head, journal.head()?), BUILT)?;
            return Err(error);
        }
    };
    commit_differences(&journal, head, differences, operation, options)
}

/// Refuses another head than that from which something was made, as `what` says.
pub(crate) fn check_is_at(
    place: &Place,
    (head, found): (u64, u64),
    [what, hint]: [&str; 2],
) -> Result<()> {
    if found == head {
        return Ok(());
    }
    let text = format!("{place}: expected head {head}, {what}, found {found}{hint}");
    Err(EditError::conflict(text, vec![format!("head:{found}")]))
}

/// The words of the error for levels that were built from another head.
const BUILT: [&str; 2] = ["from which levels were built", ""];

/// Returns whether the commit after `head` is the one of `operation`.
///
/// # Errors
///
/// When there is no store, or its log cannot be read.
pub fn is_committed(store: impl Into<Place>, head: u64, operation: &Json) -> Result<bool> {
    let journal = open_store_journal(&store.into())?;
    let Some(record) = journal.read_record(head + 1)? else { return Ok(false) };
    Ok(record.operations()? == json!([operation]))
}

/// The changed keys with their new bytes, and the bytes that the store has under them.
type Differences = (Changes, Changes);

/// Compares the levels in a folder with those of the store.
fn compare_levels(journal: &Journal, built: &Path) -> Result<Differences> {
    let built = KeyedFolder::new(Disk::default(), built.to_owned());
    let new: BTreeSet<String> = built.walk("")?.into_iter().collect();
    if !new.contains(ROOT) {
        let text =
            format!("{}: expected the built levels, found no {ROOT}", built.root().display());
        return fail(Class::FileChanged, text);
    }
    let stored: BTreeSet<String> = journal.store.walk("")?.into_iter().collect();
    let is_replaced = |key: &&String| zvf_pyramid::belongs_to_levels(key.as_str());
    let gone = stored.difference(&new).filter(is_replaced);
    compare(journal, &stored, new.iter().chain(gone), &built)
}

/// Commits differences as the commit after `head`.
fn commit_differences(
    journal: &Arc<Journal>,
    head: u64,
    (mut changes, mut before): Differences,
    operation: &Json,
    options: &CommitOptions,
) -> Result<Json> {
    if changes.is_empty() {
        return Ok(report(journal, head, options.dry_run, &[], &[], None));
    }
    // The root may lack the attributes of the journal: it was rewritten, or there is none yet.
    let stored = before.get(ROOT)?.map_or_else(|| journal.store.get(ROOT), Ok)?;
    let stored = need_listed(ROOT, stored)?;
    let old = parse_doc(&stored)?;
    let mut root = match changes.get(ROOT)?.flatten() {
        Some(new) => parse_doc(&new)?,
        None => old.clone(),
    };
    let next_id = &old["attributes"]["zvf"]["next_id"];
    if !next_id.is_null() {
        root["attributes"]["zvf"]["next_id"] = next_id.clone();
    }
    journal.mark(&mut root);
    changes.keys.remove(ROOT);
    if root != old {
        before.insert(ROOT.to_owned(), Some(stored));
        changes.put_doc("", &root)?;
    }
    before.keys.retain(|key, _| changes.keys.contains_key(key));
    let items = (json!(["*"]), std::slice::from_ref(operation));
    let done = commit_rewrite(journal, head, (&changes, &before), items, false, options)?;
    let head = head + u64::from(!options.dry_run);
    Ok(report_commit(journal, head, options.dry_run, &done))
}

/// The root document.
const ROOT: &str = "zarr.json";
