//! Bytes by key, of which large ones lie in a scratch file: the changes of a commit, staged cells, new points.
//!
//! A commit may change every byte of a store. What exceeds the room in memory is written out at once, and read again
//! where it is needed.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use zvf_format::num::to_u64;
use zvf_publish::Disk;
use zvf_store::record::StagedSpan;

use crate::error::{EditError, Result};
use crate::stamp::new_txid;

/// Bytes by key; `None` stands for a key that is removed, or that is not there.
#[derive(Clone, Debug)]
pub(crate) struct Changes<K = String> {
    pub(crate) keys: BTreeMap<K, Option<Blob>>,
    /// The number of bytes that may still be kept in memory.
    room: usize,
    scratch: Option<Scratch>,
}

/// The bytes that keys had, or will have.
pub(crate) type KeyContents = BTreeMap<String, Option<Blob>>;

/// A file that has no name, so that nothing is left of it.
type Scratch = Arc<Mutex<File>>;

/// The bytes of a key.
#[derive(Clone, Debug)]
pub(crate) enum Blob {
    Held(Bytes),
    /// In a scratch file, at this offset.
    Written(Scratch, u64, usize),
    /// Not in memory, and the scratch file could not be written: reading them is this error.
    Lost(EditError, usize),
}

impl Blob {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Held(bytes) => bytes.len(),
            Self::Written(_, _, len) | Self::Lost(_, len) => *len,
        }
    }

    pub(crate) fn read(&self) -> Result<Bytes> {
        match self {
            Self::Held(bytes) => Ok(bytes.clone()),
            Self::Lost(error, _) => Err(error.clone()),
            Self::Written(scratch, offset, len) => {
                let mut file = scratch.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(*offset))?;
                let mut bytes = vec![0; *len];
                file.read_exact(&mut bytes)?;
                Ok(bytes.into())
            }
        }
    }

    /// Returns the same bytes, in memory where they are few: a file stays open for the others.
    pub(crate) fn hold_few(self) -> Result<Self> {
        if self.len() > MAX_HELD_BYTES { Ok(self) } else { self.read().map(Self::Held) }
    }

    /// Returns a span of the file `staged`, whose bytes are verified.
    pub(crate) fn span(&self, span: StagedSpan, staged: &str) -> Result<Self> {
        let mut found = self.clone();
        span.read(self.len(), staged, |part| {
            found = self.part(part);
            found.read()
        })?;
        Ok(found)
    }

    /// Returns a part of the bytes, which lies within them.
    pub(crate) fn part(&self, part: Range<usize>) -> Self {
        match self {
            Self::Held(bytes) => Self::Held(bytes.slice(part)),
            Self::Written(scratch, offset, _) => {
                Self::Written(Arc::clone(scratch), offset + to_u64(part.start), part.len())
            }
            Self::Lost(error, _) => Self::Lost(error.clone(), part.len()),
        }
    }
}

impl<K> Default for Changes<K> {
    fn default() -> Self {
        Self { keys: BTreeMap::new(), room: MAX_HELD_BYTES, scratch: None }
    }
}

impl<K: Ord> Changes<K> {
    /// Sets the bytes of a key. Where a scratch file cannot be written, reading them fails.
    pub(crate) fn insert(&mut self, key: K, bytes: Option<Bytes>) {
        let blob = bytes.map(|bytes| match bytes.len() <= self.room {
            true => {
                self.room -= bytes.len();
                Blob::Held(bytes)
            }
            false => self.write(&bytes).unwrap_or_else(|error| {
                let place = format!("temporary files in {:?} (set TMPDIR)", std::env::temp_dir());
                Blob::Lost(EditError::from(error).with_place(&place), bytes.len())
            }),
        });
        self.keys.insert(key, blob);
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<Blob> {
        let scratch = match &self.scratch {
            Some(scratch) => scratch,
            None => {
                let path = std::env::temp_dir().join(format!("zvf-edit-{}", new_txid()));
                let file = Disk::default().open_new(&path, true)?;
                // Where an open file cannot be removed, the system cleans the folder for temporary files.
                let _ = std::fs::remove_file(&path);
                self.scratch.insert(Arc::new(Mutex::new(file)))
            }
        };
        let mut file = scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = file.seek(SeekFrom::End(0))?;
        file.write_all(bytes)?;
        Ok(Blob::Written(Arc::clone(scratch), offset, bytes.len()))
    }

    /// Reads the bytes of a key; `None` where it does not change.
    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Result<Option<Option<Bytes>>>
    where
        K: Borrow<Q>,
    {
        self.keys.get(key).map(read_blob).transpose()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the number of bytes of all keys.
    pub(crate) fn byte_len(&self) -> usize {
        self.keys.values().flatten().map(Blob::len).sum()
    }
}

impl Changes {
    /// Reads the bytes of all keys.
    pub(crate) fn read_all(&self) -> Result<BTreeMap<String, Option<Bytes>>> {
        self.keys.iter().map(|(key, blob)| Ok((key.clone(), read_blob(blob)?))).collect()
    }
}

/// Reads the bytes of a key, where it has any.
pub(crate) fn read_blob(blob: &Option<Blob>) -> Result<Option<Bytes>> {
    blob.as_ref().map(Blob::read).transpose()
}

/// Bytes that are held, at most.
const MAX_HELD_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_changes_are_written_out() {
        let mut changes = Changes::default();
        for n in 0..40_u8 {
            changes.insert(n, Some(vec![n; 300_000].into()));
        }
        assert!(changes.room < 300_000 && changes.byte_len() == 40 * 300_000);
        for n in [0, 3, 4, 39] {
            assert_eq!(changes.get(&n).unwrap().unwrap().unwrap(), vec![n; 300_000]);
        }
    }
}
