//! Dataset directory: a length, then one record per dataset, back to back.
//!
//! ```text
//! in file  size  field
//! 32       8     dataset_blob_len
//! 40       ...   dataset_count records, filling the blob exactly
//!
//! in record  size      field
//! 0          4         name_len
//! 4          4         dtype
//! 8          4         ndim, 1 to 8
//! 12         4         reserved, 0
//! 16         name_len  name, UTF-8
//!            0 to 7    padding, 0, up to a multiple of 8 from the start of the record
//!            8 ndim    shape
//!            8 ndim    chunk_shape
//! ```
//!
//! A record has at least 32 bytes, which bounds `dataset_count` before any loop. Records are parsed
//! on each walk and never collected.
//!
//! Not here: whether shape and type fit each other ([`TileGeometry`]); repeated names
//! ([`TetView`]).
//!
//! [`TileGeometry`]: super::Geometry
//! [`TetView`]: super::TetView

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use alloc::vec::Vec;

use super::superblock::{AT_DATASET_COUNT, AT_INDEX_OFFSET, Superblock};
use super::{MAX_RANK, TensorDtype, TileGeometry};
use zvf_format::cursor::{Cursor, Items};
use zvf_format::num;
use zvf_format::{Class, Expected, FormatError, Lints, Part};

/// The datasets of a file, borrowed from its first bytes.
///
/// ```
/// use zvf_tet::Directory;
///
/// // One dataset "a", f32, shape 5 in chunks of 5: what follows the superblock.
/// let bytes = [
///     &[40, 0, 0, 0, 0, 0, 0, 0][..],
///     &[1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
///     b"a\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0",
/// ]
/// .concat();
/// let directory = Directory::parse(&bytes, 1, 216)?;
/// let a = directory.find("a").unwrap();
/// assert_eq!((a.id(), a.dtype(), a.rank()), (0, 1, 1));
/// assert_eq!(a.shape().collect::<Vec<_>>(), [5]);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Directory<'a> {
    blob: &'a [u8], // exactly `count` sound records
    count: u32,
}

/// One dataset of a directory.
///
/// ```
/// # use zvf_tet::{Directory, TensorDtype};
/// # let bytes = [
/// #     &[40, 0, 0, 0, 0, 0, 0, 0][..],
/// #     &[1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
/// #     b"a\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0",
/// # ]
/// # .concat();
/// # let directory = Directory::parse(&bytes, 1, 216)?;
/// let a = directory.get(0).unwrap();
/// assert_eq!((a.name(), a.element()), ("a", Some(TensorDtype::F32)));
/// assert_eq!(a.geometry()?.tile_count(), 2);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Dataset<'a> {
    id: u32,
    at: u64, // of the record, in the file
    dtype: u32,
    reserved: u32,
    name: &'a str,
    padding: Items<'a, u8>,
    shape: Items<'a, U64>,       // 1 to 8 extents
    chunk_shape: Items<'a, U64>, // as many
}

impl<'a> Directory<'a> {
    /// Parses the bytes after the superblock of a file of `file_len` bytes; `bytes` may extend past
    /// the directory.
    ///
    /// # Errors
    ///
    /// When the directory or its records do not fit, a record ends outside it, a name is not UTF-8
    /// or a rank not 1 to 8, or the records do not fill the directory.
    pub fn parse(bytes: &'a [u8], dataset_count: u32, file_len: u64) -> Result<Self, FormatError> {
        Self::parse_before(bytes, dataset_count, file_len, None)
    }

    /// Parses as [`Directory::parse`] does; also takes the index offset from the superblock.
    pub(super) fn parse_before(
        bytes: &'a [u8],
        dataset_count: u32,
        file_len: u64,
        index_at: Option<u64>,
    ) -> Result<Self, FormatError> {
        let mut cur = Cursor::new(Part::TetDirectory, bytes);
        let blob_len = cur.item::<U64>("dataset_blob_len").map_err(add_file_offset)?.get();
        let room = file_len.saturating_sub(AT_RECORDS);
        if blob_len > room {
            let (class, expected) = (Class::OutOfBounds, Expected::AtMost(room.into()));
            return Err(add_file_offset(cur.refuse(
                class,
                "dataset_blob_len",
                0,
                expected,
                blob_len,
            )));
        }
        let max_count = blob_len / SMALLEST_RECORD;
        if u64::from(dataset_count) > max_count {
            let (class, expected) = (Class::Truncated, Expected::AtMost(max_count.into()));
            let (at, found) = (AT_DATASET_COUNT, dataset_count);
            return Err(cur.refuse(class, "dataset_count", at, expected, found));
        }
        let end = super::align8(AT_RECORDS.saturating_add(blob_len));
        if let Some(found) = index_at.filter(|at| Some(*at) != end) {
            let expected = Expected::Exactly(end.unwrap_or(u64::MAX).into()); // for the message
            let (class, part) = (Class::CountMismatch, Part::TetSuperblock);
            let (field, at) = ("chunk_index_offset", AT_INDEX_OFFSET);
            return Err(FormatError::new(class, part, field, at, expected, found));
        }
        let blob = cur.bytes("records", blob_len).map_err(add_file_offset)?;

        let mut records = Cursor::new(Part::TetDirectory, blob);
        let parsed =
            (0..dataset_count).try_for_each(|id| Dataset::parse(&mut records, id).map(drop));
        parsed.and_then(|()| records.end()).map_err(|error| error.with_base_offset(AT_RECORDS))?;
        Ok(Self { blob, count: dataset_count })
    }

