//! A store with a journal, read at one of its commits.
//!
//! ```text
//! <root>.zvf/log/<seq>        the record of a commit: each changed key, with spans of its new and old bytes
//! <root>.zvf/done/<seq>       marks a commit that is applied to the store
//! <root>.zvf/txn/<txid>/new   the new bytes of all keys;   old: what they replaced
//! ```
//!
//! Everything is read as of the last commit at the time of opening, whether or not it has been
//! applied:
//!
//! ```text
//! a commit not applied        its keys are read from `new`
//! a commit made since         its keys are read from `old`: the record is there before the first byte changes, so a look for
//!                             the next record after each read tells whether what was read may be too new
//! a recent one, on a backend  its keys are read from `new` where the store has other bytes: a slow writer put them back
//! ```
//!
//! Readers take no lock and write nothing. If `gc` removed needed bytes, the error is
//! `FileChanged`: open the store again.
//!
//! Not here: writing and applying commits (`zvf-edit`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_recursion::async_recursion as boxed;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::Class;
use zvf_publish::PublishError;

use super::Local;
use super::plan::{Read, cut};
use super::{ByteRange, Child, Get, GetAnswer, IoStats, Origin, PartialRead, Remote, Version};
use crate::budget::Budget;
use crate::error::WithOp as _;
use crate::key::Key;
use crate::options::OpenOptions;
use crate::record::{CommitRecord, RECENT_COMMITS, RecordKey, StagedSpan};
use crate::sync::lock;

/// A store at one of its commits.
#[derive(Debug)]
pub(crate) struct Journaled {
    base: Origin,
    side: Side,
    head: u64,
    seen: Mutex<Seen>,
    /// The number of checks for the next record that were begun, and the number of the last
    /// finished one.
    begun_looks: AtomicU64,
    last_look: tokio::sync::Mutex<u64>,
}

/// The location of the journal.
#[derive(Debug)]
enum Side {
    /// A folder, which may not exist yet.
    Folder(PathBuf, Budget),
    Objects(Remote),
}

/// The state derived from the records read so far.
#[derive(Debug, Default)]
struct Seen {
    /// The number of the last record.
    last: u64,
    keys: BTreeMap<Key, Staged>,
}

/// A key that is not simply read from the store.
#[derive(Clone, Debug)]
struct Staged {
    file: Key,
    /// Its bytes at the head; `None` if there is no such object.
    span: Option<StagedSpan>,
    when: When,
}

#[derive(Clone, Debug)]
enum When {
    /// Changed by an applied commit. The store has the bytes, unless a slow writer changed them.
    Applied,
    /// Changed by unapplied commits. In a folder, the store has one of these, unless another
    /// program changed it.
    Pending(Vec<Option<StagedSpan>>),
    /// Changed by a commit after the head.
    Later,
}

impl Journaled {
    /// Returns the store in a folder at its last commit. A folder without commits is read in the
    /// same way.
    pub(crate) async fn open_folder(local: Local, commit: Option<u64>) -> Result<Origin> {
        let folder = match zvf_publish::journal_folder(local.path()) {
            Ok(folder) => folder,
            // The root of a file system has no sibling.
            Err(PublishError::NoName(_)) => return Ok(Origin::Local(local)),
            Err(error) => return Err(error.into()),
        };
        let side = Side::Folder(folder, local.budget().clone());
        Self::open(Origin::Local(local), side, commit).await
    }

    /// Returns a store whose root document states that it has a journal, at its last commit;
    /// without the journal if it cannot be listed or must not be read.
    pub(crate) async fn open_objects(remote: Remote, options: &OpenOptions) -> Result<Origin> {
        match remote.beside(".zvf", options).filter(Remote::can_list) {
            None => Ok(Origin::Remote(remote)),
            Some(side) => {
                let (base, side) = (Origin::Remote(remote.clone()), Side::Objects(side));
                let opened = Self::open(base, side, options.commit).await;
                match opened {
                    Err(error) if error.class() == Class::PermissionDenied => {
                        Ok(Origin::Remote(remote))
                    }
                    opened => opened,
                }
            }
        }
    }

