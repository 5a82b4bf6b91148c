//! Applies the records of a journal to the store.
//!
//! A key is only replaced while it holds the old bytes of the record, so that bytes of other
//! programs are never overwritten. Where these are accepted, they are kept beside the record first,
//! and are its old bytes from then on. Applying a record twice has the same result as applying it
//! once, folders included.

use std::collections::HashMap;

use bytes::Bytes;
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_publish::TargetLock;
use zvf_store::record::{CommitRecord, RECENT_COMMITS, RecordKey};

use crate::changes::Blob;
use crate::error::{EditError, Result, fail, foreign_change_error};
use crate::journal::{Journal, LOCK_TIMEOUT, Staged, log_key, numbered_key};
use crate::medium::{PreparedFiles, PutRequest};

/// The keys that later records write.
#[derive(Default)]
struct LaterKeys {
    /// The last number that was read.
    last_seq: u64,
    /// The keys, each with the last record that writes it.
    seqs: HashMap<String, u64>,
}

impl Journal {
    /// Applies the pending records once no process reads. Returns the head.
    pub(crate) fn apply_all_pending(&self) -> Result<u64> {
        self.apply_pending(None)
    }

    /// Applies a record whose files are prepared, and those pending before it.
    pub(crate) fn apply_record(&self, record: CommitRecord, staged: Staged) -> Result<u64> {
        if self.side.is_folder() {
            return self.apply_pending(Some((record, staged)));
        }
        // The records before it were applied when its transaction began.
        let head = record.seq;
        let later = &mut LaterKeys { last_seq: head, ..LaterKeys::default() };
        self.apply(&record, head, (&[], later), Some(staged))?;
        Ok(head)
    }

    /// Applies the pending records. The files of the record in `new_commit` are written already.
    fn apply_pending(&self, mut new_commit: Option<(CommitRecord, Staged)>) -> Result<u64> {
        let (head, pending) = self.log_and_pending()?;
        if self.pinned.is_none() && head > 0 && to_u64(pending.len()) != head {
            self.check_mark()?;
        }
        if pending.is_empty() {
            return Ok(head);
        }
        let Some(_guard) = self.lock(true, LOCK_TIMEOUT)? else {
            return Err(self.busy_error("is being read or written"));
        };
        // Another process may have applied some while this one waited for the lock, which backends
        // do not have.
        let (head, pending) =
            if self.side.is_folder() { self.log_and_pending()? } else { (head, pending) };
        let Some(first) = pending.first() else { return Ok(head) };
        if *first == 1
            && new_commit.is_none()
            && let Some(folder) = self.store.folder()
        {
            // A writer that was killed after its first commit left its lock; the next one removes it.
            drop(TargetLock::acquire(folder.disk(), folder.root()));
        }
        let mut later = LaterKeys { last_seq: *first, ..LaterKeys::default() };
        for seq in &pending {
            let others = (pending.as_slice(), &mut later);
            if let Some((record, staged)) = new_commit.take_if(|(record, _)| record.seq == *seq) {
                self.apply(&record, head, others, Some(staged))?;
                continue;
            }
            let record = self.read_record(*seq)?;
            let record = record.ok_or_else(|| EditError::new(Class::NotFound, log_key(*seq)))?;
            self.apply(&record, head, others, None)?;
        }
        Ok(head)
    }

    /// Applies a record: puts cells, then indexes, then documents, the root last; then removes
    /// keys.
    fn apply(
        &self,
        record: &CommitRecord,
        head: u64,
        (pending, later): (&[u64], &mut LaterKeys),
        new_staged: Option<Staged>,
    ) -> Result<()> {
        let mut entries: Vec<&RecordKey> = record.keys.iter().collect();
        entries.sort_by_key(|entry| (entry.new.is_none(), put_order(entry.key.as_str())));
        let staged = record.staged("new");
        let (new_bytes, mut prepared) = match new_staged {
            Some(new_staged) => (new_staged.new, new_staged.prepared),
            None => (self.side.open(&staged)?, PreparedFiles::new()),
        };
        for class in entries.chunk_by(|a, b| self.is_one_step(a, b)) {
            let mut tries = 0;
            let new_bytes = (&new_bytes, staged.as_str());
            let mut step = || {
                let others = (head, pending, &mut *later);
                self.apply_step(record, class, new_bytes, others, &mut prepared)
            };
            while !step()? {
                tries += 1;
                if tries == MAX_APPLY_TRIES {
                    let text =
                        format!("{}: others change it without a pause; try again", self.place);
                    return fail(Class::Unavailable, text);
                }
            }
        }
        self.store.sync(entries.iter().map(|entry| entry.key.as_str()))?;
        let done = numbered_key("done", record.seq);
        // If the mark is lost, the record is applied again without effect.
        self.side.put_unsynced(&done, &Bytes::new())
    }

    /// Returns whether two keys belong to one step. In a folder all puts do, as files are renamed
    /// in order.
    fn is_one_step(&self, a: &RecordKey, b: &RecordKey) -> bool {
        let step = |entry: &RecordKey| (entry.new.is_none(), put_order(entry.key.as_str()));
        match self.store.is_folder() {
            true => a.new.is_none() == b.new.is_none(),
            false => step(a) == step(b),
        }
    }

