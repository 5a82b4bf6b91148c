//! The offsets from the first endpoint of a link record to the others: the name of an offsets
//! array.
//!
//! ```text
//! self               one endpoint: there are no others
//! +1.0               two endpoints in two dimensions
//! 0.+1.0_+1.0.0      three endpoints in three dimensions
//! ```
//!
//! One offset for each endpoint but the first, joined by `_`; its components are joined by `.`, and
//! each is `0` or has a sign. The first endpoint's offset is zero by definition and not written.
//!
//! Families enumerate their offsets arrays in the order of these names as ASCII text, where `+`
//! comes before `-`, `-` before digits, and digits before `_`: [`Offsets::cmp_string`].

use core::cmp::Ordering;
use core::fmt;

use super::{MAX_RANK, MAX_WIDTH, check_rank, check_width, decimal};
use crate::error::{Class, Expected, FormatError, Part};
use crate::num;

/// The offsets of endpoints 1.. of a record, in chunks.
///
/// ```
/// use zvf_format::key::Offsets;
///
/// let face = Offsets::parse("0.+1.0_+1.0.0", 3, 3).unwrap();
/// assert_eq!(face.get(2), Some(&[1, 0, 0][..]));
/// assert!(!face.are_zero());
/// assert_eq!(face.to_string(), "0.+1.0_+1.0.0");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Offsets {
    steps: [[i64; MAX_RANK]; MAX_WIDTH], // zero for endpoint 0 and past the width and rank
    sid_ndim: u8,                        // 1 to MAX_RANK
    width: u8,                           // 1 to MAX_WIDTH
}

impl Offsets {
    /// Collects the offsets of endpoints 1.. of a record, each of `sid_ndim` components.
    ///
    /// # Errors
    ///
    /// When there are too many offsets or components, or an offset has another rank.
    pub fn new(sid_ndim: usize, offsets: &[&[i64]]) -> Result<Self, FormatError> {
        let rank = check_rank(Part::OffsetsSegment, sid_ndim)?;
        let width = check_width(Part::OffsetsSegment, offsets.len().saturating_add(1))?;
        if let Some(other) = offsets.iter().find(|offset| offset.len() != sid_ndim) {
            return Err(count("components", 0, sid_ndim, other.len()));
        }
        let mut all = Self { steps: [[0; MAX_RANK]; MAX_WIDTH], sid_ndim: rank, width };
        for (to, offset) in all.steps.iter_mut().skip(1).zip(offsets) {
            for (to, step) in to.iter_mut().zip(*offset) {
                *to = *step;
            }
        }
        Ok(all)
    }

    /// Reads a segment of a family with this rank and width.
    ///
    /// # Errors
    ///
    /// When a component is not `0`, `+N` or `-N`, or the number of components or offsets is wrong.
    pub fn parse(text: &str, sid_ndim: usize, link_width: usize) -> Result<Self, FormatError> {
        let rank = check_rank(Part::OffsetsSegment, sid_ndim)?;
        let width = check_width(Part::OffsetsSegment, link_width)?;
        let mut all = Self { steps: [[0; MAX_RANK]; MAX_WIDTH], sid_ndim: rank, width };
        if (text == ALONE) != (width == 1) {
            let expected = Expected::Rule("\"self\" exactly when the width is 1");
            let found = if text == ALONE { "self" } else { "offsets" };
            let (class, part) = (Class::InvalidKey, Part::OffsetsSegment);
            return Err(FormatError::new(class, part, "offsets", 0, expected, found));
        }
        if width > 1 {
            all.read(text)?;
        }
        Ok(all)
    }

    /// Returns the offset of an endpoint: all zero for the first, `None` past the last.
    pub fn get(&self, endpoint: usize) -> Option<&[i64]> {
        let steps = self.steps.get(..self.link_width())?.get(endpoint)?;
        steps.get(..self.sid_ndim())
    }

    /// Returns an iterator over the offsets of endpoints 1.. in order.
    pub fn iter(&self) -> impl Iterator<Item = &[i64]> {
        (1..self.link_width()).filter_map(|endpoint| self.get(endpoint))
    }

    /// Returns the number of components per offset.
    pub fn sid_ndim(&self) -> usize {
        self.sid_ndim.into()
    }

