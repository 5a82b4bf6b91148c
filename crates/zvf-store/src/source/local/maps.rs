//! Files of a directory that are memory-mapped, by choice of the caller.
//!
//! A large file is mapped once per handle and stays mapped; its bytes are returned without a copy,
//! and keep the map alive. Small files are read, because mapping costs more than copying. After an
//! answer was computed from such bytes, [`Maps::check`] verifies that all files are unchanged;
//! otherwise the answer is discarded.
//!
//! If a file is replaced by renaming while the handle lives, its old version stays mapped,
//! complete.

use std::collections::HashMap;
use std::sync::Mutex;

use bytes::Bytes;

use super::file::File;
use crate::key::Key;
use crate::source::Version;
use crate::sync::lock;
use zvf_error::{Locate as _, Result};
use zvf_map::{MappedFile, Promise};

/// The mapped files of one handle.
#[derive(Debug)]
pub(super) struct Maps {
    promise: Promise,
    files: Mutex<HashMap<Key, Mapped>>,
}

/// A mapped file, with its metadata at that time.
#[derive(Clone, Debug)]
pub(super) struct Mapped {
    file: MappedFile,
    pub(super) version: Version,
}

impl Maps {
    /// Creates an empty set of maps under this promise.
    pub(super) fn new(promise: Promise) -> Self {
        Self { promise, files: Mutex::default() }
    }

    /// Creates an empty set of maps under the same promise.
    pub(super) fn new_empty(&self) -> Self {
        Self::new(self.promise)
    }

    /// Returns the file under `key` if it is already mapped.
    pub(super) fn get(&self, key: &Key) -> Option<Mapped> {
        lock(&self.files).get(key).cloned()
    }

    /// Maps `file`, unless it is too small, may change, or there are too many maps: then it is
    /// read.
    pub(super) fn map(&self, key: &Key, file: &File) -> Result<Option<Mapped>> {
        if file.size() < MIN_MAPPED_BYTES || lock(&self.files).len() >= MAX_MAPS {
            return Ok(None);
        }
        // Without another descriptor, the file cannot be checked later; it is open, so it can be
        // read.
        let Ok(again) = file.reopen() else { return Ok(None) };
        let Some(mapped) = self.promise.map(again)? else { return Ok(None) };
        let mapped = Mapped { file: mapped, version: file.version() };
        Ok(Some(lock(&self.files).entry(key.clone()).or_insert(mapped).clone()))
    }

    /// Checks whether all mapped files are unchanged.
    pub(super) fn check(&self) -> Result<()> {
        let files: Vec<(Key, MappedFile)> = lock(&self.files)
            .iter()
            .map(|(key, mapped)| (key.clone(), mapped.file.clone()))
            .collect();
        files.iter().try_for_each(|(key, file)| file.check().at_key(key))
    }
}

impl Mapped {
    pub(super) fn size(&self) -> u64 {
        self.file.len()
    }

    /// Returns the bytes from `start` without a copy.
    pub(super) fn bytes(&self, start: u64, len: u64) -> Result<Bytes> {
        Ok(Bytes::from_owner(self.file.view(start, len)?))
    }
}

/// A map costs about as much as copying this many bytes.
const MIN_MAPPED_BYTES: u64 = 128 << 10;
/// Maximum number of maps per handle. Each keeps its file open for later checks, and often a
/// process may have only 1024 open files.
const MAX_MAPS: usize = 256;
