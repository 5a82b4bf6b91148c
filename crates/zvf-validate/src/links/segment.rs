//! One array of links that can be looked into: what its rows are, and in which chunks they end.
//!
//! ```text
//! Offsets   0.9: the source is the cell, the others lie where the name of the array says
//! Same      0.6 to 0.8, links/<delta>: all ends in the chunk of the cell
//! Joined    0.8, cross_chunk_links/<delta>: the name of the cell is that of all chunks
//! ```

use std::sync::Arc;

use zvf_format::key::{CellKey, ChunkKey, Offsets};
use zvf_format::link::{Body, LinkInteger, LinkPolicy, RowShape};
use zvf_metadata::{Dtype, DtypeKind};

use crate::array::ChunkArray;
use crate::chunks::ChunkTable;
use crate::findings::Findings;

/// One array of links.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) array: ChunkArray,
    pub(crate) family: LinkPolicy,
    pub(crate) form: Form,
    pub(crate) shape: RowShape,
    pub(crate) body: Body,
    /// The values of each attribute of the links: bytes of a row.
    pub(crate) attributes: Vec<(ChunkArray, u64)>,
    /// The index of fragments over the rows, where there is one.
    pub(crate) fragments: Option<ChunkArray>,
}

/// Where the ends of a record lie.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    Offsets(Box<Offsets>),
    Same,
    Joined,
}

/// What is looked for in a segment; shared by all its cells.
#[derive(Debug)]
pub(crate) struct Sought {
    pub(crate) fresh: Findings,
    pub(crate) path: String,
    /// Whether cells are listed: then each that is listed must be there.
    pub(crate) recorded: bool,
    pub(crate) family: LinkPolicy,
    pub(crate) form: Form,
    pub(crate) shape: RowShape,
    pub(crate) body: Body,
    pub(crate) attributes: Vec<(String, u64)>,
    pub(crate) fragments: Option<String>,
    /// Whether fragments are wanted for each cell, and missing ones reported.
    pub(crate) wants_fragments: bool,
    /// Whether links are grouped by the fragments of their rows.
    pub(crate) grouped: bool,
    pub(crate) source_chunks: Arc<ChunkTable>,
    pub(crate) target_chunks: Arc<ChunkTable>,
    /// Whether the other level is there at all.
    pub(crate) has_target: bool,
    /// Whether cells of a chunk that does not exist are reported: all chunks are known.
    pub(crate) uses: Uses,
}

/// What links are used for beyond their rows. Ends count as they were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uses {
    /// The links of skeletons: which end is the child.
    pub(crate) child: Option<usize>,
    /// The links of lines and polylines.
    pub(crate) bridges: bool,
    /// Faces.
    pub(crate) faces: bool,
    /// Links between levels, that are gathered: whether the source is the finer end.
    pub(crate) between: Option<bool>,
}

impl Form {
    /// The chunks of the ends of records in cell `key`; none where there are no such chunks.
    pub(crate) fn chunks(&self, family: &LinkPolicy, key: &ChunkKey) -> Option<Vec<ChunkKey>> {
        match self {
            Self::Offsets(offsets) => {
                Some(family.endpoint_chunks(key, offsets).ok()?.chunks().to_vec())
            }
            Self::Same => Some(vec![*key; family.link_width()]),
            Self::Joined => {
                let cell = CellKey::split(&key.to_string(), family.sid_ndim(), family.link_width());
                Some(cell.ok()?.chunks().to_vec())
            }
        }
    }
}

/// The integer type of rows; none where it is none that links may have.
pub(crate) fn element(dtype: Dtype) -> Option<LinkInteger> {
    let signed = dtype.kind == DtypeKind::Int;
    if dtype.big_endian || !(signed || dtype.kind == DtypeKind::UInt) {
        return None;
    }
    LinkInteger::new(u8::try_from(dtype.size).ok()?, signed).ok()
}
