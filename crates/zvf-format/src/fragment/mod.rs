//! The fragment index, version 1: assigns the rows of a chunk to fragments.
//!
//! ```text
//! offset      size       field
//! 0           4          magic, 47 46 56 5a ("GFVZ")
//! 4           2          version, u16, 1
//! 6           2          flags, u16, 0
//! 8           4          F, u32, fragments
//! 12          4          R, u32, fragments that are ranges
//! 16          b          bitmap, bit f (lowest first) = fragment f is a range; b = 8 * ceil(F / 64)
//! 16 + b      16 R       ranges, i64 start and i64 count, in the order of the set bits
//! ..          4 (E + 1)  csr, u32 bounds of the lists, E = F - R; absent when F = 0
//! ..          8 T        indices, i64 rows of the lists, T = the last bound
//! ```
//!
//! Little-endian and without padding, so that with an even `E + 1` missing nothing is aligned:
//! every on-disk type is `Unaligned`.
//!
//! A fragment is a range of rows or a list of rows. Both are returned as they are stored: sixteen
//! bytes may name 2^62 rows, so rows are expanded only on request, one by one. The number of a
//! range is the number of set bits before it: a walk counts them as it goes, [`FragmentIndex::get`]
//! counts whole words, and a [`RankTable`] stores one count per word.
//!
//! Bits past F, and bytes after the last index, have no meaning: they are lints. `parse` refuses
//! negative numbers and ranges that end past `i64::MAX`, so that a view never returns one.
//!
//! Not here: comparing rows with the payload, which needs its length
//! ([`FragmentIndex::check_rows`]); a blob of zero bytes, which the cell layer reads as an absent
//! cell and this decoder refuses.

#[cfg(feature = "alloc")]
mod build;
mod check;
#[cfg(feature = "alloc")]
mod rank;
#[cfg(all(test, feature = "alloc"))]
pub(crate) mod tests;
mod walk;

use zerocopy::little_endian::{I64, U32, U64};

#[cfg(feature = "alloc")]
pub use build::FragmentIndexBuilder;
#[cfg(feature = "alloc")]
pub use rank::RankTable;
pub use walk::{Fragment, Fragments, Numbers};

use crate::cursor::{Cursor, Items};
use crate::error::{Class, Expected, FormatError, Part};
use crate::lint::Lints;
use crate::num;

/// The fragments of one chunk, borrowed from the blob.
///
/// ```
/// use zvf_format::fragment::{Fragment, FragmentIndex};
///
/// // Two ranges: rows 0, 1, 2 and rows 3, 4.
/// let blob = b"GFVZ\x01\0\0\0\x02\0\0\0\x02\0\0\0\
///     \x03\0\0\0\0\0\0\0\
///     \0\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\
///     \x03\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\
///     \0\0\0\0";
/// let index = FragmentIndex::parse(blob)?;
/// assert_eq!(index.get(1), Some(Fragment::Range { start: 3, count: 2 }));
/// assert_eq!(index.iter().flat_map(|f| f.rows()).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
/// assert!(index.tiles(5) && index.check_rows(4).is_err());
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FragmentIndex<'a> {
    fragments: u32,         // F
    bitmap: &'a [U64],      // enough words for F bits, of which as many are set as there are ranges
    ranges: &'a [[I64; 2]], // start and count, neither negative, nor their sum past i64::MAX
    csr: &'a [U32],         // empty when F = 0; else one more than lists, first 0, never decreasing
    indices: &'a [I64],     // as many as the last bound; none negative
    trailing: u64,          // bytes after the last index
}

impl<'a> FragmentIndex<'a> {
    /// Checks `blob` once, so that no accessor can fail.
    ///
    /// # Errors
    ///
    /// When the blob ends early, is not a fragment index of version 1, its counts contradict each
    /// other or the bitmap, the bounds of the lists do not start at 0 or descend, or a number is
    /// negative or ends past `i64::MAX`.
    pub fn parse(blob: &'a [u8]) -> Result<Self, FormatError> {
        Self::read(blob, true)
    }

    fn read(blob: &'a [u8], check: bool) -> Result<Self, FormatError> {
        let mut cur = Cursor::new(Part::FragmentIndex, blob);
        let [fragments, ranges] = check::header(&mut cur)?;
        let lists = fragments.saturating_sub(ranges); // R is at most F
        let bounds = if fragments == 0 { 0 } else { u64::from(lists).saturating_add(1) };

        let bitmap = cur.array::<U64>("bitmap", u64::from(fragments).div_ceil(64))?;
        let ranges = cur.array::<[I64; 2]>("ranges", ranges.into())?;
        let csr = cur.array::<U32>("csr", bounds)?;
        if check {
            check::bitmap(&cur, &bitmap, fragments, ranges.items.len())?;
        }
        let total = csr.items.last().map_or(0, |bound| bound.get()); // no bounds when F = 0
        let indices = cur.array::<I64>("indices", total.into())?;

        if check {
            check::csr(&cur, &csr)?;
            check::ranges(&cur, &ranges)?;
            check::indices(&cur, &indices)?;
        }
        Ok(Self {
            fragments,
            bitmap: bitmap.items,
            ranges: ranges.items,
            csr: csr.items,
            indices: indices.items,
            trailing: cur.remaining(),
        })
    }

