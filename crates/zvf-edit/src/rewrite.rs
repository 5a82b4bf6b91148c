//! A store written again by another program, in one commit: levels, shards, codecs, repairs.
//!
//! ```text
//! <root>.zvf/txn/rewrite-<txid>/<name>    a copy by second names of the files; the program replaces it as any store
//! ```
//!
//! What differs afterwards is what the commit changes, so that it can be taken back like any other. It meets every
//! other commit: what began before it is a conflict. Not here: what is written again, and how.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_publish::{Disk, KeyedFolder};

use crate::arrays::doc_bytes;
use crate::error::{EditError, Result};
use crate::history::journal;
use crate::journal::{Changes, Journal, need_listed, new_txid};
use crate::place::Place;
use crate::script::{record, report};
use crate::snapshot::Snapshot;
use crate::transaction::CommitOptions;

/// A copy of a store with a journal, for a program that replaces stores. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct Rewrite {
    journal: Arc<Journal>,
    snap: Snapshot,
    copy: StoreCopy,
}

impl Rewrite {
    /// Begins on the store at a place; none when it has no journal, so that it may be replaced as it is.
    ///
    /// # Errors
    ///
    /// When what is committed cannot be applied, or the copy cannot be made.
    pub fn begin(place: impl Into<Place>) -> Result<Option<Self>> {
        let place = place.into();
        let journal = journal(&place)?;
        if journal.pinned.is_some() {
            journal.begin_writing()?;
        } else if journal.head()? == 0 {
            return Ok(None);
        }
        let snap = Snapshot::now(&journal)?;
        let _held = journal.lock(false, Duration::from_secs(30))?;
        let copy = StoreCopy::copy_store_with(&journal, &Changes::new())?;
        Ok(Some(Self { journal, snap, copy }))
    }

    /// The copy, which is to be replaced or changed. Files must be replaced, never written in place.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.copy.path
    }

    /// Commits what differs. The report is that of [`crate::Editor::report`].
    ///
    /// # Errors
    ///
    /// `Conflict` when another process committed since; `LimitExceeded` when too much differs for one commit.
    pub fn commit(self, operation: &str, options: &CommitOptions) -> Result<Json> {
        let (mut changes, mut before) = self.copy.differences(&self.journal)?;
        let head = self.snap.head;
        if changes.is_empty() {
            return Ok(report(&self.journal, head, options.dry_run, &[], &[], None));
        }
        let keep = |bytes: &Bytes| -> Result<Json> { Ok(serde_json::from_slice(bytes)?) };
        if let (Some(Some(new)), Some(Some(old))) =
            (changes.get("zarr.json"), before.get("zarr.json"))
        {
            // What was written anew knows nothing of journals.
            let (mut root, old) = (keep(new)?, keep(old)?);
            for name in ["journal", "next_id"] {
                let kept = &old["attributes"]["zvf"][name];
                if !kept.is_null() {
                    root["attributes"]["zvf"][name] = kept.clone();
                }
            }
            changes.insert("zarr.json".to_owned(), Some(doc_bytes(&root)?));
        }
        changes.retain(|key, bytes| before.get(key) != Some(bytes));
        before.retain(|key, _| changes.contains_key(key));
        let bytes: usize = changes.values().flatten().map(Bytes::len).sum();
        let none = json!({"added": 0, "removed": 0, "moved": 0, "changed": 0});
        let text = json!({
            "head": head + 1, "txid": Json::Null, "message": options.message, "operations": 1, "vertices": none.clone(),
            "links": none, "objects": {"added": [], "removed": [], "changed": []}, "groups": [], "columns": [], "chunks": 0,
            "keys": changes.len(), "bytes": bytes, "levels_stale": [], "levels_refreshed": [], "bounds": Json::Null,
        });
        if options.dry_run {
            return Ok(report(&self.journal, head, true, &[text], &[], None));
        }
        let body = json!({"ids": [], "read": ["*"], "written": ["*"]});
        let operations = [json!({ "op": operation })];
        let body = (body, operations.as_slice());
        match record(&self.journal, &changes, &before, text, body, head + 1, options)? {
            Some((done, late)) => {
                let notices: Vec<Json> = late.into_iter().collect();
                Ok(report(&self.journal, head + 1, false, &[done], &notices, None))
            }
            None => Err(EditError::conflict(
                "somebody committed meanwhile; look at the log and try again",
                Vec::new(),
            )),
        }
    }
}

