//! Cells that wait until their shard is complete.
//!
//! ```text
//! cells    encoded, those that are there, in C order
//! index    16 bytes for each cell of the shard: offset and nbytes, or all ones; then a CRC-32C
//! ```
//!
//! Readers fetch and keep the whole index of a shard, even for a single cell. With
//! [`MAX_SHARD_CELLS`] it takes 16 MiB, a small part of a handle's usual memory. Larger shards are
//! written only for a document that is copied byte for byte; they are read if the memory of the
//! handle suffices.
//!
//! Not here: how a cell is encoded, and where a shard is written.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::Bytes;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::{checked_product, saturating_usize, to_u64};
use zvf_format::shard::encode_index;

use super::memory_limiter::MemoryPermit;

/// The shards of one array.
#[derive(Debug)]
pub(super) struct Shards {
    shape: Box<[u64]>, // cells per axis, none 0
    cells: u64,        // their product, at most `MAX_COPIED_CELLS`
    open: BTreeMap<Box<[u64]>, BTreeMap<u64, Held>>,
    closed: BTreeSet<Box<[u64]>>,
}

#[derive(Debug)]
struct Held {
    parts: Vec<Bytes>,
    _permit: MemoryPermit,
}

impl Shards {
    /// Returns shards of this shape for an array of `rank` axes.
    pub(super) fn new(shape: &[u64], rank: usize) -> Result<Self> {
        Self::with_cap(shape, rank, MAX_SHARD_CELLS)
    }

    /// Returns shards with the limit for copied documents, because a copy does not choose its
    /// shards.
    pub(super) fn for_copy(shape: &[u64], rank: usize) -> Result<Self> {
        Self::with_cap(shape, rank, MAX_COPIED_CELLS)
    }

    fn with_cap(shape: &[u64], rank: usize, max_cells: u64) -> Result<Self> {
        if shape.len() != rank {
            let (what, rule) = ("cells per shard", "one number for each axis");
            return Err(Error::new(Class::InvalidArgument, what, rule, "another count"));
        }
        let cells = count_cells(shape, max_cells, "")?;
        let (open, closed) = (BTreeMap::new(), BTreeSet::new());
        Ok(Self { shape: shape.into(), cells, open, closed })
    }

    /// Returns the shard of the cell at `index`, and the position of the cell in it.
    pub(super) fn locate(&self, index: &[u64]) -> (Box<[u64]>, u64) {
        let axes = || index.iter().zip(&self.shape);
        let shard = axes().map(|(i, n)| i / n).collect();
        let place = axes().fold(0_u64, |place, (i, n)| place * n + i % n); // below `cells`
        (shard, place)
    }

    /// Keeps a cell until its shard is taken.
    pub(super) fn keep(
        &mut self,
        index: &[u64],
        parts: Vec<Bytes>,
        permit: MemoryPermit,
    ) -> Result<()> {
        let (shard, place) = self.locate(index);
        let refused = |found| {
            let rule = "each cell once, before its shard is closed";
            Err(Error::new(Class::Duplicate, "cell", rule, found))
        };
        if self.closed.contains(&shard) {
            return refused("one of a closed shard");
        }
        let cells = self.open.entry(shard).or_default();
        match cells.insert(place, Held { parts, _permit: permit }) {
            None => Ok(()),
            Some(_) => refused("one that is there"),
        }
    }

    /// Removes and returns the shard that contains the cell at `index`; `None` if it has no cells.
    pub(super) fn take(&mut self, index: &[u64]) -> Option<CompleteShard> {
        let (shard, _) = self.locate(index);
        self.take_one(shard)
    }

    /// Removes and returns the next incomplete shard, in order.
    pub(super) fn take_next(&mut self) -> Option<CompleteShard> {
        let shard = self.open.keys().next().cloned()?;
        self.take_one(shard)
    }

    fn take_one(&mut self, shard: Box<[u64]>) -> Option<CompleteShard> {
        let cells = self.open.remove(&shard)?;
        self.closed.insert(shard.clone());
        Some(CompleteShard { index: shard, cells, room: self.cells })
    }
}

/// All cells of one shard.
pub(super) struct CompleteShard {
    pub(super) index: Box<[u64]>,
    cells: BTreeMap<u64, Held>,
    room: u64,
}

