//! The difference in level between the ends of a link: the first name below a link family.
//!
//! ```text
//! 0     both ends on one level
//! +N    the other ends are N levels coarser
//! -N    the other ends are N levels finer
//! ```
//!
//! Old stores may hold a sign before zero or leading zeros. Their meaning is clear, so they are
//! accepted; [`Delta::lints`] reports them, and nothing here writes them.

use core::fmt;
use core::str::FromStr;

use super::decimal;
use crate::error::{Class, Expected, FormatError, Part};
use crate::lint::Lints;

/// The level of the other endpoints minus the level that owns the link.
///
/// ```
/// use zvf_format::key::Delta;
///
/// assert_eq!("+2".parse::<Delta>().unwrap(), Delta(2));
/// assert_eq!(Delta(-1).to_string(), "-1");
/// assert!(!"+0".parse::<Delta>().unwrap().lints("+0").is_empty());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Delta(pub i32);

impl Delta {
    /// Both ends on one level.
    pub const SAME: Self = Self(0);

    /// Parses a segment like [`str::parse`], and also refuses the spellings that [`Self::lints`]
    /// lists.
    ///
    /// # Errors
    ///
    /// When `text` is not the printed form of a [`Delta`].
    pub fn parse_strict(text: &str) -> Result<Self, FormatError> {
        let delta: Self = text.parse()?;
        delta.lints(text).into_strict()?;
        Ok(delta)
    }

    /// Lists the spellings in the segment `text`, from which this was parsed, that a writer must
    /// not use.
    #[must_use]
    pub fn lints(self, text: &str) -> Lints {
        let mut lints = Lints::default();
        let (sign, digits) = decimal::split_sign(text);
        let canonical = if self.0 == 0 {
            sign.is_none() && digits == "0"
        } else {
            sign.is_some() && !digits.starts_with('0')
        };
        if !canonical {
            let expected = Expected::Rule("the shortest spelling");
            lints.push(refuse(Class::NonCanonical, expected, "a needless sign or zero"));
        }
        lints
    }

    /// Returns the delta as seen from the other end.
    #[must_use]
    pub const fn reverse(self) -> Option<Self> {
        match self.0.checked_neg() {
            Some(gap) => Some(Self(gap)),
            None => None,
        }
    }
}

/// Reads a segment, non-canonical spellings included.
///
/// # Errors
///
/// When `text` is neither `0` nor a sign and digits, or the number has more than 32 bits.
impl FromStr for Delta {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let (sign, digits) = decimal::split_sign(text);
        if digits.is_empty() || (sign.is_none() && digits != "0") {
            let expected = Expected::Rule("0, or a sign and digits");
            return Err(refuse(Class::InvalidKey, expected, "another name"));
        }
        let value = decimal::parse_magnitude(Part::DeltaSegment, 0, sign == Some(b'-'), digits)?;
        i32::try_from(value).map(Self).map_err(|_wide| {
            refuse(Class::Overflow, Expected::Rule("a number of 32 bits"), "a longer one")
        })
    }
}

impl fmt::Display for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { f.write_str("0") } else { write!(f, "{:+}", self.0) }
    }
}

fn refuse(class: Class, expected: Expected, found: &'static str) -> FormatError {
    FormatError::new(class, Part::DeltaSegment, "delta", 0, expected, found)
}
