//! Meshes of several resolutions: a manifest, and concatenated Draco streams.
//!
//! The data are the fragments of lod 0, then those of lod 1, ...
//!
//! There is one fragment per lod, at position (0, 0, 0). A fragment of lod l spans the box of the
//! object times 2^l, so the whole mesh is in its first octant and no face crosses the planes at
//! which viewers divide a fragment: nothing is cut. Positions are 16-bit integers within that span,
//! so each coarser lod loses a bit of precision.
//!
//! Large meshes are encoded by [`encode_octree`], so that a viewer loads only visible fragments.
//!
//! [`encode_octree`]: super::encode_octree

use zvf_draco::DracoEncoder;
use zvf_format::num::{floor_f32, nearest_f32};

use super::error::MultiLodError;
use super::manifest::{Grid, count, encode_manifest};

/// One resolution of a mesh.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LodMesh {
    /// Three numbers per vertex.
    pub positions: Vec<f64>,
    /// Triangles, as vertex numbers.
    pub faces: Vec<[u32; 3]>,
    /// The size of the smallest detail, in the same unit.
    pub scale: f64,
}

/// A mesh as two objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiLod {
    /// The contents of `ID.index`.
    pub manifest: Vec<u8>,
    /// The contents of `ID`.
    pub data: Vec<u8>,
}

/// The largest number of lods of a mesh; coarser ones are dropped.
pub const MAX_LODS: usize = 8;

/// Encodes a mesh from its finest resolution to its coarsest; scales are made increasing.
///
/// ```
/// use zvf_precomputed::encode::{LodMesh, encode_multilod};
///
/// let positions = vec![0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 2.0, 1.0];
/// let mesh = LodMesh { positions, faces: vec![[0, 1, 2]], scale: 0.5 };
/// let encoded = encode_multilod(&[mesh.clone(), mesh])?;
/// assert_eq!(encoded.manifest[24..28], [2, 0, 0, 0]);
/// assert!(encoded.data.starts_with(b"DRACO"));
/// # Ok::<(), zvf_precomputed::encode::MultiLodError>(())
/// ```
///
/// # Errors
///
/// When a coordinate is not finite as `f32`, a face names a missing vertex, or a fragment is too
/// large.
pub fn encode_multilod(lods: &[LodMesh]) -> Result<MultiLod, MultiLodError> {
    let lods = &lods[..lods.len().min(MAX_LODS)];
    let grid = find_box(lods)?;
    let (mut data, mut fragments) = (Vec::new(), Vec::with_capacity(lods.len()));
    for (lod, mesh) in lods.iter().enumerate() {
        let fragment = encode_whole(&grid, mesh, lod)?;
        let size = count(fragment.len())?;
        fragments.push(if size > 0 { vec![([0; 3], size)] } else { Vec::new() });
        data.extend(fragment);
    }
    let scales: Vec<f64> = lods.iter().map(|lod| lod.scale).collect();
    Ok(MultiLod { manifest: encode_manifest(&grid, &scales, &fragments)?, data })
}

/// Returns the lower and the upper corner of the vertices of all lods; those of a unit cube if
/// there are none.
pub(super) fn find_bounds(lods: &[LodMesh]) -> Result<([f64; 3], [f64; 3]), MultiLodError> {
    let (mut low, mut high) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
    for point in lods.iter().flat_map(|lod| lod.positions.as_chunks::<3>().0) {
        for ((x, low), high) in point.iter().zip(&mut low).zip(&mut high) {
            if !nearest_f32(*x).is_finite() {
                return Err(MultiLodError::NoPlace(*x));
            }
            (*low, *high) = (low.min(*x), high.max(*x));
        }
    }
    let is_empty = low.iter().any(|x| !x.is_finite());
    Ok(if is_empty { ([0.0; 3], [1.0; 3]) } else { (low, high) })
}

/// Returns the box that lod 0 spans. Its stored form must contain all vertices, even after its
/// corner is rounded.
fn find_box(lods: &[LodMesh]) -> Result<Grid, MultiLodError> {
    let (low, high) = find_bounds(lods)?;
    let origin = low.map(floor_f32);
    let mut size = [1.0; 3];
    for ((size, high), origin) in size.iter_mut().zip(high).zip(origin) {
        let side = nearest_f32(high - f64::from(origin)).next_up();
        if side > f32::MIN_POSITIVE {
            *size = side;
        }
    }
    Ok(Grid { origin, size })
}

fn encode_whole(grid: &Grid, mesh: &LodMesh, lod: usize) -> Result<Vec<u8>, MultiLodError> {
    if mesh.faces.is_empty() {
        return Ok(Vec::new());
    }
    let levels = f64::from(1_u32 << lod); // there are at most `MAX_LODS`
    // The first octant ends before the middle.
    let last = if lod == 0 { MAX_PLACE } else { (MAX_PLACE / 2.0).floor() };
    let places = mesh.positions.as_chunks::<3>().0.iter().flat_map(|point| {
        let sides = point.iter().zip(grid.origin).zip(grid.size);
        sides.map(|((x, origin), size)| {
            let share = (x - f64::from(origin)) / (f64::from(size) * levels);
            to_place(share, 0.0, last)
        })
    });
    encode_fragment(&places.collect::<Vec<_>>(), &mesh.faces)
}

