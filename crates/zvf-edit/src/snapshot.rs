//! A snapshot of a store at one head, independent of later commits.
//!
//! The bytes of a key that a later commit changed come from the old bytes of that commit. On an object store a slow writer
//! may have restored outdated bytes or removed newer ones. There, bytes are verified against the checksums of the log, and
//! read from the staged files if they differ.
//!
//! Documents of nodes are kept as JSON, so that unknown fields are preserved. Not here: when they
//! change, which is written with the arrays and groups.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_metadata::Object;
use zvf_metadata::arrays::ArrayAttributes;
use zvf_store::record::{RECENT_COMMITS, RecordKey, StagedSpan};

use crate::changes::{Blob, Changes, KeyContents, read_blob};
use crate::error::{At, OrFail, Result, fail, foreign_change_error, missing_commit_error};
use crate::journal::Journal;

/// A snapshot of a store at one head.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) journal: Arc<Journal>,
    pub(crate) head: u64,
    later: RefCell<LaterCommits>,
    /// What was read, most of which lies in a scratch file.
    cache: RefCell<Changes>,
    /// The keys of recent commits.
    known_keys: Rc<KnownKeys>,
    /// The number of bytes read so far.
    bytes_read: Cell<u64>,
}

/// The last transaction that wrote a key, and the span of its new bytes, by key.
type KnownKeys = HashMap<String, (Arc<str>, Option<StagedSpan>)>;

/// The commits after the head that were noticed so far, and the keys at the head that the store may
/// not have.
#[derive(Debug)]
struct LaterCommits {
    last_seq: u64,
    before: KeyContents,
}

impl Snapshot {
    /// Opens the store at its current head. Pending commits are applied, or read from their staged
    /// bytes where this process may not write.
    pub(crate) fn open(journal: &Arc<Journal>) -> Result<Self> {
        let mut pending = KeyContents::new();
        let head = match journal.apply_all_pending() {
            Err(error) if error.class == Class::PermissionDenied => {
                journal.read_pending(&mut pending)?
            }
            head => head?,
        };
        if head == 0 {
            journal.note_planned()?;
        }
        let mut known_keys = KnownKeys::new();
        let checked = if journal.store.is_folder() { CHECKED_IN_FOLDERS } else { RECENT_COMMITS };
        let recent = head.saturating_sub(checked - 1).max(1)..=head;
        // A repository of versions has no records.
        let recent: Vec<u64> = recent.filter(|_| journal.pinned.is_none()).collect();
        for record in journal.read_records(&recent, true)? {
            let txid: Arc<str> = record.txid.into();
            let keys = record.keys.into_iter();
            let key_of = |entry: RecordKey| (entry.key.to_string(), (Arc::clone(&txid), entry.new));
            known_keys.extend(keys.map(key_of));
        }
        let later = RefCell::new(LaterCommits { last_seq: head, before: pending });
        Ok(Self {
            journal: Arc::clone(journal),
            head,
            later,
            cache: RefCell::default(),
            known_keys: Rc::new(known_keys),
            bytes_read: Cell::new(0),
        })
    }

    /// Returns the snapshot with these bytes under their keys, which no commit has.
    pub(crate) fn with_bytes(&self, bytes: &KeyContents) -> Self {
        let LaterCommits { last_seq, before } = &*self.later.borrow();
        let mut before = before.clone();
        before.extend(bytes.iter().map(|(key, blob)| (key.clone(), blob.clone())));
        Self {
            journal: Arc::clone(&self.journal),
            head: self.head,
            later: RefCell::new(LaterCommits { last_seq: *last_seq, before }),
            cache: RefCell::default(),
            known_keys: Rc::clone(&self.known_keys),
            bytes_read: Cell::new(0),
        }
    }

    /// Opens the store at an earlier head.
    pub(crate) fn open_at(journal: &Arc<Journal>, head: u64) -> Result<Self> {
        if journal.pinned.is_some() {
            return Self::open(&Arc::new(journal.open_at(head)?));
        }
        let mut snap = Self::open(journal)?;
        if head > snap.head {
            return Err(missing_commit_error(head, snap.head));
        }
        snap.later.get_mut().last_seq = head;
        snap.head = head;
        while snap.look_ahead()? {}
        Ok(snap)
    }

