//! The journal of a store: a write-ahead log that orders commits and keeps the old bytes for undo.
//!
//! ```text
//! <root>.zvf/lock              folders: flock, exclusive while a record is applied, shared while files are copied
//! <root>.zvf/staging           folders: flock, shared while a commit is staged, exclusive while gc removes staged files
//! <root>.zvf/txn/<txid>/new    the new bytes of every changed key, concatenated
//! <root>.zvf/txn/<txid>/old    the old bytes of these keys
//! <root>.zvf/txn/<txid>/accepted/<key>    bytes of another program that took the place of the old ones before the commit was
//!                              applied, and were accepted
//! <root>.zvf/log/<seq>         the record, which is the commit point: created only if absent; 20 digits
//! <root>.zvf/done/<seq>        marks a record that is applied to the store
//! <root>.zvf/epoch/<E>-<txid>  the epoch of a single writer
//! <root>.zvf/probe             tests whether the backend has conditional puts
//! ```
//!
//! A commit stages its bytes, syncs them, and creates the next record of the log. In a folder it
//! also writes the files of the store before the record, and renames them after it, so that a full
//! disk fails before the commit point. After the commit point, every process that opens the store
//! for writing applies the pending records in order (`apply`).
//!
//! In a folder the first record is created under the target lock, so that a command that replaces the whole folder cannot
//! miss a new journal.
//!
//! Not here: what the keys mean; how records are applied (`apply`); reads at a head (`snapshot`);
//! fencing of writers (`epoch`).

use std::collections::{BTreeSet, HashMap};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_publish::{PublishError, TargetIdentity, TargetLock};
use zvf_store::Key;
use zvf_store::record::{CommitRecord, JOURNAL_VERSION, RecordKey, StagedSpan, check_journal_mark};

use crate::changes::{Blob, Changes, KeyContents};
use crate::epoch::Epoch;
use crate::error::{At, EditError, OrFail, Result, fail, replaced_store_error, unsupported};
use crate::medium::{Medium, PreparedFiles, PutRequest};
use crate::place::Place;
use crate::versions::Pinned;

/// A store with its journal.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) place: Place,
    pub(crate) store: Medium,
    pub(crate) side: Medium,
    /// The exclusive right to write, once it was taken.
    epoch: OnceLock<Option<Epoch>>,
    /// The folder that a first commit is planned on: until there is a journal, any program may
    /// replace it.
    planned_on: Mutex<Option<TargetIdentity>>,
    /// The version that is read, where the store lies in a repository of versions, which then has the history.
    pub(crate) pinned: Option<Pinned>,
}