impl CompleteShard {
    /// Returns the bytes of the shard, and releases the memory of its cells.
    pub(super) fn assemble(self) -> Result<Vec<Bytes>> {
        let mut spans: Vec<Option<Range<u64>>> = vec![None; saturating_usize(self.room)];
        let mut parts = Vec::new();
        let mut end = 0_u64;
        for (place, held) in self.cells {
            let start = end;
            for part in held.parts {
                end += to_u64(part.len());
                parts.push(part);
            }
            spans[saturating_usize(place)] = Some(start..end); // below the count of cells
        }
        parts.push(encode_index(&spans, true)?.into());
        Ok(parts)
    }
}

/// Returns the number of cells of a shard of this shape, given in cells per axis.
///
/// ```
/// use zvf_store::{MAX_SHARD_CELLS, count_shard_cells};
///
/// assert_eq!(count_shard_cells(&[1024, 1024])?, MAX_SHARD_CELLS);
/// assert_eq!(
///     count_shard_cells(&[255, 255, 255]).unwrap_err().to_string(),
///     "InvalidArgument, shards of 255 x 255 x 255 cells: expected at most 1048576 cells in one, found 16581375: \
///      readers hold the index of all cells of a shard; 128 x 128 x 64 would do",
/// );
/// # Ok::<(), zvf_error::Error>(())
/// ```
///
/// # Errors
///
/// [`Class::InvalidArgument`] when an axis has no cells, or there are more than [`MAX_SHARD_CELLS`] in all.
pub fn count_shard_cells(shape: &[u64]) -> Result<u64> {
    count_cells(shape, MAX_SHARD_CELLS, "")
}

/// Returns the number of cells of a shard of an array that keeps its shards.
pub(super) fn count_kept_cells(shape: &[u64]) -> Result<u64> {
    count_cells(
        shape,
        MAX_SHARD_CELLS,
        " in zvf rewrite --shard, which writes the store with smaller ones",
    )
}

fn count_cells(shape: &[u64], max_cells: u64, remedy: &str) -> Result<u64> {
    let found = match checked_product(shape) {
        _ if shape.contains(&0) => {
            let (what, rule) = ("cells per shard", "at least 1 on each axis");
            return Err(Error::new(Class::InvalidArgument, what, rule, 0));
        }
        Some(cells) if cells <= max_cells => return Ok(cells),
        Some(cells) => cells.to_string(),
        None => "2^64 or more".to_owned(),
    };
    let by = |shape: &[u64]| shape.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ");
    let text = format!(
        "shards of {} cells: expected at most {max_cells} cells in one, found {found}: readers hold the index of \
         all cells of a shard; {} would do{remedy}",
        by(shape),
        by(&fit_shard_shape(shape.to_vec())),
    );
    Err(Error::custom(Class::InvalidArgument, text))
}

/// Halves the longest axis of a shard until it has at most [`MAX_SHARD_CELLS`].
///
/// ```
/// assert_eq!(zvf_store::fit_shard_shape(vec![8, 8, 8]), [8, 8, 8]);
/// assert_eq!(zvf_store::fit_shard_shape(vec![64; 4]), [32; 4]);
/// ```
pub fn fit_shard_shape(mut shape: Vec<u64>) -> Vec<u64> {
    let is_large =
        |shape: &[u64]| checked_product(shape).is_none_or(|cells| cells > MAX_SHARD_CELLS);
    while is_large(&shape) {
        let Some(longest) = shape.iter_mut().max() else { break };
        *longest = longest.div_ceil(2);
    }
    shape
}

/// The largest number of cells per shard if the caller chooses: see [`count_shard_cells`].
///
/// ```
/// assert_eq!(zvf_store::MAX_SHARD_CELLS, 1 << 20); // 101 on each of three axes
/// ```
pub const MAX_SHARD_CELLS: u64 = 1 << 20;

