//! The journal of a store in a folder: who may change it, in which order, and what was there before.
//!
//! ```text
//! <root>.zvf/lock              flock: exclusive while a record is applied, shared while somebody reads
//! <root>.zvf/txn/<txid>/new    the new bytes of every changed key, one after the other
//! <root>.zvf/txn/<txid>/old    the bytes they had before
//! <root>.zvf/log/<seq>         the commit point: created only if absent; 20 digits
//! <root>.zvf/done/<seq>        applied to the store
//! ```
//!
//! A commit stages its bytes, syncs them, and creates the next record of the log. From then on it is decided: whoever
//! opens the store for writing applies what is committed and not done, in order, under the lock. A transaction reads as
//! of its head: the bytes of a key that a later record changes are taken from what that record kept.
//!
//! Not here: what the keys mean.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value as Json, json};
use zvf_format::Class;

use crate::error::{EditError, Result};
use crate::files::Folder;

/// New bytes by key; none removes the key.
pub(crate) type Changes = BTreeMap<String, Option<Bytes>>;

/// The store and its journal.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    pub(crate) store: Folder,
    pub(crate) side: Folder,
}

/// One record of the log.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) seq: u64,
    pub(crate) body: Json,
}

/// A span of a staged file.
#[derive(Clone, Debug)]
struct Span {
    offset: u64,
    len: u64,
    crc: u32,
}

impl Record {
    pub(crate) fn txid(&self) -> &str {
        self.body["txid"].as_str().unwrap_or_default()
    }

    pub(crate) fn written(&self) -> Vec<String> {
        let list = self.body["written"].as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    }

