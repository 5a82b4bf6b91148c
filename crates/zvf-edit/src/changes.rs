//! Bytes by key, of which large ones lie in a scratch file: the changes of a commit, staged cells, new points.
//!
//! A commit may change every byte of a store. What exceeds the room in memory is written out at once, and read again
//! where it is needed.
//!
//! Rows by number lie in pages of such a file; the page that was used last is in memory.
//!
//! ```text
//! push       new rows go to the tail; a full page of them is written out
//! row        the page of the row is read, unless it is the one that was used last
//! set_row    changes the page that was used last; it is written before another one is read
//! ```

use std::borrow::Borrow;
use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use zvf_format::num::{index_u32, to_u64};
use zvf_publish::Disk;
use zvf_store::record::StagedSpan;

use crate::epoch::new_txid;
use crate::error::Result;
use crate::journal::need_listed;
use crate::numbers::Vid;

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
}

impl Blob {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Held(bytes) => bytes.len(),
            Self::Written(_, _, len) => *len,
        }
    }

    pub(crate) fn read(&self) -> Result<Bytes> {
        match self {
            Self::Held(bytes) => Ok(bytes.clone()),
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
        }
    }
}

impl<K> Default for Changes<K> {
    fn default() -> Self {
        Self { keys: BTreeMap::new(), room: MAX_HELD_BYTES, scratch: None }
    }
}

impl<K: Ord> Changes<K> {
    /// Sets the bytes of a key. Where a scratch file cannot be written, they stay in memory.
    pub(crate) fn insert(&mut self, key: K, bytes: Option<Bytes>) {
        let blob = bytes.map(|bytes| match bytes.len() <= self.room {
            true => {
                self.room -= bytes.len();
                Blob::Held(bytes)
            }
            false => self.write(&bytes).unwrap_or(Blob::Held(bytes)),
        });
        self.keys.insert(key, blob);
    }

