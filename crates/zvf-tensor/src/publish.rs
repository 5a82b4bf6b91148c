//! A new file that nobody sees before it is whole.
//!
//! ```text
//! .tmp-<process>-<number> beside the name -> written -> fsync -> rename, or link where nothing may be
//! there -> fsync of the folder
//! ```
//!
//! What is dropped before is removed. Listings of stores skip such names.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use zvf_store::{Op, StoreError};

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
        if !replace && path.symlink_metadata().is_ok() {
            return Err(failed(io::ErrorKind::AlreadyExists.into()));
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".tmp-{}-{number}", std::process::id());
        let temporary = folder(path).join(name);
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
}
