//! The chunks of all endpoints of a link record, and the name 0.8 made of them.
//!
//! ```text
//! 0.0.1.0    two endpoints in two dimensions: chunk 0.0, then chunk 1.0
//! ```
//!
//! Endpoints are in placement order. In 0.8 this is the name of a cell; in 0.9 the same list follows
//! from the source chunk and the offsets ([`crate::link::LinkPolicy::endpoint_chunks`]).

use core::fmt;

use super::{ChunkKey, MAX_RANK, MAX_WIDTH, check_rank, check_width, decimal};
use crate::error::{Class, Expected, FormatError, Part};
use crate::num;

/// The chunks of a record's endpoints, in placement order.
///
/// ```
/// use zvf_format::key::CellKey;
///
/// let cell = CellKey::split("0.0.1.-2", 2, 2).unwrap();
/// assert_eq!(cell.chunks()[1].components(), [1, -2]);
/// assert_eq!(cell.to_string(), "0.0.1.-2");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CellKey {
    chunks: [ChunkKey; MAX_WIDTH], // all of one rank
    width: u8,                     // 1 to MAX_WIDTH
}

impl CellKey {
    /// The cell of records whose endpoints lie in these chunks.
    ///
    /// # Errors
    ///
    /// When there are no chunks, more than [`MAX_WIDTH`], or their ranks differ.
    pub fn new(chunks: &[ChunkKey]) -> Result<Self, FormatError> {
        let width = check_width(Part::ChunkKey, chunks.len())?;
        let rank = chunks.first().map_or(0, ChunkKey::rank);
        if let Some(other) = chunks.iter().find(|chunk| chunk.rank() != rank) {
            return Err(count(0, rank, other.rank()));
        }
        Ok(Self::from_fn(width, |endpoint| {
            chunks.get(endpoint).copied().unwrap_or(ChunkKey::FILLER)
        }))
    }

    /// Takes apart the name of a cell of 0.8.
    ///
    /// # Errors
    ///
    /// When `sid_ndim` or `link_width` is not that of a family, a component is not plain decimal, or
    /// there are not exactly `sid_ndim * link_width` of them.
    pub fn split(text: &str, sid_ndim: usize, link_width: usize) -> Result<Self, FormatError> {
        check_rank(Part::ChunkKey, sid_ndim)?;
        let width = check_width(Part::ChunkKey, link_width)?;
        let mut chunks = [[0; MAX_RANK]; MAX_WIDTH];
        let want = sid_ndim.saturating_mul(link_width);
        let mut places = chunks.iter_mut().flat_map(|chunk| chunk.iter_mut().take(sid_ndim));
        let mut found = 0_usize;
        for (at, word) in decimal::split_words(text, b'.') {
            let component = decimal::parse_plain(Part::ChunkKey, at, word)?;
            found = found.saturating_add(1);
            match places.next() {
                Some(place) if found <= want => *place = component,
                _ => return Err(count(at, want, found)),
            }
        }
        if found < want {
            return Err(count(num::to_u64(text.len()), want, found));
        }
        Ok(Self::from_fn(width, |endpoint| {
            let chunk = chunks.get(endpoint);
            ChunkKey::from_fn(sid_ndim, |axis| {
                chunk.and_then(|chunk| chunk.get(axis)).copied().unwrap_or(0)
            })
        }))
    }

    /// One chunk for each endpoint.
    #[must_use]
    pub fn chunks(&self) -> &[ChunkKey] {
        self.chunks.get(..usize::from(self.width)).unwrap_or_default()
    }

    /// The cell of `width` chunks, made by `chunk`.
    pub(crate) fn from_fn(width: u8, mut chunk: impl FnMut(usize) -> ChunkKey) -> Self {
        let mut chunks = [ChunkKey::FILLER; MAX_WIDTH];
        for (endpoint, to) in chunks.iter_mut().take(width.into()).enumerate() {
            *to = chunk(endpoint);
        }
        Self { chunks, width }
    }
}

impl PartialEq for CellKey {
    fn eq(&self, other: &Self) -> bool {
        self.chunks() == other.chunks()
    }
}

impl Eq for CellKey {}

impl fmt::Display for CellKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (endpoint, chunk) in self.chunks().iter().enumerate() {
            if endpoint > 0 {
                f.write_str(".")?;
            }
            write!(f, "{chunk}")?;
        }
        Ok(())
    }
}

fn count(at: u64, want: usize, found: usize) -> FormatError {
    let expected = Expected::Exactly(num::to_u64(want).into());
    FormatError::new(Class::CountMismatch, Part::ChunkKey, "components", at, expected, found)
}
