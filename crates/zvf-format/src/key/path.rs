//! The place of a chunk inside one array: its Zarr chunk key.
//!
//! ```text
//! c/<i>/<j>/...    i = component - origin of that axis; never negative
//! ```
//!
//! Every array has its own origin; the same key has different paths in different arrays.

use core::fmt;
use core::str::FromStr;

use super::{ChunkKey, MAX_RANK, check_rank, decimal, rank_error};
use crate::error::{Class, Expected, FormatError, Part};
use crate::{num, used_items};

/// The place of a chunk in one array, counted from the array's origin.
///
/// ```
/// use zvf_format::key::{ChunkKey, ChunkPath};
///
/// let key = ChunkKey::new(&[-1, 0]).unwrap();
/// let path = ChunkPath::from_key(&key, &[-1, 0]).unwrap();
/// assert_eq!(path.to_string(), "c/0/0");
/// assert_eq!(path.key(&[-1, 0]).unwrap(), key);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPath {
    index: [u64; MAX_RANK], // each fits `i64`; zero from `rank` on
    rank: u8,               // 1 to MAX_RANK
}

impl ChunkPath {
    /// Finds the place of `key` in an array that starts at `origin`.
    ///
    /// # Errors
    ///
    /// When `origin` has another rank, or the key lies before it or 2^63 chunks after it on some
    /// axis.
    pub fn from_key(key: &ChunkKey, origin: &[i64]) -> Result<Self, FormatError> {
        check_origin_rank(key.rank(), origin.len())?;
        let mut path = Self { index: [0; MAX_RANK], rank: key.rank };
        let axes = key.components().iter().zip(origin);
        for (to, (&component, &from)) in path.index.iter_mut().zip(axes) {
            let steps = component.checked_sub(from).filter(|steps| *steps >= 0);
            *to = steps
                .map(i64::unsigned_abs)
                .ok_or_else(|| refuse_before_origin(component, from))?;
        }
        Ok(path)
    }

    /// Returns the key of this place in an array that starts at `origin`.
    ///
    /// # Errors
    ///
    /// When `origin` has another rank, or the key would not fit in 64 bits.
    pub fn key(&self, origin: &[i64]) -> Result<ChunkKey, FormatError> {
        check_origin_rank(self.index().len(), origin.len())?;
        let mut components = [0; MAX_RANK];
        for (to, (index, from)) in components.iter_mut().zip(self.index().iter().zip(origin)) {
            *to = from.checked_add_unsigned(*index).ok_or_else(|| {
                let expected = Expected::Rule("origin + index in 64 bits");
                FormatError::new(Class::Overflow, Part::ChunkKey, "index", 0, expected, *index)
            })?;
        }
        Ok(ChunkKey { components, rank: self.rank })
    }

    /// Returns the index on each axis.
    pub fn index(&self) -> &[u64] {
        used_items(&self.index, self.rank)
    }
}

/// Parses a path as Zarr writes it: `c`, then one number for each axis.
///
/// # Errors
///
/// When `text` is anything else.
impl FromStr for ChunkPath {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let mut words = decimal::split_words(text, b'/');
        if words.next() != Some((0, "c")) {
            let (expected, found) = (Expected::Rule("\"c\""), "another word");
            let (class, part) = (Class::InvalidKey, Part::ChunkKey);
            return Err(FormatError::new(class, part, "prefix", 0, expected, found));
        }
        let (mut index, mut rank) = ([0; MAX_RANK], 0_usize);
        let mut places = index.iter_mut();
        for (at, word) in words {
            let number = decimal::parse_plain(Part::ChunkKey, at, word)?;
            rank = rank.saturating_add(1);
            let Some(place) = places.next() else {
                return Err(rank_error(Part::ChunkKey, at, rank));
            };
            *place = u64::try_from(number).map_err(|_negative| {
                let expected = Expected::AtLeast(0);
                FormatError::new(Class::Negative, Part::ChunkKey, "index", at, expected, number)
            })?;
        }
        Ok(Self { index, rank: check_rank(Part::ChunkKey, rank)? })
    }
}

impl fmt::Display for ChunkPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("c")?;
        self.index().iter().try_for_each(|index| write!(f, "/{index}"))
    }
}

/// Returns the error for a chunk before the `origin` of the array.
fn refuse_before_origin(component: i64, origin: i64) -> FormatError {
    let (class, expected) = if component < origin {
        (Class::OutOfBounds, Expected::AtLeast(origin.into()))
    } else {
        (Class::Overflow, Expected::Rule("component - origin in 64 bits"))
    };
    FormatError::new(class, Part::ChunkKey, "component", 0, expected, component)
}

fn check_origin_rank(rank: usize, origin: usize) -> Result<(), FormatError> {
    if rank == origin {
        return Ok(());
    }
    let expected = Expected::Exactly(num::to_u64(rank).into());
    Err(FormatError::new(Class::BadShape, Part::ChunkKey, "origin", 0, expected, origin))
}
