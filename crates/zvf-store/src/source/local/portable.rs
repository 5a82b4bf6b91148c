//! A directory as a path, using only the portable standard library.

use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use zvf_error::{Error, Result};

use super::file::{Entry, File, Listing, dangling_link_error, is_absent};
use crate::key::Key;

/// A directory, by name.
#[derive(Debug)]
pub(in crate::source) struct Dir(PathBuf);

impl Dir {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        if fs::metadata(path)?.is_dir() {
            Ok(Self(path.to_owned()))
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    }

    /// Returns whether another directory has the name: names are resolved again for each file here,
    /// so the answer is always no.
    #[cfg(not(unix))]
    pub(super) fn is_replaced(&self, _path: &Path) -> bool {
        false
    }

    /// Returns the file under `key`, or `None` if an object store would find nothing.
    pub(super) fn file(&self, key: &Key) -> Result<Option<File>> {
        let Some(path) = self.path(key) else { return Ok(None) };
        let opened = match fs::metadata(&path) {
            Ok(about) if about.is_dir() => return Ok(None),
            Ok(_) => fs::File::open(path),
            Err(error) => Err(error),
        };
        match opened {
            Ok(file) => File::new(file),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(Error::io("read", error)),
        }
    }

    /// Returns the entries of the directory `key`, or `None` if there is no such directory.
    pub(super) fn listing(&self, key: &Key, sizes: bool) -> io::Result<Option<Listing>> {
        let Some(path) = self.path(key) else { return Ok(None) };
        let found = match fs::read_dir(&path) {
            Ok(found) => found,
            Err(error) => return if is_absent(&error) { Ok(None) } else { Err(error) },
        };
        let mut entries = Vec::new();
        for entry in found {
            let entry = entry?;
            // Keys are UTF-8: a file of another name is no part of the store.
            let Ok(name) = entry.file_name().into_string() else { continue };
            let about = match fs::metadata(entry.path()) {
                Err(_) if !name.starts_with('.') && entry.path().is_symlink() => {
                    return Err(dangling_link_error(&name));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue, // removed
                about => about?,
            };
            // A pipe or a device is listed too: whoever reads it refuses it.
            let size = if sizes && about.is_file() { about.len() } else { 0 };
            entries.push(Entry { name, is_dir: about.is_dir(), size });
        }
        Ok(Some(Listing { place: place(&path)?, entries }))
    }

    /// Returns the path of `key`, unless this system would interpret a segment as something other
    /// than a name.
    fn path(&self, key: &Key) -> Option<PathBuf> {
        let mut path = self.0.clone();
        for segment in key.segments() {
            if cfg!(windows) && segment.contains(':') {
                return None;
            }
            path.push(segment);
        }
        Some(path)
    }
}

#[cfg(not(unix))]
impl File {
    /// Reads the bytes from `start`: `len` of them, or fewer when the file ends.
    pub(super) fn read(&self, start: u64, len: u64) -> io::Result<Vec<u8>> {
        read(&self.open, start, len)
    }
}

/// Reads the bytes of `file` from `start`: `len` of them, or fewer when it ends.
pub(super) fn read(mut file: &fs::File, start: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let room = zvf_format::num::saturating_usize(len); // more than there is: refused
    bytes.try_reserve_exact(room).map_err(|_full| io::ErrorKind::OutOfMemory)?;
    file.seek(SeekFrom::Start(start))?;
    file.take(len).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns a number that identifies the directory, whichever name it is reached by.
fn place(path: &Path) -> io::Result<(u64, u64)> {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    fs::canonicalize(path)?.hash(&mut hasher);
    Ok((0, hasher.finish()))
}
