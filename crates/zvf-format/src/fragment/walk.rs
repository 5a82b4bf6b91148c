//! One fragment, the walk over all of them, and their row numbers.
//!
//! A walk keeps one word of the bitmap and the unread rest of each table, so a step is a shift and
//! a split. Numbers stay a range or a borrowed list; a caller that collects them states a limit
//! ([`Fragment::rows_within`]).

use core::iter::FusedIterator;
use core::ops::Range;
use core::slice;

use zerocopy::little_endian::{I64, U32, U64};

use super::{FragmentIndex, to_unsigned};
use crate::error::{Class, Expected, FormatError, Part};
use crate::num;

/// The rows of one fragment, as they are stored.
///
/// ```
/// use zvf_format::fragment::Fragment;
///
/// let fragment = Fragment::Range { start: 5, count: 1 << 62 };
/// assert_eq!(fragment.rows().take(2).collect::<Vec<_>>(), [5, 6]);
/// assert!(fragment.rows_within(1_000_000).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment<'a> {
    /// Consecutive rows; the end is at most `i64::MAX`.
    Range {
        /// The first row.
        start: u64,
        /// The number of rows.
        count: u64,
    },
    /// Rows one by one, in any order, repeated or not; none is negative.
    Rows(&'a [I64]),
}

impl<'a> Fragment<'a> {
    /// Returns the number of rows, repeated ones counted each time; a `u64`, because a range of a
    /// few bytes can stand for more than memory holds.
    pub const fn len(&self) -> u64 {
        match self {
            Self::Range { count, .. } => *count,
            Self::Rows(rows) => num::to_u64(rows.len()),
        }
    }

    /// Returns whether there is no row.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an iterator over the rows in order, expanded one by one.
    pub fn rows(&self) -> Numbers<'a> {
        match self {
            Self::Range { start, count } => Numbers::range(*start, *count),
            Self::Rows(rows) => Numbers::list(rows),
        }
    }

    /// Returns the rows in order, if there are at most `cap`; for callers that collect them.
    ///
    /// # Errors
    ///
    /// [`Class::LimitExceeded`] when there are more.
    pub fn rows_within(&self, cap: u64) -> Result<Numbers<'a>, FormatError> {
        if self.len() > cap {
            let (class, part) = (Class::LimitExceeded, Part::FragmentIndex);
            let expected = Expected::AtMost(cap.into());
            return Err(FormatError::new(
                class,
                part,
                "rows of a fragment",
                0,
                expected,
                self.len(),
            ));
        }
        Ok(self.rows())
    }
}

/// The fragments of an index, in order.
///
/// ```
/// use zvf_format::fragment::FragmentIndex;
///
/// let none = FragmentIndex::parse(b"GFVZ\x01\0\0\0\0\0\0\0\0\0\0\0")?;
/// assert_eq!(none.iter().next(), None);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fragments<'a> {
    words: slice::Iter<'a, U64>,
    word: u64,    // bits of the current word, the next fragment's lowest
    in_word: u32, // fragments left in it
    after: u32,   // fragments in the words after it
    ranges: slice::Iter<'a, [I64; 2]>,
    csr: slice::Iter<'a, U32>, // ends of the lists
    from: u32,                 // end of the list before
    indices: &'a [I64],        // not handed out yet
}

impl<'a> Fragments<'a> {
    pub(super) fn new(index: &FragmentIndex<'a>) -> Self {
        Self {
            words: index.bitmap.iter(),
            word: 0,
            in_word: 0,
            after: index.fragments,
            ranges: index.ranges.iter(),
            csr: index.csr.get(1..).unwrap_or_default().iter(), // no bounds when F = 0
            from: 0,
            indices: index.indices,
        }
    }

    /// Loads the next word of the bitmap.
    fn refill(&mut self) -> Option<()> {
        self.word = self.words.next()?.get();
        self.in_word = self.after.min(64);
        self.after = self.after.saturating_sub(64);
        Some(())
    }

    fn list(&mut self) -> Option<Fragment<'a>> {
        let to = self.csr.next()?.get();
        let n = num::usize_from_u32(to.saturating_sub(self.from)); // bounds never descend
        let (list, rest) = self.indices.split_at_checked(n)?;
        (self.from, self.indices) = (to, rest);
        Some(Fragment::Rows(list))
    }
}

impl<'a> Iterator for Fragments<'a> {
    type Item = Fragment<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.in_word == 0 {
            self.refill()?;
        }
        let is_range = self.word & 1 != 0;
        self.word >>= 1;
        self.in_word = self.in_word.saturating_sub(1); // refilled when it was 0
        if is_range { self.ranges.next().map(range) } else { self.list() }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = num::usize_from_u32(self.in_word.saturating_add(self.after)); // at most F
        (left, Some(left))
    }
}

impl FusedIterator for Fragments<'_> {}

/// Row numbers, or fragment numbers of a manifest, in order and expanded one by one.
///
/// ```
/// use zvf_format::fragment::Fragment;
///
/// let mut rows = Fragment::Range { start: 7, count: 2 }.rows();
/// assert_eq!((rows.next(), rows.next(), rows.next()), (Some(7), Some(8), None));
/// ```
#[derive(Clone, Debug)]
pub struct Numbers<'a>(RowSource<'a>);

#[derive(Clone, Debug)]
enum RowSource<'a> {
    Range(Range<u64>),
    List(slice::Iter<'a, I64>),
}

impl<'a> Numbers<'a> {
    pub(crate) const fn range(start: u64, count: u64) -> Self {
        Self(RowSource::Range(start..start.saturating_add(count))) // both below 2^63
    }

    pub(crate) fn list(list: &'a [I64]) -> Self {
        Self(RowSource::List(list.iter()))
    }
}

impl Iterator for Numbers<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            RowSource::Range(range) => range.next(),
            RowSource::List(list) => list.next().copied().map(to_unsigned),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            RowSource::Range(range) => range.size_hint(),
            RowSource::List(list) => list.size_hint(),
        }
    }

    fn fold<B, F: FnMut(B, u64) -> B>(self, init: B, f: F) -> B {
        match self.0 {
            RowSource::Range(range) => range.fold(init, f),
            RowSource::List(list) => list.copied().map(to_unsigned).fold(init, f),
        }
    }

    /// Returns the last number, without a walk: a range of a few bytes may be longer than any walk.
    fn last(self) -> Option<u64> {
        match self.0 {
            RowSource::Range(mut range) => range.next_back(),
            RowSource::List(mut list) => list.next_back().copied().map(to_unsigned),
        }
    }
}

impl FusedIterator for Numbers<'_> {}

/// Returns a stored range, which `parse` has checked.
pub(super) const fn range([start, count]: &[I64; 2]) -> Fragment<'static> {
    Fragment::Range { start: to_unsigned(*start), count: to_unsigned(*count) }
}