    /// Parses like [`parse`](Self::parse), but also refuses all [`lints`](Self::lints).
    ///
    /// # Errors
    ///
    /// The errors of `parse`, then the first lint.
    pub fn parse_strict(blob: &'a [u8]) -> Result<Self, FormatError> {
        let view = Self::parse(blob)?;
        view.lints().into_strict()?;
        Ok(view)
    }

    /// Lists set bits past F, and bytes after the end.
    pub fn lints(&self) -> Lints {
        let mut lints = Lints::default();
        let lint = |class, field, at, found| {
            FormatError::new(class, Part::FragmentIndex, field, at, Expected::Exactly(0), found)
        };
        let spare = self.bitmap.last().map_or(0, |word| word.get() & !used_bits(self.fragments));
        let last_word = self.ranges_at().saturating_sub(8); // read only when there is a word
        for (at, byte) in (last_word..).zip(spare.to_le_bytes()) {
            if byte != 0 {
                lints.push(lint(Class::NonCanonical, "bits past F", at, byte.into()));
            }
        }
        if self.trailing != 0 {
            let end = self.indices_at().saturating_add(bytes_of(self.indices));
            lints.push(lint(Class::Trailing, "bytes after the end", end, self.trailing));
        }
        lints
    }

    /// Returns the number of fragments, empty ones included; a `u64`, as in the blob.
    pub const fn len(&self) -> u64 {
        num::to_u64(num::usize_from_u32(self.fragments))
    }

    /// Returns whether there is no fragment.
    pub const fn is_empty(&self) -> bool {
        self.fragments == 0
    }

    /// Returns fragment `f`, or `None` past the end. Counts bits up to `f`, so it is linear in `f /
    /// 64`, unless all fragments are of one kind. For many look-ups in one index, use a
    /// [`RankTable`].
    pub fn get(&self, f: u64) -> Option<Fragment<'a>> {
        let (word, bit) = self.locate(f)?;
        let before = if self.ranges.is_empty() {
            0
        } else if self.ranges.len() == num::usize_from_u32(self.fragments) {
            return self.range(num::checked_usize(f)?);
        } else {
            self.bitmap.get(..word)?.iter().map(|word| u64::from(word.get().count_ones())).sum()
        };
        self.fragment_at_bit(f, word, bit, before)
    }

    /// Returns whether fragment `f` is a range, or `None` past the end.
    pub fn is_range(&self, f: u64) -> Option<bool> {
        let (word, bit) = self.locate(f)?;
        Some(self.bitmap.get(word)?.get() & bit != 0)
    }

    /// Returns the number of rows of fragment `f`, or `None` past the end.
    pub fn row_count(&self, f: u64) -> Option<u64> {
        self.get(f).map(|fragment| fragment.len())
    }

    /// Returns an iterator over the fragments in order.
    pub fn iter(&self) -> Fragments<'a> {
        Fragments::new(self)
    }

    /// Returns the number of rows of all fragments, shared rows counted each time; `None` if the
    /// sum does not fit in `u64`.
    pub fn rows_total(&self) -> Option<u64> {
        let listed = num::to_u64(self.indices.len());
        self.ranges.iter().try_fold(listed, |sum, [_, count]| sum.checked_add(to_unsigned(*count)))
    }

    /// Returns one more than the highest row of any fragment, or 0 without fragments. An empty
    /// range counts up to its start.
    pub fn extent(&self) -> u64 {
        // `parse` found no end past `i64::MAX`.
        let end = |[start, count]: &[I64; 2]| start.get().saturating_add(count.get());
        let ranges = self.ranges.iter().map(end).fold(0, i64::max);
        let listed = self.indices.iter().map(|row| row.get()).fold(-1, i64::max);
        ranges.cast_unsigned().max(listed.cast_unsigned().wrapping_add(1)) // -1 becomes 0
    }

    /// Returns whether the fragments are ranges that cover the rows `0..n_rows` once and in order,
    /// so that the stored payload is already ordered by fragment.
    pub fn tiles(&self, n_rows: u64) -> bool {
        let mut next = 0;
        let joined = self.ranges.iter().all(|[start, count]| {
            let here = to_unsigned(*start) == next;
            next = next.saturating_add(to_unsigned(*count)); // below 2^63 where it matters
            here
        });
        let ranges_only = self.ranges.len() == num::usize_from_u32(self.fragments);
        joined && ranges_only && !self.is_empty() && next == n_rows
    }

    /// Checks the fragments against a payload of `n_rows` rows.
    ///
    /// # Errors
    ///
    /// [`Class::OutOfBounds`] for the first range that ends, or the first listed row that lies,
    /// past the payload. An empty range may start at its end, not past it.
    pub fn check_rows(&self, n_rows: u64) -> Result<(), FormatError> {
        if self.extent() <= n_rows {
            return Ok(());
        }
        let rows = i128::from(n_rows);
        let refuse = |field, at, expected, found: i128| {
            let expected = Expected::AtMost(expected);
            Err(FormatError::new(Class::OutOfBounds, PART, field, at, expected, found))
        };
        let ranges = Items { items: self.ranges, at: self.ranges_at() };
        for (at, [start, count]) in ranges.with_offsets() {
            let end = i128::from(start.get()).saturating_add(count.get().into());
            if end > rows {
                return refuse("start + count", at, rows, end);
            }
        }
        let indices = Items { items: self.indices, at: self.indices_at() };
        for (at, row) in indices.with_offsets() {
            if i128::from(row.get()) >= rows {
                return refuse("index", at, rows.saturating_sub(1), row.get().into());
            }
        }
        Ok(()) // not reached: one of them made the extent
    }

    /// Returns the word of the bitmap that holds fragment `f`, and its bit there.
    fn locate(&self, f: u64) -> Option<(usize, u64)> {
        let (word, bit) = (f >> 6, 1_u64.rotate_left(u32::try_from(f & 63).ok()?));
        if f < self.len() { Some((num::checked_usize(word)?, bit)) } else { None }
    }

    /// Returns fragment `f`, at `bit` of `word`; `before` is the number of ranges in the words
    /// before.
    fn fragment_at_bit(&self, f: u64, word: usize, bit: u64, before: u64) -> Option<Fragment<'a>> {
        let bits = self.bitmap.get(word)?.get();
        let below = bits & bit.wrapping_sub(1);
        let rank = before.wrapping_add(below.count_ones().into());
        if bits & bit != 0 {
            self.range(num::checked_usize(rank)?)
        } else {
            self.list(num::checked_usize(f.checked_sub(rank)?)?)
        }
    }

    fn range(&self, r: usize) -> Option<Fragment<'a>> {
        self.ranges.get(r).map(walk::range)
    }

    fn list(&self, e: usize) -> Option<Fragment<'a>> {
        let [from, to] = self.csr.get(e..)?.first_chunk::<2>()?;
        let list = num::usize_from_u32(from.get())..num::usize_from_u32(to.get());
        self.indices.get(list).map(Fragment::Rows)
    }

    fn ranges_at(&self) -> u64 {
        HEADER.saturating_add(bytes_of(self.bitmap))
    }

    fn indices_at(&self) -> u64 {
        self.ranges_at().saturating_add(bytes_of(self.ranges)).saturating_add(bytes_of(self.csr))
    }
}

