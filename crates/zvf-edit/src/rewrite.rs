//! Copies of a store, and commits of what another program changes in one: levels, shards, codecs, repairs.
//!
//! ```text
//! <root>.zvf/txn/.rewrite.zvf-build-ID/copy/<name>    a copy of hard links, which the program
//!                                                      replaces as any store
//! ```
//!
//! The commit contains the differences between the copy and the store, and can be undone. It conflicts with every
//! transaction that began before it. Levels are also committed from a folder that holds only them, so that a store on an
//! object store is not copied. Not here: the changes themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_metadata::{DataTypeKind, Node};
use zvf_publish::{Disk, KeyedFolder, ScratchDir};

use crate::changes::Changes;
use crate::commit::{CommitOptions, commit_rewrite, open_store_journal, report, report_commit};
use crate::error::{EditError, Result, fail, unsupported};
use crate::journal::{Guard, Journal, need_listed};
use crate::medium::Place;
use crate::snapshot::{Snapshot, mark_journal, parse_doc};

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
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.copy.path
    }

    /// Commits the differences between the copy and the store. `pyramid` may have removed levels
    /// and links, `rewrite` cells, `rewrite chunks` both, and other operations nothing. The
    /// report is that of [`crate::Editor::report`].
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
    let mut differences = match compare_levels(&journal, built) {
        Ok(differences) => differences,
        Err(error) => {
            // What was compared may be on its way to a later commit.
            check_is_at(&journal.place, (head, journal.head()?), BUILT)?;
            return Err(error);
        }
    };
    if !differences.0.is_empty() {
        mark_root(&journal, &mut differences)?;
    }
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

/// Adds the root document to the changes, with the mark of a store that has a journal.
fn mark_root(journal: &Journal, (changes, before): &mut Differences) -> Result<()> {
    let stored = match before.get(ROOT)? {
        Some(stored) => stored,
        None => journal.store.get(ROOT)?,
    };
    let new = changes.get(ROOT)?.flatten().or_else(|| stored.clone());
    let new = need_listed(ROOT, new)?;
    let mut root = parse_doc(&new)?;
    mark_journal(&mut root);
    changes.put_doc("", &root)?;
    before.insert(ROOT.to_owned(), stored);
    Ok(())
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
    if let (Some(Some(new)), Some(Some(old))) = (changes.get(ROOT)?, before.get(ROOT)?) {
        // The rewritten root may lack the attributes of the journal.
        let (mut root, old): (Json, Json) = (parse_doc(&new)?, parse_doc(&old)?);
        let old = &old["attributes"]["zvf"];
        if !old["journal"].is_null() {
            mark_journal(&mut root);
        }
        if !old["next_id"].is_null() {
            root["attributes"]["zvf"]["next_id"] = old["next_id"].clone();
        }
        changes.put_doc("", &root)?;
    }
    if changes.get(ROOT)? == before.get(ROOT)? {
        changes.keys.retain(|key, _| key != ROOT);
    }
    before.keys.retain(|key, _| changes.keys.contains_key(key));
    let items = (json!(["*"]), std::slice::from_ref(operation));
    let done = commit_rewrite(journal, head, (&changes, &before), items, false, options)?;
    let head = head + u64::from(!options.dry_run);
    Ok(report_commit(journal, head, options.dry_run, &done))
}

/// The root document.
const ROOT: &str = "zarr.json";

/// A copy of a store in a temporary folder.
#[derive(Debug)]
pub(crate) struct StoreCopy {
    pub(crate) path: PathBuf,
    /// Removes the folder with the copy.
    _scratch: ScratchDir,
    /// Keeps `gc` from the copy, which lies among staged files.
    _staging: Guard,
    /// The keys of the copy as it was made.
    keys: BTreeSet<String>,
    /// The files that are hard links to those of the store, with their inode.
    linked: BTreeMap<String, u64>,
}

impl StoreCopy {
    /// Copies the store with `changes` applied.
    pub(crate) fn copy_store_with(journal: &Journal, changes: &Changes) -> Result<Self> {
        let (disk, staging) = (Disk::default(), journal.lock_for_staging()?);
        // Hard links need the file system of the store.
        let beside = match journal.side.folder() {
            Some(side) => side.path("txn/rewrite"),
            None => std::env::temp_dir().join("zvf-rewrite"),
        };
        make_folder_of(&beside)?;
        let scratch = ScratchDir::create_next_to(&disk, &beside).map_err(zvf_error::Error::from)?;
        let name = journal.place.folder().and_then(Path::file_name);
        let path = scratch.path().join("copy").join(name.unwrap_or("store.zarrvectors".as_ref()));
        let (keys, linked) = (BTreeSet::new(), BTreeMap::new());
        let mut copy = Self { path, _scratch: scratch, _staging: staging, keys, linked };
        let to = copy.folder();
        for key in journal.store.walk("")? {
            if changes.keys.contains_key(&key) {
                continue;
            }
            match journal.store.folder() {
                Some(from) => {
                    let (from, to) = (from.path(&key), to.path(&key));
                    make_folder_of(&to)?;
                    disk.link_target(&from, &to)?;
                    let inode = inode_of(&to).filter(|inode| inode_of(&from) == Some(*inode));
                    copy.linked.extend(inode.map(|inode| (key.clone(), inode)));
                }
                None => write_file(&to.path(&key), &need_listed(&key, journal.store.get(&key)?)?)?,
            }
            copy.keys.insert(key);
        }
        for (key, bytes) in &changes.keys {
            if let Some(bytes) = bytes {
                write_file(&to.path(key), &bytes.read()?)?;
                copy.keys.insert(key.clone());
            }
        }
        Ok(copy)
    }

