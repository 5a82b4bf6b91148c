//! Modes: the relation of geometry to the region of a query.

use std::fmt;

/// The relation of geometry to the region, and which part of it is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Mode {
    /// Elements and objects with all vertices inside.
    Inside,
    /// Elements and objects that have a point in the region, whole. For points: those inside.
    Touch,
    /// What of the geometry is inside, cut at the boundary; new vertices take their attributes from
    /// those beside them.
    Clip,
    /// Stored vertices that are inside, in runs; vertices that were not neighbours are never joined.
    Crop,
    /// All geometry in the chunks that meet the region, untested.
    Cells,
}

impl Mode {
    /// Every mode.
    pub const ALL: &'static [Self] =
        &[Self::Inside, Self::Touch, Self::Clip, Self::Crop, Self::Cells];

    /// Returns its name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Inside => "inside",
            Self::Touch => "touch",
            Self::Clip => "clip",
            Self::Crop => "crop",
            Self::Cells => "cells",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
