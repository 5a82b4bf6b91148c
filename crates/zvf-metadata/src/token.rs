//! Tokens: the vocabularies of the specification, and unknown words.
//!
//! A document may hold an unknown word. It is kept; `open_checks` and `validate` decide whether it
//! matters.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use core::fmt;

use serde_json::Value;
pub use zvf_format::Vocabulary;
use zvf_format::vocabulary;

use super::error::{At, MetadataError};
use super::members::Member;

/// A word of the vocabulary `K`, or another one.
///
/// ```
/// use zvf_metadata::{GeometryType, Token};
///
/// let token = Token::from(GeometryType::Mesh);
/// assert_eq!((token.known_word(), token.as_str()), (Some(GeometryType::Mesh), "mesh"));
/// assert_eq!(Token::<GeometryType>::from_text("voxels").known_word(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token<K> {
    /// A word of the vocabulary.
    Known(K),
    /// An unknown word.
    Other(String),
}

impl<K: Vocabulary> Token<K> {
    /// Finds the word spelled `text`.
    pub fn from_text(text: &str) -> Self {
        K::from_word(text).map_or_else(|| Self::Other(text.to_owned()), Self::Known)
    }

    /// Returns the word, if it is in the vocabulary.
    pub const fn known_word(&self) -> Option<K> {
        match self {
            Self::Known(word) => Some(*word),
            Self::Other(_) => None,
        }
    }

    /// Returns the spelling.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(known) => known.word(),
            Self::Other(text) => text,
        }
    }
}

impl<K> From<K> for Token<K> {
    fn from(word: K) -> Self {
        Self::Known(word)
    }
}

impl Default for Token<LinkStore> {
    fn default() -> Self {
        Self::Known(LinkStore::Canonical)
    }
}

impl<K: Vocabulary> fmt::Display for Token<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<K: Vocabulary> Member for Token<K> {
    fn read(at: &At<'_>, value: Value) -> Result<Self, MetadataError> {
        Ok(Self::from_text(&String::read(at, value)?))
    }

    fn to_value(&self) -> Value {
        self.as_str().into()
    }
}

vocabulary! {
    /// The geometry types of a store.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum GeometryType {
        /// Loose points.
        PointCloud => "point_cloud",
        /// Segments of two points.
        Line => "line",
        /// Chains of points.
        Polyline => "polyline",
        /// Chains of points that follow a field.
        Streamline => "streamline",
        /// Trees of points.
        Skeleton => "skeleton",
        /// Points and edges.
        Graph => "graph",
        /// Points and faces.
        Mesh => "mesh",
    }
    /// Returns the spelling.
    fn name;
}

vocabulary! {
    /// The convention for links inside a fragment.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum LinksConvention {
        /// All links are stored.
        Explicit => "explicit",
        /// Each row is linked to the next; no link is stored.
        ImplicitSequential => "implicit_sequential",
        /// Each row is linked to the next, except at branches, whose links are stored.
        ImplicitSequentialWithBranches => "implicit_sequential_with_branches",
    }
    /// Returns the spelling.
    fn name;
}

vocabulary! {
    /// The way in which objects find their fragments.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum ObjectIndexConvention {
        /// Through manifests.
        Standard => "standard",
        /// Has no effect: read as standard.
        Identity => "identity",
    }
    /// Returns the spelling.
    fn name;
}

vocabulary! {
    /// The strategy that joins geometry across chunks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum CrossChunkStrategy {
        /// Stored links.
        ExplicitLinks => "explicit_links",
        /// Vertices stored on both sides.
        BoundaryDeduplication => "boundary_deduplication",
        /// Both of them.
        Both => "both",
    }
    /// Returns the spelling.
    fn name;
}

vocabulary! {
    /// The links between levels that are stored.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum CrossLevelStorage {
        /// No links.
        None => "none",
        /// Links to coarser levels.
        Implicit => "implicit",
        /// Links in both directions.
        Explicit => "explicit",
    }
    /// Returns the spelling.
    fn name;
}

