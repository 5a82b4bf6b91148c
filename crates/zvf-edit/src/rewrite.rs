//! Commits changes that another program makes to a copy of a store: levels, shards, codecs, repairs.
//!
//! ```text
//! <root>.zvf/txn/rewrite-<txid>/<name>    a copy of hard links, which the program replaces as any store
//! ```
//!
//! The commit contains the differences between the copy and the store, and can be undone. It conflicts with every
//! transaction that began before it. Not here: the changes themselves.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value as Json, json};

use crate::arrays::doc_bytes;
use crate::changes::Changes;
use crate::error::{EditError, Result};
use crate::history::open_store_journal;
use crate::journal::Journal;
use crate::options::CommitOptions;
use crate::place::Place;
use crate::script::{commit_changes, report};
use crate::snapshot::Snapshot;
use crate::store_copy::StoreCopy;

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
        let copy = StoreCopy::copy_store_with(&journal, &Changes::new())?;
        Ok(Some(Self { journal, snap, copy }))
    }

    /// Returns the path of the copy. Its files must be replaced, never written in place.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.copy.path
    }

    /// Commits the differences between the copy and the store. The report is that of [`crate::Editor::report`].
    ///
    /// # Errors
    ///
    /// `Conflict` when another process committed since; `LimitExceeded` when the differences are too large for one commit.
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
            // The rewritten root may lack the attributes of the journal.
            let (mut root, old) = (keep(new)?, keep(old)?);
            for name in ["journal", "next_id"] {
                let value = &old["attributes"]["zvf"][name];
                if !value.is_null() {
                    root["attributes"]["zvf"][name] = value.clone();
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
        match commit_changes(&self.journal, &changes, &before, text, body, head + 1, options)? {
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