    /// Returns the directory of a file without datasets, which stores none of its bytes.
    pub(super) const fn empty() -> Self {
        Self { blob: &[], count: 0 }
    }

    /// Returns the number of datasets; a `u32`, as in the file.
    pub const fn len(&self) -> u32 {
        self.count
    }

    /// Returns whether there are no datasets.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Iterates over the datasets in order of their ids.
    pub const fn iter(&self) -> Datasets<'a> {
        Datasets { records: Cursor::new(Part::TetDirectory, self.blob), next: 0 }
    }

    /// Returns the dataset with this id, or `None` past the end. Walks the records before it.
    pub fn get(&self, id: u32) -> Option<Dataset<'a>> {
        self.iter().nth(num::usize_from_u32(id))
    }

    /// Returns the first dataset of exactly this name.
    pub fn find(&self, name: &str) -> Option<Dataset<'a>> {
        self.iter().find(|dataset| dataset.name == name)
    }

    /// Lists padding and reserved fields that are not zero.
    pub fn lints(&self) -> Lints {
        super::lints(self.iter().flat_map(|dataset| dataset.faults()))
    }
}

impl<'a> IntoIterator for &Directory<'a> {
    type Item = Dataset<'a>;
    type IntoIter = Datasets<'a>;

    fn into_iter(self) -> Datasets<'a> {
        self.iter()
    }
}

/// The datasets of a [`Directory`], parsed one by one.
#[derive(Clone, Debug)]
pub struct Datasets<'a> {
    records: Cursor<'a>, // sound records only
    next: u32,
}

impl<'a> Iterator for Datasets<'a> {
    type Item = Dataset<'a>;

    fn next(&mut self) -> Option<Dataset<'a>> {
        if self.records.rest().is_empty() {
            return None;
        }
        let dataset = Dataset::parse(&mut self.records, self.next).ok()?;
        self.next = self.next.saturating_add(1); // at most the number of records
        Some(dataset)
    }
}

impl<'a> Dataset<'a> {
    /// Parses a record; positions in errors count from the first record.
    fn parse(cur: &mut Cursor<'a>, id: u32) -> Result<Self, FormatError> {
        let at = cur.position();
        let head = cur.item::<Head>("record")?;
        let rank = head.ndim.get();
        if !RANKS.allows(rank.into()) {
            let at = at.saturating_add(IN_NDIM);
            return Err(cur.refuse(Class::BadShape, "ndim", at, RANKS, rank));
        }
        let name_at = cur.position();
        let name = cur.bytes("name", head.name_len.get().into())?;
        let name = core::str::from_utf8(name).map_err(|e| {
            let at = name_at.saturating_add(num::to_u64(e.valid_up_to()));
            let (expected, found) = (Expected::Rule("UTF-8"), "other bytes");
            cur.refuse(Class::Encoding, "name", at, expected, found)
        })?;
        // If no position is aligned, the padding exceeds the bytes that are left.
        let padding =
            super::align8(cur.position()).unwrap_or(u64::MAX).saturating_sub(cur.position());
        let padding = cur.array("padding", padding)?;
        let shape = cur.array("shape", rank.into())?;
        let chunk_shape = cur.array("chunk_shape", rank.into())?;
        Ok(Self {
            id,
            at: AT_RECORDS.saturating_add(at),
            dtype: head.dtype.get(),
            reserved: head.reserved.get(),
            name,
            padding,
            shape,
            chunk_shape,
        })
    }

    /// Returns the id: the position in the directory, which index rows refer to.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Returns the name as stored; use [`EscapedName`](super::EscapedName) to print it.
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the tag of the element type, known or not.
    pub const fn dtype(&self) -> u32 {
        self.dtype
    }

    /// Returns the element type, or `None` for an unknown tag.
    pub fn element(&self) -> Option<TensorDtype> {
        TensorDtype::from_tag(self.dtype)
    }

    /// Returns the number of axes.
    pub const fn rank(&self) -> usize {
        self.shape.items.len()
    }

