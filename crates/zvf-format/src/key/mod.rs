//! Names composed of chunk coordinates: keys, chunk paths, and the segments below a link family.
//!
//! ```text
//! chunk key         3.0.-1              absolute coordinates, any sign          ChunkKey
//! cell key (0.8)    0.0.1.0             chunk keys of all endpoints, joined     CellKey
//! chunk path        c/4/0/0             coordinates minus the grid's origin     ChunkPath
//! delta segment     0  +1  -2           levels between the ends of a link       Delta
//! offsets segment   0.+1.0_+1.0.0       chunks of endpoints 1.. from the first  Offsets
//! ```
//!
//! A component is plain decimal: an optional `-`, no `+`, no leading zero, no `-0`. Each key has
//! exactly one text, so comparing keys is the same as comparing names, and only text that printing
//! can produce is parsed.
//!
//! The format has two orders, so neither is the natural one: vertices are enumerated in *numeric*
//! order of keys, links and presence lists in *string* order (`10.0` before `2.0`). So keys do not
//! implement `Ord`; the caller states the order.
//!
//! Not here: whether a key lies inside a grid ([`crate::grid`]); the data under a key.

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;

use crate::error::{Class, Expected, FormatError, Part};
use crate::used_items;

mod cell;
mod decimal;
mod delta;
mod list;
mod offsets;
mod path;

pub use cell::CellKey;
pub use delta::Delta;
pub use list::count_printed_keys;
pub use offsets::Offsets;
pub use path::ChunkPath;

/// The largest number of components of a chunk key.
pub const MAX_RANK: usize = 16;
/// The largest number of endpoints of a link record.
pub const MAX_WIDTH: usize = 8;

/// The absolute coordinates of one chunk.
///
/// On attribute-binned levels the first component is the bin of the attribute.
///
/// ```
/// use zvf_format::key::ChunkKey;
///
/// let ten = "10.-1".parse::<ChunkKey>().unwrap();
/// let two = ChunkKey::new(&[2, 0]).unwrap();
/// assert_eq!(ten.components(), [10, -1]);
/// assert_eq!(two.to_string(), "2.0");
/// assert!(two.cmp_numeric(&ten).is_lt() && two.cmp_string(&ten).is_gt());
/// ```
#[derive(Clone, Copy)]
pub struct ChunkKey {
    components: [i64; MAX_RANK], // zero from `rank` on
    rank: u8,                    // 1 to MAX_RANK
}

impl ChunkKey {
    /// Creates the key with these components.
    ///
    /// # Errors
    ///
    /// When there are no components, or more than [`MAX_RANK`].
    pub fn new(components: &[i64]) -> Result<Self, FormatError> {
        let mut key = Self::FILLER;
        key.rank = check_rank(Part::ChunkKey, components.len())?;
        for (to, from) in key.components.iter_mut().zip(components) {
            *to = *from;
        }
        Ok(key)
    }

    /// Returns the coordinates, one for each axis of the chunk grid.
    pub fn components(&self) -> &[i64] {
        used_items(&self.components, self.rank)
    }

    /// Returns the number of components, `sid_ndim` in the format's documents.
    pub fn rank(&self) -> usize {
        self.rank.into()
    }

    /// Returns the last `axes` components: the coordinates in space, without the bin of an
    /// attribute.
    pub fn spatial(&self, axes: usize) -> Option<&[i64]> {
        self.components().get(self.rank().checked_sub(axes)?..)
    }

    /// Compares the coordinates, first axis first: the order of vertices.
    pub fn cmp_numeric(&self, other: &Self) -> Ordering {
        self.components().cmp(other.components())
    }

    /// Compares the printed keys: the order of links and presence lists.
    pub fn cmp_string(&self, other: &Self) -> Ordering {
        decimal::cmp_plain(self.components(), other.components())
    }

    /// Fills the unused places of arrays.
    const FILLER: Self = Self { components: [0; MAX_RANK], rank: 1 };

    /// Creates a key of a checked `rank`; components past it must be zero.
    pub(crate) const fn from_checked(components: [i64; MAX_RANK], rank: u8) -> Self {
        Self { components, rank }
    }
}

impl PartialEq for ChunkKey {
    fn eq(&self, other: &Self) -> bool {
        self.components() == other.components()
    }
}

impl Eq for ChunkKey {}

impl Hash for ChunkKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.components().hash(state);
    }
}

/// Parses a key as the format writes it.
///
/// # Errors
///
/// When a component is not plain decimal or does not fit in `i64`, or there are more than
/// [`MAX_RANK`].
impl FromStr for ChunkKey {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let (mut components, mut rank) = ([0; MAX_RANK], 0_usize);
        let mut places = components.iter_mut();
        for (at, word) in decimal::split_words(text, b'.') {
            let component = decimal::parse_plain(Part::ChunkKey, at, word)?;
            rank = rank.saturating_add(1);
            match places.next() {
                Some(place) => *place = component,
                None => return Err(rank_error(Part::ChunkKey, at, rank)),
            }
        }
        Ok(Self { components, rank: check_rank(Part::ChunkKey, rank)? })
    }
}

impl fmt::Display for ChunkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (axis, component) in self.components().iter().enumerate() {
            if axis > 0 {
                f.write_str(".")?;
            }
            write!(f, "{component}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ChunkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkKey({self})")
    }
}

/// Checks that a number of components is valid for a key.
pub(crate) fn check_rank(part: Part, rank: usize) -> Result<u8, FormatError> {
    let (low, high) = (1, 16);
    const { assert!(MAX_RANK == 16) };
    match u8::try_from(rank) {
        Ok(0) => {
            let expected = Expected::Between(low, high);
            Err(FormatError::new(Class::BadShape, part, "rank", 0, expected, rank))
        }
        Ok(small) if rank <= MAX_RANK => Ok(small),
        _ => Err(rank_error(part, 0, rank)),
    }
}

/// Checks that a number of endpoints is valid for a link record.
pub(crate) fn check_width(part: Part, width: usize) -> Result<u8, FormatError> {
    const { assert!(MAX_WIDTH == 8) };
    let expected = Expected::Between(1, 8);
    let class = if width == 0 { Class::BadShape } else { Class::LimitExceeded };
    match u8::try_from(width) {
        Ok(small @ 1..=8) => Ok(small),
        _ => Err(FormatError::new(class, part, "link_width", 0, expected, width)),
    }
}

fn rank_error(part: Part, at: u64, rank: usize) -> FormatError {
    FormatError::new(Class::LimitExceeded, part, "rank", at, Expected::Between(1, 16), rank)
}

#[cfg(test)]
mod tests;
