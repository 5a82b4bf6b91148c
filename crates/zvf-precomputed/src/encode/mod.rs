//! Encoding of single objects.
//!
//! Positions are three numbers per vertex, in the unit of the `info` file beside them; indices
//! refer to vertices of the same object. Everything is little-endian and without padding, as the
//! formats require.

use zvf_format::num::to_u64;

mod error;
mod manifest;
mod multilod;
mod octree;

pub use error::{MultiLodError, TooMany};
pub use multilod::{LodMesh, MAX_LODS, MultiLod, encode_multilod};
pub use octree::encode_octree;

/// Encodes a skeleton: counts, positions, edges, and encoded vertex attributes, in the order of
/// `info`.
///
/// ```
/// let bytes = zvf_precomputed::encode::encode_skeleton(&[0.0; 6], &[[0, 1]], &[vec![1, 2]])?;
/// assert_eq!(bytes.len(), 8 + 24 + 8 + 2);
/// assert_eq!(bytes[..8], [2, 0, 0, 0, 1, 0, 0, 0]);
/// # Ok::<(), zvf_precomputed::encode::TooMany>(())
/// ```
///
/// # Errors
///
/// When the number of vertices or edges does not fit in 32 bits.
pub fn encode_skeleton(
    positions: &[f32],
    edges: &[[u32; 2]],
    attributes: &[Vec<u8>],
) -> Result<Vec<u8>, TooMany> {
    let attribute_bytes: usize = attributes.iter().map(Vec::len).sum();
    let mut bytes = Vec::with_capacity(8 + 4 * positions.len() + 8 * edges.len() + attribute_bytes);
    bytes.extend(count(positions.len() / 3)?.to_le_bytes());
    bytes.extend(count(edges.len())?.to_le_bytes());
    bytes.extend(positions.iter().flat_map(|x| x.to_le_bytes()));
    bytes.extend(edges.as_flattened().iter().flat_map(|end| end.to_le_bytes()));
    bytes.extend(attributes.iter().flatten());
    Ok(bytes)
}

/// Encodes a fragment of a legacy mesh: the number of vertices, positions, triangles.
///
/// ```
/// let bytes = zvf_precomputed::encode::encode_legacy_mesh(&[0.0; 9], &[[0, 1, 2]])?;
/// assert_eq!(bytes.len(), 4 + 36 + 12);
/// # Ok::<(), zvf_precomputed::encode::TooMany>(())
/// ```
///
/// # Errors
///
/// When the number of vertices does not fit in 32 bits.
pub fn encode_legacy_mesh(positions: &[f32], faces: &[[u32; 3]]) -> Result<Vec<u8>, TooMany> {
    let mut bytes = Vec::with_capacity(4 + 4 * positions.len() + 12 * faces.len());
    bytes.extend(count(positions.len() / 3)?.to_le_bytes());
    bytes.extend(positions.iter().flat_map(|x| x.to_le_bytes()));
    bytes.extend(faces.as_flattened().iter().flat_map(|corner| corner.to_le_bytes()));
    Ok(bytes)
}

/// Encodes a list of annotations: their number, their records, their ids.
///
/// ```
/// let list = zvf_precomputed::encode::encode_annotations(&[(7, [1, 2, 3, 4])]);
/// assert_eq!(list, [1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 7, 0, 0, 0, 0, 0, 0, 0]);
/// ```
pub fn encode_annotations<T: AsRef<[u8]>>(records: &[(u64, T)]) -> Vec<u8> {
    let mut list = to_u64(records.len()).to_le_bytes().to_vec();
    records.iter().for_each(|(_, record)| list.extend(record.as_ref()));
    records.iter().for_each(|(id, _)| list.extend(id.to_le_bytes()));
    list
}

/// Converts a count to the integer of the formats.
fn count(n: usize) -> Result<u32, TooMany> {
    u32::try_from(n).map_err(|_many| TooMany(n))
}
