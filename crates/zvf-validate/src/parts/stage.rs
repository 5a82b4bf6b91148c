//! The stages of a validation. Each needs the results of the earlier ones.

use serde::{Deserialize, Serialize};

/// The order of stages.
///
/// ```
/// use zvf_validate::Stage;
///
/// assert!(Stage::Cells < Stage::Links && Stage::Links < Stage::Objects);
/// assert_eq!(Stage::Objects.name(), "objects");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Rows, fragments and their attributes.
    Cells,
    /// Links, which need the rows of all chunks.
    Links,
    /// Manifests, which need fragments and links.
    Objects,
}

impl Stage {
    /// All of them, in order.
    pub const ALL: &'static [Self] = &[Self::Cells, Self::Links, Self::Objects];

    /// Returns its name in plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cells => "cells",
            Self::Links => "links",
            Self::Objects => "objects",
        }
    }
}
