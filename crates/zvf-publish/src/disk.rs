//! Every call that changes a directory on this machine.
//!
//! ```text
//! make_dir, create     one name each; a file is written once, and never again
//! open_new, finish     a file written piece by piece; recorded when it is finished
//! link                 a second name of an existing file; a copy where that is impossible
//! remove               one file
//! sync_all             the whole file system: one call where it exists, else file by file
//! sync_file            the bytes of one file
//! sync_dir             the names in one directory
//! sync_each            several files and directories, in parallel
//! rename               over nothing, an empty directory, or a file
//! rename_new           only if the name is free
//! exchange             two names in one step, where the system can; else two renames
//! remove_all           a directory and everything below it
//! try_lock             the lock of an open file
//! ```
//!
//! A recording disk also logs each call and syncs nothing: from the log a test derives every state
//! that a power failure may leave. A failing disk fails one call, before or after it is done. A disk
//! with pauses waits before each call, so that races take longer.
//!
//! The contents of files are the caller's.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

/// The disk; clones share the log.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    record: Option<Arc<Mutex<Vec<Call>>>>,
    plain: bool,    // two names cannot be exchanged in one step
    lockless: bool, // files have no locks
    linkless: bool, // files have one name only
    failing: Option<Arc<Failing>>,
    longest_pause_micros: u32, // before each call
}

/// The call that fails.
#[derive(Debug)]
struct Failing {
    calls: AtomicUsize, // so far
    nth: usize,
    error: i32, // an errno
    is_late: bool,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// A directory was created.
    MakeDir(PathBuf),
    /// A file was created with these bytes.
    Create(PathBuf, Bytes),
    /// A file was removed.
    Remove(PathBuf),
    /// Everything was synced.
    SyncAll,
    /// The bytes of a file were synced.
    SyncFile(PathBuf),
    /// The names in a directory were synced.
    SyncDir(PathBuf),
    /// The first name was renamed to the second.
    Rename(PathBuf, PathBuf),
    /// Two names were exchanged.
    Exchange(PathBuf, PathBuf),
    /// A directory was removed with its contents.
    RemoveAll(PathBuf),
}

impl Disk {
    /// Returns a disk that records calls, and does not wait for the hardware.
    pub fn with_recording() -> Self {
        Self { record: Some(Arc::default()), ..Self::default() }
    }

    /// Returns the same disk, without atomic exchange of two names.
    #[must_use]
    pub fn without_exchange(self) -> Self {
        Self { plain: true, ..self }
    }

    /// Returns the same disk, without file locks.
    #[must_use]
    pub fn without_locks(self) -> Self {
        Self { lockless: true, ..self }
    }

    /// Returns the same disk, without hard links.
    #[must_use]
    pub fn without_links(self) -> Self {
        Self { linkless: true, ..self }
    }

    /// Returns the same disk, on which call number `nth`, from 0, fails with the errno `error`:
    /// before it is done, or with `is_late` after it.
    #[must_use]
    pub fn with_failure_at(self, nth: usize, error: i32, is_late: bool) -> Self {
        let calls = AtomicUsize::new(0);
        Self { failing: Some(Arc::new(Failing { calls, nth, error, is_late })), ..self }
    }

    /// Returns the same disk, on which each call first waits for a random time.
    #[must_use]
    pub fn with_pauses(self, longest_pause_micros: u32) -> Self {
        Self { longest_pause_micros, ..self }
    }

    /// Returns the number of calls so far of a failing disk.
    pub fn call_count(&self) -> usize {
        self.failing.as_ref().map_or(0, |failing| failing.calls.load(Ordering::SeqCst))
    }

