//! Cells of vertices that are Draco streams: positions, and the faces inside the chunk.
//!
//! ```text
//! sequential   vertices in their order: attributes, fragments and links to other chunks mean these rows
//! others       vertices in an order of their own, some of them gone: positions and inner faces alone are right
//! ```
//!
//! The first readable chunk shows which of them a level has. If the order is lost, all rows of a
//! chunk are one fragment, attributes of vertices are refused, and links between chunks are left
//! out, so the family is marked as incomplete.

use async_recursion::async_recursion as boxed;
use zvf_draco::{Caps, Component, DracoError, Geometry};
use zvf_error::{Error, Locate as _, Result};
use zvf_format::fragment::FragmentIndexBuilder;
use zvf_format::key::ChunkKey;
use zvf_format::{Class, Expected};
use zvf_metadata::{CellEncoding, Dtype, Token};
use zvf_store::{Caching, Cells, Key};

use super::LevelReader;
use super::fragments::ChunkFragments;
use super::missing_cell_error;
use crate::Column;
use zvf_format::num::to_u64;

/// A decoded chunk.
pub(crate) struct DracoChunk {
    pub(crate) positions: Column,
    pub(crate) faces: Vec<[u32; 3]>,
    keeps_order: bool,
}

impl LevelReader {
    /// Returns whether the vertices of a chunk are a Draco stream.
    pub(crate) fn is_draco(&self) -> bool {
        matches!(self.encoding(), Some(Token::Known(CellEncoding::Draco)))
    }

    /// Returns whether rows have the order that attributes, fragments and links refer to: false if
    /// vertices are Draco streams with their own order.
    ///
    /// # Errors
    ///
    /// When the chunks cannot be enumerated, or none of the first few can be read.
    #[boxed]
    pub async fn keeps_order(&self) -> Result<bool> {
        if !self.is_draco() {
            return Ok(true);
        }
        let mut fault = None;
        for key in self.chunks().await?.iter().take(CHUNKS_TRIED) {
            match self.draco_chunks(&[key], Caching::Keep).await.pop().transpose() {
                Ok(chunk) => return Ok(chunk.flatten().is_none_or(|chunk| chunk.keeps_order)),
                Err(error) => fault = fault.or(Some(error)),
            }
        }
        fault.map_or(Ok(true), Err)
    }

    /// Returns the cells of vertices as streams.
    pub(crate) fn draco_cells(&self) -> DracoCells {
        let limits = Caps::from_memory(self.store().budget().max_bytes());
        DracoCells {
            cells: self.vertices().clone(),
            dtype: self.dtype(),
            axes: self.axes(),
            limits,
        }
    }

    /// Decodes the chunks `keys`; `None` for chunks that are not stored.
    pub(crate) async fn draco_chunks(
        &self,
        keys: &[ChunkKey],
        caching: Caching,
    ) -> Vec<Result<Option<DracoChunk>>> {
        self.draco_cells().decode(keys, caching).await
    }

    /// Returns one fragment of all rows for each chunk whose order is lost.
    pub(crate) async fn draco_fragments(&self, keys: &[ChunkKey]) -> Vec<Result<ChunkFragments>> {
        let path = self.fragment_cells().path().clone();
        let chunks = self.draco_chunks(keys, Caching::Keep).await;
        let listed = self.chunks().await;
        let is_listed =
            |key: &ChunkKey| listed.as_ref().is_ok_and(|listed| listed.find(key).is_some());
        let fragments = chunks.into_iter().zip(keys).map(|(chunk, key)| {
            let rows = match chunk? {
                Some(chunk) => to_u64(chunk.positions.len()),
                None if is_listed(key) => 0, // as `positions` has it
                None => {
                    return Err(missing_cell_error()
                        .at_array(self.vertices().path())
                        .at_chunk(key));
                }
            };
            one_fragment(rows, &path, key)
        });
        fragments.collect()
    }
}

fn one_fragment(rows: u64, array: &Key, key: &ChunkKey) -> Result<ChunkFragments> {
    let mut builder = FragmentIndexBuilder::new();
    builder.push_range(0, rows)?;
    ChunkFragments::new(builder.encode().into(), array, *key)
}

/// The cells as streams, without the level: the level owns its links, and they own this.
#[derive(Debug)]
pub(crate) struct DracoCells {
    pub(crate) cells: Cells,
    dtype: Dtype,
    axes: usize,
    limits: Caps,
}

impl DracoCells {
    /// Decodes the chunks `keys`; `None` for chunks that are not stored.
    pub(crate) async fn decode(
        &self,
        keys: &[ChunkKey],
        caching: Caching,
    ) -> Vec<Result<Option<DracoChunk>>> {
        let payloads = self.cells.read_many(keys, caching).await;
        let chunks = payloads.into_iter().zip(keys).map(|(payload, key)| {
            let Some(bytes) = payload.at_array(self.cells.path()).at_chunk(key)? else {
                return Ok(None);
            };
            decode(&bytes, self.dtype, self.axes, &self.limits)
                .map(Some)
                .at_array(self.cells.path())
                .at_chunk(key)
        });
        chunks.collect()
    }
}

/// Maximum number of chunks that are tried to find a readable stream.
const CHUNKS_TRIED: usize = 16;

/// Decodes a stream as rows of `dtype`.
///
/// # Errors
///
/// When it is invalid, claims more than `limits`, or has other positions than the level.
fn decode(bytes: &[u8], dtype: Dtype, axes: usize, limits: &Caps) -> Result<DracoChunk> {
    let geometry = zvf_draco::decode(bytes, limits).map_err(|error| from_draco(&error))?;
    let Geometry { faces, attributes, keeps_order, .. } = geometry;
    let positions =
        attributes.into_iter().find(|attribute| attribute.meaning == zvf_draco::Meaning::Position);
    let fits = |component, width| {
        component == Component::Float32
            && [Dtype::FLOAT32, Dtype::FLOAT64].contains(&dtype)
            && usize::try_from(width).is_ok_and(|width: usize| width == axes)
    };
    let Some(positions) = positions.filter(|p| fits(p.component, p.width)) else {
        return Err(Error::new(
            Class::BadShape,
            "a Draco stream",
            "positions of float32, one number an axis",
            "others",
        ));
    };
    // zarr-vectors writes the type of its input, and streams of float32 all the same.
    let is_wide = dtype == Dtype::FLOAT64;
    let values = if is_wide { widen(&positions.values) } else { positions.values };
    let positions = Column::new(dtype, positions.width, values.into())?;
    Ok(DracoChunk { positions, faces: faces.unwrap_or_default(), keeps_order })
}

/// Returns float64 values for little-endian float32 values.
fn widen(values: &[u8]) -> Vec<u8> {
    let (values, _) = values.as_chunks();
    values.iter().flat_map(|value| f64::from(f32::from_le_bytes(*value)).to_le_bytes()).collect()
}

#[expect(clippy::wildcard_enum_match_arm, reason = "all others are faults of the stream")]
fn from_draco(error: &DracoError) -> Error {
    let expected = match error.class {
        Class::Unsupported => {
            Expected::Rule("a build that reads Draco streams: one with the feature `draco`")
        }
        Class::LimitExceeded => Expected::Rule("no more points than memory is allowed for"),
        _ => Expected::Rule("a Draco stream that can be decoded"),
    };
    Error::new(error.class, "a Draco stream", expected, to_u64(error.byte))
}