    /// Lists the names directly below a prefix at the head, sorted. Some may be empty.
    pub(crate) fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let mut names: BTreeSet<String> = self.journal.store.list(prefix)?.into_iter().collect();
        self.journal.check_in_place()?;
        while self.look_ahead()? {}
        for key in self.later.borrow().before.keys() {
            let below = match prefix {
                "" => Some(key.as_str()),
                _ => key.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/')),
            };
            names.extend(below.and_then(|below| below.split('/').next()).map(str::to_owned));
        }
        Ok(names.into_iter().collect())
    }

    /// Reads the bytes of a key at the head.
    pub(crate) fn get(&self, key: &str) -> Result<Option<Bytes>> {
        read_blob(&self.open_object(key)?)
    }

    /// Opens an object at the head, to read parts of it.
    pub(crate) fn open_object(&self, key: &str) -> Result<Option<Blob>> {
        if let Some(cached) = self.cache.borrow().keys.get(key) {
            return Ok(cached.clone());
        }
        loop {
            if let Some(old) = self.later.borrow().before.get(key) {
                return Ok(old.clone());
            }
            let bytes = self.journal.store.get_twice(key)?;
            self.journal.check_in_place()?;
            // A record exists before the first changed byte, so a check after the read shows whether the bytes are too new.
            if self.look_ahead()? {
                continue;
            }
            let bytes = self.verify(key, bytes)?;
            let (mut cache, before) = (self.cache.borrow_mut(), self.bytes_read.get());
            self.bytes_read.set(before + to_u64(bytes.as_ref().map_or(0, Bytes::len)));
            if before / MAX_CACHE_BYTES != self.bytes_read.get() / MAX_CACHE_BYTES {
                *cache = Changes::default();
            }
            cache.insert(key.to_owned(), bytes.clone());
            return Ok(bytes.map(Blob::Held));
        }
    }

    /// Verifies bytes against the last commit that wrote the key. On a backend a slow writer may have put other bytes, which
    /// are replaced by the staged ones; in a folder only programs that do not know the journal can, which is refused.
    fn verify(&self, key: &str, bytes: Option<Bytes>) -> Result<Option<Bytes>> {
        let Some((txid, span)) = self.known_keys.get(key) else { return Ok(bytes) };
        if StagedSpan::matches(*span, bytes.as_deref()) || self.journal.place.accepts_foreign {
            return Ok(bytes);
        }
        if self.journal.store.is_folder() {
            return Err(foreign_change_error(key));
        }
        match (span, self.staged_bytes(txid, *span)?) {
            (Some(_), None) => Err(foreign_change_error(key)),
            (_, found) => Ok(found),
        }
    }

    /// Reads the new bytes of a key of a commit; `None` where it was removed, or they were.
    fn staged_bytes(&self, txid: &str, span: Option<StagedSpan>) -> Result<Option<Bytes>> {
        let Some(span) = span else { return Ok(None) };
        let staged = format!("txn/{txid}/new");
        let whole = self.journal.side.get(&staged)?;
        Ok(whole.map(|whole| span.slice(&whole, &staged)).transpose()?)
    }

    /// Adds foreign changes to a commit, so that the journal contains them from then on.
    pub(crate) fn adopt_foreign(&self, changes: &mut Changes, before: &mut Changes) -> Result<()> {
        if !self.journal.place.accepts_foreign {
            return Ok(());
        }
        for (key, (txid, span)) in &*self.known_keys {
            if changes.keys.contains_key(key) {
                continue;
            }
            let now = self.journal.store.get(key)?;
            if StagedSpan::matches(*span, now.as_deref()) {
                continue;
            }
            before.insert(key.clone(), self.staged_bytes(txid, *span)?);
            changes.insert(key.clone(), now);
        }
        Ok(())
    }

    /// Loads the old bytes of the next record, if any. Returns whether there was one.
    fn look_ahead(&self) -> Result<bool> {
        let next = self.later.borrow().last_seq + 1;
        if !self.journal.has_record(next)? {
            return Ok(false);
        }
        let Some(record) = self.journal.read_record(next)? else { return Ok(false) };
        let before = self.journal.read_before(&record)?;
        let mut later = self.later.borrow_mut();
        later.last_seq = next;
        for (key, bytes) in before {
            later.before.entry(key).or_insert(bytes);
        }
        Ok(true)
    }
}

impl Journal {
    /// Reads the new bytes of pending commits. Returns the head.
    fn read_pending(&self, keys: &mut KeyContents) -> Result<u64> {
        let (head, pending) = self.log_and_pending()?;
        for record in self.read_records(&pending, false)? {
            let name = record.staged("new");
            let whole = self.side.open(&name)?.hold_few()?; // spans in a missing file are refused
            for RecordKey { key, new, .. } in record.keys {
                let bytes = new.map(|span| whole.span(span, &name)).transpose()?;
                keys.insert(key.to_string(), bytes);
            }
        }
        Ok(head)
    }
}