    /// Fails if this call is to fail; otherwise returns the result of the call after it was done.
    /// Every call fails on a system where files cannot be identified, locked and synced.
    fn fault(&self) -> io::Result<io::Result<()>> {
        if cfg!(not(unix)) {
            return Err(unidentified_error());
        }
        if self.longest_pause_micros > 0 {
            let nanos = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.subsec_nanos());
            let micros = nanos % self.longest_pause_micros;
            thread::sleep(Duration::from_micros(micros.into()));
        }
        let Some(failing) = &self.failing else { return Ok(Ok(())) };
        if failing.calls.fetch_add(1, Ordering::SeqCst) != failing.nth {
            return Ok(Ok(()));
        }
        let error = io::Error::from_raw_os_error(failing.error);
        if failing.is_late { Ok(Err(error)) } else { Err(error) }
    }

    /// Returns the calls so far.
    pub fn calls(&self) -> Vec<Call> {
        self.log().map_or_else(Vec::new, |calls| calls.clone())
    }

    fn log(&self) -> Option<MutexGuard<'_, Vec<Call>>> {
        Some(self.record.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Creates one directory.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn make_dir(&self, path: &Path) -> io::Result<()> {
        let end = self.fault()?;
        // Under the lock, so that no thread records a file in the directory before the directory.
        let mut log = self.log();
        fs::create_dir(path)?;
        if let Some(calls) = &mut log {
            calls.push(Call::MakeDir(path.to_owned()));
        }
        end
    }

    /// Creates `path` and the missing directories above it, outermost first; returns these.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn make_dirs(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        match self.make_dir(path) {
            Ok(()) => Ok(vec![path.to_owned()]),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Vec::new()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty())
                else {
                    return Err(error);
                };
                let mut made = self.make_dirs(above)?;
                made.extend(self.make_dirs(path)?);
                Ok(made)
            }
            Err(error) => Err(error),
        }
    }

    /// Creates a file from `parts`, with the directories it needs. An existing file is an error.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn create(&self, path: &Path, parts: &[Bytes]) -> io::Result<()> {
        let write = || -> io::Result<()> {
            let mut file = match File::create_new(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if let Some(above) = path.parent() {
                        self.make_dirs(above)?;
                    }
                    File::create_new(path)?
                }
                opened => opened?,
            };
            write_all(&mut file, parts)
        };
        self.change(write, || Call::Create(path.to_owned(), parts.concat().into()))
    }

    /// Opens a new file, to be written piece by piece; at the end, call [`finish`](Self::finish).
    /// With `private`, only its owner may read it until its permissions are set.
    ///
    /// # Errors
    ///
    /// When the name is taken, or the system refuses.
    pub fn open_new(&self, path: &Path, private: bool) -> io::Result<File> {
        self.fault()??;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        if private {
            use std::os::unix::fs::OpenOptionsExt as _;
            options.mode(0o600);
        }
        #[cfg(not(unix))]
        let _not_asked_for = private;
        options.open(path)
    }

    /// Records the bytes written to `path` since [`open_new`](Self::open_new), and syncs them if
    /// `sync`.
    ///
    /// # Errors
    ///
    /// When it cannot be synced.
    pub fn finish(&self, file: &File, path: &Path, sync: bool) -> io::Result<()> {
        self.fault()??;
        if self.record.is_some() {
            let bytes = fs::read(path)?;
            self.note(|| Call::Create(path.to_owned(), bytes.into()));
            if sync {
                self.note(|| Call::SyncFile(path.to_owned()));
            }
            return Ok(());
        }
        if sync { file.sync_all() } else { Ok(()) }
    }

    /// Gives the file `from` the second name `to`, in an existing directory; copies it if the
    /// system has no hard links, or allows no more of them for this file.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let end = self.fault()?;
        if let Err(error) = self.hard_link(from, to) {
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) {
                return Err(error);
            }
            fs::copy(from, to)?;
        }
        // For a replay of the calls it is enough that the file exists.
        let bytes = if self.record.is_some() { fs::read(to)? } else { Vec::new() };
        self.note(|| Call::Create(to.to_owned(), bytes.into()));
        end
    }

    /// Gives the file to which `from` leads the second name `to`, as [`link`](Self::link) does: a
    /// relative symbolic link would lead elsewhere from its new place. One that leads nowhere stays
    /// as it is.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn link_target(&self, from: &Path, to: &Path) -> io::Result<()> {
        let leads_to = if from.is_symlink() { fs::canonicalize(from).ok() } else { None };
        self.link(leads_to.as_deref().unwrap_or(from), to)
    }

    /// Removes a file, if it exists.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let end = self.fault()?;
        if found(fs::remove_file(path))?.is_none() {
            return Ok(());
        }
        self.note(|| Call::Remove(path.to_owned()));
        end
    }

    /// Waits until everything written below `path` would survive a power failure. `held` was opened
    /// there before the first write, so that earlier write errors are reported here.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn sync_all(&self, held: &File, path: &Path) -> io::Result<()> {
        self.sync(|| sync_below(held, path), || Call::SyncAll)
    }

    /// Waits until the names in `path` would survive a power failure.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.sync(|| sync_path(path), || Call::SyncDir(path.to_owned()))
    }

    /// Renames `from` to `to`: a directory to a free name or over an empty directory, a file also over a file.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|| fs::rename(from, to), || Call::Rename(from.to_owned(), to.to_owned()))
    }

    /// Renames `from` to the free name `to`. If the system cannot do that atomically, the file gets
    /// a second name and loses the first; without hard links, the name is checked first.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when the name is taken; otherwise when the system refuses.
    pub fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let end = self.fault()?;
        if self.plain || !rename_in_one_step(from, to, false)? {
            match self.hard_link(from, to) {
                Ok(()) => fs::remove_file(from)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
                Err(_no_links) => {
                    if fs::symlink_metadata(to).is_ok() {
                        return Err(io::ErrorKind::AlreadyExists.into());
                    }
                    fs::rename(from, to)?;
                }
            }
        }
        self.note(|| Call::Rename(from.to_owned(), to.to_owned()));
        end
    }

    /// Takes the exclusive lock of `file`, if it is free, or a `shared` one, if nobody has the
    /// exclusive one.
    ///
    /// # Errors
    ///
    /// When it is not free, or files have no locks here.
    pub fn try_lock(&self, file: &File, shared: bool) -> Result<(), TryLockError> {
        if self.lockless {
            return Err(TryLockError::Error(unsupported_error()));
        }
        if shared { file.try_lock_shared() } else { file.try_lock() }
    }

    /// Waits until the bytes of the file `path` would survive a power failure.
    ///
    /// # Errors
    ///
    /// When they cannot be synced.
    pub fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.sync(|| sync_path(path), || Call::SyncFile(path.to_owned()))
    }

    /// Waits until the bytes of `files` and the names in `dirs` would survive a power failure. They
    /// are synced in parallel, which takes the disk little longer than one of them. A missing
    /// directory is not an error.
    ///
    /// # Errors
    ///
    /// When one cannot be synced.
    pub fn sync_each(&self, files: &[&Path], dirs: &[&Path]) -> io::Result<()> {
        let sync_dir = |path: &Path| found_below(self.sync_dir(path)).map(drop);
        if self.record.is_some() || self.failing.is_some() || files.len() + dirs.len() < 2 {
            files.iter().try_for_each(|path| self.sync_file(path))?;
            return dirs.iter().try_for_each(|path| sync_dir(path));
        }
        let all: Vec<(&Path, bool)> = files
            .iter()
            .map(|path| (*path, true))
            .chain(dirs.iter().map(|path| (*path, false)))
            .collect();
        let next = AtomicUsize::new(0);
        let work = || -> io::Result<()> {
            while let Some((path, is_file)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                if *is_file { self.sync_file(path)? } else { sync_dir(path)? }
            }
            Ok(())
        };
        thread::scope(|scope| {
            let count = all.len().min(MAX_SYNC_THREADS);
            let spawned: Vec<_> =
                (1..count).map(|_| thread::Builder::new().spawn_scoped(scope, work)).collect();
            // Without threads, this one does all the work.
            let result = work();
            let other_results = spawned.into_iter().flatten().map(|thread| {
                thread.join().unwrap_or_else(|_panic| {
                    Err(io::Error::other("a thread that waited for the disk panicked"))
                })
            });
            other_results.fold(result, |all, other| all.and(other))
        })
    }

    /// Exchanges two names of one file system atomically; returns `false`, without a change, if the
    /// system or the file system cannot: most on Linux and Apple's systems can.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let [old, new] = ["old", "new"].map(|name| dir.path().join(name));
    /// std::fs::create_dir(&old)?;
    /// std::fs::write(&new, "a file")?;
    /// if zvf_publish::Disk::default().exchange(&old, &new)? {
    ///     assert!(old.is_file() && new.is_dir());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn exchange(&self, one: &Path, other: &Path) -> io::Result<bool> {
        let end = self.fault()?;
        let done = !self.plain && rename_in_one_step(one, other, true)?;
        if done {
            self.note(|| Call::Exchange(one.to_owned(), other.to_owned()));
        }
        end.map(|()| done)
    }

    /// Removes a directory and everything below it.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn remove_all(&self, path: &Path) -> io::Result<()> {
        self.change(|| fs::remove_dir_all(path), || Call::RemoveAll(path.to_owned()))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.linkless { Err(unsupported_error()) } else { fs::hard_link(from, to) }
    }

    /// Does `work`, which is noted as `call`.
    fn change(
        &self,
        work: impl FnOnce() -> io::Result<()>,
        call: impl FnOnce() -> Call,
    ) -> io::Result<()> {
        let end = self.fault()?;
        work()?;
        self.note(call);
        end
    }

    /// Waits for the hardware by `work`; a disk that records only notes `call`.
    fn sync(
        &self,
        work: impl FnOnce() -> io::Result<()>,
        call: impl FnOnce() -> Call,
    ) -> io::Result<()> {
        self.fault()??;
        if self.record.is_none() {
            return work();
        }
        self.note(call);
        Ok(())
    }

    fn note(&self, call: impl FnOnce() -> Call) {
        if let Some(mut calls) = self.log() {
            calls.push(call());
        }
    }
}

