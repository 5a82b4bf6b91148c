//! Encodes a fragment index: the inverse of the view.
//!
//! The caller's order is kept. A range is stored as a range, even when empty. A list that ascends
//! by one is stored as a range. An empty list stays a list, because it has no start.

use alloc::vec::Vec;

use super::{Fragment, MAGIC, PART, VERSION};
use crate::error::{Class, Expected, FormatError};
use crate::num;

/// Collects fragments in order and encodes them.
///
/// ```
/// use zvf_format::fragment::{Fragment, FragmentIndex, FragmentIndexBuilder};
///
/// let mut builder = FragmentIndexBuilder::new();
/// builder.push_rows(&[4, 5, 6])?; // ascends by one: stored as a range
/// builder.push_rows(&[9, 8])?;
/// let blob = builder.encode();
/// let index = FragmentIndex::parse_strict(&blob)?;
/// assert_eq!(index.get(0), Some(Fragment::Range { start: 4, count: 3 }));
/// assert_eq!(index.is_range(1), Some(false));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct FragmentIndexBuilder {
    bitmap: Vec<u64>, // no bit past F is set
    fragments: u32,
    ranges: Vec<u8>,  // as stored
    csr: Vec<u8>,     // as stored, without the first 0
    indices: Vec<u8>, // as stored
    total: u32,       // rows in `indices`
}

impl FragmentIndexBuilder {
    /// Begins without fragments.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a range of `count` rows from `start`; `count` may be 0.
    ///
    /// # Errors
    ///
    /// [`Class::Overflow`] when the range ends past `i64::MAX`; [`Class::LimitExceeded`] when there
    /// are 2^32 - 1 fragments already.
    pub fn push_range(&mut self, start: u64, count: u64) -> Result<(), FormatError> {
        if !fits(start, count) {
            let end = i128::from(start).saturating_add(count.into());
            return Err(refuse(Class::Overflow, "start + count", i64::MAX.into(), end));
        }
        self.mark(true)?;
        self.ranges.extend_from_slice(&start.to_le_bytes());
        self.ranges.extend_from_slice(&count.to_le_bytes());
        Ok(())
    }

    /// Adds the rows listed, in that order.
    ///
    /// # Errors
    ///
    /// [`Class::Overflow`] when a row is past `i64::MAX`; [`Class::LimitExceeded`] when the
    /// fragments, or the rows of all lists together, would be more than 2^32 - 1.
    pub fn push_rows(&mut self, rows: &[u64]) -> Result<(), FormatError> {
        if let Some(start) = find_range_start(rows) {
            return self.push_range(start, num::to_u64(rows.len()));
        }
        if let Some(row) = rows.iter().find(|row| i64::try_from(**row).is_err()) {
            return Err(refuse(Class::Overflow, "index", i64::MAX.into(), (*row).into()));
        }
        // Compared with the cap.
        let total = u64::from(self.total).saturating_add(num::to_u64(rows.len()));
        let Ok(total) = u32::try_from(total) else {
            return Err(refuse(Class::LimitExceeded, "csr", u32::MAX.into(), total.into()));
        };
        self.mark(false)?;
        self.total = total;
        self.csr.extend_from_slice(&total.to_le_bytes());
        self.indices.extend(rows.iter().flat_map(|row| row.to_le_bytes()));
        Ok(())
    }

    /// Adds a fragment of another index. A list of consecutive rows becomes a range.
    ///
    /// # Errors
    ///
    /// The errors of [`push_range`](Self::push_range) and [`push_rows`](Self::push_rows).
    pub fn push_fragment(&mut self, fragment: Fragment<'_>) -> Result<(), FormatError> {
        match fragment {
            Fragment::Range { start, count } => self.push_range(start, count),
            Fragment::Rows(_) => self.push_rows(&fragment.rows().collect::<Vec<_>>()),
        }
    }

    /// Returns the blob.
    pub fn encode(&self) -> Vec<u8> {
        // No more bits are set than there are fragments.
        let ranges: u32 = self.bitmap.iter().map(|word| word.count_ones()).sum();
        let mut blob = Vec::new();
        blob.extend_from_slice(&MAGIC);
        blob.extend_from_slice(&VERSION.to_le_bytes());
        blob.extend_from_slice(&[0; 2]);
        blob.extend_from_slice(&self.fragments.to_le_bytes());
        blob.extend_from_slice(&ranges.to_le_bytes());
        blob.extend(self.bitmap.iter().flat_map(|word| word.to_le_bytes()));
        blob.extend_from_slice(&self.ranges);
        if self.fragments != 0 {
            blob.extend_from_slice(&[0; 4]);
        }
        blob.extend_from_slice(&self.csr);
        blob.extend_from_slice(&self.indices);
        blob
    }

    /// Counts one more fragment, and sets its bit if it is a range.
    fn mark(&mut self, is_range: bool) -> Result<(), FormatError> {
        let Some(fragments) = self.fragments.checked_add(1) else {
            let found = i128::from(self.fragments).saturating_add(1);
            return Err(refuse(Class::LimitExceeded, "F", u32::MAX.into(), found));
        };
        if self.fragments & 63 == 0 {
            self.bitmap.push(0);
        }
        if let Some(word) = self.bitmap.last_mut() {
            *word |= u64::from(is_range).rotate_left(self.fragments & 63);
        }
        self.fragments = fragments;
        Ok(())
    }
}

/// Returns the first of `rows` when they ascend by one and can be stored as a range.
fn find_range_start(rows: &[u64]) -> Option<u64> {
    let start = *rows.first()?;
    let ascends = rows.array_windows().all(|[a, b]| a.checked_add(1) == Some(*b));
    (ascends && fits(start, num::to_u64(rows.len()))).then_some(start)
}

fn fits(start: u64, count: u64) -> bool {
    start.checked_add(count).is_some_and(|end| i64::try_from(end).is_ok())
}

fn refuse(class: Class, field: &'static str, max: i128, found: i128) -> FormatError {
    FormatError::new(class, PART, field, 0, Expected::AtMost(max), found)
}