    fn write(&mut self, bytes: &[u8]) -> Option<Blob> {
        if self.scratch.is_none() {
            let path = std::env::temp_dir().join(format!("zvf-edit-{}", new_txid()));
            let file = Disk::default().open_new(&path, true).ok()?;
            // Where an open file cannot be removed, the system cleans the folder for temporary files.
            let _ = std::fs::remove_file(&path);
            self.scratch = Some(Arc::new(Mutex::new(file)));
        }
        let scratch = self.scratch.clone()?;
        let mut file = scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = file.seek(SeekFrom::End(0)).ok()?;
        file.write_all(bytes).ok()?;
        drop(file);
        Some(Blob::Written(scratch, offset, bytes.len()))
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

/// Rows of one length.
#[derive(Clone, Debug)]
pub(crate) struct RowPages {
    /// Bytes of a row.
    size: usize,
    tail: Vec<u8>,
    pages: RefCell<Pages>,
}

#[derive(Clone, Debug, Default)]
struct Pages {
    all: Changes<usize>,
    count: usize,
    /// The page that was used last.
    used: Option<usize>,
    bytes: Vec<u8>,
    is_changed: bool,
}

impl Pages {
    fn add(&mut self, bytes: Vec<u8>) {
        self.all.insert(self.count, Some(bytes.into()));
        self.count += 1;
    }

    /// Reads a page, unless it is the one that was used last.
    fn turn_to(&mut self, page: usize) -> Result<()> {
        if self.used == Some(page) {
            return Ok(());
        }
        if let Some(used) = self.used.take().filter(|_| self.is_changed) {
            self.all.insert(used, Some(std::mem::take(&mut self.bytes).into()));
        }
        let bytes = need_listed("a page of rows", self.all.get(&page)?.flatten())?;
        (self.used, self.is_changed) = (Some(page), false);
        self.bytes = bytes.into();
        Ok(())
    }
}

impl RowPages {
    pub(crate) fn new(size: usize) -> Self {
        Self { size, tail: Vec::new(), pages: RefCell::default() }
    }

    /// Returns the number of rows, which are not empty.
    pub(crate) fn count(&self) -> Vid {
        let rows = self.pages.borrow().count * self.page_rows() + self.tail.len() / self.size;
        index_u32(rows)
    }

    fn page_rows(&self) -> usize {
        (PAGE_BYTES / self.size.max(1)).max(1)
    }

    /// Appends rows.
    pub(crate) fn push(&mut self, rows: &[u8]) {
        let page_bytes = self.page_rows() * self.size;
        let mut rows = rows;
        while self.tail.len() + rows.len() >= page_bytes && page_bytes > 0 {
            let (now, rest) = rows.split_at(page_bytes - self.tail.len());
            self.tail.extend_from_slice(now);
            self.pages.get_mut().add(std::mem::take(&mut self.tail));
            rows = rest;
        }
        self.tail.extend_from_slice(rows);
    }

    /// Returns the span of a row in the tail, or in the page that is then the one used last.
    fn find(&self, v: Vid) -> Result<(Option<RefMut<'_, Pages>>, usize)> {
        let (page, row) = (v as usize / self.page_rows(), v as usize % self.page_rows());
        let mut pages = self.pages.borrow_mut();
        if page == pages.count {
            return Ok((None, row * self.size));
        }
        pages.turn_to(page)?;
        Ok((Some(pages), row * self.size))
    }

    /// Appends a row to `out`.
    pub(crate) fn copy_row(&self, v: Vid, out: &mut Vec<u8>) -> Result<()> {
        let (pages, at) = self.find(v)?;
        let bytes = pages.as_ref().map_or(&self.tail, |pages| &pages.bytes);
        out.extend_from_slice(&bytes[at..at + self.size]);
        Ok(())
    }

    pub(crate) fn row(&self, v: Vid) -> Result<Vec<u8>> {
        let mut row = Vec::with_capacity(self.size);
        self.copy_row(v, &mut row).map(|()| row)
    }

    /// Returns whether a row is these bytes.
    pub(crate) fn is_row(&self, v: Vid, row: &[u8]) -> Result<bool> {
        let (pages, at) = self.find(v)?;
        let bytes = pages.as_ref().map_or(&self.tail, |pages| &pages.bytes);
        Ok(&bytes[at..at + self.size] == row)
    }

    pub(crate) fn set_row(&mut self, v: Vid, row: &[u8]) -> Result<()> {
        let (page, at) = (v as usize / self.page_rows(), v as usize % self.page_rows() * self.size);
        let pages = self.pages.get_mut();
        let bytes = if page == pages.count {
            &mut self.tail
        } else {
            pages.turn_to(page)?;
            pages.is_changed = true;
            &mut pages.bytes
        };
        bytes[at..at + self.size].copy_from_slice(row);
        Ok(())
    }
}

/// Bytes of a page, about: rows that are used in any order read a page for each.
const PAGE_BYTES: usize = 1 << 14;

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

#[cfg(test)]
mod row_pages_tests {
    use super::*;

    #[test]
    fn rows_beyond_a_page_are_read_and_changed() {
        let mut rows = RowPages::new(8);
        let row = |n: u32, by: u64| (u64::from(n) * 3 + by).to_le_bytes();
        let count = 200_000; // more than is held in memory
        let all: Vec<u8> = (0..count).flat_map(|n| row(n, 0)).collect();
        for part in all.chunks(8 * 777) {
            rows.push(part);
        }
        for n in (0..count).step_by(3).rev() {
            rows.set_row(n, &row(n, 1)).unwrap();
        }
        let copy = rows.clone();
        rows.set_row(5, &row(5, 9)).unwrap();
        rows.set_row(count - 1, &row(5, 9)).unwrap();
        for n in (0..count / 7).map(|n| n * 7919 % count) {
            let expected = row(n, u64::from(n % 3 == 0));
            assert_eq!(copy.row(n).unwrap(), expected);
            let is_other = n == 5 || n == count - 1;
            assert_eq!(rows.is_row(n, &expected).unwrap(), !is_other, "{n}");
        }
    }
}
