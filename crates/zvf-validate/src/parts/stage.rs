//! The stages of a validation. Each needs the results of the earlier ones.

use serde::{Deserialize, Serialize};

zvf_format::vocabulary! {
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
        Cells => "cells",
        /// Links, which need the rows of all chunks.
        Links => "links",
        /// Manifests, which need fragments and links.
        Objects => "objects",
    }
    /// Returns its name in plans.
    fn name;
}
