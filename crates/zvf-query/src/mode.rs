//! Modes: the relation of geometry to the region of a query.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use zvf_format::Vocabulary as _;

zvf_format::vocabulary! {
    /// How geometry is related to the region, and which part of it is returned.
    ///
    /// ```
    /// use zvf_query::Mode;
    ///
    /// assert_eq!("clip".parse::<Mode>()?, Mode::Clip);
    /// assert!("cut".parse::<Mode>().is_err());
    /// # Ok::<(), zvf_query::UnknownMode>(())
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[non_exhaustive]
    #[serde(rename_all = "snake_case")]
    pub enum Mode {
        /// Elements and objects with all vertices inside.
        Inside => "inside",
        /// Whole elements and objects that have a point in the region. For points: those inside.
        Touch => "touch",
        /// The part of the geometry inside, cut at the boundary; new vertices take their attributes
        /// from neighbouring ones.
        Clip => "clip",
        /// Stored vertices that are inside, in runs; vertices that were not neighbours are never joined.
        Crop => "crop",
        /// All geometry in the chunks that intersect the region, untested.
        Cells => "cells",
    }
    /// Returns its name.
    fn word;
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(word: &str) -> Result<Self, UnknownMode> {
        Self::from_word(word).ok_or_else(|| UnknownMode { word: word.to_owned() })
    }
}

/// A word that is not a mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown mode {word:?}: expected inside, touch, clip, crop or cells")]
#[non_exhaustive]
pub struct UnknownMode {
    /// The given word.
    pub word: String,
}

impl From<UnknownMode> for zvf_error::Error {
    fn from(error: UnknownMode) -> Self {
        Self::from_cause(zvf_format::Class::InvalidArgument, error).with_op("query")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        for &mode in Mode::ALL {
            assert_eq!(mode.word().parse(), Ok(mode));
        }
        assert_eq!(
            "cut".parse::<Mode>().unwrap_err().to_string(),
            "unknown mode \"cut\": expected inside, touch, clip, crop or cells"
        );
    }
}