/// A fragment index that was checked, together with its owned bytes. Its view cannot fail and is
/// not checked again.
///
/// ```
/// use zvf_format::fragment::FragmentBlob;
///
/// let blob = FragmentBlob::parse(b"GFVZ\x01\0\0\0\0\0\0\0\0\0\0\0")?;
/// assert!(blob.view().is_empty());
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FragmentBlob<B>(B);

impl<B: AsRef<[u8]>> FragmentBlob<B> {
    /// Checks `blob` once.
    ///
    /// # Errors
    ///
    /// The errors of [`FragmentIndex::parse`].
    pub fn parse(blob: B) -> Result<Self, FormatError> {
        FragmentIndex::parse(blob.as_ref())?;
        Ok(Self(blob))
    }

    /// Returns the fragments. Only the header is read again, so the cost does not depend on their
    /// number.
    pub fn view(&self) -> FragmentIndex<'_> {
        // Fails only if `as_ref` returns other bytes than before.
        FragmentIndex::read(self.0.as_ref(), false).unwrap_or(NONE)
    }

    /// Returns the blob.
    pub const fn bytes(&self) -> &B {
        &self.0
    }
}

/// The index without fragments.
const NONE: FragmentIndex<'_> =
    FragmentIndex { fragments: 0, bitmap: &[], ranges: &[], csr: &[], indices: &[], trailing: 0 };

impl<'a> IntoIterator for &FragmentIndex<'a> {
    type Item = Fragment<'a>;
    type IntoIter = Fragments<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Returns the mask of the bits in the last bitmap word that belong to fragments.
const fn used_bits(fragments: u32) -> u64 {
    match fragments & 63 {
        0 => u64::MAX,
        n => !(u64::MAX << n),
    }
}

/// Converts a number that `parse` found not to be negative.
const fn to_unsigned(n: I64) -> u64 {
    n.get().cast_unsigned()
}

const fn bytes_of<T>(items: &[T]) -> u64 {
    num::to_u64(size_of_val(items))
}

const PART: Part = Part::FragmentIndex;
const MAGIC: [u8; 4] = *b"GFVZ";
const VERSION: u16 = 1;
const HEADER: u64 = 16;