/// The staged files of a commit before its commit point.
pub(crate) struct Staged {
    /// The entries of the record, one for each key.
    pub(crate) keys: Vec<RecordKey>,
    names: [String; 2],
    pub(crate) new: Blob,
    pub(crate) prepared: PreparedFiles,
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
        Self::at(place, place.versions().map(Pinned::open_latest).transpose()?)
    }

    /// Opens the journal of a store, at a version where it lies in a repository.
    fn at(place: &Place, pinned: Option<Pinned>) -> Result<Self> {
        let (store, side) = match &pinned {
            Some(pinned) => pinned.open_media(&place.options)?,
            None => place.open_media()?,
        };
        let (place, epoch, planned_on) = (place.clone(), OnceLock::new(), Mutex::default());
        Ok(Self { place, store, side, epoch, planned_on, pinned })
    }

    /// Opens the journal at the version of an earlier head. Outside of repositories it is the same journal.
    pub(crate) fn open_at(&self, number: u64) -> Result<Self> {
        let pinned = self.pinned.as_ref().map(|pinned| pinned.open_at(number));
        Self::at(&self.place, pinned.transpose()?)
    }

    /// Opens the journal at the latest version of a repository. Outside of repositories it is the same journal.
    pub(crate) fn reopen(self: &Arc<Self>) -> Result<Arc<Self>> {
        match &self.pinned {
            Some(_) => Ok(Arc::new(Self::open(&self.place)?)),
            None => Ok(Arc::clone(self)),
        }
    }

    /// Returns the number of the last record; 0 before the first.
    pub(crate) fn head(&self) -> Result<u64> {
        if let Some(pinned) = &self.pinned {
            return pinned.head();
        }
        Ok(self.list_numbers("log")?.last().copied().unwrap_or(0)) // 0 before the first commit
    }

    /// Lists the numbers of the files in `log` or `done`. Refuses one that none can follow.
    pub(crate) fn list_numbers(&self, folder: &str) -> Result<Vec<u64>> {
        let mut numbers: Vec<u64> =
            self.side.list(folder)?.iter().filter_map(|name| name.parse().ok()).collect();
        let mut last = numbers.last().copied().unwrap_or(0); // 0 before the first
        if last == u64::MAX {
            let text = format!("{folder}/{last}: expected a number that another can follow");
            return fail(Class::OutOfBounds, text);
        }
        // The listing of a backend may be stale, so the numbers after its last one are probed by
        // name.
        while !self.side.is_folder() && self.side.exists(&numbered_key(folder, last + 1))? {
            last += 1;
            numbers.push(last);
        }
        Ok(numbers)
    }

    pub(crate) fn has_record(&self, seq: u64) -> Result<bool> {
        self.side.exists(&log_key(seq))
    }

    pub(crate) fn read_record(&self, seq: u64) -> Result<Option<CommitRecord>> {
        let text = self.side.get(&log_key(seq))?;
        Ok(text.map(|text| CommitRecord::parse(seq, &text)).transpose()?)
    }

    /// Reads records. Refuses a missing one; with `may_begin_later` only after the first that is
    /// there, as the oldest ones of a log may have been removed by hand. Whoever applies or undoes
    /// commits needs all of them; whoever compares bytes with recent ones can go without the oldest.
    pub(crate) fn read_records(
        &self,
        seqs: &[u64],
        may_begin_later: bool,
    ) -> Result<Vec<CommitRecord>> {
        let keys: Vec<String> = seqs.iter().map(|seq| log_key(*seq)).collect();
        let texts = self.side.get_all(&keys.iter().map(String::as_str).collect::<Vec<_>>())?;
        let texts: Vec<_> = texts.into_iter().map(|found| Some(found?.bytes)).collect();
        let first = texts.iter().position(Option::is_some).filter(|_| may_begin_later);
        let records = seqs.iter().zip(texts).skip(first.unwrap_or(0)); // without any, the first is missing
        let parse = |(seq, text): (&u64, _)| {
            Ok(CommitRecord::parse(*seq, &need_listed(&log_key(*seq), text)?)?)
        };
        records.map(parse).collect()
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
        let start = Instant::now();
        loop {
            match side.disk().try_lock(&file, !exclusive) {
                Ok(()) => return Ok(Some(Guard { _file: Some(file) })),
                Err(TryLockError::WouldBlock) => {}
                // Where files have no locks, or none for this process, readers compare what they
                // read with the log.
                Err(TryLockError::Error(_)) if !exclusive && name == "lock" => return Ok(None),
                Err(TryLockError::Error(error)) => {
                    let text = format!(
                        "the file system of {} has no locks ({error}); edit a copy on a local disk",
                        path.display()
                    );
                    return unsupported(text);
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

    /// Refuses a store that another program replaced without its journal, and the journal of a
    /// newer version.
    pub(crate) fn check_mark(&self) -> Result<()> {
        let Some(text) = self.store.get("zarr.json")? else { return Ok(()) };
        let root: Json = serde_json::from_slice(&text)?;
        match root["attributes"]["zvf"]["journal"].is_null() {
            true => Err(replaced_store_error(&self.place.to_string())),
            false => self.check_version(&root),
        }
    }

    /// Refuses the journal of a newer version, by the mark in the root document.
    pub(crate) fn check_version(&self, root: &Json) -> Result<()> {
        let checked = check_journal_mark(&root["attributes"]["zvf"]["journal"]);
        checked.at(&self.place.to_string())
    }

    /// Marks the root document of a store that has a journal, unless a repository has the history.
    pub(crate) fn mark(&self, root: &mut Json) {
        if self.pinned.is_none() {
            root["attributes"]["zvf"]["journal"] = json!(JOURNAL_VERSION);
        }
    }

    /// Reads the old bytes of the keys of a record.
    pub(crate) fn read_before(&self, record: &CommitRecord) -> Result<KeyContents> {
        let staged = record.staged("old");
        let mut before = KeyContents::new();
        let needed = record.keys.iter().any(|entry| entry.old.is_some());
        let old_bytes = match needed {
            true => self.side.open(&staged)?.hold_few()?,
            false => Blob::Held(Bytes::new()),
        };
        if needed && old_bytes.len() == 0 && !self.side.exists(&staged)? {
            return unsupported(format!(
                "the bytes before commit {} were removed by gc",
                record.seq
            ));
        }
        for entry in &record.keys {
            let old = entry.old.map(|span| old_bytes.span(span, &staged));
            before.insert(entry.key.to_string(), old.transpose()?);
        }
        let accepted = record.staged("accepted");
        for listed in self.side.walk(&accepted)? {
            if let Some(key) = listed.strip_prefix(&accepted).and_then(|key| key.strip_prefix('/'))
            {
                before.insert(key.to_owned(), Some(self.side.open(&listed)?.hold_few()?));
            }
        }
        Ok(before)
    }

    /// Returns whether the old bytes of a record still exist.
    pub(crate) fn has_old_bytes(&self, record: &CommitRecord) -> Result<bool> {
        let needed = record.keys.iter().any(|entry| entry.old.is_some());
        Ok(!needed || self.side.exists(&record.staged("old"))?)
    }

    /// Keeps `gc` from removing files while a commit is staged. Fails on a file system without locks, before anything is
    /// written.
    pub(crate) fn lock_for_staging(&self) -> Result<Guard> {
        self.lock_file("staging", false, LOCK_TIMEOUT)?
            .ok_or_else(|| self.busy_error("is being collected"))
    }

    /// Keeps writers from staging commits. Returns `None` while one of them does.
    pub(crate) fn lock_for_gc(&self) -> Result<Option<Guard>> {
        self.lock_file("staging", true, GC_TIMEOUT)
    }

    pub(crate) fn busy_error(&self, what: &str) -> EditError {
        let seconds = LOCK_TIMEOUT.as_secs();
        let text = format!("{} {what} for longer than {seconds} s; try again", self.place);
        EditError::new(Class::Unavailable, text)
    }

    /// Refuses to write to a backend without conditional puts, unless the caller declares a single writer.
    pub(crate) fn begin_writing(&self) -> Result<Option<&Epoch>> {
        if let Some(pinned) = &self.pinned {
            return match pinned.versions.read_only_reason() {
                None => Ok(None),
                Some(reason) => unsupported(format!("{}: {reason}", self.place)),
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

    /// Refuses a backend that does not refuse to create an object that exists, and to replace one
    /// that was changed.
    fn need_conditions(&self) -> Result<()> {
        let has_conditions = match &self.side {
            Medium::Objects(objects) if !self.place.trusts_conditions => {
                crate::medium::block_on(objects.probe("probe"))?
            }
            Medium::Objects(_) | Medium::Folder(_) => true,
        };
        if has_conditions {
            return Ok(());
        }
        unsupported(format!(
            "{}: the backend does not refuse to create an object that is there, or to replace one that was changed, so that two writers could overwrite each other; give --single-writer while no other process writes",
            self.place
        ))
    }

    /// Notes the folder that is read from now on, for a first commit.
    pub(crate) fn note_planned(&self) -> Result<()> {
        let identity = self.read_identity()?;
        *self.planned_on.lock().unwrap_or_else(PoisonError::into_inner) = identity;
        Ok(())
    }

    /// Returns whether the folder is still the one that [`note_planned`](Self::note_planned) noted.
    pub(crate) fn is_as_planned(&self) -> Result<bool> {
        let planned_on = *self.planned_on.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(planned_on == self.read_identity()?)
    }

    /// Refuses a folder that replaced the noted one: bytes of both must not be mixed.
    pub(crate) fn check_in_place(&self) -> Result<()> {
        let planned_on = *self.planned_on.lock().unwrap_or_else(PoisonError::into_inner);
        match self.store.folder().zip(planned_on) {
            Some((folder, noted)) if !noted.is_at(folder.root()) => {
                let text = format!("{}: it was replaced while it was read; try again", self.place);
                Err(EditError::new(Class::Conflict, text))
            }
            _ => Ok(()),
        }
    }

    fn read_identity(&self) -> Result<Option<TargetIdentity>> {
        let Some(folder) = self.store.folder() else { return Ok(None) };
        Ok(TargetIdentity::read(folder.root(), "zarr.json")?)
    }

    /// Waits for the lock of the whole folder, which is held while the first record is created.
    /// Returns `None` where there is a record, which another process may create meanwhile.
    pub(crate) fn lock_for_first(&self) -> Result<Option<TargetLock>> {
        let Some(folder) = self.store.folder() else { return Ok(None) };
        let start = Instant::now();
        loop {
            // The folder of the log may hold no more than a temporary file of a killed process.
            if self.head()? > 0 {
                return Ok(None);
            }
            if folder.root().file_name().is_none() {
                return unsupported(format!(
                    "{}: the folder has no name to put a journal beside; call it by its full path",
                    self.place
                ));
            }
            match TargetLock::acquire(folder.disk(), folder.root()) {
                Ok(lock) => return Ok(Some(lock)),
                Err(PublishError::Busy { .. }) if start.elapsed() < LOCK_TIMEOUT => {}
                Err(error @ PublishError::Busy { .. }) => {
                    let text = format!("{}: {error}; try again", self.place);
                    return fail(Class::Conflict, text);
                }
                Err(error) => return Err(error.into()),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Writes the new and old bytes of a commit to staged files, which its record refers to.
    pub(crate) fn stage(&self, txid: &str, changes: &Changes, old: &Changes) -> Result<Staged> {
        let names = ["new", "old"].map(|side| format!("txn/{txid}/{side}"));
        let len = to_u64(changes.byte_len() + old.byte_len());
        let folder = self.side.folder();
        let stage = || -> Result<Staged> {
            if folder.is_none() && len > MAX_HELD_BYTES {
                let (place, most) = (&self.place, MAX_HELD_BYTES >> 30);
                let text = format!(
                    "{place}: more than {most} GiB differ, too much for one commit; write to a new store instead"
                );
                return fail(Class::LimitExceeded, text);
            }
            let (keys, new) = if let Some(side) = folder.filter(|_| len > MAX_BUFFERED_BYTES) {
                side.disk().make_dirs(&side.path(&format!("txn/{txid}")))?;
                let paths = names.each_ref().map(|name| side.path(name));
                let create = |path| side.disk().open_new(path, false);
                let mut files = [create(&paths[0])?, create(&paths[1])?];
                let keys = stage_keys([changes, old], &mut files)?;
                for (file, path) in files.iter().zip(&paths) {
                    side.disk().finish(file, path, false)?;
                }
                let [new, _] = files;
                (keys, Blob::Written(Arc::new(Mutex::new(new)), 0, changes.byte_len()))
            } else {
                let mut bytes = [Vec::new(), Vec::new()];
                let keys = stage_keys([changes, old], &mut bytes)?;
                let blobs = bytes.map(|bytes| Blob::Held(bytes.into()));
                let new = blobs[0].clone();
                if let Some(side) = folder {
                    for (name, blob) in names.iter().zip(blobs) {
                        side.disk().create(&side.path(name), &[blob.read()?])?;
                    }
                } else {
                    let puts = names.iter().zip(blobs);
                    let puts = puts.map(|(key, bytes)| PutRequest { key, bytes, version: None });
                    let (puts, prepared) = (puts.collect(), &mut PreparedFiles::new());
                    if !self.side.replace_all(puts, prepared, false, None)? {
                        return fail(Class::Conflict, format!("txn/{txid} is there already"));
                    }
                }
                (keys, new)
            };
            Ok(Staged { keys, names, new, prepared: self.store.prepare_files(changes)? })
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
        let (key, text) = (log_key(seq), CommitRecord::encode(body, operations));
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

    /// Returns the checksum of a record, to which the next record links; null where there is none.
    pub(crate) fn record_checksum(&self, seq: u64) -> Result<Json> {
        let text = self.side.get(&log_key(seq))?;
        Ok(text.map_or(Json::Null, |text| json!(format!("{:08x}", crc32c::crc32c(&text)))))
    }

    /// Finds one of `keys` that does not hold the bytes of the last commit that wrote it, among the commits after `from`.
    pub(crate) fn find_foreign(&self, from: u64, keys: &BTreeSet<&str>) -> Result<Option<String>> {
        let mut last: HashMap<Key, Option<StagedSpan>> = HashMap::new();
        let seqs: Vec<u64> = (from + 1..=self.head()?).collect();
        for record in self.read_records(&seqs, false)? {
            last.extend(record.keys.into_iter().map(|entry| (entry.key, entry.new)));
        }
        for (key, span) in last.into_iter().filter(|(key, _)| keys.contains(key.as_str())) {
            if !StagedSpan::matches(span, self.store.get(key.as_str())?.as_deref()) {
                return Ok(Some(key.to_string()));
            }
        }
        Ok(None)
    }
}

/// Maximum bytes of a commit to an object store, old and new, which are held to be put.
const MAX_HELD_BYTES: u64 = 8 << 30;
/// Up to so many bytes, old and new, are written to a folder at once.
const MAX_BUFFERED_BYTES: u64 = 64 << 10;

/// Writes the new and old bytes of every key, one after the other. Returns the entries of the record.
fn stage_keys<W: Write>(sides: [&Changes; 2], to: &mut [W; 2]) -> Result<Vec<RecordKey>> {
    let (mut ends, mut entries) = ([0, 0], Vec::new());
    for key in sides[0].keys.keys() {
        let mut stage = |side: usize| -> Result<Option<StagedSpan>> {
            let Some(bytes) = sides[side].get(key)?.flatten() else { return Ok(None) };
            let span = StagedSpan::of(&bytes, ends[side]);
            to[side].write_all(&bytes)?;
            ends[side] += span.len;
            Ok(Some(span))
        };
        let (new, old) = (stage(0)?, stage(1)?);
        entries.push(RecordKey { key: Key::root().join(key)?, new, old });
    }
    Ok(entries)
}

pub(crate) fn log_key(seq: u64) -> String {
    numbered_key("log", seq)
}

pub(crate) fn numbered_key(folder: &str, seq: u64) -> String {
    format!("{folder}/{seq:020}")
}

/// How long a writer waits for a lock.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// How long `gc` waits for those who stage, of whom a rewrite may take hours.
const GC_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns what an object that a listing named holds, or refuses a missing one.
pub(crate) fn need_listed<T>(key: &str, found: Option<T>) -> Result<T> {
    found.or_fail(Class::FileChanged, || {
        format!("{key}: expected the object that was listed, found none; try again")
    })
}
