//! The object manifest: the fragments of one object in order, each with its chunk.
//!
//! ```text
//! offset  size  field
//! 0       4     B, u32, blocks
//! 4       ..    B blocks, back to back:
//!               0       8 S  chunk, i64 coordinates, absolute, negative or not
//!               8 S     1    mode, u8
//!               8 S + 1 ..   mode 0  single    i64 fragment
//!                            mode 1  range     i64 start, i64 count
//!                            mode 2  explicit  u32 n, n times i64 fragment
//! ```
//!
//! Little-endian and packed. S, the number of coordinates (`sid_ndim`), is not in the blob. Every
//! byte has one valid form, so there are no lints: bytes after the last block are refused, and so
//! are numbers that can never name a fragment (negative ones, and ranges that end past `i64::MAX`).
//!
//! A block has no fixed size, so blocks are iterated, not indexed. A range of 2^62 fragments stays
//! a range.
//!
//! Not here: whether chunks and fragments exist, which needs the level ([`Manifest::check`]); a row
//! of zero bytes, which the cell layer reads as an absent object and this decoder refuses.

#[cfg(feature = "alloc")]
mod build;
#[cfg(all(test, feature = "alloc"))]
mod tests;
mod walk;

use zerocopy::little_endian::{I64, U32};

#[cfg(feature = "alloc")]
pub use build::ManifestBuilder;
pub use walk::{Block, BlockFragments, Blocks, FragmentRef, References};

use crate::cursor::Cursor;
use crate::error::{Class, Expected, FormatError, Found, Part};
use crate::fragment::Numbers;
use crate::num;

/// The manifest of one object, borrowed from the blob.
///
/// ```
/// use zvf_format::manifest::Manifest;
///
/// // One block: chunk (1, -2), fragments 5, 6 and 7.
/// let blob = b"\x01\0\0\0\
///     \x01\0\0\0\0\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff\
///     \x01\x05\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0";
/// let manifest = Manifest::parse(blob, 2)?;
/// let last = manifest.references().last().unwrap();
/// assert_eq!(last.chunk.iter().map(|c| c.get()).collect::<Vec<_>>(), [1, -2]);
/// assert_eq!((last.fragment, manifest.len()), (7, Some(3)));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Manifest<'a> {
    count: u32,
    blocks: &'a [u8], // exactly `count` blocks, each of them sound
    sid_ndim: u64,    // 1 to 16
}

impl<'a> Manifest<'a> {
    /// Checks `blob` once, so that no accessor can fail. `sid_ndim` is S.
    ///
    /// # Errors
    ///
    /// When S is not 1 to 16, the number of blocks does not match the blob, a mode is unknown, or a
    /// fragment number is negative or past `i64::MAX`.
    pub fn parse(blob: &'a [u8], sid_ndim: u64) -> Result<Self, FormatError> {
        let mut cur = Cursor::new(PART, blob);
        check_sid_ndim(sid_ndim)?;
        let count = cur.item::<U32>("B")?.get();
        let least = least_block(sid_ndim).saturating_mul(count.into()); // compared with what is there
        if least > cur.remaining() {
            let (class, expected) = (Class::Truncated, Expected::Bytes(least));
            return Err(cur.refuse(class, "blocks", cur.position(), expected, cur.remaining()));
        }
        let blocks = cur.rest();
        for _ in 0..count {
            walk::block(&mut cur, sid_ndim)?;
        }
        cur.end()?;
        Ok(Self { count, blocks, sid_ndim })
    }

    /// Returns the view of a `blob` that was parsed before with the same S. For any other blob, the
    /// view ends before the first invalid block.
    fn unchecked(blob: &'a [u8], sid_ndim: u64) -> Self {
        let mut cur = Cursor::new(PART, blob);
        let count = cur.item::<U32>("B").map_or(0, |count| count.get());
        Self { count, blocks: cur.rest(), sid_ndim }
    }

    /// Returns the number of coordinates per chunk.
    pub const fn sid_ndim(&self) -> u64 {
        self.sid_ndim
    }

    /// Returns the number of references that the blocks expand to; `None` if it does not fit in
    /// `u64`. Not a `usize`: a block of a few bytes can stand for more references than memory
    /// holds.
    pub fn len(&self) -> Option<u64> {
        u64::try_from(self.total()).ok()
    }

    /// Counts as [`len`](Self::len) does: the total of fewer than 2^32 blocks with fewer than 2^63
    /// fragments each fits in 128 bits.
    fn total(&self) -> i128 {
        self.blocks().map(|block| i128::from(block.fragments.len())).sum()
    }

