//! Reads the grid of a store from its documents.

use serde_json::Value as Json;
use zvf_format::Class;
use zvf_format::grid::{Bins, ChunkShape};

use crate::error::{EditError, Result};

/// Reads the chunk and bin shapes of level 0 from the level or the root.
pub(crate) fn read_grid(level: &Json, zv: &Json) -> Result<(ChunkShape, Bins)> {
    let shape = match read_sizes(level, "chunk_shape")? {
        Some(sizes) => ChunkShape::new(&sizes)?,
        None => root_chunk_shape(zv)?,
    };
    let bins = match read_sizes(zv, "base_bin_shape")? {
        Some(bin) => Bins::new(&shape, &bin)?,
        None => Bins::from_chunk_shape(&shape),
    };
    Ok((shape, bins))
}

/// Reads the chunk shape that the root states.
pub(crate) fn root_chunk_shape(zv: &Json) -> Result<ChunkShape> {
    let sizes = read_sizes(zv, "chunk_shape")?.ok_or_else(|| missing_sizes_error("chunk_shape"))?;
    Ok(ChunkShape::new(&sizes)?)
}

/// Reads one size for each axis. Returns `None` where they are not stated.
pub(crate) fn read_sizes(block: &Json, name: &str) -> Result<Option<Vec<f64>>> {
    let value = &block[name];
    if value.is_null() {
        return Ok(None);
    }
    let floats =
        value.as_array().and_then(|list| list.iter().map(Json::as_f64).collect::<Option<_>>());
    floats.map(Some).ok_or_else(|| missing_sizes_error(name))
}

fn missing_sizes_error(name: &str) -> EditError {
    let text = format!("zarr.json: zarr_vectors.{name} is missing or no list of numbers");
    EditError::new(Class::Encoding, text)
}
