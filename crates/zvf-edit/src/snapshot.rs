//! What a store held at one head, whatever is committed since.
//!
//! The bytes of a key that a later record changes are taken from what that record kept. On an object store a slow
//! writer may have put old bytes back, or removed what came since; there the checksums in the log decide, and the
//! staged bytes stand in.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use zvf_format::Class;
use zvf_format::num::to_u64;

use crate::changes::Changes;
use crate::error::{EditError, Result, foreign_change};
use crate::journal::Journal;
use crate::record::{Entry, Span};

/// What a store held at one head.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) journal: Arc<Journal>,
    pub(crate) head: u64,
    later: RefCell<Later>,
    cache: RefCell<HashMap<String, Option<Bytes>>>,
    /// What the last commits put under their keys: the transaction, and its span of new bytes.
    known: HashMap<String, (Arc<str>, Option<Span>)>,
    /// Bytes read so far.
    pub(crate) read: Cell<u64>,
}

#[derive(Debug)]
struct Later {
    seen: u64,
    before: HashMap<String, Option<Bytes>>,
}

impl Snapshot {
    /// The store as it is now. What is committed is applied first.
    pub(crate) fn now(journal: &Arc<Journal>) -> Result<Self> {
        let head = journal.settle()?;
        let mut known = HashMap::new();
        for seq in head.saturating_sub(CHECKED_COMMITS - 1).max(1)..=head {
            if let Some(staged) = journal.staged_keys(seq)? {
                let txid: Arc<str> = staged.txid.as_str().into();
                let keys = staged.into_keys();
                known.extend(keys.map(|(key, span)| (key, (Arc::clone(&txid), span))));
            }
        }
        let later = RefCell::new(Later { seen: head, before: HashMap::new() });
        Ok(Self {
            journal: Arc::clone(journal),
            head,
            later,
            cache: RefCell::default(),
            known,
            read: Cell::new(0),
        })
    }

    /// The store as it was at a head.
    pub(crate) fn at(journal: &Arc<Journal>, head: u64) -> Result<Self> {
        if journal.pinned.is_some() {
            return Self::now(&Arc::new(journal.at(head)?));
        }
        let mut snap = Self::now(journal)?;
        if head > snap.head {
            return Err(EditError::new(
                Class::NotFound,
                format!("there is no commit {head}; the last is {}", snap.head),
            ));
        }
        snap.later.get_mut().seen = head;
        snap.head = head;
        while snap.look_ahead()? {}
        Ok(snap)
    }

    /// The names directly below a prefix at the head, sorted; some may hold nothing.
    pub(crate) fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let mut names: BTreeSet<String> = self.journal.store.list(prefix)?.into_iter().collect();
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

    /// The bytes of a key at the head.
    pub(crate) fn get(&self, key: &str) -> Result<Option<Bytes>> {
        if let Some(known) = self.cache.borrow().get(key) {
            return Ok(known.clone());
        }
        loop {
            if let Some(kept) = self.later.borrow().before.get(key) {
                return Ok(kept.clone());
            }
            let bytes = self.journal.store.get_twice(key)?;
            // The record is there before the first changed byte: asked after reading, it shows whether the bytes are too new.
            if self.look_ahead()? {
                continue;
            }
            let bytes = self.checked(key, bytes)?;
            self.read.set(self.read.get() + to_u64(bytes.as_ref().map_or(0, Bytes::len)));
            if self.read.get() < MAX_CACHE_BYTES {
                self.cache.borrow_mut().insert(key.to_owned(), bytes.clone());
            }
            return Ok(bytes);
        }
    }

    /// The bytes, where they are those of the last commit that wrote the key. On a backend a slow writer may have
    /// put others there; in a folder only something that does not know the journal can.
    fn checked(&self, key: &str, bytes: Option<Bytes>) -> Result<Option<Bytes>> {
        let Some((txid, span)) = self.known.get(key) else { return Ok(bytes) };
        let same = match (span, &bytes) {
            (None, None) => true,
            (Some(span), Some(bytes)) => span.is_of(bytes),
            _ => false,
        };
        if same || self.journal.place.accepts_foreign {
            return Ok(bytes);
        }
        let Some(span) = span else {
            return if self.journal.store.is_folder() {
                Err(foreign_change(key))
            } else {
                Ok(None)
            };
        };
        let staged = format!("txn/{txid}/new");
        if self.journal.store.is_folder() {
            return Err(foreign_change(key));
        }
        match self.journal.side.get(&staged)? {
            Some(whole) => span.slice(&whole, &staged).map(Some),
            None => Err(foreign_change(key)),
        }
    }

    /// Adds what something else wrote, so that the journal knows it from now on.
    pub(crate) fn adopt(
        &self,
        changes: &mut Changes,
        before: &mut HashMap<String, Option<Bytes>>,
    ) -> Result<()> {
        if !self.journal.place.accepts_foreign {
            return Ok(());
        }
        for (key, (txid, span)) in &self.known {
            if changes.contains_key(key) {
                continue;
            }
            let now = self.journal.store.get(key)?;
            let entry = Entry { key, new: *span, old: None };
            if entry.is_done(now.as_deref()) {
                continue;
            }
            let staged = format!("txn/{txid}/new");
            let old = match (span, self.journal.side.get(&staged)?) {
                (Some(span), Some(whole)) => Some(span.slice(&whole, &staged)?),
                _ => None,
            };
            before.insert(key.clone(), old);
            changes.insert(key.clone(), now);
        }
        Ok(())
    }

    /// Takes in a record that was committed since; whether there was one.
    fn look_ahead(&self) -> Result<bool> {
        let next = self.later.borrow().seen + 1;
        if !self.journal.has_record(next)? {
            return Ok(false);
        }
        let Some(record) = self.journal.record(next)? else { return Ok(false) };
        let before = self.journal.read_before(&record)?;
        let mut later = self.later.borrow_mut();
        later.seen = next;
        for (key, bytes) in before {
            later.before.entry(key).or_insert(bytes);
        }
        Ok(true)
    }
}

/// Bytes that a snapshot keeps of what it read.
const MAX_CACHE_BYTES: u64 = 256 << 20;

/// Commits whose bytes are compared with what is in the store.
const CHECKED_COMMITS: u64 = 8;
