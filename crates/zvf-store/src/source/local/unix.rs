//! A directory as a descriptor: names are resolved from it, and bytes go into fresh memory.
//!
//! Memory is not cleared before a read fills it, because for cells of tens of kilobytes that would
//! cost about as much as the read. Files are opened in non-blocking mode, so that a pipe in a store
//! cannot hang a reader.

use std::fs::File as StdFile;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, openat, readlinkat, stat, statat};
use rustix::io::{Errno, pread};
use zvf_error::{Error, Result};
use zvf_format::num::{saturating_usize, to_u64};

use super::file::{Entry, File, Listing, dangling_link_error, is_absent};
use crate::key::Key;

/// An open directory.
#[derive(Debug)]
pub(in crate::source) struct Dir(OwnedFd);

impl Dir {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path, DIRECTORY, Mode::empty())?))
    }

    /// Returns the file under `key`, or `None` if an object store would find nothing.
    pub(super) fn file(&self, key: &Key) -> Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        match openat(&self.0, key.as_str(), flags, Mode::empty()) {
            Ok(fd) => File::new(StdFile::from(fd)),
            Err(error) => {
                let error = io::Error::from(error);
                if is_absent(&error) { Ok(None) } else { Err(Error::io("read", error)) }
            }
        }
    }

    /// Returns whether `path`, under which it was opened, now names another directory, or this one
    /// is removed. A directory that was only moved is complete.
    pub(super) fn is_replaced(&self, path: &Path) -> bool {
        let Ok(opened) = fstat(&self.0) else { return false };
        match stat(path) {
            Ok(named) => (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino),
            Err(Errno::NOENT) => opened.st_nlink == 0,
            Err(_unknown) => false,
        }
    }

    /// Returns the entries of the directory `key`, or `None` if there is no such directory.
    pub(super) fn listing(&self, key: &Key, sizes: bool) -> io::Result<Option<Listing>> {
        let path = if key.is_root() { "." } else { key.as_str() };
        let dir = match openat(&self.0, path, DIRECTORY, Mode::empty()) {
            Ok(dir) => dir,
            Err(error) => {
                let error = io::Error::from(error);
                return if is_absent(&error) { Ok(None) } else { Err(error) };
            }
        };
        let about = fstat(&dir)?;
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(&dir)? {
            let entry = entry?;
            // Keys are UTF-8: a file of another name is no part of the store.
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name == "." || name == ".." {
                continue;
            }
            let mut kind = entry.file_type();
            let mut size = 0;
            if sizes && kind == FileType::RegularFile || !is_known(kind) {
                let about = match statat(&dir, name, AtFlags::empty()) {
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
                        if !name.starts_with('.') && readlinkat(&dir, name, Vec::new()).is_ok() =>
                    {
                        return Err(dangling_link_error(name));
                    }
                    Err(Errno::NOENT) => continue, // removed, or the lock of a text editor
                    about => about?,
                };
                kind = FileType::from_raw_mode(about.st_mode);
                size =
                    u64::try_from(about.st_size).map_err(|_negative| io::ErrorKind::InvalidData)?;
            }
            // A pipe or a device is listed too: whoever reads it refuses it.
            let is_dir = kind == FileType::Directory;
            entries.push(Entry { name: name.to_owned(), is_dir, size });
        }
        Ok(Some(Listing { place: (about.st_dev, about.st_ino), entries }))
    }
}

impl File {
    /// Reads the bytes from `start`: `len` of them, or fewer when the file ends.
    pub(super) fn read(&self, start: u64, len: u64) -> io::Result<Vec<u8>> {
        let (max_bytes, mut at) = (saturating_usize(len), start); // more than there is: refused below
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(max_bytes).map_err(|_full| io::ErrorKind::OutOfMemory)?;
        while bytes.len() < max_bytes {
            match pread(&self.open, spare_capacity(&mut bytes), at) {
                Ok(0) => break,
                Ok(n) => at += to_u64(n),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        bytes.truncate(max_bytes);
        Ok(bytes)
    }

    /// Fills `out` with the bytes from `start`, and returns their number: fewer if the file ends.
    pub(super) fn read_into(&self, start: u64, out: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match pread(&self.open, rest, start + to_u64(done)) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }
}

fn is_known(kind: FileType) -> bool {
    !matches!(kind, FileType::Symlink | FileType::Unknown)
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
