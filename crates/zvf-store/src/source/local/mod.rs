//! A store in a local directory.
//!
//! A batch of reads is one hop: inside a tokio runtime it goes to blocking threads, otherwise it
//! runs on the calling thread. Each file takes the minimum of system calls: open, fstat, one pread
//! into fresh memory per piece, close. Large batches are split over a few threads. They do not run
//! on the caller's rayon pool, because its workers may be waiting for this very read.
//!
//! The same names are absent as on an object store: a missing name, a name below a file, a
//! directory in place of a file. Files are never written or locked. If another directory now has
//! the name, the open directory may be partly removed. A missing file is then `FileChanged`,
//! because it may have existed.
//!
//! Bytes are reserved in the budget of the handle while they are read. A read never blocks a thread
//! for that: if the budget is used up, the future waits.
//!
//! Not here: how a directory is opened and read ([`dir`]), files that are mapped ([`maps`]).

#[cfg(unix)]
mod buffer_pool;
mod dir;
mod file;
mod hold;
#[cfg(all(unix, feature = "map"))]
mod maps;
#[cfg(any(not(unix), test))]
mod portable;
#[cfg(unix)]
mod unix;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::runtime::Handle;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;

use self::dir::Dir;
use self::file::File;
pub(crate) use self::hold::HeldFile;
use super::plan::{Object, Read, deliver, plan};
use super::{ByteRange, Child, Get, GetAnswer, IoStats, MAX_LISTED_KEYS, check_listed};
use crate::budget::{Budget, Reservation};
use crate::error::{WithOp as _, length_error, store_replaced_error};
use crate::key::Key;
use crate::sync::on_threads;
#[cfg(unix)]
use zvf_format::num::saturating_usize;
#[cfg(all(unix, feature = "map"))]
use zvf_map::Promise;

/// An open directory; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Local(Arc<LocalState>);

#[derive(Debug)]
struct LocalState {
    path: PathBuf, // absolute
    dir: Dir,
    budget: Budget,
    threads: usize,
    #[cfg(all(unix, feature = "map"))]
    maps: Option<maps::Maps>,
    /// For bytes that are released soon.
    #[cfg(unix)]
    pool: Arc<buffer_pool::BufferPool>,
    folder: Option<OpenedFolder>,
    opened: AtomicU64,
    bytes_read: AtomicU64,
}

/// The directory that was opened, and its name.
#[derive(Debug)]
pub(crate) struct OpenedFolder {
    pub(crate) path: PathBuf,
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl OpenedFolder {
    fn read(path: &Path) -> Option<Self> {
        let path = std::fs::canonicalize(path).ok()?;
        let about = std::fs::metadata(&path).ok()?;
        #[cfg(unix)]
        let (device, inode) = {
            use std::os::unix::fs::MetadataExt as _;
            (about.dev(), about.ino())
        };
        // On other systems, only the path and the documents identify it.
        #[cfg(not(unix))]
        let (device, inode) = (0, u64::from(!about.is_dir()));
        Some(Self { path, device, inode })
    }
}

impl Local {
    /// Opens the store in the directory `path`, which must exist.
    pub(crate) fn open(path: &Path, budget: Budget) -> Result<Self> {
        Ok(Self(Arc::new(LocalState::open(path, budget)?)))
    }

    /// Like [`open`](Self::open), reading large files through maps.
    #[cfg(all(unix, feature = "map"))]
    pub(crate) fn open_mapped(path: &Path, budget: Budget, promise: Promise) -> Result<Self> {
        let maps = Some(maps::Maps::new(promise));
        Ok(Self(Arc::new(LocalState { maps, ..LocalState::open(path, budget)? })))
    }

    /// Returns the identity of this directory, if it was available when it was opened.
    pub(crate) fn folder(&self) -> Option<&OpenedFolder> {
        self.0.folder.as_ref()
    }

