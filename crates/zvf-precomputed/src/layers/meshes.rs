//! Meshes: of several resolutions from the levels of a store, and legacy ones from one level.
//!
//! A mesh with few faces is sent whole in each resolution; a large one is divided into an octree
//! over the chunks of the store, so that a viewer loads only the visible part.

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_error::Result;
use zvf_format::num::{index_u32, nearest_f32};
use zvf_model::{Batch, Kind, LevelReader};
use zvf_query::{Columns, Reader};

use super::segments::read_object;
use super::space::{Space, chunk_sizes, coordinate};
use crate::encode::{
    LodMesh, MAX_LODS, MultiLod, encode_legacy_mesh, encode_multilod, encode_octree,
};

/// The meshes of a store, by levels.
#[derive(Debug)]
pub(crate) struct Meshes {
    levels: Vec<LevelReader>,
    max_whole_faces: usize,
}

impl Meshes {
    /// Opens the meshes of `levels`, the finest first; meshes with more faces than
    /// `max_whole_faces` become octrees.
    pub(crate) fn new(levels: &[LevelReader], max_whole_faces: usize) -> Self {
        Self { levels: levels.iter().take(MAX_LODS).cloned().collect(), max_whole_faces }
    }

    pub(crate) fn info(space: &Space) -> Result<Json> {
        Ok(json!({
            "@type": "neuroglancer_multilod_draco",
            "vertex_quantization_bits": 16,
            "lod_scale_multiplier": 1,
            "transform": space.transform()?,
            "segment_properties": "segment_properties",
        }))
    }

    pub(crate) fn legacy_info() -> Json {
        json!({"@type": "neuroglancer_legacy_mesh", "segment_properties": "segment_properties"})
    }

    /// Returns a mesh in all its resolutions; `None` if the object does not exist.
    pub(crate) async fn object(&self, reader: &Reader, id: u64) -> Result<Option<MultiLod>> {
        let mut lods: Vec<LodMesh> = Vec::new();
        for level in &self.levels {
            let found = read_object(reader, level, Kind::Mesh, id, Columns::None).await?;
            let Some(batch) = found else {
                if lods.is_empty() {
                    return Ok(None);
                }
                continue; // a coarser level may lack it
            };
            let faces = triangles(&batch);
            if faces.is_empty() && !lods.is_empty() {
                continue; // or all of its faces
            }
            let scale = level.node().meta().geometric_error().unwrap_or_else(|| bin_size(level));
            lods.push(LodMesh { positions: positions(&batch), faces, scale });
        }
        let Some((first, coarser)) = lods.split_first_mut() else { return Ok(None) };
        first.scale = coarser.first().map_or(1.0, |second| second.scale / 3.0);
        let is_large = first.faces.len() > self.max_whole_faces;
        let cell = self.levels.first().filter(|_| is_large).map(chunk_sizes);
        Ok(Some(match cell.as_deref() {
            Some([x, y, z]) => encode_octree(&lods, [*x, *y, *z])?,
            // A flat mesh has no cells along its third axis.
            Some([x, y]) => encode_octree(&lods, [*x, *y, x.max(*y)])?,
            _ => encode_multilod(&lods)?,
        }))
    }

    /// Returns a mesh as one fragment, in nanometres.
    pub(crate) async fn legacy(
        &self,
        reader: &Reader,
        id: u64,
        space: &Space,
    ) -> Result<Option<Bytes>> {
        let Some(level) = self.levels.first() else { return Ok(None) };
        let found = read_object(reader, level, Kind::Mesh, id, Columns::None).await?;
        let Some(batch) = found else { return Ok(None) };
        let transform = space.transform()?;
        let places = (0_usize..3).cycle().zip(positions(&batch)).map(|(axis, x)| {
            nearest_f32(x * transform[5 * axis] + transform[4 * axis + 3]) // three rows of four
        });
        Ok(Some(encode_legacy_mesh(&places.collect::<Vec<_>>(), &triangles(&batch))?.into()))
    }
}

fn positions(batch: &Batch) -> Vec<f64> {
    let place = |row| [0, 1, 2].map(|axis| coordinate(batch.positions(), row, axis));
    (0..batch.len()).flat_map(place).collect()
}

/// Divides faces into fans of triangles. An answer has fewer than 2^32 rows.
fn triangles(batch: &Batch) -> Vec<[u32; 3]> {
    let mut all = Vec::new();
    for face in batch.elements().into_iter().flat_map(|elements| elements.iter()) {
        let Some((first, rest)) = face.split_first() else { continue };
        for [second, third] in rest.array_windows() {
            all.push([*first, *second, *third].map(index_u32));
        }
    }
    all
}

/// Returns the size of a bin, for levels without a stated error.
fn bin_size(level: &LevelReader) -> f64 {
    let bins = level.bins().map(|bins| bins.bin_shape().to_vec());
    let sizes = bins.unwrap_or_else(|| level.chunk_shape().sizes().to_vec());
    sizes.iter().map(|size| size * size).sum::<f64>().sqrt()
}
