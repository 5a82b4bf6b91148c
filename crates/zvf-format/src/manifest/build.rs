//! Encodes a manifest: the inverse of the view.
//!
//! zarr-vectors writes [`ManifestBuilder::push_single`] blocks only. All readers accept the other
//! modes, which are smaller when an object has many fragments in one chunk;
//! [`ManifestBuilder::push_fragments`] chooses among them.

use alloc::vec::Vec;

use super::walk::{EXPLICIT, RANGE, SINGLE};
use super::{PART, check_sid_ndim};
use crate::error::{Class, Expected, FormatError};
use crate::num;

/// Collects blocks in order and encodes them.
///
/// ```
/// use zvf_format::manifest::{BlockFragments, Manifest, ManifestBuilder};
///
/// let mut builder = ManifestBuilder::new(2)?;
/// builder.push_single(&[0, 0], 0)?;
/// builder.push_fragments(&[0, -1], &[2, 3])?; // a range
/// let blob = builder.encode();
/// let manifest = Manifest::parse(&blob, 2)?;
/// let last = manifest.blocks().last().unwrap();
/// assert_eq!(last.fragments, BlockFragments::Range { start: 2, count: 2 });
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ManifestBuilder {
    sid_ndim: u64, // 1 to 16
    count: u32,
    blocks: Vec<u8>, // as stored
}

impl ManifestBuilder {
    /// Begins without blocks; chunks will have `sid_ndim` coordinates.
    ///
    /// # Errors
    ///
    /// When `sid_ndim` is not 1 to 16.
    pub fn new(sid_ndim: u64) -> Result<Self, FormatError> {
        check_sid_ndim(sid_ndim)?;
        Ok(Self { sid_ndim, count: 0, blocks: Vec::new() })
    }

    /// Adds one fragment: a block of mode 0.
    ///
    /// # Errors
    ///
    /// [`Class::BadShape`] when `chunk` has another rank, [`Class::Overflow`] when `fragment` is
    /// past `i64::MAX`, [`Class::LimitExceeded`] when there are 2^32 - 1 blocks already.
    pub fn push_single(&mut self, chunk: &[i64], fragment: u64) -> Result<(), FormatError> {
        check_end("fragment", fragment, 0)?;
        self.begin(chunk, SINGLE)?;
        self.push_number(fragment);
        Ok(())
    }

    /// Adds `count` fragments from `start`: a block of mode 1.
    ///
    /// # Errors
    ///
    /// The errors of [`push_single`](Self::push_single), for the end of the range.
    pub fn push_range(&mut self, chunk: &[i64], start: u64, count: u64) -> Result<(), FormatError> {
        check_end("start + count", start, count)?;
        self.begin(chunk, RANGE)?;
        self.push_number(start);
        self.push_number(count);
        Ok(())
    }

    /// Adds the fragments listed, in that order: a block of mode 2.
    ///
    /// # Errors
    ///
    /// The errors of [`push_single`](Self::push_single), and [`Class::LimitExceeded`] for 2^32
    /// fragments or more.
    pub fn push_explicit(&mut self, chunk: &[i64], fragments: &[u64]) -> Result<(), FormatError> {
        for fragment in fragments {
            check_end("fragment", *fragment, 0)?;
        }
        let Ok(n) = u32::try_from(fragments.len()) else {
            let (class, found) = (Class::LimitExceeded, num::to_u64(fragments.len()));
            return Err(refuse(class, "n", Expected::AtMost(u32::MAX.into()), found.into()));
        };
        self.begin(chunk, EXPLICIT)?;
        self.blocks.extend_from_slice(&n.to_le_bytes());
        for fragment in fragments {
            self.push_number(*fragment);
        }
        Ok(())
    }

    /// Adds the fragments listed, in that order, in the smallest mode that can hold them.
    ///
    /// # Errors
    ///
    /// The errors of [`push_explicit`](Self::push_explicit).
    pub fn push_fragments(&mut self, chunk: &[i64], fragments: &[u64]) -> Result<(), FormatError> {
        let ascends = fragments.array_windows().all(|[a, b]| a.checked_add(1) == Some(*b));
        match fragments {
            [one] => self.push_single(chunk, *one),
            [first, _, ..] if ascends => {
                self.push_range(chunk, *first, num::to_u64(fragments.len()))
            }
            _ => self.push_explicit(chunk, fragments),
        }
    }

    /// Returns the blob.
    pub fn encode(&self) -> Vec<u8> {
        [&self.count.to_le_bytes(), self.blocks.as_slice()].concat()
    }

    /// Writes the fields that all modes begin with.
    fn begin(&mut self, chunk: &[i64], mode: u8) -> Result<(), FormatError> {
        let rank = num::to_u64(chunk.len());
        if rank != self.sid_ndim {
            let expected = Expected::Exactly(self.sid_ndim.into());
            return Err(refuse(Class::BadShape, "chunk", expected, rank.into()));
        }
        let Some(count) = self.count.checked_add(1) else {
            let found = i128::from(self.count).saturating_add(1);
            return Err(refuse(
                Class::LimitExceeded,
                "B",
                Expected::AtMost(u32::MAX.into()),
                found,
            ));
        };
        self.count = count;
        self.blocks.extend(chunk.iter().flat_map(|c| c.to_le_bytes()));
        self.blocks.push(mode);
        Ok(())
    }

    fn push_number(&mut self, n: u64) {
        self.blocks.extend_from_slice(&n.to_le_bytes());
    }
}

fn check_end(field: &'static str, start: u64, count: u64) -> Result<(), FormatError> {
    let end = i128::from(start).saturating_add(count.into());
    let expected = Expected::AtMost(i64::MAX.into());
    if expected.allows(end) { Ok(()) } else { Err(refuse(Class::Overflow, field, expected, end)) }
}

fn refuse(class: Class, field: &'static str, expected: Expected, found: i128) -> FormatError {
    FormatError::new(class, PART, field, 0, expected, found)
}