    /// Puts or removes these keys. Returns false when they must be looked at again.
    fn apply_step(
        &self,
        record: &CommitRecord,
        entries: &[&RecordKey],
        (new_bytes, staged): (&Blob, &str),
        (head, pending, later): (u64, &[u64], &mut LaterKeys),
        prepared: &mut PreparedFiles,
    ) -> Result<bool> {
        let (mut puts, mut removed, mut accepted) = (Vec::new(), Vec::new(), Vec::new());
        let mut found = Vec::new().into_iter();
        // The bytes of a folder are read one by one, and are not kept.
        let most = if self.store.is_folder() { 1 } else { usize::MAX };
        for (at, entry) in entries.iter().enumerate() {
            if at % most == 0 {
                let part = entries[at..].iter().take(most);
                let keys: Vec<&str> = part.map(|entry| entry.key.as_str()).collect();
                found = self.store.get_all(&keys)?.into_iter();
                // Without a lock, other processes may have applied later records. The look follows
                // the read: bytes read before it are older than any later record, and are only
                // replaced while they are unchanged.
                self.read_later(head, pending, later)?;
            }
            let (key, current) = (entry.key.as_str(), found.next().flatten());
            let now = current.as_ref().map(|current| current.bytes.as_ref());
            // A backend may report a key to remove as missing although it exists.
            let is_removal = entry.new.is_none() && entry.old.is_some();
            let may_still_exist = is_removal && !self.store.is_folder();
            if entry.is_applied(now) && !(may_still_exist && self.store.exists(key)?) {
                if is_removal && self.store.is_folder() {
                    removed.push(key); // the folders that it left empty may still exist
                }
                continue;
            }
            if later.seqs.get(key).is_some_and(|last| *last > record.seq) {
                continue;
            }
            // A missing key can be put without overwriting anything.
            if !entry.is_unapplied(now)
                && let Some(now) = now
                && !self.is_from_journal(key, now, head)?
            {
                let kept = format!("{}/{key}", record.staged("accepted"));
                if self.side.get(&kept)?.as_deref() != Some(now) {
                    if !self.place.accepts_foreign {
                        return Err(foreign_change_error(key).with_place(&format!(
                            "commit {} stands and is not applied",
                            record.seq
                        )));
                    }
                    self.side.put_object(&kept, &Bytes::copy_from_slice(now))?;
                    accepted.push(kept);
                }
            }
            match entry.new {
                Some(span) => {
                    let bytes = new_bytes.span(span, staged)?;
                    let version = current.and_then(|current| current.version);
                    puts.push(PutRequest { key, bytes, version });
                }
                None => removed.push(key),
            }
        }
        if !accepted.is_empty() {
            self.side.sync(accepted.iter().map(String::as_str))?;
        }
        if !puts.is_empty() {
            let is_alone = self.place.is_single_writer && self.begin_writing()?.is_some();
            let next = log_key(later.last_seq + 1);
            let until = Some((&self.side, next.as_str()));
            if !self.store.replace_all(puts, prepared, is_alone, until)? {
                return Ok(false);
            }
        }
        self.store.delete(&removed)?;
        Ok(true)
    }

    /// Reads the keys of the records that were created since the last look. A record that writes a
    /// key later decides what to do with its bytes; in a folder only one that is applied, as
    /// pending ones are applied in order.
    fn read_later(&self, head: u64, pending: &[u64], later: &mut LaterKeys) -> Result<()> {
        loop {
            let next = later.last_seq + 1;
            match self.read_record(next)? {
                Some(record) if !self.store.is_folder() || !pending.contains(&next) => {
                    let keys = record.keys.iter().map(|entry| (entry.key.to_string(), next));
                    later.seqs.extend(keys);
                }
                None if next > head => return Ok(()),
                _ => {}
            }
            later.last_seq = next;
        }
    }

    /// Returns whether the bytes are the old or new bytes of a recent commit, which a slow writer
    /// may have put back.
    fn is_from_journal(&self, key: &str, bytes: &[u8], head: u64) -> Result<bool> {
        if self.store.is_folder() {
            return Ok(false); // the lock excludes slow writers
        }
        let recent: Vec<u64> = (head.saturating_sub(RECENT_COMMITS).max(1)..=head).collect();
        let has_bytes = |entry: &RecordKey| {
            entry.key.as_str() == key
                && (entry.is_applied(Some(bytes)) || entry.is_unapplied(Some(bytes)))
        };
        let records = self.read_records(&recent, true)?;
        Ok(records.iter().any(|record| record.keys.iter().any(has_bytes)))
    }
}

/// Returns the step in which a key is put, so that no reader finds a reference to a missing key.
fn put_order(key: &str) -> u8 {
    let document = key.ends_with("zarr.json");
    let names = |part: &str| key.split('/').any(|name| name == part);
    match () {
        () if key == "zarr.json" => 6,
        () if document && key.matches('/').count() == 1 => 5,
        () if names("object_index") => 4,
        () if names("links") || names("link_attributes") || names("link_fragments") => 3,
        () if document => 2,
        () if names("vertex_fragments") => 1,
        () => 0,
    }
}

/// How often a step is retried when other processes change its keys.
const MAX_APPLY_TRIES: usize = 20;