    fn folder(&self) -> KeyedFolder {
        KeyedFolder::new(Disk::default(), self.path.clone())
    }

    /// Compares the copy with the store after the command `operation`. Returns the changes, and the
    /// bytes of the store under their keys.
    pub(crate) fn list_differences(
        &self,
        journal: &Journal,
        operation: &str,
    ) -> Result<(Changes, Changes)> {
        let copy = self.folder();
        let list = |keys: Vec<String>| -> BTreeSet<String> { keys.into_iter().collect() };
        let (before, after) = (list(journal.store.walk("")?), list(copy.walk("")?));
        self.check_is_whole(&after, operation)?;
        let is_other = |key: &&String| !after.contains(*key) || !self.is_linked(key);
        compare(journal, &before, before.union(&after).filter(is_other), &copy)
    }

    /// Refuses a copy that lacks documents or cells which the command does not remove, and one that
    /// lacks all cells of an array: something else removed them. Levels and links go where levels are
    /// built or chunks divided; rearranged cells get other keys, and empty ones go; other commands
    /// remove nothing.
    fn check_is_whole(&self, after: &BTreeSet<String>, operation: &str) -> Result<()> {
        let (levels, cells) = match operation {
            "pyramid" => (true, false),
            "rewrite" => (false, true),
            "rewrite chunks" => (true, true),
            _ => (false, false),
        };
        let is_known = |key: &&String| key.ends_with("zarr.json") || key.contains("/c/");
        let mut arrays: BTreeMap<&str, bool> = BTreeMap::new(); // whether cells of them may go
        for key in self.keys.difference(after).filter(is_known) {
            let is_link = key.split('/').any(|part| part.starts_with("link"));
            let may_go = match key.split_once("/c/") {
                _ if levels && (is_link || zvf_pyramid::belongs_to_levels(key)) => true,
                Some((array, _)) if cells => match arrays.get(array) {
                    Some(may_go) => *may_go,
                    None => *arrays.entry(array).or_insert(self.has_other_cells(array, after)?),
                },
                _ => false,
            };
            if !may_go {
                let copy = self.path.display();
                let text = format!(
                    "{copy}, {key}: expected what was copied, found nothing: something else removed files of the copy; try again"
                );
                return fail(Class::FileChanged, text);
            }
        }
        Ok(())
    }

    /// Returns whether an array of cells of any length still has cells: these get other keys.
    fn has_other_cells(&self, array: &str, after: &BTreeSet<String>) -> Result<bool> {
        let cells = format!("{array}/c/");
        let first = after.range(cells.clone()..).next();
        let Some(doc) = self.folder().get(&format!("{array}/zarr.json"))? else { return Ok(false) };
        let has_cells = first.is_some_and(|found| found.starts_with(&cells));
        let Ok(Node::Array(doc)) = Node::parse(&doc) else { return Ok(false) };
        Ok(has_cells && *doc.data_type.kind() == DataTypeKind::VariableLengthBytes)
    }

    /// Returns whether a file is still the hard link to that of the store.
    fn is_linked(&self, key: &str) -> bool {
        let inode = self.linked.get(key);
        inode.is_some() && inode.copied() == inode_of(&self.path.join(key))
    }
}

/// Compares keys of the store, which has those of `stored`, with a folder. Returns the changes, and
/// the bytes of the store under their keys.
fn compare<'a>(
    journal: &Journal,
    stored: &BTreeSet<String>,
    keys: impl Iterator<Item = &'a String>,
    folder: &KeyedFolder,
) -> Result<(Changes, Changes)> {
    let (mut changes, mut before) = (Changes::default(), Changes::default());
    let keys: Vec<&str> = keys.map(String::as_str).collect();
    for keys in keys.chunks(COMPARED_KEYS) {
        for (key, found) in keys.iter().zip(journal.store.get_all(keys)?) {
            let (mut old, new) = (found.map(|object| object.bytes), folder.get(key)?);
            if old == new {
                continue;
            }
            if stored.contains(*key) {
                old = Some(need_listed(key, old)?);
            }
            before.insert((*key).to_owned(), old);
            changes.insert((*key).to_owned(), new);
        }
    }
    Ok((changes, before))
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    make_folder_of(path)?;
    Ok(fs::write(path, bytes)?)
}

fn make_folder_of(path: &Path) -> Result<()> {
    Ok(path.parent().map_or(Ok(()), fs::create_dir_all)?)
}

#[cfg(unix)]
fn inode_of(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    Some(fs::metadata(path).ok()?.ino())
}

#[cfg(not(unix))]
fn inode_of(_path: &Path) -> Option<u64> {
    None
}

/// Keys that are read from the store together.
const COMPARED_KEYS: usize = 256;
