//! The journal of a store: who may change it, in which order, and what was there before.
//!
//! ```text
//! <root>.zvf/lock              folders: flock, exclusive while a record is applied, shared while a process reads
//! <root>.zvf/staging           folders: flock, shared while a commit is staged, exclusive while gc removes what was
//! <root>.zvf/txn/<txid>/new    the new bytes of every changed key, one after the other
//! <root>.zvf/txn/<txid>/old    the bytes they had before
//! <root>.zvf/log/<seq>         the commit point: created only if absent; 20 digits
//! <root>.zvf/done/<seq>        applied to the store
//! <root>.zvf/epoch/<E>         one writer at a time: who
//! <root>.zvf/probe             whether the backend refuses to create what is there
//! ```
//!
//! A commit stages its bytes, syncs them, and creates the next record of the log. In a folder the files of the store are
//! written before that as well, and only get their names afterwards: a full disk is met while nothing is decided. From then on it is decided: whoever
//! opens the store for writing applies what is committed and not done, in order. A key is only replaced while it holds
//! what the record says it held: what something else wrote is never overwritten.
//!
//! In a folder the first record is created under the lock of the target, so that no command that replaces the whole
//! folder meets a journal that it did not see.
//!
//! Not here: what the keys mean; reading as of a head (`snapshot`); one writer at a time (`epoch`).

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
use crate::error::{EditError, Result, foreign_change, store_replaced};
use crate::medium::{Medium, Prepared, Put};
use crate::place::Place;
use crate::record::{Entry, Record, Span, StagedKeys};
use crate::versions::Pinned;

/// The store and its journal.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) place: Place,
    pub(crate) store: Medium,
    pub(crate) side: Medium,
    /// The right to write alone, once it was taken.
    epoch: OnceLock<Option<Epoch>>,
    /// The version that is read, where the store lies in a repository of them; that has the history then.
    pub(crate) pinned: Option<Pinned>,
}

/// What was written for a commit that is not decided.
#[derive(Debug)]
pub(crate) struct Staged {
    /// What the record says of each key.
    pub(crate) keys: Vec<Json>,
    names: [String; 2],
    new: Bytes,
    prepared: Prepared,
}

/// The lock of a journal, held until it is dropped.
#[derive(Debug)]
pub struct Guard {
    _file: Option<File>,
}

impl Journal {
    /// The journal of the store at a place.
    pub(crate) fn open(place: &Place) -> Result<Self> {
        if let Some((versions, _)) = place.versions() {
            return Self::of_version(place, Pinned::latest(versions)?);
        }
        let (store, side) = place.media()?;
        Ok(Self::with_media(place, (store, side), None))
    }

    /// The journal of the store at a version of its repository.
    pub(crate) fn of_version(place: &Place, pinned: Pinned) -> Result<Self> {
        let Some((_, options)) = place.versions() else { return Self::open(place) };
        Ok(Self::with_media(place, pinned.media(options)?, Some(pinned)))
    }

    fn with_media(place: &Place, (store, side): (Medium, Medium), pinned: Option<Pinned>) -> Self {
        let (place, epoch) = (place.clone(), OnceLock::new());
        Self { place, store, side, epoch, pinned }
    }

    /// The journal of the store as it was at a head; of a plain store the same one.
    pub(crate) fn at(&self, number: u64) -> Result<Self> {
        match &self.pinned {
            Some(pinned) => Self::of_version(&self.place, pinned.at(number)?),
            None => Self::open(&self.place),
        }
    }

    /// The journal as it is now: a repository of versions is looked at again.
    pub(crate) fn reopened(self: &Arc<Self>) -> Result<Arc<Self>> {
        match &self.pinned {
            Some(pinned) => Ok(Arc::new(Self::of_version(&self.place, pinned.reopened()?)?)),
            None => Ok(Arc::clone(self)),
        }
    }

    /// The journal of the store in the folder `store`.
    pub(crate) fn open_beside(store: &Path) -> Result<Self> {
        Self::open(&Place::from(store))
    }

    /// The number of the last record, 0 before the first.
    pub(crate) fn head(&self) -> Result<u64> {
        if let Some(pinned) = &self.pinned {
            return pinned.head();
        }
        Ok(self.list_numbers("log")?.last().copied().unwrap_or(0)) // 0 before the first commit
    }

    /// The numbers of the records that are there.
    pub(crate) fn list_numbers(&self, folder: &str) -> Result<Vec<u64>> {
        let mut numbers: Vec<u64> =
            self.side.list(folder)?.iter().filter_map(|name| name.parse().ok()).collect();
        if let (false, Some(last)) = (self.side.is_folder(), numbers.last().copied()) {
            // A list may be old: what follows its last name is asked for by its own.
            let mut next = last + 1;
            while self.side.exists(&numbered(folder, next))? {
                numbers.push(next);
                next += 1;
            }
        } else if !self.side.is_folder() && self.side.exists(&numbered(folder, 1))? {
            numbers.push(1);
            while let Some(next) = numbers.last().map(|last| last + 1)
                && self.side.exists(&numbered(folder, next))?
            {
                numbers.push(next);
            }
        }
        Ok(numbers)
    }

