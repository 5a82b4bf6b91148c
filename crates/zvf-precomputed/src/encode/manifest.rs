//! The manifest of a mesh of several resolutions: the positions of its fragments.
//!
//! ```text
//! chunk_shape f32[3], grid_origin f32[3], lods u32, lod_scales f32[n], vertex_offsets f32[n][3], fragments u32[n];
//! for each lod positions u32[3][k], sizes u32[k]
//! ```

use zvf_format::num::nearest_f32;

use super::error::MultiLodError;

/// A fragment: its cell in the grid of its lod, and its bytes.
pub(super) type Fragment = ([u32; 3], u32);

/// The grid of lod 0, as it is stored; cells of lod `l` are `2^l` times as large.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) origin: [f32; 3],
    pub(super) size: [f32; 3],
}

/// Encodes a manifest: the scale and the fragments of each lod.
pub(super) fn encode_manifest(
    grid: &Grid,
    scales: &[f64],
    lods: &[Vec<Fragment>],
) -> Result<Vec<u8>, MultiLodError> {
    if let Some(number) = grid.size.iter().chain(&grid.origin).find(|x| !x.is_finite()) {
        return Err(MultiLodError::NoPlace(f64::from(*number)));
    }
    let mut bytes = Vec::new();
    let mut floats = |values: &[f32]| bytes.extend(values.iter().flat_map(|x| x.to_le_bytes()));
    floats(&grid.size);
    floats(&grid.origin);
    bytes.extend(count(lods.len())?.to_le_bytes());
    bytes.extend(rising_scales(scales).iter().flat_map(|scale| scale.to_le_bytes()));
    bytes.extend(std::iter::repeat_n(0_u8, 12 * lods.len())); // offsets of vertices: none
    for fragments in lods {
        bytes.extend(count(fragments.len())?.to_le_bytes());
    }
    for fragments in lods {
        for axis in 0..3 {
            bytes.extend(fragments.iter().flat_map(|(cell, _)| cell[axis].to_le_bytes()));
        }
        bytes.extend(fragments.iter().flat_map(|(_, size)| size.to_le_bytes()));
    }
    Ok(bytes)
}

/// Converts a count to the integer of the manifest.
pub(super) fn count(n: usize) -> Result<u32, MultiLodError> {
    u32::try_from(n).map_err(|_large| MultiLodError::TooLarge(n))
}

/// Makes the scales increasing: 0 would mean a missing lod, and a lod with a decreasing scale would
/// never be drawn.
fn rising_scales(scales: &[f64]) -> Vec<f32> {
    let mut last = 0.0_f32;
    let scales = scales.iter().map(|scale| {
        let scale = nearest_f32(*scale);
        let usable = if scale.is_finite() && scale > 0.0 { scale } else { f32::MIN_POSITIVE };
        last = if usable > last { usable } else { last * 2.0 };
        last
    });
    scales.collect()
}
