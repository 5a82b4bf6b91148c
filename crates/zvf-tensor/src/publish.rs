//! A new file that nobody sees before it is whole.
//!
//! ```text
//! .tmp-<process>-<number> beside the name -> written -> fsync -> rename, or link where nothing may be
//! there -> fsync of the folder
//! ```
//!
//! A folder is made the same way, of files that are synced one by one. Where it replaces another, the two
//! exchange their names in one step where the system can; elsewhere the old one is renamed first,
//! and who opens it in between finds nothing. The old one is removed last: a reader that opens its files one by
//! one does not find some, and never finds a mixture.
//!
//! What is dropped before is removed. Listings of stores skip such names.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use zvf_store::{Op, StoreError, exchange_names};

use crate::error::TensorError;

/// A file in the making.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("a.tet");
/// use std::io::Write as _;
/// use zvf_tensor::NewFile;
///
/// let mut new = NewFile::create(&path, false)?;
/// new.file().write_all(b"all of it")?;
/// assert!(!path.exists());
/// new.publish()?;
/// assert_eq!(std::fs::read(&path)?, b"all of it");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct NewFile {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
    replace: bool,
    published: bool,
}

impl NewFile {
    /// Begins the file at `path`; what is there is replaced only when `replace` says so.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when something is there and is not to be replaced; otherwise when the folder cannot be
    /// written.
    pub fn create(path: &Path, replace: bool) -> Result<Self, TensorError> {
        let failed = |error| TensorError::from(StoreError::io(Op::Write, error));
        may_take(path, replace)?;
        let temporary = beside(path);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&temporary);
        let file = file.map_err(failed)?;
        Ok(Self { file, temporary, path: path.to_owned(), replace, published: false })
    }

    /// The file, to be written to.
    pub const fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives it its name, once all of it would survive a loss of power.
    ///
    /// # Errors
    ///
    /// When it cannot be synced, something took the name, or the name cannot be given.
    pub fn publish(mut self) -> Result<(), TensorError> {
        let failed = |error| TensorError::from(StoreError::io(Op::Publish, error));
        self.file.sync_all().map_err(failed)?;
        if self.replace {
            fs::rename(&self.temporary, &self.path).map_err(failed)?;
            self.published = true;
        } else {
            fs::hard_link(&self.temporary, &self.path).map_err(failed)?;
        }
        sync_folder(folder(&self.path)).map_err(failed)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.published {
            // What cannot be removed stays, under a name that nobody reads.
            let _gone = fs::remove_file(&self.temporary);
        }
    }
}

/// A folder in the making.
#[derive(Debug)]
pub(crate) struct NewFolder {
    temporary: PathBuf,
    path: PathBuf,
    replace: bool,
}

impl NewFolder {
    /// Begins the folder at `path`; what is there is replaced only when `replace` says so.
    pub(crate) fn create(path: &Path, replace: bool) -> Result<Self, TensorError> {
        let failed = |error| TensorError::from(StoreError::io(Op::Write, error));
        may_take(path, replace)?;
        let temporary = beside(path);
        fs::create_dir(&temporary).map_err(failed)?;
        Ok(Self { temporary, path: path.to_owned(), replace })
    }

    /// Where its files are made.
    pub(crate) fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Gives it its name.
    pub(crate) fn publish(self) -> Result<(), TensorError> {
        let failed = |error| TensorError::from(StoreError::io(Op::Publish, error));
        sync_folder(&self.temporary).map_err(failed)?;
        let there = self.path.symlink_metadata().is_ok();
        if there && !self.replace {
            return Err(failed(io::ErrorKind::AlreadyExists.into()));
        }
        if there && exchange_names(&self.temporary, &self.path).map_err(failed)? {
            // The old one has the temporary name now, and goes with this value.
            return sync_folder(folder(&self.path)).map_err(failed);
        }
        let old = beside(&self.path);
        if there {
            fs::rename(&self.path, &old).map_err(failed)?;
        }
        if let Err(error) = fs::rename(&self.temporary, &self.path) {
            if there {
                fs::rename(&old, &self.path).map_err(failed)?;
            }
            return Err(failed(error));
        }
        sync_folder(folder(&self.path)).map_err(failed)?;
        if there {
            remove(&old);
        }
        Ok(())
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        // After publishing there is nothing of that name, or what was replaced.
        remove(&self.temporary);
    }
}