/// Encodes positions, three numbers per vertex, and triangles.
pub(super) fn encode_fragment(
    places: &[u32],
    faces: &[[u32; 3]],
) -> Result<Vec<u8>, MultiLodError> {
    Ok(DracoEncoder::from_integers(places)?.with_faces(faces)?.encode())
}

/// Returns a fraction of the side of a fragment as an integer from `low` to `high`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 16 bits")]
pub(super) fn to_place(share: f64, low: f64, high: f64) -> u32 {
    (share * MAX_PLACE).round().clamp(low, high) as u32
}

/// The largest coordinate in a fragment: viewers use 10 or 16 bits of positions.
pub(super) const MAX_PLACE: f64 = 65535.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh(scale: f64) -> LodMesh {
        let positions = vec![-3.0, 5.0, 1e6, 4.0, 5.0, 1e6 + 1.0, 0.0, 7.25, 1e6, 1.0, 6.0, 1e6];
        LodMesh { positions, faces: vec![[0, 1, 2], [2, 1, 3]], scale }
    }

    fn floats(bytes: &[u8]) -> Vec<f32> {
        bytes.as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)).collect()
    }

    /// Decodes a fragment like a viewer.
    fn decode(fragment: &[u8], lod: i32, manifest: &[f32]) -> Vec<f64> {
        let read = zvf_draco::decode(fragment, &zvf_draco::Caps::default()).unwrap();
        let places = read.attributes[0].values.as_chunks::<4>().0.iter();
        let places = places.map(|x| f64::from(u32::from_le_bytes(*x)));
        let side = |axis: usize| f64::from(manifest[axis]) * 2_f64.powi(lod);
        let at = |(i, q): (usize, f64)| f64::from(manifest[3 + i % 3]) + side(i % 3) * q / 65535.0;
        places.enumerate().map(at).collect()
    }

    #[test]
    fn every_lod_is_decoded_within_its_grid() {
        let lods = [mesh(0.0), mesh(3.0), mesh(2.0)];
        let MultiLod { manifest, data } = encode_multilod(&lods).unwrap();
        let head = floats(&manifest[..24]);
        let sizes: Vec<usize> = manifest[24 + 4 + 12 + 36 + 12..]
            .as_chunks::<16>()
            .0
            .iter()
            .map(|entry| u32::from_le_bytes([entry[12], entry[13], entry[14], entry[15]]) as usize)
            .collect();
        assert_eq!(sizes.iter().sum::<usize>(), data.len());
        let mut start = 0;
        for (lod, size) in sizes.iter().enumerate() {
            let found = decode(&data[start..start + size], lod as i32, &head);
            start += size;
            for (at, (found, expected)) in found.iter().zip(&lods[lod].positions).enumerate() {
                let step = f64::from(head[at % 3]) * f64::from(1 << lod) / 65535.0;
                assert!((found - expected).abs() <= step, "lod {lod}: {found} for {expected}");
            }
        }
        let scales = floats(&manifest[28..40]);
        assert!(scales[0] > 0.0 && scales[0] < scales[1] && scales[1] < scales[2], "{scales:?}");
    }

    #[test]
    fn coarse_lods_keep_to_the_first_octant() {
        let MultiLod { manifest, data } = encode_multilod(&[mesh(1.0), mesh(2.0)]).unwrap();
        let size = manifest[28 + 2 * 20 + 12..][..4].try_into().unwrap();
        let first = u32::from_le_bytes(size) as usize;
        let read = zvf_draco::decode(&data[first..], &zvf_draco::Caps::default()).unwrap();
        let places = read.attributes[0].values.as_chunks::<4>().0.iter();
        assert!(places.map(|x| u32::from_le_bytes(*x)).all(|place| place <= 32767));
    }

    #[test]
    fn empty_meshes_differ_from_invalid_ones() {
        let empty = encode_multilod(&[LodMesh::default()]).unwrap();
        assert!(empty.data.is_empty());
        assert_eq!(empty.manifest.len(), 24 + 4 + 4 + 12 + 4);
        let nan = LodMesh { positions: vec![f64::NAN; 3], ..mesh(1.0) };
        assert!(matches!(encode_multilod(&[nan]), Err(MultiLodError::NoPlace(_))));
        let far = LodMesh { positions: vec![0.0, 1e300, 0.0], ..LodMesh::default() };
        assert!(matches!(encode_multilod(&[far]), Err(MultiLodError::NoPlace(_))));
        let invalid = LodMesh { faces: vec![[0, 1, 9]], ..mesh(1.0) };
        assert!(matches!(encode_multilod(&[invalid]), Err(MultiLodError::Fragment(_))));
    }
}
