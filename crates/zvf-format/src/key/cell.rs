//! The chunks of all endpoints of a link record, and the cell name that 0.8 derives from them.
//!
//! ```text
//! 0.0.1.0    two endpoints in two dimensions: chunk 0.0, then chunk 1.0
//! ```
//!
//! Endpoints are in placement order. In 0.8 this is the name of a cell; in 0.9 the same list
//! follows from the source chunk and the offsets ([`crate::link::LinkPolicy::endpoint_chunks`]).

use core::fmt;

use super::{ChunkKey, MAX_RANK, MAX_WIDTH, check_rank, check_width, decimal};
use crate::error::{Class, Expected, FormatError, Part};
use crate::{num, used_items};

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
    chunks: [ChunkKey; MAX_WIDTH], // of one rank up to `width`
    width: u8,                     // 1 to MAX_WIDTH
}

impl CellKey {
    /// Creates the cell of records whose endpoints lie in these chunks.
    ///
    /// # Errors
    ///
    /// When there are no chunks, more than [`MAX_WIDTH`], or their ranks differ.
    pub fn new(chunks: &[ChunkKey]) -> Result<Self, FormatError> {
        let width = check_width(Part::ChunkKey, chunks.len())?;
        let mut pairs = chunks.array_windows::<2>();
        if let Some([one, other]) = pairs.find(|[one, other]| one.rank() != other.rank()) {
            return Err(count(0, one.rank(), other.rank()));
        }
        let mut cell = Self { chunks: [ChunkKey::FILLER; MAX_WIDTH], width };
        for (to, from) in cell.chunks.iter_mut().zip(chunks) {
            *to = *from;
        }
        Ok(cell)
    }

    /// Parses the name of a 0.8 cell.
    ///
    /// # Errors
    ///
    /// When `sid_ndim` or `link_width` is invalid for a family, a component is not plain decimal,
    /// or their number is not exactly `sid_ndim * link_width`.
    pub fn split(text: &str, sid_ndim: usize, link_width: usize) -> Result<Self, FormatError> {
        let rank = check_rank(Part::ChunkKey, sid_ndim)?;
        let width = check_width(Part::ChunkKey, link_width)?;
        let mut chunks = [[0; MAX_RANK]; MAX_WIDTH];
        let want = sid_ndim.saturating_mul(link_width); // at most 128
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
        let chunks = chunks.map(|components| ChunkKey::from_checked(components, rank));
        Ok(Self { chunks, width })
    }

    /// Returns the chunks, one for each endpoint.
    pub fn chunks(&self) -> &[ChunkKey] {
        used_items(&self.chunks, self.width)
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
