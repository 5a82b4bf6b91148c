//! The state of one level during its validation.

use std::sync::Arc;

use zvf_format::num::checked_usize;
use zvf_metadata::{GeometryType, Token};
use zvf_store::LevelNode;

use crate::array::ChunkArray;
use crate::chunks::ChunkTable;

/// The state of one level.
pub(crate) struct LevelState {
    pub(crate) node: LevelNode,
    /// The path of its group.
    pub(crate) name: String,
    /// The kinds of geometry that the store declares.
    pub(crate) kinds: Vec<Token<GeometryType>>,
    /// Geometries of other kinds, each in a separate group.
    pub(crate) extra_kinds: Vec<Self>,
    /// The names of its nodes.
    pub(crate) children: Vec<String>,
    pub(crate) vertices: Option<ChunkArray>,
    pub(crate) fragments: Option<ChunkArray>,
    pub(crate) vertex_columns: Vec<ChunkArray>,
    pub(crate) fragment_columns: Vec<ChunkArray>,
    pub(crate) link_fragments: Option<ChunkArray>,
    /// Whether there is a column with the number of vertices of each object.
    pub(crate) has_vertex_counts: bool,
    /// Whether vertices are encoded in a way this build does not decode.
    pub(crate) opaque: bool,
    /// Whether they are Draco streams.
    pub(crate) is_draco: bool,
    /// Whether some of them are reordered, so that links do not match their order.
    pub(crate) reorders: bool,
    /// Chunks with their rows and fragments, after the cells were read.
    pub(crate) chunks: Arc<ChunkTable>,
    /// The number of ends of links within the level, if there is a family of them.
    pub(crate) link_width: Option<usize>,
    /// Facts about fragments and chunks that follow from the links.
    pub(crate) linked: Linked,
    /// The state of the object index.
    pub(crate) objects: ObjectIndexState,
}

/// Facts about the fragments and chunks of a level that follow from its links.
#[derive(Default)]
pub(crate) struct Linked {
    /// For each fragment, how many links name its first row as a child; empty when not counted.
    pub(crate) parents: Vec<u32>,
    /// For each chunk, the sum of the links found from it, less those expected; empty when not counted.
    pub(crate) bridges: Vec<u64>,
    /// Links between levels, by the level they lead to.
    pub(crate) cross_level: Vec<CrossLevelLinks>,
}

/// All links from one level to another.
#[derive(Clone, Copy)]
pub(crate) struct CrossLevelLinks {
    pub(crate) delta: i32,
    pub(crate) links: u64,
    /// The sum over all links of the hashes of the finer and the coarser end.
    pub(crate) sum: u64,
    /// Rows of this level that are no source; `None` if they were not counted.
    pub(crate) orphans: Option<u64>,
    /// Whether all links were read.
    pub(crate) complete: bool,
}

/// The state of the object index of a level.
#[derive(Default)]
pub(crate) struct ObjectIndexState {
    /// Number of rows, if there is an index.
    pub(crate) rows: Option<u64>,
    /// The id of each row, if ids are a column that was read.
    pub(crate) ids: Option<Arc<[i64]>>,
    /// Whether ids are a column, read or not.
    pub(crate) has_ids: bool,
    /// The rows with geometry, by which additive levels are compared; `None` if they are not needed or not known.
    pub(crate) present_rows: Option<Vec<u64>>,
}

impl ObjectIndexState {
    /// Returns the id of row `row`, if it is known.
    pub(crate) fn id(&self, row: u64) -> Option<i64> {
        match &self.ids {
            Some(ids) => ids.get(checked_usize(row)?).copied(),
            None if self.has_ids => None,
            None => i64::try_from(row).ok(),
        }
    }
}

impl LevelState {
    /// Creates the state of the level in the group of `node`.
    pub(crate) fn new(node: LevelNode, kinds: Vec<Token<GeometryType>>) -> Self {
        let name = node.path().to_string();
        Self {
            node,
            name,
            kinds,
            extra_kinds: Vec::new(),
            children: Vec::new(),
            vertices: None,
            fragments: None,
            vertex_columns: Vec::new(),
            fragment_columns: Vec::new(),
            link_fragments: None,
            opaque: false,
            has_vertex_counts: false,
            is_draco: false,
            reorders: false,
            chunks: Arc::default(),
            link_width: None,
            linked: Linked::default(),
            objects: ObjectIndexState::default(),
        }
    }

    /// Returns the number of the level that is `delta` levels further.
    pub(crate) fn number_at(&self, delta: i32) -> i64 {
        i64::from(self.node.number()) + i64::from(delta)
    }

    /// Returns that level, if it is one of `levels`.
    pub(crate) fn find_at<'a>(
        &self,
        delta: i32,
        levels: impl IntoIterator<Item = &'a Self>,
    ) -> Option<&'a Self> {
        let number = self.number_at(delta);
        levels.into_iter().find(|level| i64::from(level.node.number()) == number)
    }

    /// Returns whether the level has a node of this name, readable or not.
    pub(crate) fn has_node(&self, name: &str) -> bool {
        self.children.iter().any(|child| child == name)
    }

    /// Returns this level and its extra kinds.
    pub(crate) fn with_extra_kinds(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.extra_kinds)
    }

    /// Returns the declared kinds of geometry that are known.
    pub(crate) fn known_kinds(&self) -> Vec<GeometryType> {
        let kinds = self
            .kinds
            .iter()
            .filter_map(|token| if let Token::Known(kind) = token { Some(*kind) } else { None });
        kinds.collect()
    }

    /// Returns whether the level declares only `kinds`.
    pub(crate) fn is_only(&self, kinds: &[GeometryType]) -> bool {
        !self.kinds.is_empty()
            && self
                .kinds
                .iter()
                .all(|token| matches!(token, Token::Known(kind) if kinds.contains(kind)))
    }

    /// Returns whether the level has an object index.
    pub(crate) fn has_objects(&self) -> bool {
        self.has_node("object_index")
    }

    /// Returns the path of `name` below the level.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }
}