    fn keys(&self) -> &[Json] {
        self.body["keys"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    fn span(entry: &Json, side: &str) -> Option<Span> {
        let span = entry.get(side)?;
        let number = |name: &str| span.get(name)?.as_u64();
        let crc = u32::try_from(number("crc")?).ok()?;
        Some(Span { offset: number("offset")?, len: number("len")?, crc })
    }

    fn parse(seq: u64, text: &[u8]) -> Result<Self> {
        let damaged = || {
            EditError::new(
                Class::Checksum,
                format!(
                    "log/{seq:020}: the record is damaged; restore it from a copy, or remove the journal to give up the history"
                ),
            )
        };
        let text = std::str::from_utf8(text).map_err(|_bad| damaged())?;
        let (body, sum) = text.trim_end().rsplit_once('\n').ok_or_else(damaged)?;
        if format!("{:08x}", crc32c::crc32c(body.as_bytes())) != sum {
            return Err(damaged());
        }
        let body: Json = serde_json::from_str(body)?;
        Ok(Self { seq, body })
    }
}

/// The lock of a journal, held until it is dropped.
#[derive(Debug)]
pub struct Guard {
    _file: File,
}

impl Journal {
    /// The journal of the store in the folder `store`.
    pub(crate) fn beside(store: &Path) -> Self {
        let store = store.components().as_path().to_owned();
        let mut name = store.file_name().unwrap_or_default().to_owned();
        name.push(".zvf");
        let side = store.parent().map_or_else(|| PathBuf::from(&name), |parent| parent.join(&name));
        Self { store: Folder::new(store), side: Folder::new(side) }
    }

    /// The number of the last record, 0 before the first.
    pub(crate) fn head(&self) -> Result<u64> {
        Ok(self.numbers("log")?.last().copied().unwrap_or(0))
    }

    /// The numbers of the records that are there.
    pub(crate) fn numbers(&self, folder: &str) -> Result<Vec<u64>> {
        Ok(self.side.list(folder)?.iter().filter_map(|name| name.parse().ok()).collect())
    }

    pub(crate) fn record(&self, seq: u64) -> Result<Option<Record>> {
        let text = self.side.get(&log_key(seq))?;
        text.map(|text| Record::parse(seq, &text)).transpose()
    }

    /// Waits for the lock of the journal.
    pub(crate) fn lock(&self, exclusive: bool, wait: Duration) -> Result<Option<Guard>> {
        std::fs::create_dir_all(self.side.root())?;
        let path = self.side.path("lock");
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
                Ok(()) => return Ok(Some(Guard { _file: file })),
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
        let done = self.numbers("done")?;
        let mut log = self.numbers("log")?;
        log.retain(|seq| done.binary_search(seq).is_err());
        Ok(log)
    }

    /// Applies what is committed and not applied. Waits for whoever reads.
    pub(crate) fn settle(&self) -> Result<()> {
        if self.pending()?.is_empty() {
            return Ok(());
        }
        let Some(_guard) = self.lock(true, LOCK_WAIT)? else {
            let text = format!(
                "{} is being read or written for longer than {} s; try again",
                self.store.root().display(),
                LOCK_WAIT.as_secs()
            );
            return Err(EditError::new(Class::Unavailable, text));
        };
        for seq in self.pending()? {
            let record = self.record(seq)?;
            let record = record.ok_or_else(|| EditError::new(Class::NotFound, log_key(seq)))?;
            self.apply(&record)?;
        }
        Ok(())
    }

    /// Puts the bytes of a record in their places: cells, then indexes, then documents, the root last; what goes, last of all.
    fn apply(&self, record: &Record) -> Result<()> {
        let staged = format!("txn/{}/new", record.txid());
        let mut puts: Vec<(&str, Option<Span>)> = Vec::new();
        for entry in record.keys() {
            let key = entry["key"].as_str().unwrap_or_default();
            puts.push((key, Record::span(entry, "new")));
        }
        puts.sort_by_key(|(key, span)| (span.is_none(), order(key)));
        let whole = self.side.get(&staged)?.unwrap_or_default();
        for (key, span) in &puts {
            match span {
                None => self.store.delete(key)?,
                Some(span) => {
                    let bytes = slice(&whole, span, &staged)?;
                    let same = self.store.get(key)?.is_some_and(|now| now == bytes);
                    if !same {
                        self.store.put(key, &bytes)?;
                    }
                }
            }
        }
        self.store.sync_folders(puts.iter().map(|(key, _)| *key))?;
        let done = format!("done/{:020}", record.seq);
        self.side.create(&done, b"")?;
        Ok(())
    }

    /// What the keys of a record held before it.
    pub(crate) fn before(&self, record: &Record) -> Result<HashMap<String, Option<Bytes>>> {
        let staged = format!("txn/{}/old", record.txid());
        let gone = || {
            EditError::unsupported(format!(
                "the bytes before commit {} were removed by gc",
                record.seq
            ))
        };
        let mut before = HashMap::new();
        let mut whole: Option<Bytes> = None;
        for entry in record.keys() {
            let key = entry["key"].as_str().unwrap_or_default().to_owned();
            let bytes = match Record::span(entry, "old") {
                None => None,
                Some(span) => {
                    if whole.is_none() {
                        whole = Some(self.side.get(&staged)?.ok_or_else(gone)?);
                    }
                    let whole = whole.as_ref().ok_or_else(gone)?;
                    Some(slice(whole, &span, &staged)?)
                }
            };
            before.insert(key, bytes);
        }
        Ok(before)
    }

    /// Whether what a record kept is still there.
    pub(crate) fn keeps(&self, record: &Record) -> bool {
        let needed = record.keys().iter().any(|entry| Record::span(entry, "old").is_some());
        !needed || self.side.exists(&format!("txn/{}/old", record.txid()))
    }

    /// Writes what a commit changes under its own name, so that the record can point at it.
    pub(crate) fn stage(
        &self,
        txid: &str,
        changes: &Changes,
        old: &HashMap<String, Option<Bytes>>,
    ) -> Result<Vec<Json>> {
        std::fs::create_dir_all(self.side.path("log"))?;
        std::fs::create_dir_all(self.side.path("done"))?;
        let (mut new_bytes, mut old_bytes) = (Vec::new(), Vec::new());
        let mut keys = Vec::new();
        for (key, bytes) in changes {
            let mut entry = json!({ "key": key });
            if let Some(bytes) = bytes {
                entry["new"] = append(&mut new_bytes, bytes);
            }
            if let Some(Some(bytes)) = old.get(key) {
                entry["old"] = append(&mut old_bytes, bytes);
            }
            keys.push(entry);
        }
        let staged = |side: &str| format!("txn/{txid}/{side}");
        let stage = || -> Result<()> {
            self.side.put(&staged("new"), &new_bytes)?;
            self.side.put(&staged("old"), &old_bytes)?;
            self.side.sync_folders([staged("new").as_str()].into_iter())
        };
        stage().inspect_err(|_first| self.unstage(txid))?;
        Ok(keys)
    }

    /// Removes what was staged for a commit that did not happen.
    pub(crate) fn unstage(&self, txid: &str) {
        // Garbage that stays is for gc.
        let _ = self.side.delete_folder(&format!("txn/{txid}"));
    }

    /// Creates the record `seq`; false when there is one.
    pub(crate) fn append(&self, seq: u64, body: &Json) -> Result<bool> {
        let text = serde_json::to_string(body)?;
        let text = format!("{text}\n{:08x}\n", crc32c::crc32c(text.as_bytes()));
        let key = log_key(seq);
        let won = self.side.create(&key, text.as_bytes())?;
        if won {
            self.side.sync_folders([key.as_str()].into_iter())?;
        }
        Ok(won)
    }

    /// The checksum of a record, for the next to name.
    pub(crate) fn link_to(&self, seq: u64) -> Result<Json> {
        let text = self.side.get(&log_key(seq))?;
        Ok(text.map_or(Json::Null, |text| json!(format!("{:08x}", crc32c::crc32c(&text)))))
    }
}

/// What a store held at one head, whatever is committed since.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) journal: Arc<Journal>,
    pub(crate) head: u64,
    later: RefCell<Later>,
    cache: RefCell<HashMap<String, Option<Bytes>>>,
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
        journal.settle()?;
        let head = journal.head()?;
        let later = RefCell::new(Later { seen: head, before: HashMap::new() });
        Ok(Self {
            journal: Arc::clone(journal),
            head,
            later,
            cache: RefCell::default(),
            read: Cell::new(0),
        })
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
            let bytes = self.journal.store.get(key)?;
            // The record is there before the first changed byte: asked after reading, it tells whether the bytes are too new.
            if !self.look_ahead()? {
                self.read.set(self.read.get() + bytes.as_ref().map_or(0, Bytes::len) as u64);
                if self.read.get() < CACHE {
                    self.cache.borrow_mut().insert(key.to_owned(), bytes.clone());
                }
                return Ok(bytes);
            }
        }
    }

    /// Takes in a record that was committed since; whether there was one.
    fn look_ahead(&self) -> Result<bool> {
        let next = self.later.borrow().seen + 1;
        if !self.journal.side.exists(&log_key(next)) {
            return Ok(false);
        }
        let Some(record) = self.journal.record(next)? else { return Ok(false) };
        let before = self.journal.before(&record)?;
        let mut later = self.later.borrow_mut();
        later.seen = next;
        for (key, bytes) in before {
            later.before.entry(key).or_insert(bytes);
        }
        Ok(true)
    }
}

