//! One array of links: the form of its rows, and the chunks of their ends.
//!
//! ```text
//! Offsets   0.9: the source is the cell, the others lie where the name of the array says
//! Same      0.6 to 0.8, links/<delta>: all ends in the chunk of the cell
//! Joined    0.8, cross_chunk_links/<delta>: the name of the cell is that of all chunks
//! ```

use std::sync::Arc;

use zvf_format::key::{CellKey, ChunkKey, Offsets};
use zvf_format::link::{Body, LinkPolicy, RowShape};

use crate::array::ChunkArray;
use crate::chunks::ChunkTable;
use crate::findings::Findings;

/// One array of links.
pub(crate) struct Segment {
    pub(crate) array: ChunkArray,
    pub(crate) family: LinkPolicy,
    pub(crate) form: Form,
    pub(crate) shape: RowShape,
    pub(crate) body: Body,
    /// The values of each attribute of the links, with the bytes of a row.
    pub(crate) attributes: Vec<(ChunkArray, u64)>,
    /// The index of fragments over the rows, if there is one.
    pub(crate) fragments: Option<ChunkArray>,
}

/// How the chunks of the ends of a record are determined.
pub(crate) enum Form {
    Offsets(Box<Offsets>),
    Same,
    Joined,
}

/// The checks of a segment, shared by all its cells.
pub(crate) struct LinkChecks {
    pub(crate) fresh: Findings,
    pub(crate) segment: Arc<Segment>,
    /// Whether links are grouped by the fragments of their rows.
    pub(crate) grouped: bool,
    pub(crate) source_chunks: Arc<ChunkTable>,
    pub(crate) target_chunks: Arc<ChunkTable>,
    /// Whether the other level exists.
    pub(crate) has_target: bool,
    /// The uses of the links.
    pub(crate) uses: Uses,
}

/// The checks that use links, besides the check of their rows. Ends are in input order.
#[derive(Clone, Copy, Default)]
pub(crate) struct Uses {
    /// The links of skeletons, from a child to its parent.
    pub(crate) child: bool,
    /// The links of lines and polylines.
    pub(crate) bridges: bool,
    /// Faces.
    pub(crate) faces: bool,
    /// Links between levels that are summed: whether the source is the finer end.
    pub(crate) between: Option<bool>,
}

impl Segment {
    /// Returns the path of the array.
    pub(crate) fn path(&self) -> &str {
        &self.array.path
    }

    /// Returns the chunk of each end of the records of a cell.
    pub(crate) fn chunks(&self, key: &ChunkKey) -> Option<Vec<ChunkKey>> {
        let family = &self.family;
        match &self.form {
            Form::Offsets(offsets) => {
                Some(family.endpoint_chunks(key, offsets).ok()?.chunks().to_vec())
            }
            Form::Same => Some(vec![*key; family.link_width()]),
            Form::Joined => {
                let cell = CellKey::split(&key.to_string(), family.sid_ndim(), family.link_width());
                Some(cell.ok()?.chunks().to_vec())
            }
        }
    }
}
