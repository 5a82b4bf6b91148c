//! The journal of a store: a write-ahead log that orders commits and keeps the old bytes for undo.
//!
//! ```text
//! <root>.zvf/lock              folders: flock, exclusive while a record is applied, shared while files are copied
//! <root>.zvf/staging           folders: flock, shared while a commit is staged, exclusive while gc removes staged files
//! <root>.zvf/txn/<txid>/new    the new bytes of every changed key, concatenated
//! <root>.zvf/txn/<txid>/old    the old bytes of these keys
//! <root>.zvf/log/<seq>         the record, which is the commit point: created only if absent; 20 digits
//! <root>.zvf/done/<seq>        marks a record that is applied to the store
//! <root>.zvf/epoch/<E>         the epoch of a single writer
//! <root>.zvf/probe             tests whether the backend has conditional puts
//! ```
//!
//! A commit stages its bytes, syncs them, and creates the next record of the log. In a folder it also writes the files of
//! the store before the record, and renames them after it, so that a full disk fails before the commit point. After the
//! commit point, every process that opens the store for writing applies the pending records in order. A key is only
//! replaced while it holds the old bytes of the record, so that bytes of other programs are never overwritten.
//!
//! In a folder the first record is created under the target lock, so that a command that replaces the whole folder cannot
//! miss a new journal.
//!
//! Not here: what the keys mean; reads at a head (`snapshot`); fencing of writers (`epoch`).

use std::collections::{BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_publish::{KeyedFolder, PublishError, TargetLock};

use crate::changes::Changes;
use crate::epoch::Epoch;
use crate::error::{EditError, Result, foreign_change_error, replaced_store_error};
use crate::medium::{Medium, PreparedFiles, PutRequest};
use crate::place::Place;
use crate::record::{CommitRecord, Entry, Span, StagedKeys};
use crate::versions::Pinned;

/// A store with its journal.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) place: Place,
    pub(crate) store: Medium,
    pub(crate) side: Medium,
    /// The exclusive right to write, once it was taken.
    epoch: OnceLock<Option<Epoch>>,
    /// The version that is read, where the store lies in a repository of versions, which then has the history.
    pub(crate) pinned: Option<Pinned>,
}

/// The staged files of a commit before its commit point.
#[derive(Debug)]
pub(crate) struct Staged {
    /// The entries of the record, one for each key.
    pub(crate) keys: Vec<Json>,
    names: [String; 2],
    new: Bytes,
    prepared: PreparedFiles,
}

/// The lock of a journal, held until it is dropped.
#[derive(Debug)]
#[must_use = "a lock that is not held is released at once"]
pub(crate) struct Guard {
    _file: Option<File>,
}

impl Journal {
    /// Opens the journal of the store at a place.
    pub(crate) fn open(place: &Place) -> Result<Self> {
        if let Some((versions, _)) = place.versions() {
            return Self::from_version(place, Pinned::open_latest(versions)?);
        }
        let (store, side) = place.open_media()?;
        Ok(Self::with_media(place, (store, side), None))
    }

    /// Opens the journal of a store at a version of its repository.
    pub(crate) fn from_version(place: &Place, pinned: Pinned) -> Result<Self> {
        let Some((_, options)) = place.versions() else { return Self::open(place) };
        Ok(Self::with_media(place, pinned.open_media(options)?, Some(pinned)))
    }

    fn with_media(place: &Place, (store, side): (Medium, Medium), pinned: Option<Pinned>) -> Self {
        let (place, epoch) = (place.clone(), OnceLock::new());
        Self { place, store, side, epoch, pinned }
    }

    /// Opens the journal at the version of an earlier head. Outside of repositories it is the same journal.
    pub(crate) fn open_at(&self, number: u64) -> Result<Self> {
        match &self.pinned {
            Some(pinned) => Self::from_version(&self.place, pinned.open_at(number)?),
            None => Self::open(&self.place),
        }
    }