    /// Returns the extents.
    pub fn shape(&self) -> impl ExactSizeIterator<Item = u64> + Clone + use<'a> {
        self.shape.items.iter().map(|n| n.get())
    }

    /// Returns the extents of one chunk, which may exceed those of the dataset.
    pub fn chunk_shape(&self) -> impl ExactSizeIterator<Item = u64> + Clone + use<'a> {
        self.chunk_shape.items.iter().map(|n| n.get())
    }

    /// Returns grid and tiles, if the type is known and the extents are valid.
    ///
    /// # Errors
    ///
    /// When the type is unknown, a chunk extent is 0, or the byte length of the dataset does not
    /// fit in 64 bits.
    pub fn geometry(&self) -> Result<TileGeometry, FormatError> {
        let Some(element) = self.element() else {
            let (at, expected) = (self.at.saturating_add(IN_DTYPE), Expected::Between(1, 10));
            return Err(refuse(Class::BadTag, "dtype", at, expected, u64::from(self.dtype)));
        };
        let mut zero = self.chunk_shape.with_offsets().filter(|(_, n)| n.get() == 0);
        if let Some((at, _)) = zero.next() {
            let (at, expected) = (AT_RECORDS.saturating_add(at), Expected::AtLeast(1));
            return Err(refuse(Class::BadShape, "chunk_shape", at, expected, 0_u64));
        }
        TileGeometry::from_extents(element, self.shape(), self.chunk_shape()).ok_or_else(|| {
            let at = AT_RECORDS.saturating_add(self.shape.at);
            let expected = Expected::Rule("a product below 2^64 bytes");
            refuse(Class::Overflow, "shape", at, expected, "more")
        })
    }

    /// Returns the faults of the record that a strict reader refuses.
    pub(super) fn faults(&self) -> impl Iterator<Item = FormatError> + use<'a> {
        let (none, zero) = (Class::NonCanonical, Expected::Exactly(0));
        let reserved = (self.reserved != 0).then(|| {
            let (at, found) = (self.at.saturating_add(IN_RESERVED), u64::from(self.reserved));
            refuse(none, "reserved", at, zero, found)
        });
        let padding = self.padding.with_offsets().find(|(_, byte)| **byte != 0);
        let padding = padding.map(|(at, byte)| {
            refuse(none, "padding", AT_RECORDS.saturating_add(at), zero, u64::from(*byte))
        });
        [reserved, padding].into_iter().flatten()
    }

    /// Returns a finding if the dataset has no elements, which is legal.
    pub(super) fn emptiness(&self) -> Option<FormatError> {
        let (at, _) = self.shape.with_offsets().find(|(_, n)| n.get() == 0)?;
        let at = AT_RECORDS.saturating_add(at);
        Some(refuse(Class::BadShape, "extent", at, Expected::AtLeast(1), 0))
    }

    /// Returns the error for the name of an earlier dataset.
    pub(super) fn same_name_error(&self) -> FormatError {
        let (class, at) =
            (Class::Duplicate, self.at.saturating_add(num::to_u64(size_of::<Head>())));
        let expected = Expected::Rule("a name of its own");
        refuse(class, "name", at, expected, "that of another dataset")
    }
}

fn refuse(
    class: Class,
    field: &'static str,
    at: u64,
    expected: Expected,
    found: impl Into<zvf_format::Found>,
) -> FormatError {
    FormatError::new(class, Part::TetDirectory, field, at, expected, found)
}

/// Encodes the bytes between superblock and index: length, records, padding. Geometry and names
/// must already be checked.
pub(super) fn encode<'a>(
    datasets: impl IntoIterator<Item = (&'a str, &'a TileGeometry)>,
) -> Option<(u32, Vec<u8>)> {
    let (mut bytes, mut count) = (Vec::from([0; 8]), 0_u32);
    for (name, geometry) in datasets {
        let head = Head {
            name_len: U32::new(u32::try_from(name.len()).ok()?),
            dtype: U32::new(geometry.element().tag()),
            ndim: U32::new(u32::try_from(geometry.rank()).ok()?),
            reserved: U32::ZERO,
        };
        bytes.extend_from_slice(head.as_bytes());
        bytes.extend_from_slice(name.as_bytes());
        bytes.resize(bytes.len().checked_next_multiple_of(8)?, 0);
        for extent in geometry.shape().iter().chain(geometry.chunk_shape()) {
            bytes.extend_from_slice(&extent.to_le_bytes());
        }
        count = count.checked_add(1)?;
    }
    let blob_len = num::to_u64(bytes.len()).checked_sub(8)?;
    bytes.first_chunk_mut::<8>()?.copy_from_slice(&blob_len.to_le_bytes());
    Some((count, bytes))
}

/// Converts an offset from `dataset_blob_len` to one from the start of the file.
fn add_file_offset(error: FormatError) -> FormatError {
    error.with_base_offset(Superblock::LEN)
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    name_len: U32,
    dtype: U32,
    ndim: U32,
    reserved: U32,
}

const AT_RECORDS: u64 = 40;
const SMALLEST_RECORD: u64 = 32;
const IN_DTYPE: u64 = 4;
const IN_NDIM: u64 = 8;
const IN_RESERVED: u64 = 12;
const RANKS: Expected = Expected::Between(1, 8);
const _: () = assert!(MAX_RANK == 8, "RANKS says the same");

#[cfg(test)]
mod tests;
