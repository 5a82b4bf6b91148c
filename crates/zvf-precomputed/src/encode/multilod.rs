//! Meshes of several resolutions: a manifest, and Draco streams one after the other.
//!
//! ```text
//! manifest   chunk_shape f32[3], grid_origin f32[3], lods u32, lod_scales f32[n], vertex_offsets f32[n][3],
//!            fragments u32[n]; for each lod positions u32[3][k], sizes u32[k]
//! data       the fragments of lod 0, then those of lod 1, ...
//! ```
//!
//! There is one fragment a lod, at the place (0, 0, 0). A fragment of lod l spans the box of the object times 2^l, so that
//! all of the mesh lies in the first octant of it and no face crosses the planes at which viewers divide a fragment: nothing is
//! cut. Positions are integers of 16 bits within that span, so a coarse lod has a bit less of precision for each lod before
//! it.
//!
//! Not here: an octree of fragments, of which a viewer loads those in sight.

use zvf_draco::{DracoError, Encoder};
use zvf_format::num::{nearest_f32, saturating_u32_from_usize};

/// One resolution of a mesh.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LodMesh {
    /// Three numbers a vertex.
    pub positions: Vec<f64>,
    /// Triangles, by the numbers of their vertices.
    pub faces: Vec<[u32; 3]>,
    /// The size of the smallest detail, in the same unit.
    pub scale: f64,
}

/// A mesh as two objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiLod {
    /// What `ID.index` holds.
    pub manifest: Vec<u8>,
    /// What `ID` holds.
    pub data: Vec<u8>,
}

/// Why a mesh cannot be encoded.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MultiLodError {
    /// A coordinate is no number.
    #[error("a vertex at {0}, which is no place")]
    NoPlace(f64),
    /// A fragment cannot be encoded.
    #[error("a fragment cannot be encoded, {0}")]
    Fragment(#[from] DracoError),
    /// A fragment has more bytes than the manifest can say.
    #[error("a fragment of {0} bytes, more than 2^32")]
    TooLarge(usize),
}

/// Lods of one mesh: more are left out, the coarsest ones first.
pub const MAX_LODS: usize = 8;

/// Bits of a coordinate; viewers take 10 and 16.
const BITS: u32 = 16;

/// Encodes a mesh from its finest resolution to its coarsest; scales are made to rise.
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
/// When a coordinate is no number, a face names a vertex that is not there, or a fragment is too large.
pub fn encode_multilod(lods: &[LodMesh]) -> Result<MultiLod, MultiLodError> {
    let lods = lods.get(..lods.len().min(MAX_LODS)).unwrap_or_default();
    let space = Span::around(lods)?;
    let mut data = Vec::new();
    let mut sizes = Vec::with_capacity(lods.len());
    for (lod, mesh) in lods.iter().enumerate() {
        let fragment = space.encode(mesh, lod)?;
        let size = u32::try_from(fragment.len());
        sizes.push(size.map_err(|_large| MultiLodError::TooLarge(fragment.len()))?);
        data.extend(fragment);
    }
    Ok(MultiLod { manifest: manifest(&space, lods, &sizes), data })
}

fn manifest(space: &Span, lods: &[LodMesh], sizes: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut floats = |values: &[f32]| bytes.extend(values.iter().flat_map(|x| x.to_le_bytes()));
    floats(&space.size);
    floats(&space.origin);
    bytes.extend(saturating_u32_from_usize(lods.len()).to_le_bytes()); // at most MAX_LODS
    bytes.extend(rising_scales(lods).iter().flat_map(|scale| scale.to_le_bytes()));
    bytes.extend(std::iter::repeat_n(0_u8, 12 * lods.len())); // offsets of vertices: none
    for size in sizes {
        bytes.extend(u32::from(*size > 0).to_le_bytes());
    }
    for size in sizes.iter().filter(|size| **size > 0) {
        bytes.extend([0, 0, 0, *size].iter().flat_map(|n| n.to_le_bytes()));
    }
    bytes
}

/// A scale of 0 would mean that there is no such lod, and one that falls would never be drawn.
fn rising_scales(lods: &[LodMesh]) -> Vec<f32> {
    let mut last = 0.0_f32;
    let scales = lods.iter().map(|lod| {
        let scale = nearest_f32(lod.scale);
        let usable = if scale.is_finite() && scale > 0.0 { scale } else { f32::MIN_POSITIVE };
        last = if usable > last { usable } else { last * 2.0 };
        last
    });
    scales.collect()
}

/// The box that lod 0 spans: its corner and its sides, as they are stored.
struct Span {
    origin: [f32; 3],
    size: [f32; 3],
}