/// A copy of a store in a folder of its own.
#[derive(Debug)]
pub(crate) struct StoreCopy {
    pub(crate) path: PathBuf,
    /// Goes with the copy.
    _scratch: Scratch,
    /// The files that are second names of those of the store, with their inode.
    linked: BTreeMap<String, u64>,
}

impl StoreCopy {
    /// Copies the store, but for the keys in `changes`, which get those bytes.
    pub(crate) fn copy_store_with(journal: &Journal, changes: &Changes) -> Result<Self> {
        let scratch = Scratch::of_journal(journal);
        let name = journal.place.folder().and_then(Path::file_name);
        let path = scratch.path.join(name.unwrap_or("store.zarrvectors".as_ref()));
        let mut copy = Self { path, _scratch: scratch, linked: BTreeMap::new() };
        let to = copy.folder();
        for key in journal.store.walk("")? {
            if changes.contains_key(&key) {
                continue;
            }
            match journal.store.folder() {
                Some(from) => {
                    let inode = link(&from.path(&key), &to.path(&key))?;
                    copy.linked.extend(inode.map(|inode| (key, inode)));
                }
                None => write(&to.path(&key), &need_listed(&key, journal.store.get(&key)?)?)?,
            }
        }
        for (key, bytes) in changes {
            if let Some(bytes) = bytes {
                write(&to.path(key), bytes)?;
            }
        }
        Ok(copy)
    }

    fn folder(&self) -> KeyedFolder {
        KeyedFolder::new(Disk::default(), self.path.clone())
    }

    /// What the copy holds now and the store does not, and what the store holds under those keys.
    pub(crate) fn differences(
        &self,
        journal: &Journal,
    ) -> Result<(Changes, HashMap<String, Option<Bytes>>)> {
        let copy = self.folder();
        let list = |keys: Vec<String>| -> BTreeSet<String> { keys.into_iter().collect() };
        let (before, after) = (list(journal.store.walk("")?), list(copy.walk("")?));
        let (mut changes, mut kept) = (Changes::new(), HashMap::new());
        let mut size = 0_usize;
        for key in before.union(&after) {
            if after.contains(key) && self.is_linked(key) {
                continue;
            }
            let (old, new) = (journal.store.get(key)?, copy.get(key)?);
            if old == new {
                continue;
            }
            size += [&old, &new].into_iter().flatten().map(Bytes::len).sum::<usize>();
            if size > MAX_COMMIT_BYTES {
                return Err(EditError::new(
                    zvf_format::Class::LimitExceeded,
                    format!(
                        "more than {} GiB differ, too much for one commit; write to a new store instead",
                        MAX_COMMIT_BYTES >> 30
                    ),
                ));
            }
            kept.insert(key.clone(), old);
            changes.insert(key.clone(), new);
        }
        Ok((changes, kept))
    }

    /// Whether a file still is the one of the store.
    fn is_linked(&self, key: &str) -> bool {
        let inode = self.linked.get(key);
        inode.is_some() && inode.copied() == inode_of(&self.path.join(key))
    }
}

/// A folder of its own for work on a store, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
}

impl Scratch {
    /// A name beside the staged files of a journal, or among temporary files. Nothing is made yet.
    pub(crate) fn of_journal(journal: &Journal) -> Self {
        let path = match journal.side.folder() {
            Some(side) => side.path(&format!("txn/rewrite-{}", new_txid())),
            None => std::env::temp_dir().join(format!("zvf-rewrite-{}", new_txid())),
        };
        Self { path }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is garbage for gc.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Gives a file a second name; copies it where there are none. The inode of a file with two names.
fn link(from: &Path, to: &Path) -> Result<Option<u64>> {
    if let Some(above) = to.parent() {
        fs::create_dir_all(above)?;
    }
    match fs::hard_link(from, to) {
        Ok(()) => Ok(inode_of(to)),
        Err(_no_links) => {
            fs::copy(from, to)?;
            Ok(None)
        }
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(above) = path.parent() {
        fs::create_dir_all(above)?;
    }
    Ok(fs::write(path, bytes)?)
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

/// What one commit may hold in memory, old and new.
const MAX_COMMIT_BYTES: usize = 8 << 30;