/// The largest number of cells per shard for a copied document: earlier versions of zvf wrote such
/// shards.
const MAX_COPIED_CELLS: u64 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::super::memory_limiter::MemoryLimiter;
    use super::*;

    #[test]
    fn shards_have_the_expected_bytes() {
        // Two of four cells, the later one first.
        let limiter = MemoryLimiter::new(1000, true);
        let mut shards = Shards::new(&[2, 2], 2).unwrap();
        let cell = |text: &'static str| vec![Bytes::from_static(text.as_bytes())];
        shards.keep(&[3, 4], cell("second"), limiter.try_acquire(6).unwrap()).unwrap();
        shards.keep(&[2, 4], cell("one"), limiter.try_acquire(3).unwrap()).unwrap();
        let shard = shards.take(&[3, 5]).unwrap();
        assert_eq!(*shard.index, [1, 2]);
        let stored = shard.assemble().unwrap().concat();
        let (bytes, sum) = stored.split_at(stored.len() - 4);
        #[rustfmt::skip]
        assert_eq!(bytes, [
            &b"onesecond"[..],
            &[0, 0, 0, 0, 0, 0, 0, 0], &[3, 0, 0, 0, 0, 0, 0, 0],
            &[255; 16],
            &[3, 0, 0, 0, 0, 0, 0, 0], &[6, 0, 0, 0, 0, 0, 0, 0],
            &[255; 16],
        ].concat());
        assert_eq!(sum, crc32c::crc32c(&bytes[9..]).to_le_bytes());
        assert_eq!(limiter.held_bytes(), 0);
        assert!(shards.take_next().is_none());
    }

    #[test]
    fn each_check_has_its_message() {
        let limiter = MemoryLimiter::new(1000, true);
        let mut shards = Shards::new(&[2], 1).unwrap();
        let mut keep = |i: u64, close: bool| {
            let result =
                shards.keep(&[i], vec![Bytes::from_static(b"x")], limiter.try_acquire(1).unwrap());
            if close {
                shards.take(&[i]);
            }
            result.map_err(|error| error.to_string())
        };
        let rule = "expected each cell once, before its shard is closed, found";
        assert_eq!(keep(0, false), Ok(()));
        assert_eq!(keep(0, true), Err(format!("Duplicate, cell: {rule} one that is there")));
        assert_eq!(keep(1, false), Err(format!("Duplicate, cell: {rule} one of a closed shard")));
        let plan = |shape: &[u64]| Shards::new(shape, 2).unwrap_err().to_string();
        let text = "InvalidArgument, cells per shard: expected";
        assert_eq!(plan(&[1]), format!("{text} one number for each axis, found another count"));
        for shape in [[0, 1], [u64::MAX, 0]] {
            assert_eq!(plan(&shape), format!("{text} at least 1 on each axis, found 0"));
        }
        for (shape, cells, would_do) in [
            ([1 << 20, 2], "1048576 x 2", "524288 x 2"),
            ([1025, 1024], "1025 x 1024", "513 x 1024"),
            ([u64::MAX, u64::MAX], "18446744073709551615 x 18446744073709551615", "1024 x 1024"),
        ] {
            let found = match checked_product(&shape) {
                Some(found) => found.to_string(),
                None => "2^64 or more".to_owned(),
            };
            let message = format!(
                "InvalidArgument, shards of {cells} cells: expected at most 1048576 cells in one, found {found}: \
                 readers hold the index of all cells of a shard; {would_do} would do"
            );
            assert_eq!(plan(&shape), message);
        }
    }

    #[test]
    fn copied_documents_keep_larger_shards() {
        let larger = [255, 255, 255];
        assert_eq!(Shards::for_copy(&larger, 3).unwrap().cells, 16_581_375);
        assert_eq!(Shards::new(&larger, 3).unwrap_err().class(), Class::InvalidArgument);
        assert_eq!(
            Shards::for_copy(&[256, 256, 257], 3).unwrap_err().class(),
            Class::InvalidArgument
        );
    }

    #[test]
    fn fitted_shapes_are_allowed() {
        for shape in
            [vec![], vec![u64::MAX; 3], vec![1, 1 << 40], vec![0, u64::MAX, 2], vec![3; 13]]
        {
            let fitted = fit_shard_shape(shape.clone());
            assert_eq!(fitted.len(), shape.len());
            let allowed = count_shard_cells(&fitted);
            assert_eq!(allowed.is_ok(), !shape.contains(&0), "{shape:?}: {fitted:?}");
        }
    }
}
