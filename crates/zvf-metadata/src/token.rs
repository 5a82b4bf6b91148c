//! Tokens: the vocabularies of the specification, and unknown words.
//!
//! A document may hold an unknown word. It is kept; `open_checks` and `validate` decide whether it
//! matters.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use core::fmt;

use serde_json::Value;

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

/// A closed set of words with their spellings.
pub trait Vocabulary: Copy + PartialEq + 'static {
    /// All words and their spellings.
    const WORDS: &'static [(Self, &'static str)];
}

impl<K: Vocabulary> Token<K> {
    /// Finds the word spelled `text`.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let word = K::WORDS.iter().find(|(_, spelling)| *spelling == text);
        word.map_or_else(|| Self::Other(text.to_owned()), |&(word, _)| Self::Known(word))
    }

    /// Returns the word, if it is in the vocabulary.
    #[must_use]
    pub const fn known_word(&self) -> Option<K> {
        match self {
            Self::Known(word) => Some(*word),
            Self::Other(_) => None,
        }
    }

    /// Returns the spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(known) => {
                let word = K::WORDS.iter().find(|(word, _)| word == known);
                word.map_or("", |&(_, spelling)| spelling)
            }
            Self::Other(text) => text,
        }
    }
}

impl<K> From<K> for Token<K> {
    fn from(word: K) -> Self {
        Self::Known(word)
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

/// The geometry types of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GeometryType {
    /// Loose points.
    PointCloud,
    /// Segments of two points.
    Line,
    /// Chains of points.
    Polyline,
    /// Chains of points that follow a field.
    Streamline,
    /// Trees of points.
    Skeleton,
    /// Points and edges.
    Graph,
    /// Points and faces.
    Mesh,
}

impl Vocabulary for GeometryType {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::PointCloud, "point_cloud"),
        (Self::Line, "line"),
        (Self::Polyline, "polyline"),
        (Self::Streamline, "streamline"),
        (Self::Skeleton, "skeleton"),
        (Self::Graph, "graph"),
        (Self::Mesh, "mesh"),
    ];
}

/// The convention for links inside a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinksConvention {
    /// All links are stored.
    Explicit,
    /// Each row is linked to the next; no link is stored.
    ImplicitSequential,
    /// Each row is linked to the next, except at branches, whose links are stored.
    ImplicitSequentialWithBranches,
}

impl Vocabulary for LinksConvention {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Explicit, "explicit"),
        (Self::ImplicitSequential, "implicit_sequential"),
        (Self::ImplicitSequentialWithBranches, "implicit_sequential_with_branches"),
    ];
}

/// The way in which objects find their fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ObjectIndexConvention {
    /// Through manifests.
    Standard,
    /// Has no effect: read as standard.
    Identity,
}

impl Vocabulary for ObjectIndexConvention {
    const WORDS: &'static [(Self, &'static str)] =
        &[(Self::Standard, "standard"), (Self::Identity, "identity")];
}

/// The strategy that joins geometry across chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CrossChunkStrategy {
    /// Stored links.
    ExplicitLinks,
    /// Vertices stored on both sides.
    BoundaryDeduplication,
    /// Both of them.
    Both,
}

impl Vocabulary for CrossChunkStrategy {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::ExplicitLinks, "explicit_links"),
        (Self::BoundaryDeduplication, "boundary_deduplication"),
        (Self::Both, "both"),
    ];
}

/// The links between levels that are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CrossLevelStorage {
    /// No links.
    None,
    /// Links to coarser levels.
    Implicit,
    /// Links in both directions.
    Explicit,
}

impl Vocabulary for CrossLevelStorage {
    const WORDS: &'static [(Self, &'static str)] =
        &[(Self::None, "none"), (Self::Implicit, "implicit"), (Self::Explicit, "explicit")];
}

/// A feature that a store announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Capability {
    /// Some level keeps dropped objects with empty manifests.
    PreservedObjectIds,
    /// In some level a fragment may belong to several objects.
    SharedFragments,
    /// Links between levels exist.
    MultiscaleLinks,
    /// Fragments are located by fragment indexes.
    FragmentIndex,
    /// Some level holds only data that the next coarser level lacks.
    AdditiveLevels,
    /// Manifests are stored as two numeric arrays.
    DenseManifests,
    /// Links are grouped by the fragments of their rows.
    FragmentLinkGroups,
    /// Cross-chunk links are in a development layout of 0.8.
    PartitionedCrossChunkLinks,
}

impl Vocabulary for Capability {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::PreservedObjectIds, "preserved_object_ids"),
        (Self::SharedFragments, "shared_fragments"),
        (Self::MultiscaleLinks, "multiscale_links"),
        (Self::FragmentIndex, "fragment_index"),
        (Self::AdditiveLevels, "additive_levels"),
        (Self::DenseManifests, "dense_manifests"),
        (Self::FragmentLinkGroups, "fragment_link_groups"),
        (Self::PartitionedCrossChunkLinks, "partitioned_cross_chunk_links"),
    ];
}

/// The assignment of the small arrays of 0.6 and 0.7 to shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShardLayout {
    /// By Morton code.
    Octree,
    /// By Hilbert code.
    Snake,
    /// By Morton code, located by the index.
    IndexTable,
}

impl Vocabulary for ShardLayout {
    const WORDS: &'static [(Self, &'static str)] =
        &[(Self::Octree, "octree"), (Self::Snake, "snake"), (Self::IndexTable, "index_table")];
}

/// The layout of the object index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ManifestLayout {
    /// Blobs, one per slot; the slot is the object's id.
    VlenManifestsV1,
    /// Blobs, one per row; ids are in a separate array.
    VlenManifestsV2,
    /// Two numeric arrays: spans and blocks.
    DenseManifestsV1,
}

impl Vocabulary for ManifestLayout {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::VlenManifestsV1, "vlen_manifests_v1"),
        (Self::VlenManifestsV2, "vlen_manifests_v2"),
        (Self::DenseManifestsV1, "dense_manifests_v1"),
    ];
}

/// The part of the data that a level holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refinement {
    /// A complete copy.
    Replace,
    /// Only data that the next coarser level does not hold.
    Add,
}

impl Vocabulary for Refinement {
    const WORDS: &'static [(Self, &'static str)] =
        &[(Self::Replace, "replace"), (Self::Add, "add")];
}

/// The number of stored copies of a link record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkStore {
    /// Once.
    Canonical,
    /// In the cell of every endpoint.
    Duplicate,
}

impl Vocabulary for LinkStore {
    const WORDS: &'static [(Self, &'static str)] =
        &[(Self::Canonical, "canonical"), (Self::Duplicate, "duplicate")];
}

/// The encoding of an array's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CellEncoding {
    /// Rows, back to back.
    Raw,
    /// A Draco stream.
    Draco,
    /// A fragment index, version 1.
    FragmentIndexV1,
    /// Codes into `categories`.
    Dictionary,
}

impl Vocabulary for CellEncoding {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Raw, "raw"),
        (Self::Draco, "draco"),
        (Self::FragmentIndexV1, "fragment_index_v1"),
        (Self::Dictionary, "dictionary"),
    ];
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    fn check_round_trips<K: Vocabulary + fmt::Debug>() -> usize {
        for &(variant, spelling) in K::WORDS {
            assert_eq!(Token::<K>::from_text(spelling), Token::Known(variant));
            assert_eq!(Token::Known(variant).to_string(), spelling);
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
