//! Files of a local store, opened beneath its root.
//!
//! The root is a directory descriptor; each segment of a key is opened with `openat` and
//! `O_NOFOLLOW`, so neither a link nor `..` leads out of it, even while directories are renamed.
//! The descriptor belongs to the store's parent folder, and the store is opened beneath it for each
//! request: replacing a store by a rename is noticed, and a link in its place is not followed.
//!
//! The allowed segments are defined in [`crate::target`].

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

/// A local store: a folder, or one file.
#[derive(Debug)]
pub(crate) struct LocalRoot {
    folder: OwnedFd,
    name: OsString,
    is_file: bool,
}

/// An open file with its version.
#[derive(Clone)]
pub(crate) struct LocalFile {
    file: Arc<File>,
    pub(crate) len: u64,
    pub(crate) etag: String,
}

impl LocalRoot {
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let is_file = path.metadata()?.is_file();
        let parent = path.parent().unwrap_or(&path);
        let name = path.file_name().unwrap_or(OsStr::new("."));
        let folder = rustix::fs::open(parent, folder_flags(), Mode::empty())?;
        Ok(Self { folder, name: name.to_owned(), is_file })
    }

    /// Returns whether the store is one file.
    pub(crate) const fn is_file(&self) -> bool {
        self.is_file
    }

    /// Opens the file with this key; without segments, opens the store itself if it is one file.
    ///
    /// Returns `None` if there is no such file, or if it is a link, a directory or a device.
    pub(crate) fn open(&self, key: &[String]) -> io::Result<Option<LocalFile>> {
        let opened = match (self.is_file, key.split_last()) {
            (true, None) => {
                rustix::fs::openat(&self.folder, &self.name, file_flags(), Mode::empty())
            }
            (false, Some((name, folders))) => self
                .open_folder(folders)
                .and_then(|folder| rustix::fs::openat(folder, name, file_flags(), Mode::empty())),
            (true, Some(_)) | (false, None) => return Ok(None),
        };
        match opened {
            Ok(file) => LocalFile::new(file.into()),
            Err(error) if is_absence(error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn open_folder(&self, folders: &[String]) -> rustix::io::Result<OwnedFd> {
        let flags = folder_flags() | OFlags::NOFOLLOW;
        let mut folder = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())?;
        for name in folders {
            folder = rustix::fs::openat(&folder, name, flags, Mode::empty())?;
        }
        Ok(folder)
    }
}

fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// Returns the flags of files: a pipe must not block until its writer opens it, and a terminal must not become the
/// controlling one.
fn file_flags() -> OFlags {
    OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY
}

fn is_absence(error: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::NAMETOOLONG, Errno::NXIO].contains(&error)
}

impl LocalFile {
    fn new(file: File) -> io::Result<Option<Self>> {
        let metadata = file.metadata()?;
        let etag = entity_tag(&metadata);
        let len = metadata.len();
        Ok(metadata.is_file().then(|| Self { file: Arc::new(file), len, etag }))
    }

    /// Reads exactly `len` bytes at `start`.
    ///
    /// If a file was truncated or changed meanwhile, this is an error, because the announced bytes
    /// can no longer be sent.
    pub(crate) fn read(&self, start: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, start)?;
        if entity_tag(&self.file.metadata()?) == self.etag {
            Ok(bytes)
        } else {
            Err(io::Error::other("the file was changed while it was sent"))
        }
    }
}

/// Returns a strong entity tag: inode, length, and both times in nanoseconds.
fn entity_tag(metadata: &std::fs::Metadata) -> String {
    format!(
        "\"{:x}-{:x}-{:x}.{:x}-{:x}.{:x}\"",
        metadata.ino(),
        metadata.len(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec()
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn keys(key: &str) -> Vec<String> {
        key.split('/').map(str::to_owned).collect()
    }

    #[test]
    fn opens_files_beneath_the_root_only() {
        let scratch = archives::scratch();
        let root = scratch.path().join("store");
        std::fs::create_dir_all(root.join("0/c")).unwrap();
        std::fs::write(root.join("0/c/1"), b"cell").unwrap();
        std::fs::write(scratch.path().join("canary"), b"secret").unwrap();
        symlink(scratch.path().join("canary"), root.join("link")).unwrap();
        symlink(scratch.path(), root.join("out")).unwrap();
        let files = LocalRoot::new(&root).unwrap();
        let cell = files.open(&keys("0/c/1")).unwrap().unwrap();
        assert_eq!((cell.len, cell.read(1, 2).unwrap()), (4, b"el".to_vec()));
        for key in ["0/c/2", "0/c", "link", "out/canary", "0/c/1/x"] {
            assert!(files.open(&keys(key)).unwrap().is_none(), "{key}");
        }
        assert!(files.open(&[]).unwrap().is_none());
        std::fs::rename(&root, scratch.path().join("moved")).unwrap();
        symlink(scratch.path(), &root).unwrap();
        assert!(files.open(&keys("canary")).unwrap().is_none(), "a link replaces the root");
    }

    #[test]
    fn a_file_that_shrinks_while_it_is_sent_is_an_error() {
        let scratch = archives::scratch();
        let path = scratch.path().join("one.tet");
        std::fs::write(&path, b"0123456789").unwrap();
        let root = LocalRoot::new(&path).unwrap();
        assert!(root.is_file());
        let file = root.open(&[]).unwrap().unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(3).unwrap();
        assert!(file.read(0, 10).is_err());
        assert!(file.read(0, 2).is_err());
    }
}