/// The cache of a snapshot begins anew with each so many bytes that are read.
const MAX_CACHE_BYTES: u64 = 1 << 30;

/// Number of recent commits in a folder whose bytes are verified: its lock excludes slow writers.
const CHECKED_IN_FOLDERS: u64 = 8;

/// Reads the document of a node. Returns `None` when there is no such node.
pub(crate) fn read_doc(snap: &Snapshot, path: &str) -> Result<Option<Json>> {
    let key = doc_key(path);
    let Some(text) = snap.get(&key)? else { return Ok(None) };
    parse_doc(&text).map(Some).at(&key)
}

/// Parses a document whose members can be replaced: each that has members of its own is an object, or absent.
pub(crate) fn parse_doc(text: &[u8]) -> Result<Json> {
    let doc: Json = serde_json::from_slice(text)?;
    for place in OBJECTS {
        // Said by its type: a damaged member may be as long as the document.
        let found = match doc.pointer(place) {
            None | Some(Json::Null | Json::Object(_)) => continue,
            Some(Json::Array(_)) => "a list",
            Some(Json::String(_)) => "a text",
            Some(Json::Number(_)) => "a number",
            Some(Json::Bool(_)) => "true or false",
        };
        let text = format!("{place:?}: expected an object, found {found}; run \"zvf validate\"");
        return fail(Class::Encoding, text);
    }
    Ok(doc)
}

impl Changes {
    /// Sets the document of a node.
    pub(crate) fn put_doc(&mut self, path: &str, doc: &Json) -> Result<()> {
        self.insert(doc_key(path), Some(doc_bytes(doc)?));
        Ok(())
    }

    /// Adds the document of a group without attributes, if it does not exist.
    pub(crate) fn ensure_group(&mut self, snap: &Snapshot, path: &str) -> Result<()> {
        let group = json!({ "attributes": {}, "zarr_format": 3, "node_type": "group" });
        match read_doc(snap, path)? {
            Some(_) => Ok(()),
            None => self.put_doc(path, &group),
        }
    }
}

pub(crate) fn doc_key(path: &str) -> String {
    if path.is_empty() { "zarr.json".to_owned() } else { format!("{path}/zarr.json") }
}

/// Serializes a document.
pub(crate) fn doc_bytes(doc: &Json) -> Result<Bytes> {
    Ok(serde_json::to_vec(doc)?.into())
}

/// The blocks of the root and of a level in their attributes.
pub(crate) const ROOT_BLOCK: &str = "zarr_vectors";
pub(crate) const LEVEL_BLOCK: &str = "zarr_vectors_level";

/// Pointers to the members of documents that edits replace members of.
const OBJECTS: [&str; 7] = [
    "",
    "/attributes",
    "/attributes/zarr_vectors",
    "/attributes/zarr_vectors_level",
    "/attributes/zvf",
    "/chunk_grid",
    "/chunk_grid/configuration",
];

/// Reads the block `name` of the attributes of a document as the metadata describes it.
pub(crate) fn read_block<T: ArrayAttributes>(doc: &Json, name: &str) -> Result<T> {
    T::parse(attributes_object(&doc["attributes"][name])).at(name)
}

/// Returns the members of an object; none where it is absent.
pub(crate) fn attributes_object(attrs: &Json) -> Object {
    attrs.as_object().cloned().unwrap_or_default()
}

/// Reads a member of a document. Returns `None` where it is absent, and fails where it is not what
/// `read` takes.
pub(crate) fn read_member<T>(
    value: &Json,
    read: impl FnOnce(&Json) -> Option<T>,
    wrong: impl FnOnce() -> String,
) -> Result<Option<T>> {
    match value.is_null() {
        true => Ok(None),
        false => read(value).map(Some).or_fail(Class::Encoding, wrong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_whose_members_cannot_be_replaced_is_refused() {
        for sound in
            ["{}", r#"{"attributes": null}"#, r#"{"attributes": {"zvf": {"stale": true}}}"#]
        {
            parse_doc(sound.as_bytes()).unwrap();
        }
        for (text, place) in [
            ("[]", "\"\""),
            (r#"{"attributes": 1}"#, "\"/attributes\""),
            (r#"{"attributes": {"zvf": "x"}}"#, "\"/attributes/zvf\""),
            (r#"{"chunk_grid": {"configuration": []}}"#, "\"/chunk_grid/configuration\""),
        ] {
            let error = parse_doc(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(place) && error.contains("expected an object"), "{error}");
        }
    }
}
