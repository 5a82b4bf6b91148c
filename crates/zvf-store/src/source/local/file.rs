//! The result of opening a name in a directory: an open file, or a listing.

use std::fs::{File as StdFile, Metadata};
use std::io;

use zvf_error::{Error, Result};

use super::super::Version;
use crate::error::WithOp as _;

/// An open regular file, with its metadata at that time.
#[derive(Debug)]
pub(super) struct File {
    pub(super) open: StdFile,
    about: Metadata,
}

impl File {
    /// Examines an opened name: a directory is not an object, and a pipe or a device is refused.
    pub(super) fn new(open: StdFile) -> Result<Option<Self>> {
        let about = open.metadata().with_op("read")?;
        if about.is_dir() {
            return Ok(None);
        }
        if !about.is_file() {
            return Err(Error::unsupported("kind of file", "not a regular file"));
        }
        Ok(Some(Self { open, about }))
    }

    pub(super) fn size(&self) -> u64 {
        self.about.len()
    }

    pub(super) fn version(&self) -> Version {
        Version {
            stamp: Some(Stamp::from_metadata(&self.about)),
            ..Version::from_size(self.size())
        }
    }

    /// Returns whether the file was written to since it was opened. Changes of its names do not
    /// count.
    pub(super) fn is_written(&self) -> Result<bool> {
        let now = self.open.metadata().with_op("read")?;
        let written = |about: &Metadata| (about.len(), Stamp::from_metadata(about).modified);
        Ok(written(&now) != written(&self.about))
    }

    /// Duplicates the handle of the open file.
    #[cfg(all(unix, feature = "map"))]
    pub(super) fn reopen(&self) -> Result<StdFile> {
        self.open.try_clone().with_op("read")
    }
}

/// The metadata that distinguishes two versions of a file, besides its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::source) struct Stamp {
    place: (u64, u64),    // device and inode
    modified: (i64, i64), // seconds and nanoseconds
    changed: (i64, i64),  // of the inode
}

impl Stamp {
    pub(in crate::source) fn is_same_file(&self, other: &Self) -> bool {
        self.place == other.place
    }

    #[cfg(unix)]
    fn from_metadata(about: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self {
            place: (about.dev(), about.ino()),
            modified: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
        }
    }

    #[cfg(not(unix))]
    fn from_metadata(about: &Metadata) -> Self {
        let since =
            about.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let modified = since.map_or((0, 0), |since| {
            (since.as_secs().try_into().unwrap_or(i64::MAX), since.subsec_nanos().into()) // no clock shows that
        });
        Self { place: (0, 0), modified, changed: (0, 0) }
    }
}

/// The content of one directory.
pub(super) struct Listing {
    /// The identity of the directory, independent of its name.
    pub(super) place: (u64, u64),
    pub(super) entries: Vec<Entry>,
}

/// One name in a directory.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) is_dir: bool,
    /// Zero unless sizes were requested.
    pub(super) size: u64,
}

/// Returns the error for a symbolic link whose target is missing: what it names may be a level on a
/// disk that is not mounted.
pub(super) fn dangling_link_error(name: &str) -> io::Error {
    let text = format!("{name:?} is a symbolic link that leads nowhere");
    io::Error::new(io::ErrorKind::NotFound, text)
}

/// Returns whether a system error means that there is no such object.
pub(super) fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.kind(), Kind::NotFound | Kind::NotADirectory | Kind::IsADirectory)
}
