//! The folders of a store, and their contents.

use zvf_model::Kind;

/// The contents of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayerForm {
    /// Annotations with their indexes.
    Annotations,
    /// Skeletons by segment.
    Skeletons,
    /// Meshes of several resolutions by segment.
    Meshes,
    /// Meshes of one resolution by segment.
    LegacyMeshes,
}

/// A folder of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayerSummary {
    /// The name of the folder.
    pub name: String,
    /// The geometry in it.
    pub kind: Kind,
    /// The contents of the folder.
    pub form: LayerForm,
}
