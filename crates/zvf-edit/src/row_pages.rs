//! Rows by number. A scratch file holds them; the page that was used last is in memory.
//!
//! ```text
//! push       new rows go to the tail; a full page of them is written out
//! row        the page of the row is read, unless it is the one that was used last
//! set_row    changes the page that was used last; it is written before another one is read
//! ```

use std::cell::{RefCell, RefMut};

use zvf_format::num::index_u32;

use crate::changes::Changes;
use crate::error::Result;
use crate::journal::need_listed;
use crate::numbers::Vid;

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