/// Exchanges two names, or renames if the name is free. Returns `false` if the system cannot.
///
/// A plain rename cannot exchange: a folder cannot be renamed over a non-empty one, and between two renames the name does
/// not exist.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn rename_in_one_step(from: &Path, to: &Path, exchanges: bool) -> io::Result<bool> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    let flags = if exchanges { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
    match renameat_with(CWD, from, CWD, to, flags) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn rename_in_one_step(_from: &Path, _to: &Path, _exchanges: bool) -> io::Result<bool> {
    Ok(false)
}

/// Returns what is there; `None` where nothing exists.
///
/// # Errors
///
/// Every error but that nothing exists.
pub fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Returns `None` where the name is taken already.
///
/// # Errors
///
/// When it fails for another reason.
pub fn untaken<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        result => result.map(Some),
    }
}

/// Returns what is below a path; `None` where nothing exists, or where a file is in place of a folder.
pub(crate) fn found_below<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(None),
        result => found(result),
    }
}

/// Returns the error for writing on a system where files cannot be distinguished from later ones
/// with the same name.
pub(crate) fn unidentified_error() -> io::Error {
    let text = "zvf cannot identify, lock and sync files on this system, and so does not write";
    io::Error::new(io::ErrorKind::Unsupported, text)
}

fn unsupported_error() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

/// Writes all parts, small ones together.
fn write_all(file: &mut File, parts: &[Bytes]) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
    parts.iter().try_for_each(|part| out.write_all(part))?;
    out.flush()
}

/// Syncs the whole file system with one call.
#[cfg(target_os = "linux")]
fn sync_below(held: &File, _path: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(held)?)
}

/// Syncs every file, then every directory from the innermost on.
#[cfg(not(target_os = "linux"))]
fn sync_below(_held: &File, path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_below(_held, &entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    sync_path(path)
}

/// Waits for the bytes of a file, or the names in a folder.
fn sync_path(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// The number of files that are synced in parallel.
const MAX_SYNC_THREADS: usize = 16;
/// The bytes of small parts that one call of the system writes.
const BUFFER_BYTES: usize = 1 << 16;

#[cfg(test)]
mod tests;