vocabulary! {
    /// A feature that a store announces.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum Capability {
        /// Some level keeps dropped objects with empty manifests.
        PreservedObjectIds => "preserved_object_ids",
        /// In some level a fragment may belong to several objects.
        SharedFragments => "shared_fragments",
        /// Links between levels exist.
        MultiscaleLinks => "multiscale_links",
        /// Fragments are located by fragment indexes.
        FragmentIndex => "fragment_index",
        /// Some level holds only data that the next coarser level lacks.
        AdditiveLevels => "additive_levels",
        /// Manifests are stored as two numeric arrays.
        DenseManifests => "dense_manifests",
        /// Links are grouped by the fragments of their rows.
        FragmentLinkGroups => "fragment_link_groups",
        /// Cross-chunk links are in a development layout of 0.8.
        PartitionedCrossChunkLinks => "partitioned_cross_chunk_links",
    }
    /// Returns the spelling.
    fn name;
}

vocabulary! {
    /// The assignment of the small arrays of 0.6 and 0.7 to shards.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum ShardLayout {
        /// By Morton code.
        Octree => "octree",
        /// By Hilbert code.
        Snake => "snake",
        /// By Morton code, located by the index.
        IndexTable => "index_table",
    }
    /// Returns the spelling.
    fn name;
}

vocabulary! {
    /// The layout of the object index.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum ManifestLayout {
        /// Blobs, one per slot; the slot is the object's id.
        VlenManifestsV1 => "vlen_manifests_v1",
        /// Blobs, one per row; ids are in a separate array.
        VlenManifestsV2 => "vlen_manifests_v2",
        /// Two numeric arrays: spans and blocks.
        DenseManifestsV1 => "dense_manifests_v1",
    }
    /// Returns the spelling.
    fn name;
}

vocabulary! {
    /// The part of the data that a level holds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum Refinement {
        /// A complete copy.
        Replace => "replace",
        /// Only data that the next coarser level does not hold.
        Add => "add",
    }
    /// Returns the spelling.
    fn name;
}

vocabulary! {
    /// The number of stored copies of a link record.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum LinkStore {
        /// Once.
        Canonical => "canonical",
        /// In the cell of every endpoint.
        Duplicate => "duplicate",
    }
    /// Returns the spelling.
    fn name;
}

vocabulary! {
    /// The encoding of an array's cells.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum CellEncoding {
        /// Rows, back to back.
        Raw => "raw",
        /// A Draco stream.
        Draco => "draco",
        /// A fragment index, version 1.
        FragmentIndexV1 => "fragment_index_v1",
        /// Codes into `categories`.
        Dictionary => "dictionary",
    }
    /// Returns the spelling.
    fn name;
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    fn check_round_trips<K: Vocabulary + fmt::Debug + PartialEq>() -> usize {
        for &(word, variant) in K::WORDS {
            assert_eq!(Token::<K>::from_text(word), Token::Known(variant));
            assert_eq!(Token::Known(variant).to_string(), word);
        }
        assert_eq!(Token::<K>::from_text("no such word").as_str(), "no such word");
        K::WORDS.len()
    }

    #[test]
    fn every_word_has_one_spelling() {
        assert_eq!(check_round_trips::<GeometryType>(), 7);
        assert_eq!(check_round_trips::<LinksConvention>(), 3);
        assert_eq!(check_round_trips::<ObjectIndexConvention>(), 2);
        assert_eq!(check_round_trips::<CrossChunkStrategy>(), 3);
        assert_eq!(check_round_trips::<CrossLevelStorage>(), 3);
        assert_eq!(check_round_trips::<Capability>(), 8);
        assert_eq!(check_round_trips::<ShardLayout>(), 3);
        assert_eq!(check_round_trips::<ManifestLayout>(), 3);
        assert_eq!(check_round_trips::<Refinement>(), 2);
        assert_eq!(check_round_trips::<LinkStore>(), 2);
        assert_eq!(check_round_trips::<CellEncoding>(), 4);
    }
}
