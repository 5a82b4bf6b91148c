//! Layout: the positions of all parts of a new file.
//!
//! The index precedes the payloads and states their sizes, which a compressing writer knows last.
//! But the number of rows is known first: a writer reserves [`TetLayout::prefix_len`] bytes, places
//! one payload after the other in grid order, and writes the prefix at the end. Memory holds the
//! rows, 104 bytes each, and the buffers of the writer.
//!
//! By default, every payload starts at a multiple of 64, so that a mapped file can be viewed as
//! numbers. The same calls give the same bytes: nothing here reads a clock.
//!
//! Not here: the payloads, and the order of writing and renaming that makes a crash harmless.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{Index, MAX_RANK, MemoryBudget, Row, Superblock, TensorCodec, Tile, TileGeometry};
use zvf_format::{Class, Expected, FormatError, Found, Part, num};

/// A dataset to be written.
///
/// ```
/// use zvf_tet::{DatasetSpec, TensorDtype, TileGeometry};
///
/// let geometry = TileGeometry::new(TensorDtype::U8, &[10], &[10]).unwrap();
/// let page = DatasetSpec::new("mask", geometry).with_alignment(4096);
/// assert_eq!((page.name, page.alignment), ("mask", 4096));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetSpec<'n> {
    /// The name.
    pub name: &'n str,
    /// Grid, tiles and type.
    pub geometry: TileGeometry,
    /// The alignment of payload offsets, a power of two.
    pub alignment: u64,
}

/// The plan of a new file, filled payload by payload.
///
/// ```
/// use zvf_tet::{TensorCodec, DatasetSpec, TensorDtype, TetView, TileGeometry, TetLayout, MemoryBudget};
///
/// let geometry = TileGeometry::new(TensorDtype::U8, &[5], &[3]).unwrap();
/// let mut layout = TetLayout::new(&[DatasetSpec::new("a", geometry)], MemoryBudget::DEFAULT)?;
/// let mut bytes = vec![0; layout.prefix_len() as usize];
/// for payload in [b"abc".as_slice(), b"de"] {
///     let offset = layout.place(TensorCodec::Raw, payload.len() as u64)?;
///     bytes.resize(offset as usize, 0);
///     bytes.extend_from_slice(payload);
/// }
/// let prefix = layout.finish(false)?;
/// bytes[..prefix.len()].copy_from_slice(&prefix);
/// assert!(TetView::parse_strict(&bytes).is_ok());
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TetLayout {
    datasets: Vec<(TileGeometry, u64)>, // with alignments, powers of two
    directory: Vec<u8>,
    dataset_count: u32,
    index_offset: u64,
    index_length: u64, // for all rows
    budget: MemoryBudget,
    rows: Vec<Row>, // of the payloads placed
    at: usize,      // the dataset of the next tile, or one past the last
    tile: u64,      // its position in the grid
    end: u64,
}

impl<'n> DatasetSpec<'n> {
    /// Describes a dataset whose payloads start at multiples of 64.
    pub const fn new(name: &'n str, geometry: TileGeometry) -> Self {
        Self { name, geometry, alignment: ALIGNMENT }
    }

    /// Sets the alignment of payloads to this power of two.
    #[must_use]
    pub const fn with_alignment(self, alignment: u64) -> Self {
        Self { alignment, ..self }
    }

    fn check(&self) -> Result<(), FormatError> {
        super::check_new_name(self.name)?;
        if !self.alignment.is_power_of_two() {
            let expected = Expected::Rule("a power of two");
            return Err(refuse(Class::InvalidArgument, "alignment", expected, self.alignment));
        }
        Ok(())
    }
}

