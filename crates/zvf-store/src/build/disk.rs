//! Every call by which a build changes a directory of this machine.
//!
//! ```text
//! make_dir, create     one name each; a file is written once, and never again
//! link                 one more name for a file that is there; a copy of it where that cannot be
//! remove               one file
//! sync_all             everything of the file system: one call where there is one, else file by file
//! sync_dir             the names in one directory
//! rename               only where nothing is in the way but an empty directory
//! exchange             two names at once, where the system can; else two renames
//! remove_all           a directory and what is below it
//! ```
//!
//! A recording disk writes each call down as well, and syncs nothing: from what it wrote down a test
//! makes every state that a loss of power may leave.
//!
//! Not here: what is built.

#![cfg_attr(
    not(feature = "internals"),
    expect(unreachable_pub, reason = "handed on to programs that break things, by that feature")
)]

use std::fs::{self, File};
use std::io::{self, IoSlice, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::exchange::exchange_names;

/// The disk; clones write into the same record.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    record: Option<Arc<Mutex<Vec<Call>>>>,
    plain: bool, // whether two names cannot change places in one step
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// A directory was made.
    MakeDir(PathBuf),
    /// A file was made with these bytes.
    Create(PathBuf, Bytes),
    /// A file went.
    Remove(PathBuf),
    /// All was synced.
    SyncAll,
    /// The names in a directory were synced.
    SyncDir(PathBuf),
    /// The first name became the second one.
    Rename(PathBuf, PathBuf),
    /// Two names changed places.
    Exchange(PathBuf, PathBuf),
    /// A directory went with all that was in it.
    RemoveAll(PathBuf),
}

impl Disk {
    /// A disk that writes down what is done, and does not wait for the hardware.
    #[cfg(any(test, feature = "internals"))]
    #[must_use]
    pub fn recording() -> Self {
        Self { record: Some(Arc::default()), plain: false }
    }

    /// The same disk, on which two names cannot change places in one step.
    #[cfg(any(test, feature = "internals"))]
    #[must_use]
    pub fn without_exchange(self) -> Self {
        Self { plain: true, ..self }
    }

    /// What was done so far.
    #[cfg(any(test, feature = "internals"))]
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.record.as_deref().map_or_else(Vec::new, |calls| {
            calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
        })
    }

    /// Makes one directory.
    pub(crate) fn make_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)?;
        self.note(|| Call::MakeDir(path.to_owned()));
        Ok(())
    }

    /// Makes `path` and what is missing of the directories above it, outermost first; tells which.
    pub(crate) fn make_dirs(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
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

    /// Makes a file of `parts`, with the directories it needs. A file that is there is an error.
    pub(crate) fn create(&self, path: &Path, parts: &[Bytes]) -> io::Result<()> {
        let mut file = match File::create_new(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(above) = path.parent() {
                    self.make_dirs(above)?;
                }
                File::create_new(path)?
            }
            opened => opened?,
        };
        write_all(&mut file, parts)?;
        self.note(|| Call::Create(path.to_owned(), crate::codec::join(parts.to_vec())));
        Ok(())
    }

    /// Gives the file `from` the name `to` as well, in a directory that is there; copies it where the
    /// system has no second names, or no more of them for this file.
    pub(crate) fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        if let Err(error) = fs::hard_link(from, to) {
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) {
                return Err(error);
            }
            fs::copy(from, to)?;
        }
        // Whoever replays the calls needs no more than that the file is there.
        let bytes = if self.record.is_some() { fs::read(to)? } else { Vec::new() };
        self.note(|| Call::Create(to.to_owned(), bytes.into()));
        Ok(())
    }

    /// Removes a file; nothing to do where there is none.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => removed?,
        }
        self.note(|| Call::Remove(path.to_owned()));
        Ok(())
    }

    /// Waits until all that was written below `path` would survive a loss of power. `held` was opened
    /// there before the first write, so that faults of earlier writing come up here.
    pub(crate) fn sync_all(&self, held: &File, path: &Path) -> io::Result<()> {
        if self.record.is_some() {
            self.note(|| Call::SyncAll);
            return Ok(());
        }
        sync_below(held, path)
    }

    /// Waits until the names in `path` would survive a loss of power.
    pub(crate) fn sync_dir(&self, path: &Path) -> io::Result<()> {
        if self.record.is_some() {
            self.note(|| Call::SyncDir(path.to_owned()));
            return Ok(());
        }
        sync_names(path)
    }

    /// Gives the directory `from` the name `to`, where nothing is, or an empty directory.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        self.note(|| Call::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    /// Lets two names change places in one step; `false` where that cannot be done.
    pub(crate) fn exchange(&self, one: &Path, other: &Path) -> io::Result<bool> {
        let done = !self.plain && exchange_names(one, other)?;
        if done {
            self.note(|| Call::Exchange(one.to_owned(), other.to_owned()));
        }
        Ok(done)
    }

    /// Removes a directory and all that is below it.
    pub(crate) fn remove_all(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)?;
        self.note(|| Call::RemoveAll(path.to_owned()));
        Ok(())
    }

    fn note(&self, call: impl FnOnce() -> Call) {
        if let Some(calls) = &self.record {
            calls.lock().unwrap_or_else(PoisonError::into_inner).push(call());
        }
    }
}