    async fn open(base: Origin, side: Side, commit: Option<u64>) -> Result<Origin> {
        let (seen, last_look) = (Mutex::default(), tokio::sync::Mutex::default());
        let mut opened =
            Self { base, side, head: 0, seen, begun_looks: AtomicU64::new(0), last_look };
        let is_backend = !opened.side.is_folder();
        let list = |folder| opened.side.list_numbers(folder);
        let (mut log, done) = match is_backend {
            true => futures_util::try_join!(list("log"), list("done"))?,
            false => match list("log").await? {
                log if log.is_empty() => (log, Vec::new()),
                log => (log, list("done").await?),
            },
        };
        let mut head = log.last().copied().unwrap_or(0); // 0 before the first commit
        let is_done = |seq: u64| done.binary_search(&seq).is_ok();
        // Marks may be lost: a later applied commit shows that earlier ones were applied.
        let pending = log.iter().copied().find(|seq| !is_done(*seq));
        let recent = is_backend.then(|| head.saturating_sub(RECENT_COMMITS - 1));
        // Of an earlier commit, those that follow are read for the bytes that they replaced.
        let later = commit.and_then(|commit| commit.checked_add(1));
        match pending.into_iter().chain(recent).chain(later).min() {
            Some(first) => log.retain(|seq| *seq >= first),
            None => log.clear(),
        }
        let records = log.iter().map(|seq| opened.side.read_record(*seq));
        let records = futures_util::future::try_join_all(records).await?;
        let mut seen = Seen::default();
        for (seq, record) in log.iter().zip(records) {
            // `gc` keeps all records.
            let Some(record) = record else {
                let text = format!(
                    "log/{seq:020}: the record was listed and is gone; open the store again"
                );
                return Err(Error::custom(Class::FileChanged, text));
            };
            match is_done(*seq) {
                _ if commit.is_some_and(|commit| *seq > commit) => seen.add_later(record)?,
                true if !is_backend => {
                    record.keys.iter().for_each(|entry| drop(seen.keys.remove(&entry.key)));
                }
                is_applied => seen.add(record, is_applied)?,
            }
        }
        // The listing of a backend may omit the last ones.
        while is_backend
            && let Some(next) = head.checked_add(1)
            && let Some(record) = opened.side.read_record(next).await?
        {
            head = next;
            match commit.is_some_and(|commit| next > commit) {
                true => seen.add_later(record)?,
                false => seen.add(record, false)?,
            }
        }
        seen.last = head;
        opened.head = commit.map_or(head, |commit| commit.min(head));
        opened.seen = Mutex::new(seen);
        Ok(Origin::Journaled(Arc::new(opened)))
    }

    /// Returns the store without its journal.
    pub(crate) const fn base(&self) -> &Origin {
        &self.base
    }

    /// Returns counts of the requests to the backend; files of a journal in a folder are not
    /// counted.
    pub(crate) fn stats(&self) -> IoStats {
        let base = self.base.stats();
        match &self.side {
            Side::Folder(..) => base,
            Side::Objects(side) => {
                let side = side.stats();
                IoStats {
                    requests: base.requests + side.requests,
                    bytes_read: base.bytes_read + side.bytes_read,
                    retries: base.retries + side.retries,
                }
            }
        }
    }

    /// Returns the number of the commit that is read; 0 before the first.
    pub(crate) const fn head(&self) -> u64 {
        self.head
    }

    /// Returns whether a key belongs to a commit that was not applied when the store was opened.
    pub(crate) fn is_pending(&self, key: &Key) -> bool {
        lock(&self.seen).keys.get(key).is_some_and(|staged| matches!(staged.when, When::Pending(_)))
    }

    /// Returns whether there are commits after the one that is read.
    pub(crate) async fn is_behind(&self) -> Result<bool> {
        self.look_ahead().await?;
        Ok(lock(&self.seen).last > self.head)
    }

    #[boxed]
    pub(super) async fn read_many(&self, gets: &[Get]) -> Vec<Result<Option<GetAnswer>>> {
        let mut answers = self.base.read_many(gets).await;
        if let Err(error) = self.look_ahead().await {
            return gets.iter().map(|get| Err(error.clone().at_key(&get.key))).collect();
        }
        let mut staged = Vec::new();
        for (get, answer) in gets.iter().zip(&mut answers) {
            let Some(found) = lock(&self.seen).keys.get(&get.key).cloned() else { continue };
            match found.check(get, answer, self.side.is_folder()) {
                Ok(true) => {}
                Ok(false) => staged.push((get, answer, found)),
                Err(error) => *answer = Err(error),
            }
        }
        let reads = staged.iter().map(|(get, _, found)| self.side.read_staged(get, found));
        let found = futures_util::future::join_all(reads).await;
        for ((get, answer, staged), found) in staged.into_iter().zip(found) {
            *answer = match found {
                Ok(None) if staged.span.is_some() => match staged.when {
                    When::Applied => continue, // it was collected: what the store has is all there is
                    When::Pending(_) | When::Later => Err(collected_error(&get.key)),
                },
                found => found,
            };
        }
        answers
    }