impl TetLayout {
    /// Lays out directory and index.
    ///
    /// # Errors
    ///
    /// When a name is invalid for a new dataset or occurs twice, an alignment is not a power of
    /// two, or the rows do not fit in 64 bits.
    pub fn new(datasets: &[DatasetSpec<'_>], budget: MemoryBudget) -> Result<Self, FormatError> {
        let (mut names, mut tiles) = (BTreeSet::new(), 0_u64);
        for dataset in datasets {
            dataset.check()?;
            if !names.insert(dataset.name) {
                let (class, expected) = (Class::Duplicate, Expected::Rule("a name of its own"));
                return Err(refuse(class, "name", expected, "that of another dataset"));
            }
            tiles = tiles.saturating_add(dataset.geometry.tile_count()); // too large: refused below
        }
        let too_large = || {
            refuse(Class::Overflow, "entry_count", Expected::Rule("rows below 2^64 bytes"), tiles)
        };
        let records = datasets.iter().map(|dataset| (dataset.name, &dataset.geometry));
        let (dataset_count, directory) = super::directory::encode(records).ok_or_else(too_large)?;
        let mut new = Self {
            datasets: datasets.iter().map(|spec| (spec.geometry, spec.alignment)).collect(),
            directory,
            dataset_count,
            index_offset: Superblock::LEN,
            index_length: 0,
            budget,
            rows: Vec::new(),
            at: 0,
            tile: 0,
            end: Superblock::LEN,
        };
        if dataset_count > 0 {
            let bytes = num::to_u64(new.directory.len()); // a multiple of 8
            new.index_offset = Superblock::LEN.saturating_add(bytes);
            new.index_length = super::index::byte_len(tiles).ok_or_else(too_large)?;
            new.end = new.index_offset.checked_add(new.index_length).ok_or_else(too_large)?;
        }
        new.skip_full();
        Ok(new)
    }

    /// Returns the number of bytes to reserve at the start of the file.
    pub const fn prefix_len(&self) -> u64 {
        self.index_offset.saturating_add(self.index_length) // checked when made
    }

    /// Returns the dataset and the tile of the next payload, or `None` when all are placed.
    pub fn next_tile(&self) -> Option<(usize, Tile)> {
        let (geometry, _) = self.datasets.get(self.at)?;
        Some((self.at, geometry.nth_tile(self.tile)?))
    }

    /// Allocates the place of the next payload, and returns its offset.
    ///
    /// # Errors
    ///
    /// When all payloads are placed, the length of a raw one is not that of its tile, or the file
    /// would exceed 2^64 bytes.
    pub fn place(&mut self, codec: TensorCodec, stored: u64) -> Result<u64, FormatError> {
        let next = self.next_tile().zip(self.datasets.get(self.at));
        let Some(((dataset, tile), (_, alignment))) = next else {
            let expected = Expected::Rule("no more payloads");
            return Err(refuse(Class::InvalidArgument, "payload", expected, "one more"));
        };
        if codec == TensorCodec::Raw && stored != tile.byte_len() {
            let expected = Expected::Exactly(tile.byte_len().into());
            return Err(refuse(Class::CountMismatch, "stored_byte_len", expected, stored));
        }
        let offset = self.end.checked_next_multiple_of(*alignment);
        let span = offset.and_then(|offset| Some((offset, offset.checked_add(stored)?)));
        let row = |offset| {
            let id = num::to_u64(dataset);
            Row::new(id, tile.coords(), offset, tile.byte_len(), stored, codec)
        };
        let Some((offset, end, row)) =
            span.and_then(|(offset, end)| Some((offset, end, row(offset)?)))
        else {
            let expected = Expected::Rule("a file below 2^64 bytes");
            return Err(refuse(Class::Overflow, "payload_offset", expected, stored));
        };
        self.rows.push(row);
        self.end = end;
        self.tile = self.tile.saturating_add(1); // at most their number
        self.skip_full();
        Ok(offset)
    }

    /// Returns the end of the last payload, where a footer may start.
    pub const fn payload_end(&self) -> u64 {
        self.end
    }

    /// Encodes the first bytes of the file: superblock, directory and index.
    ///
    /// # Errors
    ///
    /// When a payload is missing.
    pub fn finish(self, footer: bool) -> Result<Vec<u8>, FormatError> {
        if self.at < self.datasets.len() {
            let expected = Expected::Rule("a payload for each tile");
            return Err(refuse(Class::InvalidArgument, "payload", expected, self.rows.len()));
        }
        let superblock =
            Superblock::new(self.dataset_count, footer, self.index_offset, self.index_length);
        let mut bytes = Vec::from(superblock.to_bytes());
        if self.dataset_count > 0 {
            bytes.extend_from_slice(&self.directory);
            bytes.extend_from_slice(&Index::encode(self.budget, &self.rows));
        }
        Ok(bytes)
    }

    /// Advances to the next dataset with tiles left.
    fn skip_full(&mut self) {
        while self
            .datasets
            .get(self.at)
            .is_some_and(|(geometry, _)| self.tile >= geometry.tile_count())
        {
            self.at = self.at.saturating_add(1);
            self.tile = 0;
        }
    }
}

fn refuse(
    class: Class,
    field: &'static str,
    expected: Expected,
    found: impl Into<Found>,
) -> FormatError {
    FormatError::new(class, Part::TetIndex, field, 0, expected, found)
}

const ALIGNMENT: u64 = 64;
const _: () = assert!(MAX_RANK == 8, "an index row has as many slots");

#[cfg(test)]
mod tests;