impl Span {
    fn around(lods: &[LodMesh]) -> Result<Self, MultiLodError> {
        let (mut low, mut high) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
        for point in lods.iter().flat_map(|lod| lod.positions.as_chunks::<3>().0) {
            for ((x, low), high) in point.iter().zip(&mut low).zip(&mut high) {
                if !x.is_finite() {
                    return Err(MultiLodError::NoPlace(*x));
                }
                (*low, *high) = (low.min(*x), high.max(*x));
            }
        }
        let is_empty = low.iter().any(|x| !x.is_finite());
        let (low, high) = if is_empty { ([0.0; 3], [1.0; 3]) } else { (low, high) };
        let mut space = Self { origin: [0.0; 3], size: [1.0; 3] };
        for (axis, (low, high)) in low.into_iter().zip(high).enumerate() {
            // The box as it is stored must hold all vertices, whatever rounding does to its corner.
            let origin = below(low);
            let size = nearest_f32(high - f64::from(origin)).next_up();
            if let (Some(to_origin), Some(to_size)) =
                (space.origin.get_mut(axis), space.size.get_mut(axis))
            {
                *to_origin = origin;
                *to_size = if size > f32::MIN_POSITIVE { size } else { 1.0 };
            }
        }
        Ok(space)
    }

    fn encode(&self, mesh: &LodMesh, lod: usize) -> Result<Vec<u8>, MultiLodError> {
        if mesh.faces.is_empty() {
            return Ok(Vec::new());
        }
        let levels = f64::from(1_u32 << lod.min(MAX_LODS));
        let most = f64::from((1_u32 << BITS) - 1);
        // The first octant ends before the middle.
        let last = if lod == 0 { most } else { (most / 2.0).floor() };
        let places = mesh.positions.as_chunks::<3>().0.iter().flat_map(|point| {
            let sides = point.iter().zip(self.origin).zip(self.size);
            sides.map(|((x, origin), size)| {
                let share = (x - f64::from(origin)) / (f64::from(size) * levels);
                to_place((share * most).round().clamp(0.0, last))
            })
        });
        let places: Vec<u32> = places.collect();
        Ok(Encoder::from_integers(&places)?.with_faces(&mesh.faces)?.encode())
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 16 bits")]
const fn to_place(x: f64) -> u32 {
    x as u32
}

/// The largest number of 32 bits that is not above `x`.
fn below(x: f64) -> f32 {
    let near = nearest_f32(x);
    if f64::from(near) > x { near.next_down() } else { near }
}

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

    /// What a viewer makes of a fragment.
    fn decode(fragment: &[u8], lod: i32, manifest: &[f32]) -> Vec<f64> {
        let read = zvf_draco::decode(fragment, &zvf_draco::Limits::default()).unwrap();
        let places = read.attributes[0].values.as_chunks::<4>().0.iter();
        let places = places.map(|x| f64::from(u32::from_le_bytes(*x)));
        let side = |axis: usize| f64::from(manifest[axis]) * 2_f64.powi(lod);
        let at = |(i, q): (usize, f64)| f64::from(manifest[3 + i % 3]) + side(i % 3) * q / 65535.0;
        places.enumerate().map(at).collect()
    }

    #[test]
    fn every_lod_comes_back_within_its_grid() {
        let lods = [mesh(0.0), mesh(3.0), mesh(2.0)];
        let MultiLod { manifest, data } = encode_multilod(&lods).unwrap();
        let head = floats(&manifest[..24]);
        let sizes: Vec<usize> = manifest[24 + 4 + 12 + 36 + 12..]
            .as_chunks::<16>()
            .0
            .iter()
            .map(|one| u32::from_le_bytes([one[12], one[13], one[14], one[15]]) as usize)
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
        let read = zvf_draco::decode(&data[first..], &zvf_draco::Limits::default()).unwrap();
        let places = read.attributes[0].values.as_chunks::<4>().0.iter();
        assert!(places.map(|x| u32::from_le_bytes(*x)).all(|place| place <= 32767));
    }

    #[test]
    fn empty_meshes_and_wrong_ones_are_told_apart() {
        let empty = encode_multilod(&[LodMesh::default()]).unwrap();
        assert!(empty.data.is_empty());
        assert_eq!(empty.manifest.len(), 24 + 4 + 4 + 12 + 4);
        let nan = LodMesh { positions: vec![f64::NAN; 3], ..mesh(1.0) };
        assert!(matches!(encode_multilod(&[nan]), Err(MultiLodError::NoPlace(_))));
        let stray = LodMesh { faces: vec![[0, 1, 9]], ..mesh(1.0) };
        assert!(matches!(encode_multilod(&[stray]), Err(MultiLodError::Fragment(_))));
    }
}