/// Writes all parts, many at once.
fn write_all(file: &mut File, parts: &[Bytes]) -> io::Result<()> {
    if let [part] = parts {
        return file.write_all(part);
    }
    for parts in parts.chunks(AT_ONCE) {
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut rest = slices.as_mut_slice();
        IoSlice::advance_slices(&mut rest, 0); // past empty ones
        while !rest.is_empty() {
            match file.write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut rest, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// One call for the whole file system.
#[cfg(target_os = "linux")]
fn sync_below(held: &File, _path: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(held)?)
}

/// Every file, then every directory from the innermost on.
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
    sync_names(path)
}

#[cfg(unix)]
fn sync_names(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Elsewhere a directory cannot be opened like a file; the system keeps its names in its own journal.
#[cfg(not(unix))]
fn sync_names(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// The system takes no more slices than this in one call.
const AT_ONCE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(parts: &[&'static [u8]]) -> Vec<Bytes> {
        parts.iter().map(|part| Bytes::from_static(part)).collect()
    }

    #[test]
    fn files_are_made_once_with_what_is_above_them() {
        let here = tempfile::tempdir().unwrap();
        let disk = Disk::recording();
        let file = here.path().join("a/b/c");
        disk.create(&file, &parts(&[b"one", b"", b"two"])).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"onetwo");
        let again = disk.create(&file, &parts(&[b"x"])).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        let many = here.path().join("many");
        disk.create(&many, &vec![Bytes::from_static(b"ab"); 3000]).unwrap();
        assert_eq!(fs::read(&many).unwrap().len(), 6000);
        let (a, b) = (here.path().join("a"), here.path().join("a/b"));
        let made = [Call::MakeDir(a), Call::MakeDir(b), Call::Create(file, "onetwo".into())];
        assert_eq!(disk.calls()[..3], made);
    }

    #[test]
    fn a_rename_is_never_over_something() {
        let here = tempfile::tempdir().unwrap();
        let path = |name: &str| here.path().join(name);
        let disk = Disk::default();
        for name in ["new/x", "full/y"] {
            disk.create(&path(name), &parts(&[b"1"])).unwrap();
        }
        disk.create(&path("file"), &parts(&[b"1"])).unwrap();
        disk.make_dir(&path("empty")).unwrap();
        assert!(disk.rename(&path("new"), &path("full")).is_err());
        assert!(disk.rename(&path("new"), &path("file")).is_err());
        disk.rename(&path("new"), &path("empty")).unwrap();
        assert_eq!(fs::read(path("empty/x")).unwrap(), b"1");
        assert!(disk.calls().is_empty());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn names_change_places() {
        let here = tempfile::tempdir().unwrap();
        let path = |name: &str| here.path().join(name);
        let disk = Disk::default();
        disk.create(&path("a/x"), &parts(&[b"1"])).unwrap();
        disk.create(&path("b/y"), &parts(&[b"2"])).unwrap();
        assert!(disk.exchange(&path("a"), &path("b")).unwrap());
        assert_eq!(fs::read(path("a/y")).unwrap(), b"2");
        assert!(disk.exchange(&path("a"), &path("none")).is_err());
        disk.sync_all(&File::open(here.path()).unwrap(), here.path()).unwrap();
        disk.sync_dir(here.path()).unwrap();
        disk.remove_all(&path("a")).unwrap();
        assert!(!path("a").exists());
    }
}