    pub(crate) fn has_record(&self, seq: u64) -> Result<bool> {
        self.side.exists(&log_key(seq))
    }

    pub(crate) fn record(&self, seq: u64) -> Result<Option<Record>> {
        let text = self.side.get(&log_key(seq))?;
        text.map(|text| Record::parse(seq, &text)).transpose()
    }

    /// What a record says of its keys, without the rest of it.
    pub(crate) fn staged_keys(&self, seq: u64) -> Result<Option<StagedKeys>> {
        let text = self.side.get(&log_key(seq))?;
        text.map(|text| StagedKeys::parse(seq, &text)).transpose()
    }

    /// Waits for the lock of the journal; object stores have none.
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
        let begun = Instant::now();
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
            if begun.elapsed() >= wait {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The records that are committed and not applied.
    pub(crate) fn pending(&self) -> Result<Vec<u64>> {
        Ok(self.log_and_pending()?.1)
    }

    fn log_and_pending(&self) -> Result<(u64, Vec<u64>)> {
        if let Some(pinned) = &self.pinned {
            return Ok((pinned.head()?, Vec::new())); // a commit is there as a whole
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

    /// Refuses a store that was replaced by something that does not know its journal.
    fn check_mark(&self) -> Result<()> {
        let Some(text) = self.store.get("zarr.json")? else { return Ok(()) };
        let root: Json = serde_json::from_slice(&text)?;
        match root["attributes"]["zvf"]["journal"].is_null() {
            true => Err(store_replaced(&self.place.to_string())),
            false => Ok(()),
        }
    }

    /// Applies what is committed and not applied; the head. Waits until no process reads.
    pub(crate) fn settle(&self) -> Result<u64> {
        self.apply_pending(None)
    }

    /// The same, where the files of one record are written already.
    fn apply_pending(&self, mut own: Option<(Record, Staged)>) -> Result<u64> {
        let (head, pending) = self.log_and_pending()?;
        if self.pinned.is_none() && head > 0 && to_u64(pending.len()) != head {
            self.check_mark()?;
        }
        if pending.is_empty() {
            return Ok(head);
        }
        let Some(_guard) = self.lock(true, LOCK_WAIT)? else {
            return Err(self.is_busy("is being read or written"));
        };
        let (head, pending) = self.log_and_pending()?;
        for seq in pending {
            if let Some((record, staged)) = own.take_if(|(record, _)| record.seq == seq) {
                self.apply(&record, head, Some(staged))?;
                continue;
            }
            let record = self.record(seq)?;
            let record = record.ok_or_else(|| EditError::new(Class::NotFound, log_key(seq)))?;
            self.apply(&record, head, None)?;
        }
        Ok(head)
    }

    /// Puts the bytes of a record in their places: cells, then indexes, then documents, the root last; what goes, last of all.
    fn apply(&self, record: &Record, head: u64, own: Option<Staged>) -> Result<()> {
        let mut entries: Vec<Entry<'_>> = record.entries().collect();
        entries.sort_by_key(|entry| (entry.new.is_none(), order(entry.key)));
        let staged = format!("txn/{}/new", record.txid());
        let (whole, mut prepared) = match own {
            Some(own) => (own.new, own.prepared),
            None => (self.side.get(&staged)?.unwrap_or_default(), Prepared::new()),
        };
        for class in entries.chunk_by(|a, b| self.is_one_step(a, b)) {
            let mut tries = 0;
            while !self.apply_step(record, class, (&whole, &staged), (head, &mut prepared))? {
                tries += 1;
                if tries == APPLY_TRIES {
                    let text =
                        format!("{}: others change it without a pause; try again", self.place);
                    return Err(EditError::new(Class::Unavailable, text));
                }
            }
        }
        self.store.sync(entries.iter().map(|entry| entry.key))?;
        let done = numbered("done", record.seq);
        // Lost, it is applied again, which has no effect.
        self.side.mark(&done, &Bytes::new())
    }

    /// Whether two keys are put at the same time. In a folder all are: they are renamed in order.
    fn is_one_step(&self, a: &Entry<'_>, b: &Entry<'_>) -> bool {
        let step = |entry: &Entry<'_>| (entry.new.is_none(), order(entry.key));
        match self.store.is_folder() {
            true => a.new.is_none() == b.new.is_none(),
            false => step(a) == step(b),
        }
    }

    /// Puts or removes these keys; false when one of them changed meanwhile.
    fn apply_step(
        &self,
        record: &Record,
        entries: &[Entry<'_>],
        (whole, staged): (&Bytes, &str),
        (head, prepared): (u64, &mut Prepared),
    ) -> Result<bool> {
        let keys: Vec<&str> = entries.iter().map(|entry| entry.key).collect();
        let current = self.store.get_all(&keys)?;
        let (mut puts, mut gone) = (Vec::new(), Vec::new());
        for (entry, current) in entries.iter().zip(current) {
            let now = current.as_ref().map(|current| current.bytes.as_ref());
            // What is to go may be said to be gone once, and be there.
            let is_doubted = entry.new.is_none() && entry.old.is_some() && !self.store.is_folder();
            if entry.is_done(now) && !(is_doubted && self.store.exists(entry.key)?) {
                continue;
            }
            // Without a lock, this one may be slow and others far ahead. Asked after reading: what was read is older than
            // any later record, and is only replaced while it is there.
            let is_before = entry.is_before(now);
            if (!is_before || !self.store.is_folder())
                && self.is_written_later(entry.key, record.seq, head)?
            {
                continue;
            }
            // What is not there at all can be put without overwriting anything.
            if !is_before
                && !self.place.accepts_foreign
                && let Some(now) = now
                && !self.is_of_journal(entry.key, now, head)?
            {
                return Err(foreign_change(entry.key)
                    .with_place(&format!("commit {} stands and is not applied", record.seq)));
            }
            match entry.new {
                Some(span) => {
                    let bytes = span.slice(whole, staged)?;
                    puts.push(Put { key: entry.key, bytes, current });
                }
                None => gone.push(entry.key),
            }
        }
        if !puts.is_empty() && !self.store.replace_all(puts, prepared)? {
            return Ok(false);
        }
        self.store.delete(&gone)?;
        Ok(true)
    }

    /// Whether a later record writes the key: then what is there is for that one to judge.
    fn is_written_later(&self, key: &str, seq: u64, head: u64) -> Result<bool> {
        let mut later = seq + 1;
        loop {
            match self.record(later)? {
                Some(record) if record.entries().any(|entry| entry.key == key) => return Ok(true),
                None if later > head => return Ok(false),
                _ => later += 1,
            }
        }
    }

    /// Whether the bytes are what some commit found or left under the key: a slow writer may have been there.
    fn is_of_journal(&self, key: &str, bytes: &[u8], head: u64) -> Result<bool> {
        if self.store.is_folder() {
            return Ok(false); // there is a lock: no writer without one can be slow
        }
        for seq in (head.saturating_sub(REMEMBERED_COMMITS)..=head).rev() {
            let Some(record) = self.record(seq)? else { continue };
            let known = |entry: Entry<'_>| {
                entry.key == key && (entry.is_done(Some(bytes)) || entry.is_before(Some(bytes)))
            };
            if record.entries().any(known) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What the keys of a record held before it.
    pub(crate) fn read_before(&self, record: &Record) -> Result<HashMap<String, Option<Bytes>>> {
        let staged = format!("txn/{}/old", record.txid());
        let gone = || {
            EditError::unsupported(format!(
                "the bytes before commit {} were removed by gc",
                record.seq
            ))
        };
        let mut before = HashMap::new();
        let mut whole: Option<Bytes> = None;
        for entry in record.entries() {
            let bytes = match entry.old {
                None => None,
                Some(span) => {
                    if whole.is_none() {
                        whole = Some(self.side.get(&staged)?.ok_or_else(gone)?);
                    }
                    let whole = whole.as_ref().ok_or_else(gone)?;
                    Some(span.slice(whole, &staged)?)
                }
            };
            before.insert(entry.key.to_owned(), bytes);
        }
        Ok(before)
    }

    /// Whether what a record kept is still there.
    pub(crate) fn keeps(&self, record: &Record) -> Result<bool> {
        let needed = record.entries().any(|entry| entry.old.is_some());
        Ok(!needed || self.side.exists(&format!("txn/{}/old", record.txid()))?)
    }

    /// Keeps `gc` away from what is about to be staged. On a file system without locks it fails, before anything is
    /// written.
    pub(crate) fn lock_for_staging(&self) -> Result<Guard> {
        self.lock_file("staging", false, LOCK_WAIT)?
            .ok_or_else(|| self.is_busy("is being collected"))
    }

    /// Keeps everybody from staging.
    pub(crate) fn lock_for_gc(&self) -> Result<Guard> {
        self.lock_file("staging", true, LOCK_WAIT)?.ok_or_else(|| self.is_busy("is being written"))
    }

    fn is_busy(&self, what: &str) -> EditError {
        let text =
            format!("{} {what} for longer than {} s; try again", self.place, LOCK_WAIT.as_secs());
        EditError::new(Class::Unavailable, text)
    }

    /// Refuses to write where that is not safe: a backend without conditional puts, unless one writer says that it is alone.
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
            // Another thread that was faster took one as well; the lower one is fenced.
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

    /// Whether an object that is there is not created again.
    pub(crate) fn has_conditions(&self) -> Result<bool> {
        match &self.side {
            Medium::Folder(_) => Ok(true),
            Medium::Objects(objects) => Ok(crate::medium::wait(objects.probe("probe"))?),
        }
    }

    /// The lock of the whole folder, while the first record is made.
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

    /// Waits for the lock of the whole folder; none when another process made the journal meanwhile.
    fn wait_for_target(&self, folder: &KeyedFolder) -> Result<Option<TargetLock>> {
        let begun = Instant::now();
        loop {
            match TargetLock::acquire(folder.disk(), folder.root()) {
                Ok(lock) => return Ok(Some(lock)),
                Err(PublishError::Busy { .. }) if begun.elapsed() < LOCK_WAIT => {}
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

    /// Writes what a commit changes under its own name, so that the record can point at it.
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
                let puts = puts.map(|(key, bytes)| Put { key, bytes, current: None });
                if !self.side.replace_all(puts.collect(), &mut Prepared::new())? {
                    let text = format!("txn/{txid} is there already");
                    return Err(EditError::new(Class::Conflict, text));
                }
                return Ok(Staged { keys, names, new, prepared: Prepared::new() });
            };
            for (name, bytes) in names.iter().zip(bytes) {
                side.disk().create(&side.path(name), &[bytes])?;
            }
            let files =
                changes.iter().filter_map(|(key, bytes)| Some((key.as_str(), bytes.clone()?)));
            Ok(Staged { keys, names, new, prepared: self.store.prepare(files)? })
        };
        stage().inspect_err(|_first| self.unstage(txid))
    }

    /// Removes what was staged for a commit that did not happen.
    pub(crate) fn unstage(&self, txid: &str) {
        // Garbage that stays is for gc.
        let _ = self.side.delete_below(&format!("txn/{txid}"));
    }

    /// Creates the record `seq`; false when there is one. In a folder everything that the commit needs is synced at once,
    /// then the record gets its name.
    pub(crate) fn append(
        &self,
        seq: u64,
        (body, operations): (&Json, &[Json]),
        staged: &Staged,
    ) -> Result<bool> {
        let (key, text) = (log_key(seq), Record::encode(body, operations)?);
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

    /// Applies the record `seq`, whose files were prepared.
    pub(crate) fn apply_own(&self, record: Record, staged: Staged) -> Result<u64> {
        self.apply_pending(Some((record, staged)))
    }

    /// The checksum of a record, for the next to name.
    pub(crate) fn link_to(&self, seq: u64) -> Result<Json> {
        let text = self.side.get(&log_key(seq))?;
        Ok(text.map_or(Json::Null, |text| json!(format!("{:08x}", crc32c::crc32c(&text)))))
    }

    /// Keys that are not what the last commit that wrote them wrote, of the commits after `from`.
    pub(crate) fn find_foreign(&self, from: u64, keys: &BTreeSet<&str>) -> Result<Option<String>> {
        let mut last: HashMap<String, Option<Span>> = HashMap::new();
        for seq in from + 1..=self.head()? {
            for entry in self.record(seq)?.iter().flat_map(Record::entries) {
                last.insert(entry.key.to_owned(), entry.new);
            }
        }
        for (key, span) in last.into_iter().filter(|(key, _)| keys.contains(key.as_str())) {
            let now = self.store.get(&key)?;
            let entry = Entry { key: &key, new: span, old: None };
            if !entry.is_done(now.as_deref()) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }
}

pub(crate) fn log_key(seq: u64) -> String {
    numbered("log", seq)
}

fn numbered(folder: &str, seq: u64) -> String {
    format!("{folder}/{seq:020}")
}

/// The order in which keys are put, so that no reader finds a reference to something missing.
fn order(key: &str) -> u8 {
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

/// How long a writer waits for readers and other writers.
const LOCK_WAIT: Duration = Duration::from_secs(30);

/// Commits whose bytes are known again.
const REMEMBERED_COMMITS: u64 = 32;

/// How often keys that others put at the same time are looked at again.
const APPLY_TRIES: usize = 20;

/// The bytes of an object that a list named.
pub(crate) fn need_listed(key: &str, bytes: Option<Bytes>) -> Result<Bytes> {
    bytes.ok_or_else(|| {
        let text = format!("{key}: expected the object that was listed, found none; try again");
        EditError::new(Class::FileChanged, text)
    })
}