    /// Opens the journal at the latest version of a repository. Outside of repositories it is the same journal.
    pub(crate) fn reopen(self: &Arc<Self>) -> Result<Arc<Self>> {
        match &self.pinned {
            Some(pinned) => Ok(Arc::new(Self::from_version(&self.place, pinned.reopen()?)?)),
            None => Ok(Arc::clone(self)),
        }
    }

    /// Opens the journal of the store in the folder `store`.
    pub(crate) fn open_beside(store: &Path) -> Result<Self> {
        Self::open(&Place::from(store))
    }

    /// Returns the number of the last record; 0 before the first.
    pub(crate) fn head(&self) -> Result<u64> {
        if let Some(pinned) = &self.pinned {
            return pinned.head();
        }
        Ok(self.list_numbers("log")?.last().copied().unwrap_or(0)) // 0 before the first commit
    }

    /// Lists the numbers of the files in `log` or `done`.
    pub(crate) fn list_numbers(&self, folder: &str) -> Result<Vec<u64>> {
        let mut numbers: Vec<u64> =
            self.side.list(folder)?.iter().filter_map(|name| name.parse().ok()).collect();
        if let (false, Some(last)) = (self.side.is_folder(), numbers.last().copied()) {
            // A listing may be stale, so the numbers after its last one are probed by name.
            let mut next = last + 1;
            while self.side.exists(&numbered_key(folder, next))? {
                numbers.push(next);
                next += 1;
            }
        } else if !self.side.is_folder() && self.side.exists(&numbered_key(folder, 1))? {
            numbers.push(1);
            while let Some(next) = numbers.last().map(|last| last + 1)
                && self.side.exists(&numbered_key(folder, next))?
            {
                numbers.push(next);
            }
        }
        Ok(numbers)
    }

    pub(crate) fn has_record(&self, seq: u64) -> Result<bool> {
        self.side.exists(&log_key(seq))
    }

    pub(crate) fn read_record(&self, seq: u64) -> Result<Option<CommitRecord>> {
        let text = self.side.get(&log_key(seq))?;
        text.map(|text| CommitRecord::parse(seq, &text)).transpose()
    }

    /// Reads only the keys of a record.
    pub(crate) fn staged_keys(&self, seq: u64) -> Result<Option<StagedKeys>> {
        let text = self.side.get(&log_key(seq))?;
        text.map(|text| StagedKeys::parse(seq, &text)).transpose()
    }

    /// Waits for the lock of the journal. Object stores have none.
    pub(crate) fn lock(&self, exclusive: bool, wait: Duration) -> Result<Option<Guard>> {
        self.lock_file("lock", exclusive, wait)
    }