/// Whether something new may get this name: what is no file and no folder (a device, a pipe) is never
/// replaced, for nobody could make it again.
fn may_take(path: &Path, replace: bool) -> Result<(), TensorError> {
    let Ok(there) = path.symlink_metadata() else { return Ok(()) };
    if !replace {
        return Err(StoreError::io(Op::Write, io::ErrorKind::AlreadyExists.into()).into());
    }
    let kind = there.file_type();
    if kind.is_file() || kind.is_dir() || kind.is_symlink() {
        return Ok(());
    }
    Err(TensorError::request(
        "output",
        "a file, a folder or nothing yet",
        "a device, pipe or socket",
    ))
}

/// Removes a folder, or the file that was in its place.
fn remove(path: &Path) {
    // What cannot be removed stays, under a name that nobody reads.
    let _gone = fs::remove_dir_all(path).or_else(|_no_folder| fs::remove_file(path));
}

/// A name in the same folder that nobody else has.
fn beside(path: &Path) -> PathBuf {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    folder(path).join(format!(".tmp-{}-{number}", std::process::id()))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_path: &Path) -> io::Result<()> {
    Ok(())
}

static NEXT: AtomicU64 = AtomicU64::new(0);

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use zvf_format::Class;

    use super::*;

    #[test]
    fn a_name_is_given_once_and_only_when_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let mut dropped = NewFile::create(&path, false).unwrap();
        dropped.file().write_all(b"half").unwrap();
        drop(dropped);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);

        let one = NewFile::create(&path, false).unwrap();
        let mut other = NewFile::create(&path, false).unwrap();
        other.file().write_all(b"other").unwrap();
        other.publish().unwrap();
        assert_eq!(one.publish().unwrap_err().class(), Class::AlreadyExists);
        assert_eq!(NewFile::create(&path, false).unwrap_err().class(), Class::AlreadyExists);

        let mut new = NewFile::create(&path, true).unwrap();
        new.file().write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"other");
        new.publish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let _listening = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let told = "a file, a folder or nothing yet";
        let file = NewFile::create(&path, true).unwrap_err();
        let folder = NewFolder::create(&path, true).unwrap_err();
        assert!(file.to_string().contains(told), "{file}");
        assert!(folder.to_string().contains(told), "{folder}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let names = || {
            let mut names: Vec<_> = fs::read_dir(&path)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let make = |replace, name: &str| {
            let new = NewFolder::create(&path, replace)?;
            fs::write(new.temporary().join(name), name).unwrap();
            new.publish()
        };
        make(false, "one").unwrap();
        assert_eq!(names(), ["one"]);
        assert_eq!(make(false, "two").unwrap_err().class(), Class::AlreadyExists);
        make(true, "three").unwrap();
        assert_eq!(names(), ["three"]);

        // Who looks all the time never finds nothing, where names can be exchanged.
        let other = dir.path().join("other");
        fs::create_dir(&other).unwrap();
        let never =
            exchange_names(&path, &other).unwrap() && exchange_names(&path, &other).unwrap();
        fs::remove_dir(&other).unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let mut missing = 0;
                while !stop.load(Ordering::Relaxed) {
                    missing += usize::from(!path.exists());
                }
                missing
            });
            let made: Result<Vec<()>, _> = (0..50).map(|_| make(true, "three")).collect();
            stop.store(true, Ordering::Relaxed);
            made.unwrap();
            assert!(looking.join().unwrap() == 0 || !never);
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);

        // A file that is in the way is replaced, too.
        fs::remove_dir_all(&path).unwrap();
        fs::write(&path, "a file").unwrap();
        make(true, "four").unwrap();
        assert_eq!((names(), fs::read_dir(dir.path()).unwrap().count()), (vec!["four".into()], 1));

        fs::remove_dir_all(&path).unwrap();
        let late = NewFolder::create(&path, false).unwrap();
        make(false, "first").unwrap();
        assert_eq!(late.publish().unwrap_err().class(), Class::AlreadyExists);
        drop(NewFolder::create(&path, true).unwrap());
        assert_eq!(names(), ["first"]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