    /// Returns the number of endpoints of a record, the first included.
    pub fn link_width(&self) -> usize {
        self.width.into()
    }

    /// Returns whether all endpoints lie in the chunk the first one is anchored to.
    pub fn are_zero(&self) -> bool {
        self.iter().flatten().all(|step| *step == 0)
    }

    /// Returns whether the offsets never descend, starting from zero. Sorted endpoints give such
    /// offsets, and undirected canonical families must have them.
    pub fn are_sorted(&self) -> bool {
        (0..self.link_width()).map(|endpoint| self.get(endpoint)).is_sorted()
    }

    /// Compares the printed segments: the order in which a family is enumerated.
    pub fn cmp_string(&self, other: &Self) -> Ordering {
        match (self.width, other.width) {
            (1, 1) => Ordering::Equal,
            (1, _) => Ordering::Greater, // "self": letters come after digits and signs
            (_, 1) => Ordering::Less,
            _ => decimal::cmp_tokens(self.tokens(), other.tokens()),
        }
    }

    /// Creates the offsets of a record from `step`, called for each endpoint but the first and each
    /// axis.
    pub(crate) fn from_fn(rank: u8, width: u8, mut step: impl FnMut(usize, usize) -> i64) -> Self {
        let mut steps = [[0; MAX_RANK]; MAX_WIDTH];
        for (endpoint, to) in steps.iter_mut().enumerate().take(width.into()).skip(1) {
            for (axis, to) in to.iter_mut().enumerate().take(rank.into()) {
                *to = step(endpoint, axis);
            }
        }
        Self { steps, sid_ndim: rank, width }
    }

    fn read(&mut self, text: &str) -> Result<(), FormatError> {
        let (want, rank) = (self.link_width().saturating_sub(1), self.sid_ndim());
        let mut endpoints = self.steps.iter_mut().skip(1).take(want);
        let mut offsets = 0_usize;
        for (start, offset) in decimal::split_words(text, b'_') {
            offsets = offsets.saturating_add(1);
            let Some(steps) = endpoints.next() else {
                return Err(count("offsets", start, want, offsets));
            };
            let mut steps = steps.iter_mut().take(rank);
            let mut components = 0_usize;
            for (at, word) in decimal::split_words(offset, b'.') {
                let at = start.saturating_add(at);
                let component = decimal::parse_signed(Part::OffsetsSegment, at, word)?;
                components = components.saturating_add(1);
                match steps.next() {
                    Some(step) => *step = component,
                    None => return Err(count("components", at, rank, components)),
                }
            }
            if components < rank {
                return Err(count("components", start, rank, components));
            }
        }
        if offsets < want {
            return Err(count("offsets", num::to_u64(text.len()), want, offsets));
        }
        Ok(())
    }

    /// Returns an iterator over the numbers of the printed segment, if it has any.
    fn tokens(&self) -> impl Iterator<Item = decimal::Token> {
        let last = self.link_width().saturating_sub(1);
        (1..).zip(self.iter()).flat_map(move |(endpoint, offset)| {
            (1..).zip(offset).map(move |(next, &number)| {
                let behind = match next == offset.len() {
                    false => Some(b'.'),
                    true if endpoint == last => None,
                    true => Some(b'_'),
                };
                decimal::Token { plus: true, number, behind }
            })
        })
    }
}

impl fmt::Display for Offsets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.width == 1 {
            return f.write_str(ALONE);
        }
        for (endpoint, offset) in self.iter().enumerate() {
            for (axis, step) in offset.iter().enumerate() {
                match (endpoint, axis) {
                    (0, 0) => {}
                    (_, 0) => f.write_str("_")?,
                    _ => f.write_str(".")?,
                }
                if *step == 0 { f.write_str("0")? } else { write!(f, "{step:+}")? }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Offsets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Offsets({self})")
    }
}

/// The segment of records with one endpoint.
const ALONE: &str = "self";

fn count(field: &'static str, at: u64, want: usize, found: usize) -> FormatError {
    let expected = Expected::Exactly(num::to_u64(want).into());
    FormatError::new(Class::CountMismatch, Part::OffsetsSegment, field, at, expected, found)
}