    fn lock_file(&self, name: &str, exclusive: bool, wait: Duration) -> Result<Option<Guard>> {
        let Some(side) = self.side.folder() else { return Ok(Some(Guard { _file: None })) };
        side.disk().make_dirs(side.root())?;
        let path = side.path(name);
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).create(true).truncate(false).open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(_) if !exclusive => OpenOptions::new().read(true).open(&path)?,
            Err(error) => return Err(error.into()),
        };
        let operation = match exclusive {
            true => FlockOperation::NonBlockingLockExclusive,
            false => FlockOperation::NonBlockingLockShared,
        };
        let start = Instant::now();
        loop {
            match flock(&file, operation) {
                Ok(()) => return Ok(Some(Guard { _file: Some(file) })),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
                Err(error) => {
                    let text = format!(
                        "the file system of {} has no locks ({error}); edit a copy on a local disk",
                        path.display()
                    );
                    return Err(EditError::unsupported(text));
                }
            }
            if start.elapsed() >= wait {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns the pending records: committed and not applied.
    pub(crate) fn list_pending(&self) -> Result<Vec<u64>> {
        Ok(self.log_and_pending()?.1)
    }

    pub(crate) fn log_and_pending(&self) -> Result<(u64, Vec<u64>)> {
        if let Some(pinned) = &self.pinned {
            return Ok((pinned.head()?, Vec::new())); // commits of a repository are atomic
        }
        let mut log = self.list_numbers("log")?;
        let head = log.last().copied().unwrap_or(0); // 0 before the first commit
        if head == 0 {
            return Ok((0, Vec::new()));
        }
        let done = self.list_numbers("done")?;
        log.retain(|seq| done.binary_search(seq).is_err());
        Ok((head, log))
    }

    /// Refuses a store that another program replaced without its journal.
    fn check_mark(&self) -> Result<()> {
        let Some(text) = self.store.get("zarr.json")? else { return Ok(()) };
        let root: Json = serde_json::from_slice(&text)?;
        match root["attributes"]["zvf"]["journal"].is_null() {
            true => Err(replaced_store_error(&self.place.to_string())),
            false => Ok(()),
        }
    }

    /// Applies the pending records once no process reads. Returns the head.
    pub(crate) fn apply_all_pending(&self) -> Result<u64> {
        self.apply_pending(None)
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
        let (head, pending) = self.log_and_pending()?;
        for seq in pending {
            if let Some((record, staged)) = new_commit.take_if(|(record, _)| record.seq == seq) {
                self.apply(&record, head, Some(staged))?;
                continue;
            }
            let record = self.read_record(seq)?;
            let record = record.ok_or_else(|| EditError::new(Class::NotFound, log_key(seq)))?;
            self.apply(&record, head, None)?;
        }
        Ok(head)
    }

    /// Applies a record: puts cells, then indexes, then documents, the root last; then removes keys.
    fn apply(&self, record: &CommitRecord, head: u64, new_staged: Option<Staged>) -> Result<()> {
        let mut entries: Vec<Entry<'_>> = record.entries().collect();
        entries.sort_by_key(|entry| (entry.new.is_none(), put_order(entry.key)));
        let staged = format!("txn/{}/new", record.txid());
        let (new_bytes, mut prepared) = match new_staged {
            Some(new_staged) => (new_staged.new, new_staged.prepared),
            // Spans in a missing file are refused.
            None => (self.side.get(&staged)?.unwrap_or_default(), PreparedFiles::new()),
        };
        for class in entries.chunk_by(|a, b| self.is_one_step(a, b)) {
            let mut tries = 0;
            while !self.apply_step(record, class, (&new_bytes, &staged), (head, &mut prepared))? {
                tries += 1;
                if tries == MAX_APPLY_TRIES {
                    let text =
                        format!("{}: others change it without a pause; try again", self.place);
                    return Err(EditError::new(Class::Unavailable, text));
                }
            }
        }
        self.store.sync(entries.iter().map(|entry| entry.key))?;
        let done = numbered_key("done", record.seq);
        // If the mark is lost, the record is applied again without effect.
        self.side.put_unsynced(&done, &Bytes::new())
    }

    /// Returns whether two keys belong to one step. In a folder all puts do, as files are renamed in order.
    fn is_one_step(&self, a: &Entry<'_>, b: &Entry<'_>) -> bool {
        let step = |entry: &Entry<'_>| (entry.new.is_none(), put_order(entry.key));
        match self.store.is_folder() {
            true => a.new.is_none() == b.new.is_none(),
            false => step(a) == step(b),
        }
    }

    /// Puts or removes these keys. Returns false when one of them changed meanwhile.
    fn apply_step(
        &self,
        record: &CommitRecord,
        entries: &[Entry<'_>],
        (new_bytes, staged): (&Bytes, &str),
        (head, prepared): (u64, &mut PreparedFiles),
    ) -> Result<bool> {
        let keys: Vec<&str> = entries.iter().map(|entry| entry.key).collect();
        let current = self.store.get_all(&keys)?;
        let (mut puts, mut removed) = (Vec::new(), Vec::new());
        for (entry, current) in entries.iter().zip(current) {
            let now = current.as_ref().map(|current| current.bytes.as_ref());
            // A backend may report a key to remove as missing although it exists.
            let is_removal = entry.new.is_none() && entry.old.is_some();
            let may_still_exist = is_removal && !self.store.is_folder();
            if entry.is_applied(now) && !(may_still_exist && self.store.exists(entry.key)?) {
                continue;
            }
            // Without a lock, other processes may have applied later records. The check follows the read: bytes read
            // before it are older than any later record, and are only replaced while they are unchanged.
            let is_unapplied = entry.is_unapplied(now);
            if (!is_unapplied || !self.store.is_folder())
                && self.is_written_later(entry.key, record.seq, head)?
            {
                continue;
            }
            // A missing key can be put without overwriting anything.
            if !is_unapplied
                && !self.place.accepts_foreign
                && let Some(now) = now
                && !self.is_from_journal(entry.key, now, head)?
            {
                return Err(foreign_change_error(entry.key)
                    .with_place(&format!("commit {} stands and is not applied", record.seq)));
            }
            match entry.new {
                Some(span) => {
                    let bytes = span.slice(new_bytes, staged)?;
                    puts.push(PutRequest { key: entry.key, bytes, current });
                }
                None => removed.push(entry.key),
            }
        }
        if !puts.is_empty() && !self.store.replace_all(puts, prepared)? {
            return Ok(false);
        }
        self.store.delete(&removed)?;
        Ok(true)
    }

    /// Returns whether a later record writes the key; then that record decides what to do with the bytes.
    fn is_written_later(&self, key: &str, seq: u64, head: u64) -> Result<bool> {
        let mut later = seq + 1;
        loop {
            match self.read_record(later)? {
                Some(record) if record.entries().any(|entry| entry.key == key) => return Ok(true),
                None if later > head => return Ok(false),
                _ => later += 1,
            }
        }
    }

    /// Returns whether the bytes are the old or new bytes of a recent commit, which a slow writer may have put back.
    fn is_from_journal(&self, key: &str, bytes: &[u8], head: u64) -> Result<bool> {
        if self.store.is_folder() {
            return Ok(false); // the lock excludes slow writers
        }
        for seq in (head.saturating_sub(MAX_REMEMBERED_COMMITS)..=head).rev() {
            let Some(record) = self.read_record(seq)? else { continue };
            let has_bytes = |entry: Entry<'_>| {
                entry.key == key
                    && (entry.is_applied(Some(bytes)) || entry.is_unapplied(Some(bytes)))
            };
            if record.entries().any(has_bytes) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the old bytes of the keys of a record.
    pub(crate) fn read_before(
        &self,
        record: &CommitRecord,
    ) -> Result<HashMap<String, Option<Bytes>>> {
        let staged = format!("txn/{}/old", record.txid());
        let unavailable = || {
            EditError::unsupported(format!(
                "the bytes before commit {} were removed by gc",
                record.seq
            ))
        };
        let mut before = HashMap::new();
        let mut old_bytes: Option<Bytes> = None;
        for entry in record.entries() {
            let bytes = match entry.old {
                None => None,
                Some(span) => {
                    if old_bytes.is_none() {
                        old_bytes = Some(self.side.get(&staged)?.ok_or_else(unavailable)?);
                    }
                    let old_bytes = old_bytes.as_ref().ok_or_else(unavailable)?;
                    Some(span.slice(old_bytes, &staged)?)
                }
            };
            before.insert(entry.key.to_owned(), bytes);
        }
        Ok(before)
    }

    /// Returns whether the old bytes of a record still exist.
    pub(crate) fn has_old_bytes(&self, record: &CommitRecord) -> Result<bool> {
        let needed = record.entries().any(|entry| entry.old.is_some());
        Ok(!needed || self.side.exists(&format!("txn/{}/old", record.txid()))?)
    }

    /// Keeps `gc` from removing files while a commit is staged. Fails on a file system without locks, before anything is
    /// written.
    pub(crate) fn lock_for_staging(&self) -> Result<Guard> {
        self.lock_file("staging", false, LOCK_TIMEOUT)?
            .ok_or_else(|| self.busy_error("is being collected"))
    }

    /// Keeps writers from staging commits.
    pub(crate) fn lock_for_gc(&self) -> Result<Guard> {
        self.lock_file("staging", true, LOCK_TIMEOUT)?
            .ok_or_else(|| self.busy_error("is being written"))
    }

    fn busy_error(&self, what: &str) -> EditError {
        let seconds = LOCK_TIMEOUT.as_secs();
        let text = format!("{} {what} for longer than {seconds} s; try again", self.place);
        EditError::new(Class::Unavailable, text)
    }

    /// Refuses to write to a backend without conditional puts, unless the caller declares a single writer.
    pub(crate) fn begin_writing(&self) -> Result<Option<&Epoch>> {
        if let Some(pinned) = &self.pinned {
            return match pinned.read_only() {
                None => Ok(None),
                Some(reason) => Err(EditError::unsupported(format!("{}: {reason}", self.place))),
            };
        }
        if self.epoch.get().is_none() {
            let epoch = match (self.side.is_folder(), self.place.is_single_writer) {
                (true, false) => None,
                (false, false) => {
                    self.need_conditions()?;
                    None
                }
                (_, true) => Some(Epoch::take(&self.side)?),
            };
            // A faster thread may have taken an epoch as well; the lower one is fenced.
            let _ = self.epoch.set(epoch);
        }
        Ok(self.epoch.get().and_then(Option::as_ref))
    }

    fn need_conditions(&self) -> Result<()> {
        if self.place.trusts_conditions || self.has_conditions()? {
            return Ok(());
        }
        Err(EditError::unsupported(format!(
            "{}: the backend does not refuse to create an object that is there, so that two writers could overwrite each other; give --single-writer while no other process writes",
            self.place
        )))
    }

    /// Returns whether the backend refuses to create an object that exists.
    pub(crate) fn has_conditions(&self) -> Result<bool> {
        match &self.side {
            Medium::Folder(_) => Ok(true),
            Medium::Objects(objects) => Ok(crate::medium::block_on(objects.probe("probe"))?),
        }
    }

    /// Locks the whole folder while the first record is created. Returns `None` where a journal exists.
    pub(crate) fn lock_for_first(&self) -> Result<Option<TargetLock>> {
        let Some(folder) = self.store.folder() else { return Ok(None) };
        if self.side.exists("log")? {
            return Ok(None);
        }
        if folder.root().file_name().is_none() {
            return Err(EditError::unsupported(format!(
                "{}: the folder has no name to put a journal beside; call it by its full path",
                self.place
            )));
        }
        let Some(lock) = self.wait_for_target(folder)? else { return Ok(None) };
        Ok(Some(lock))
    }

    /// Waits for the lock of the whole folder. Returns `None` when another process created the journal meanwhile.
    fn wait_for_target(&self, folder: &KeyedFolder) -> Result<Option<TargetLock>> {
        let start = Instant::now();
        loop {
            match TargetLock::acquire(folder.disk(), folder.root()) {
                Ok(lock) => return Ok(Some(lock)),
                Err(PublishError::Busy { .. }) if start.elapsed() < LOCK_TIMEOUT => {}
                Err(error) => {
                    let text = format!("{}: {error}; try again", self.place);
                    return Err(EditError::new(Class::Conflict, text));
                }
            }
            if self.side.exists("log")? {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Writes the new and old bytes of a commit to staged files, which its record refers to.
    pub(crate) fn stage(
        &self,
        txid: &str,
        changes: &Changes,
        old: &HashMap<String, Option<Bytes>>,
    ) -> Result<Staged> {
        let (mut new_bytes, mut old_bytes) = (Vec::new(), Vec::new());
        let mut keys = Vec::new();
        for (key, bytes) in changes {
            let mut entry = json!({ "key": key });
            if let Some(bytes) = bytes {
                entry["new"] = Span::append(&mut new_bytes, bytes);
            }
            if let Some(Some(bytes)) = old.get(key) {
                entry["old"] = Span::append(&mut old_bytes, bytes);
            }
            keys.push(entry);
        }
        let names = ["new", "old"].map(|side| format!("txn/{txid}/{side}"));
        let stage = || -> Result<Staged> {
            let bytes = [new_bytes, old_bytes].map(Bytes::from);
            let new = bytes[0].clone();
            let Some(side) = self.side.folder() else {
                let puts = names.iter().zip(bytes);
                let puts = puts.map(|(key, bytes)| PutRequest { key, bytes, current: None });
                if !self.side.replace_all(puts.collect(), &mut PreparedFiles::new())? {
                    let text = format!("txn/{txid} is there already");
                    return Err(EditError::new(Class::Conflict, text));
                }
                return Ok(Staged { keys, names, new, prepared: PreparedFiles::new() });
            };
            for (name, bytes) in names.iter().zip(bytes) {
                side.disk().create(&side.path(name), &[bytes])?;
            }
            let files =
                changes.iter().filter_map(|(key, bytes)| Some((key.as_str(), bytes.clone()?)));
            Ok(Staged { keys, names, new, prepared: self.store.prepare_files(files)? })
        };
        stage().inspect_err(|_first| self.unstage(txid))
    }

    /// Removes the staged files of a commit that did not happen.
    pub(crate) fn unstage(&self, txid: &str) {
        // `gc` removes what remains.
        let _ = self.side.delete_below(&format!("txn/{txid}"));
    }

    /// Creates the record `seq`. Returns false when it exists. In a folder, all files of the commit are synced before the
    /// record is renamed into place.
    pub(crate) fn append(
        &self,
        seq: u64,
        (body, operations): (&Json, &[Json]),
        staged: &Staged,
    ) -> Result<bool> {
        let (key, text) = (log_key(seq), CommitRecord::encode(body, operations)?);
        let Some(side) = self.side.folder() else { return self.side.create(&key, &text) };
        let record = side.prepare(&key, text)?;
        let names = staged.names.iter().map(String::as_str).chain([key.as_str()]);
        let files: Vec<PathBuf> = staged.names.iter().map(|name| side.path(name)).collect();
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        let prepared: Vec<_> = staged.prepared.values().chain([&record]).collect();
        side.sync(&prepared, &files, names)?;
        let won = record.create()?;
        if won {
            self.side.sync([key.as_str()].into_iter())?;
        }
        Ok(won)
    }

    /// Applies a record whose files are prepared, and those pending before it.
    pub(crate) fn apply_record(&self, record: CommitRecord, staged: Staged) -> Result<u64> {
        self.apply_pending(Some((record, staged)))
    }

    /// Returns the checksum of a record, to which the next record links; null where there is none.
    pub(crate) fn record_checksum(&self, seq: u64) -> Result<Json> {
        let text = self.side.get(&log_key(seq))?;
        Ok(text.map_or(Json::Null, |text| json!(format!("{:08x}", crc32c::crc32c(&text)))))
    }

    /// Finds one of `keys` that does not hold the bytes of the last commit that wrote it, among the commits after `from`.
    pub(crate) fn find_foreign(&self, from: u64, keys: &BTreeSet<&str>) -> Result<Option<String>> {
        let mut last: HashMap<String, Option<Span>> = HashMap::new();
        for seq in from + 1..=self.head()? {
            for entry in self.read_record(seq)?.iter().flat_map(CommitRecord::entries) {
                last.insert(entry.key.to_owned(), entry.new);
            }
        }
        for (key, span) in last.into_iter().filter(|(key, _)| keys.contains(key.as_str())) {
            let now = self.store.get(&key)?;
            let entry = Entry { key: &key, new: span, old: None };
            if !entry.is_applied(now.as_deref()) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }
}

pub(crate) fn log_key(seq: u64) -> String {
    numbered_key("log", seq)
}

fn numbered_key(folder: &str, seq: u64) -> String {
    format!("{folder}/{seq:020}")
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

/// How long a writer waits for a lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Number of recent commits whose bytes are recognized.
const MAX_REMEMBERED_COMMITS: u64 = 32;

/// How often a step is retried when other processes change its keys.
const MAX_APPLY_TRIES: usize = 20;

/// Returns the bytes of an object that a listing named, or refuses a missing one.
pub(crate) fn need_listed(key: &str, bytes: Option<Bytes>) -> Result<Bytes> {
    bytes.ok_or_else(|| {
        let text = format!("{key}: expected the object that was listed, found none; try again");
        EditError::new(Class::FileChanged, text)
    })
}