    /// Returns whether there is no reference: no block, or only empty ones.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// Returns an iterator over the blocks in order.
    pub const fn blocks(&self) -> Blocks<'a> {
        Blocks::new(self.blocks, self.count, self.sid_ndim)
    }

    /// Returns an iterator over the references in order, expanded one by one.
    pub const fn references(&self) -> References<'a> {
        References::new(self.blocks())
    }

    /// Returns an iterator over the references in order, if there are at most `cap`; for callers
    /// that collect them.
    ///
    /// # Errors
    ///
    /// [`Class::LimitExceeded`] when there are more.
    pub fn references_within(&self, cap: u64) -> Result<References<'a>, FormatError> {
        let (total, expected) = (self.total(), Expected::AtMost(cap.into()));
        if !expected.allows(total) {
            let class = Class::LimitExceeded;
            return Err(FormatError::new(class, PART, "references", 0, expected, total));
        }
        Ok(self.references())
    }

    /// Checks every block against the level: `fragments_in` returns the number of fragments of a
    /// chunk, or `None` for a chunk outside the grid.
    ///
    /// # Errors
    ///
    /// [`Class::OutOfBounds`] for the first chunk outside the grid, and the first fragment or end
    /// of a range past the fragments of its chunk. An empty range may start at their end, not past
    /// it.
    pub fn check(
        &self,
        mut fragments_in: impl FnMut(&'a [I64]) -> Option<u64>,
    ) -> Result<(), FormatError> {
        let mut blocks = self.blocks();
        let mut at = FIRST_BLOCK;
        while let Some(block) = blocks.next() {
            let Some(fragments) = fragments_in(block.chunk) else {
                let expected = Expected::Rule("a chunk of the grid");
                return Err(out_of_bounds_error("chunk", at, expected, "one outside it"));
            };
            let mode = num::to_u64(size_of_val(block.chunk)).saturating_add(at);
            check_fragments(&block.fragments, mode.saturating_add(1), fragments)?;
            at = FIRST_BLOCK.saturating_add(blocks.at());
        }
        Ok(())
    }
}

/// A manifest that was checked, together with its owned bytes. Its view cannot fail and is not
/// checked again.
///
/// ```
/// use zvf_format::manifest::ManifestBlob;
///
/// let blob = b"\x01\0\0\0\x04\0\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0";
/// assert_eq!(ManifestBlob::parse(blob, 1)?.view().blocks().count(), 1);
/// assert!(ManifestBlob::parse(&blob[..9], 1).is_err());
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestBlob<B> {
    blob: B,
    sid_ndim: u64,
}

impl<B: AsRef<[u8]>> ManifestBlob<B> {
    /// Checks `blob` once. `sid_ndim` is S.
    ///
    /// # Errors
    ///
    /// The errors of [`Manifest::parse`].
    pub fn parse(blob: B, sid_ndim: u64) -> Result<Self, FormatError> {
        Manifest::parse(blob.as_ref(), sid_ndim)?;
        Ok(Self { blob, sid_ndim })
    }

    /// Returns the manifest without checking it again.
    pub fn view(&self) -> Manifest<'_> {
        Manifest::unchecked(self.blob.as_ref(), self.sid_ndim)
    }

    /// Returns the blob.
    pub const fn bytes(&self) -> &B {
        &self.blob
    }
}

/// Checks the fragments stored at `at` against the number of fragments in the chunk. A start and a
/// count are below 2^63 each, so their sum fits.
fn check_fragments(stored: &BlockFragments<'_>, at: u64, n: u64) -> Result<(), FormatError> {
    let past = Expected::AtMost(i128::from(n).saturating_sub(1));
    match *stored {
        BlockFragments::Single(fragment) if fragment >= n => {
            Err(out_of_bounds_error("fragment", at, past, fragment))
        }
        BlockFragments::Range { start, count } if start.saturating_add(count) > n => {
            let (expected, end) = (Expected::AtMost(n.into()), start.saturating_add(count));
            Err(out_of_bounds_error("start + count", at, expected, end))
        }
        BlockFragments::Explicit(list) => {
            let mut at = at.saturating_add(4); // n
            for fragment in Numbers::list(list) {
                if fragment >= n {
                    return Err(out_of_bounds_error("fragment", at, past, fragment));
                }
                at = at.saturating_add(8);
            }
            Ok(())
        }
        BlockFragments::Single(_) | BlockFragments::Range { .. } => Ok(()),
    }
}

fn out_of_bounds_error(
    field: &'static str,
    at: u64,
    expected: Expected,
    found: impl Into<Found>,
) -> FormatError {
    FormatError::new(Class::OutOfBounds, PART, field, at, expected, found)
}

fn check_sid_ndim(sid_ndim: u64) -> Result<(), FormatError> {
    let expected = Expected::Between(1, MAX_SID_NDIM.into());
    let class = match sid_ndim {
        0 => Class::BadShape,
        1..=MAX_SID_NDIM => return Ok(()),
        _ => Class::LimitExceeded,
    };
    Err(FormatError::new(class, PART, "sid_ndim", 0, expected, sid_ndim))
}

/// Returns the size of the smallest block, which has an empty list: at most 133.
const fn least_block(sid_ndim: u64) -> u64 {
    sid_ndim.saturating_mul(8).saturating_add(5)
}

const PART: Part = Part::Manifest;
const FIRST_BLOCK: u64 = 4;
/// The largest number of coordinates in any store.
const MAX_SID_NDIM: u64 = 16;