    /// Returns the absolute path under which the directory was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// Returns the directory that now has the name, read in the same way.
    pub(crate) fn reopen(&self) -> Result<Self> {
        let fresh = LocalState::open(&self.0.path, self.0.budget.clone())?;
        Ok(Self(Arc::new(LocalState {
            #[cfg(all(unix, feature = "map"))]
            maps: self.0.maps.as_ref().map(maps::Maps::new_empty),
            #[cfg(unix)]
            pool: Arc::clone(&self.0.pool),
            ..fresh
        })))
    }

    /// Returns whether another directory now has the name.
    pub(crate) fn is_replaced(&self) -> bool {
        self.0.dir.is_replaced(&self.0.path)
    }

    /// Checks whether the mapped files are unchanged.
    pub(crate) fn check(&self) -> Result<()> {
        #[cfg(all(unix, feature = "map"))]
        if let Some(maps) = &self.0.maps {
            maps.check()?;
        }
        Ok(())
    }

    pub(crate) async fn read_many(&self, gets: &[Get]) -> Vec<Result<Option<GetAnswer>>> {
        let objects = plan(gets, MERGE_GAP_BYTES);
        let mut answers = vec![None; gets.len()];
        let mut missing = false;
        for (object, outcomes) in self.read_objects(objects).await {
            for (piece, outcome) in object.pieces.iter().zip(outcomes) {
                missing |= matches!(outcome, Ok(None));
                deliver(gets, &object.key, piece, outcome, &mut answers);
            }
        }
        if missing && self.is_replaced() {
            for (answer, get) in answers.iter_mut().zip(gets) {
                if matches!(answer, Some(Ok(None))) {
                    let error = store_replaced_error().at_key(&get.key);
                    *answer = Some(Err(error));
                }
            }
        }
        answers
            .into_iter()
            .map(|answer| answer.unwrap_or_else(|| Err(runtime_stopped_error("read"))))
            .collect()
    }

    /// Reads `objects`, split over threads if there are many; afterwards, one by one, those that
    /// did not fit in the budget at first.
    async fn read_objects(&self, objects: Vec<Object>) -> Vec<ObjectOutcome> {
        let parts = (objects.len() / MIN_FILES_PER_THREAD).clamp(1, self.0.threads);
        let shared = Arc::clone(&self.0);
        let read = move |object, (): &mut ()| shared.read(object, None);
        // An object without an answer becomes an error in the end.
        let tried = on_threads(objects, parts, || self.0.budget.request(), read).await;
        let tried = tried.unwrap_or_default();
        let mut done = Vec::with_capacity(tried.len());
        for tried in tried {
            match tried {
                ReadAttempt::Done(object) => done.push(object),
                ReadAttempt::NoRoom(object, bytes) => {
                    done.extend(self.read_waiting(object, bytes).await);
                }
            }
        }
        done
    }

    /// Reads `object` once `bytes` of the budget are free; `None` if the runtime shuts down
    /// meanwhile.
    async fn read_waiting(&self, mut object: Object, mut bytes: u64) -> Option<ObjectOutcome> {
        loop {
            let room = match self.0.budget.reserve(bytes).await {
                Ok(held) => Room { bytes, _held: held },
                Err(error) => return Some(fail_all(object, &error)),
            };
            let shared = Arc::clone(&self.0);
            match run_blocking("read", move || shared.read(object, Some(room))).await.ok()? {
                ReadAttempt::Done(done) => return Some(done),
                // The file has grown since.
                ReadAttempt::NoRoom(again, more) => (object, bytes) = (again, more.max(bytes)),
            }
        }
    }

    pub(crate) async fn children(&self, prefix: &Key) -> Result<Vec<Child>> {
        let (shared, from) = (Arc::clone(&self.0), prefix.clone());
        let list = move || shared.check_not_replaced(dir::children(&shared.dir, &from));
        run_blocking("list", list).await?.at_key(prefix)
    }

    pub(crate) async fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>> {
        let (shared, from) = (Arc::clone(&self.0), prefix.clone());
        let list = move || shared.check_not_replaced(shared.list(&from));
        let listed = run_blocking("list", list).await?;
        listed.at_key(prefix)
    }