    #[boxed]
    pub(super) async fn begin(&self, key: &Key, long: u64, ends: u64) -> Result<PartialRead> {
        let begun = self.base.begin(key, long, ends).await;
        self.look_ahead().await?;
        if !lock(&self.seen).keys.contains_key(key) {
            return begun;
        }
        let mut got = self.read_many(&[Get::object(key.clone())]).await;
        Ok(PartialRead::Whole(got.pop().expect("one get has one answer")?))
    }

    #[boxed]
    pub(super) async fn children(&self, prefix: &Key) -> Result<Vec<Child>> {
        let children = self.base.children(prefix).await?;
        self.look_ahead().await?;
        // Listing all keys below takes long, so an applied commit counts if its removed key exists
        // again directly below.
        let is_back = |name: &str| children.iter().any(|child| !child.is_dir && child.name == name);
        let differs = |(key, staged): (&Key, &Staged)| {
            key.below(prefix).is_some_and(|name| match staged.when {
                When::Applied => staged.span.is_none() && is_back(name),
                When::Pending(_) | When::Later => true,
            })
        };
        if !lock(&self.seen).keys.iter().any(differs) {
            return Ok(children);
        }
        let keys = self.list(prefix).await?;
        let names = keys.iter().filter_map(|(key, _)| key.below(prefix));
        let children: BTreeSet<Child> = names
            .map(|name| match name.split_once('/') {
                Some((folder, _)) => Child { name: folder.to_owned(), is_dir: true },
                None => Child { name: name.to_owned(), is_dir: false },
            })
            .collect();
        Ok(children.into_iter().collect())
    }

    #[boxed]
    pub(super) async fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>> {
        let mut keys: BTreeMap<Key, u64> = self.base.list(prefix).await?.into_iter().collect();
        self.look_ahead().await?;
        for (key, staged) in &lock(&self.seen).keys {
            match staged.span {
                _ if key.below(prefix).is_none() => {}
                Some(span) => drop(keys.insert(key.clone(), span.len)),
                None => drop(keys.remove(key)),
            }
        }
        Ok(keys.into_iter().collect())
    }

    /// Looks for commits since the last check: from now on, their keys are read from their old
    /// bytes. Concurrent reads that ended before a check begins share it.
    async fn look_ahead(&self) -> Result<()> {
        if self.side.is_folder() {
            return self.look_now().await;
        }
        let begun = self.begun_looks.load(Ordering::SeqCst);
        let mut last = self.last_look.lock().await;
        if *last <= begun {
            let number = self.begun_looks.fetch_add(1, Ordering::SeqCst) + 1;
            self.look_now().await?;
            *last = number;
        }
        Ok(())
    }

    async fn look_now(&self) -> Result<()> {
        loop {
            let Some(next) = lock(&self.seen).last.checked_add(1) else { return Ok(()) };
            let Some(record) = self.side.read_record(next).await? else { return Ok(()) };
            if self.base.is_replaced() {
                return Err(crate::error::store_replaced_error());
            }
            let mut seen = lock(&self.seen);
            if seen.last < next {
                seen.add_later(record)?;
                seen.last = next;
            }
        }
    }
}

impl Side {
    const fn is_folder(&self) -> bool {
        match self {
            Self::Folder(..) => true,
            Self::Objects(_) => false,
        }
    }

    /// Returns the objects of the journal; `None` if its folder does not exist.
    fn source(&self) -> Result<Option<Origin>> {
        match self {
            Self::Folder(path, budget) => match Origin::folder(path, budget) {
                Err(error) if error.class() == Class::NotFound => Ok(None),
                found => found.map(Some),
            },
            Self::Objects(remote) => Ok(Some(Origin::Remote(remote.clone()))),
        }
    }