pub(crate) fn log_key(seq: u64) -> String {
    format!("log/{seq:020}")
}

fn append(all: &mut Vec<u8>, bytes: &Bytes) -> Json {
    let offset = all.len();
    all.extend_from_slice(bytes);
    json!({ "offset": offset, "len": bytes.len(), "crc": crc32c::crc32c(bytes) })
}

fn slice(whole: &Bytes, span: &Span, staged: &str) -> Result<Bytes> {
    let from = usize::try_from(span.offset).unwrap_or(usize::MAX); // no file is that long
    let to = from.saturating_add(usize::try_from(span.len).unwrap_or(usize::MAX));
    if to > whole.len() {
        return Err(EditError::new(
            Class::Truncated,
            format!("{staged}: need {to} bytes, found {}", whole.len()),
        ));
    }
    let bytes = whole.slice(from..to);
    if crc32c::crc32c(&bytes) != span.crc {
        return Err(EditError::new(
            Class::Checksum,
            format!("{staged}: bytes {from}..{to} are not those of the record"),
        ));
    }
    Ok(bytes)
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

/// A name that no other transaction has.
pub(crate) fn new_txid() -> String {
    let random = || {
        let mut bytes = [0_u8; 16];
        let filled = File::open("/dev/urandom")
            .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes));
        filled.map(|()| u128::from_le_bytes(bytes))
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let mixed = now ^ (u128::from(std::process::id()) << 96);
    format!("{:032x}", random().unwrap_or(mixed))
}

/// Bytes that a snapshot keeps of what it read.
const CACHE: u64 = 256 << 20;

/// How long a writer waits for readers and other writers.
const LOCK_WAIT: Duration = Duration::from_secs(30);