    pub(crate) fn stats(&self) -> IoStats {
        IoStats {
            requests: self.0.opened.load(Ordering::Relaxed),
            bytes_read: self.0.bytes_read.load(Ordering::Relaxed),
            retries: 0,
        }
    }
}

/// An object with the outcome of each of its pieces.
type ObjectOutcome = (Object, Vec<Result<Option<Read>>>);

/// An attempt to read an object.
enum ReadAttempt {
    Done(ObjectOutcome),
    /// This many bytes had to be read at once, but others hold the budget.
    NoRoom(Object, u64),
}

/// A reserved part of the budget.
struct Room {
    bytes: u64,
    _held: Reservation,
}

/// The reason why a piece was not read.
enum PieceFault {
    NoRoom(u64),
    Error(Error),
}

impl From<Error> for PieceFault {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Returns `object` with the error as the result of each piece.
fn fail_all(object: Object, error: &Error) -> ObjectOutcome {
    let outcomes = object.pieces.iter().map(|_| Err(error.clone())).collect();
    (object, outcomes)
}

impl LocalState {
    fn open(path: &Path, budget: Budget) -> Result<Self> {
        let dir = Dir::open(path).map_err(open_error)?;
        // The name is resolved again later, regardless of the working directory at that time.
        let path = std::path::absolute(path).map_err(open_error)?;
        let folder = OpenedFolder::read(&path);
        // The pool is not counted against the budget: it is a small part of it, and empty for a
        // small budget.
        #[cfg(unix)]
        let spare =
            if budget.max_bytes() < MIN_POOL_BUDGET_BYTES { 0 } else { budget.max_bytes() / 16 };
        #[cfg(unix)]
        let pool = Arc::new(buffer_pool::BufferPool::new(spare));
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        Ok(Self {
            path,
            dir,
            budget,
            threads,
            #[cfg(all(unix, feature = "map"))]
            maps: None,
            #[cfg(unix)]
            pool,
            folder,
            opened: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
        })
    }

    fn read(&self, object: Object, room: Option<Room>) -> ReadAttempt {
        match self.outcomes(&object, room.as_ref()) {
            Ok(outcomes) => ReadAttempt::Done((object, outcomes)),
            Err(PieceFault::NoRoom(bytes)) => ReadAttempt::NoRoom(object, bytes),
            Err(PieceFault::Error(error)) => ReadAttempt::Done(fail_all(object, &error)),
        }
    }

    /// Returns the result of each piece of `object`, or the reason why it cannot be read at all.
    fn outcomes(
        &self,
        object: &Object,
        room: Option<&Room>,
    ) -> Result<Vec<Result<Option<Read>>>, PieceFault> {
        let ranges = object.pieces.iter().map(|piece| piece.range);
        #[cfg(all(unix, feature = "map"))]
        if let Some(mapped) = self.maps.as_ref().and_then(|maps| maps.get(&object.key)) {
            return Ok(ranges.map(|range| self.read_mapped(&mapped, range).map(Some)).collect());
        }
        self.opened.fetch_add(1, Ordering::Relaxed);
        let Some(file) = self.dir.file(&object.key)? else {
            return Ok(ranges.map(|_| Ok(None)).collect());
        };
        #[cfg(all(unix, feature = "map"))]
        if let Some(maps) = &self.maps
            && let Some(mapped) = maps.map(&object.key, &file)?
        {
            return Ok(ranges.map(|range| self.read_mapped(&mapped, range).map(Some)).collect());
        }
        let outcome = |range| match self.piece(&file, range, object.pooled, room) {
            Ok(read) => Ok(Ok(Some(read))),
            Err(PieceFault::Error(error)) => Ok(Err(error)),
            Err(no_room @ PieceFault::NoRoom(_)) => Err(no_room),
        };
        ranges.map(outcome).collect()
    }