    /// Lists the numbers in `log` or `done`, ascending.
    async fn list_numbers(&self, folder: &str) -> Result<Vec<u64>> {
        let Some(source) = self.source()? else { return Ok(Vec::new()) };
        let children = source.children(&Key::root().child(folder)?).await?;
        let mut numbers: Vec<u64> =
            children.iter().filter_map(|child| child.name.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    async fn read_record(&self, seq: u64) -> Result<Option<CommitRecord>> {
        let name = format!("log/{seq:020}");
        if let Self::Folder(path, _) = self
            && !path.join(&name).try_exists().with_op("read")?
        {
            return Ok(None);
        }
        let Some(source) = self.source()? else { return Ok(None) };
        let get = Get::object(Key::parse(&name)?);
        let found = source.read_one(get).await?;
        found.map(|found| CommitRecord::parse(seq, &found.bytes)).transpose()
    }

    /// Reads the request `get` from the staged bytes of its key; `None` if these are gone or there
    /// is no such object.
    async fn read_staged(&self, get: &Get, staged: &Staged) -> Result<Option<GetAnswer>> {
        let (Some(span), Some(source)) = (staged.span, self.source()?) else { return Ok(None) };
        let range = get.range.clamp_to(span.len);
        let start =
            span.offset.checked_add(range.start).ok_or_else(|| collected_error(&get.key))?;
        let part = Get::range(staged.file.clone(), start, range.end - range.start);
        let Some(read) = source.read_one(part).await? else { return Ok(None) };
        if get.range == ByteRange::All && !span.matches_bytes(&read.bytes) {
            let text = format!("{}: the bytes are not those of the record", staged.file);
            return Err(Error::custom(Class::Checksum, text).at_key(&get.key));
        }
        let tag = Some(format!("{}:{}", staged.file, span.offset).into());
        let version = Version { tag, ..Version::from_size(span.len) };
        let read = Read { bytes: read.bytes, start: range.start, size: span.len, version };
        // Any version that was read before had the same bytes.
        let get = Get { version: None, ..get.clone() };
        cut(&get, &read).map(Some).at_key(&get.key)
    }
}

impl Staged {
    /// Returns whether the store has the bytes of the key, judging by its `answer` to `get`.
    /// Refuses bytes of another program.
    fn check(
        &self,
        get: &Get,
        answer: &Result<Option<GetAnswer>>,
        is_folder: bool,
    ) -> Result<bool> {
        let Ok(answer) = answer else { return Ok(false) };
        let is_one_of = |spans: &[Option<StagedSpan>]| {
            spans.iter().any(|span| match (span, answer) {
                (None, None) => true,
                (Some(span), Some(found)) if get.range == ByteRange::All => {
                    span.matches_bytes(&found.bytes)
                }
                (Some(span), Some(found)) => span.len == found.size,
                (Some(_), None) | (None, Some(_)) => false,
            })
        };
        match &self.when {
            When::Applied => Ok(is_one_of(&[self.span])),
            When::Pending(known) if is_folder && !is_one_of(known) => {
                let text = "a commit is not applied, and a program that does not know the journal \
                            changed the key; check it, then edit with --accept-foreign to \
                            continue from it";
                Err(Error::custom(Class::Conflict, text).at_key(&get.key))
            }
            When::Pending(_) | When::Later => Ok(false),
        }
    }
}

impl Seen {
    /// Adds the new bytes of an applied commit.
    fn add(&mut self, record: CommitRecord, is_applied: bool) -> Result<()> {
        let file = Key::parse(&record.staged("new"))?;
        for RecordKey { key, new: span, old } in record.keys {
            let known = match self.keys.remove(&key).map(|before| before.when) {
                Some(When::Pending(known)) => known,
                Some(When::Applied | When::Later) | None => vec![old],
            };
            let when = match is_applied {
                true => When::Applied,
                false => When::Pending([known, vec![span]].concat()),
            };
            self.keys.insert(key, Staged { file: file.clone(), span, when });
        }
        Ok(())
    }

    /// Adds the old bytes of a later commit. A key that already has staged bytes keeps them.
    fn add_later(&mut self, record: CommitRecord) -> Result<()> {
        let file = Key::parse(&record.staged("old"))?;
        for RecordKey { key, old: span, .. } in record.keys {
            let later = || Staged { file: file.clone(), span, when: When::Later };
            self.keys.entry(key).or_insert_with(later).when = When::Later;
        }
        Ok(())
    }
}

fn collected_error(key: &Key) -> Error {
    let text = "it changed after the store was opened, and its earlier content is gone; open the \
                store again";
    Error::custom(Class::FileChanged, text).at_key(key)
}

#[cfg(test)]
mod tests;