    /// Returns the part of `range` that exists in the file.
    fn piece(
        &self,
        file: &File,
        range: ByteRange,
        pooled: bool,
        room: Option<&Room>,
    ) -> Result<Read, PieceFault> {
        let size = file.size();
        let (start, len) = part(range, size);
        let _held = match room {
            Some(room) if room.bytes >= len => None,
            _ => match self.budget.try_reserve(len)? {
                None => return Err(PieceFault::NoRoom(len)),
                held => held,
            },
        };
        let bytes = self.bytes(file, start, len, pooled).with_op("read")?;
        let found = to_u64(bytes.len());
        self.bytes_read.fetch_add(found, Ordering::Relaxed);
        if found != len {
            return Err(length_error(len, found).into());
        }
        Ok(Read { bytes, start, size, version: file.version() })
    }

    /// Returns `found`, unless its directory may be partly removed.
    fn check_not_replaced<T>(&self, found: Result<T>) -> Result<T> {
        if self.dir.is_replaced(&self.path) {
            return Err(store_replaced_error());
        }
        found
    }

    /// Returns the bytes from `start`: `len` of them, or fewer when the file ends.
    fn bytes(&self, file: &File, start: u64, len: u64, pooled: bool) -> io::Result<Bytes> {
        #[cfg(not(unix))]
        let _ = pooled;
        // A length that does not fit in memory cannot have a buffer.
        #[cfg(unix)]
        if pooled && let Some(mut spare) = self.pool.take(saturating_usize(len)) {
            let read = file.read_into(start, spare.first_bytes(saturating_usize(len)))?;
            return Ok(spare.into_bytes(read));
        }
        Ok(Bytes::from(file.read(start, len)?))
    }

    /// Returns the part of `range` that exists in a mapped file.
    #[cfg(all(unix, feature = "map"))]
    fn read_mapped(&self, mapped: &maps::Mapped, range: ByteRange) -> Result<Read> {
        let size = mapped.size();
        let (start, len) = part(range, size);
        self.budget.check(len)?;
        self.bytes_read.fetch_add(len, Ordering::Relaxed);
        let version = mapped.version.clone();
        Ok(Read { bytes: mapped.bytes(start, len)?, start, size, version })
    }

    /// Returns every file below `prefix`, by key.
    fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>> {
        let mut found = Vec::new();
        dir::walk(&self.dir, prefix, &mut |key, size| {
            found.push((key, size));
            found.len() < MAX_LISTED_KEYS
        })?;
        check_listed(found.len())?;
        found.sort_unstable();
        Ok(found)
    }
}

/// Returns start and length of the part of `range` that exists in an object of `size` bytes.
fn part(range: ByteRange, size: u64) -> (u64, u64) {
    let Range { start, end } = range.clamp_to(size);
    (start, end - start)
}

pub(super) use self::file::Stamp;

/// Runs `work` on a blocking thread of the current runtime, or on this thread if there is none. Its
/// panic is raised here.
pub(crate) async fn run_blocking<T: Send + 'static>(
    op: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let Ok(runtime) = Handle::try_current() else { return Ok(work()) };
    runtime.spawn_blocking(work).await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => runtime_stopped_error(op),
    })
}

/// Returns the error for work that the runtime dropped.
fn runtime_stopped_error(op: &'static str) -> Error {
    Error::new(
        Class::Cancelled,
        "runtime",
        "one that runs until the answer is there",
        "shutting down",
    )
    .with_op(op)
}

fn open_error(error: io::Error) -> Error {
    if matches!(error.kind(), io::ErrorKind::NotADirectory) {
        Error::custom(Class::InvalidArgument, "it is a file, not a store")
            .with_hint("create a store from it with \"zvf create\"")
    } else {
        Error::io("open", error)
    }
}

/// A second pread costs about as much as copying this many bytes.
pub(super) const MERGE_GAP_BYTES: u64 = 4 << 10;
/// The number of files that justifies another thread.
const MIN_FILES_PER_THREAD: usize = 64;
/// Below this budget there is no buffer pool.
#[cfg(unix)]
const MIN_POOL_BUDGET_BYTES: u64 = 32 << 20;
/// More threads do not make one disk faster.
const MAX_THREADS: usize = 8;

#[cfg(test)]
mod tests;
