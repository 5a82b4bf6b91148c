//! Draco streams of meshes and of points.
//!
//! ```text
//! "DRACO", version, geometry (0 points, 1 mesh), method, flags      header
//! sequential    counts, indices, attributes in the given order
//! edgebreaker   vertices and faces in another order
//! kd-tree       points in another order
//! ```
//!
//! [`decode`] reads every method with the crate `draco-core` (feature `decode`), within [`Caps`]: no stream causes a panic,
//! and none takes more memory than its length and the limits allow. [`DracoEncoder`] writes the sequential method, which every
//! decoder supports and which preserves the order, so that references by row stay valid.
//!
//! Not here: files, stores and the meaning of attributes.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::as_conversions
    )
)]

#[cfg(feature = "decode")]
mod decode;
mod encode;

pub use encode::{DracoEncoder, Quantization};

use thiserror::Error;
use zvf_format::Class;
use zvf_format::num::{saturating_usize, usize_from_u32};

/// The contents of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Geometry {
    /// The number of points.
    pub points: usize,
    /// The points of each face; `None` for a point cloud.
    pub faces: Option<Vec<[u32; 3]>>,
    /// The attributes, one row per point.
    pub attributes: Vec<Attribute>,
    /// Whether points and faces are in their given order.
    pub keeps_order: bool,
}

impl Geometry {
    /// Returns the positions, if there are any.
    pub fn positions(&self) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.meaning == Meaning::Position)
    }
}

/// Values of all points.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// The id in the stream.
    pub id: u32,
    /// Its meaning.
    pub meaning: Meaning,
    /// The type of a value.
    pub component: Component,
    /// The number of values per point.
    pub width: u32,
    /// The values, little-endian, point by point.
    pub values: Vec<u8>,
}

/// The meaning of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The position of a point.
    Position,
    /// The direction of the surface.
    Normal,
    /// A colour.
    Color,
    /// A texture coordinate.
    TextureCoordinate,
    /// Any other meaning.
    Generic,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Component {
    Int8,
    UInt8,
    Int16,
    UInt16,
    Int32,
    UInt32,
    Int64,
    UInt64,
    Float32,
    Float64,
    Bool,
}

impl Component {
    /// Returns the size of a value in bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Int8 | Self::UInt8 | Self::Bool => 1,
            Self::Int16 | Self::UInt16 => 2,
            Self::Int32 | Self::UInt32 | Self::Float32 => 4,
            Self::Int64 | Self::UInt64 | Self::Float64 => 8,
        }
    }
}

/// The limits of a stream.
///
/// ```
/// let mut limits = zvf_draco::Caps::default();
/// limits.max_points = 1000;
/// assert!(limits.max_faces > 1000);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    /// The largest number of points. The values of all attributes may take 64 bytes a point.
    pub max_points: usize,
    /// The largest number of faces.
    pub max_faces: usize,
}

impl Default for Caps {
    fn default() -> Self {
        Self { max_points: 1 << 26, max_faces: 1 << 27 }
    }
}

impl Caps {
    /// Returns the limits that fit into `bytes` of memory.
    pub fn from_memory(bytes: u64) -> Self {
        // If the conversion saturates, there is no limit.
        let count = saturating_usize(bytes / BYTES_OF_A_POINT);
        Self { max_points: count, max_faces: count.saturating_mul(2) }
    }
}

/// An error in decoding or encoding.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{class} in Draco, byte {byte}: expected {expected}, found {found}")]
pub struct DracoError {
    /// The kind of fault.
    pub class: Class,
    /// The offset in the stream.
    pub byte: usize,
    /// The expected value.
    pub expected: String,
    /// The found value.
    pub found: String,
}

impl DracoError {
    fn new(
        class: Class,
        byte: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self { class, byte, expected: expected.into(), found: found.into() }
    }
}

/// Decodes a stream.
///
/// ```
/// use zvf_draco::{DracoEncoder, Caps};
///
/// let positions = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.5_f32];
/// let stream = DracoEncoder::new(&positions)?.with_faces(&[[0, 1, 2]])?.encode();
/// let mesh = zvf_draco::decode(&stream, &Caps::default())?;
/// assert_eq!((mesh.points, mesh.faces), (3, Some(vec![[0, 1, 2]])));
/// # Ok::<(), zvf_draco::DracoError>(())
/// ```
///
/// # Errors
///
/// When the bytes are not a Draco stream, exceed `limits`, or use a method that this build does not
/// support.
pub fn decode(bytes: &[u8], limits: &Caps) -> Result<Geometry, DracoError> {
    let header = Header::read(bytes)?;
    let geometry = decode_checked(bytes, header, limits)?;
    let points = geometry.points;
    let corners = geometry.faces.iter().flatten().flatten();
    let far = corners.copied().find(|point| usize_from_u32(*point) >= points);
    far.map_or(Ok(geometry), |point| {
        let expected = format!("points below {points}");
        Err(DracoError::new(Class::OutOfBounds, 0, expected, point.to_string()))
    })
}

#[cfg(feature = "decode")]
use decode::decode_checked;

#[cfg(not(feature = "decode"))]
fn decode_checked(_bytes: &[u8], _header: Header, _limits: &Caps) -> Result<Geometry, DracoError> {
    let expected = "a build that reads Draco streams";
    Err(DracoError::new(Class::Unsupported, 0, expected, "one that only writes them"))
}

/// The first bytes of a stream.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "decode"), expect(dead_code, reason = "only decoders go on"))]
struct Header {
    is_mesh: bool,
    is_sequential: bool,
}

impl Header {
    fn read(bytes: &[u8]) -> Result<Self, DracoError> {
        let fault = |class, byte, expected: &str, found: String| {
            Err(DracoError::new(class, byte, expected, found))
        };
        let Some([magic @ .., major, minor, geometry, method]) = bytes.first_chunk::<9>() else {
            return fault(Class::Truncated, 0, "9 bytes of a header", bytes.len().to_string());
        };
        if magic != b"DRACO" {
            return fault(Class::BadMagic, 0, "DRACO", format!("{magic:02x?}"));
        }
        if *major != 2 || !(2..=3).contains(minor) {
            let found = format!("{major}.{minor}");
            return fault(Class::UnsupportedVersion, 5, "2.2 or 2.3", found);
        }
        if *geometry > 1 {
            return fault(Class::BadTag, 7, "0 (points) or 1 (mesh)", geometry.to_string());
        }
        if *method > 1 {
            return fault(Class::BadTag, 8, "method 0 or 1", method.to_string());
        }
        Ok(Self { is_mesh: *geometry == 1, is_sequential: *method == 0 })
    }
}

/// Whether this build decodes streams.
pub const DECODES: bool = cfg!(feature = "decode");
/// The memory of a point with its attributes, and half a face, in bytes.
const BYTES_OF_A_POINT: u64 = 64;
#[cfg(all(test, feature = "decode"))]
mod tests {
    use super::*;

    fn streams() -> Vec<(String, Vec<u8>)> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/formats/draco");
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let names = names.filter(|path| path.extension().is_some_and(|end| end == "drc"));
        names.map(|path| (path.display().to_string(), std::fs::read(&path).unwrap())).collect()
    }

    #[test]
    fn streams_cut_anywhere_are_refused_or_read() {
        for (name, bytes) in streams() {
            decode(&bytes, &Caps::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
            for end in (0..bytes.len()).step_by(bytes.len() / 100 + 1) {
                drop(decode(&bytes[..end], &Caps::default()));
            }
        }
    }

    #[test]
    fn damaged_streams_never_panic() {
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        };
        let mut refused = 0;
        for (_, bytes) in streams() {
            for _ in 0..200 {
                let mut damaged = bytes.clone();
                for _ in 0..=random(3) {
                    let at = 9 + random(damaged.len() - 9);
                    damaged[at] = u8::try_from(random(256)).unwrap();
                }
                refused += u32::from(decode(&damaged, &Caps::default()).is_err());
            }
        }
        assert!(refused > 500, "{refused}");
    }

    #[test]
    fn counts_are_compared_with_limits_and_with_the_bytes() {
        let stream =
            [&b"DRACO\x02\x02\x01\x01\0\0\0\x03"[..], &[0xff, 0xff, 0xff, 0x7f, 0, 1, 0, 0]];
        assert_eq!(decode(&stream.concat(), &Caps::default()).unwrap_err().class, Class::Codec);
        let flat =
            DracoEncoder::new(&[0.0; 9]).unwrap().with_faces(&[[0, 1, 2]; 6]).unwrap().encode();
        let limits = Caps { max_faces: 5, ..Caps::default() };
        let error = decode(&flat, &limits).unwrap_err();
        assert_eq!(error.class, Class::LimitExceeded, "{error}");
        let limits = Caps { max_points: 2, ..Caps::default() };
        let error = decode(&flat, &limits).unwrap_err();
        assert_eq!(error.class, Class::LimitExceeded, "{error}");
        // Values of the sequential method may take no bytes.
        let points = 1000_u32.to_le_bytes();
        let wide = [1, 1, 0, 6, 255, 0, 0, 1];
        let stream = [&b"DRACO\x02\x03\0\0\0\0"[..], &points, &wide].concat();
        let limits = Caps { max_points: 1000, ..Caps::default() };
        let error = decode(&stream, &limits).unwrap_err().to_string();
        let expected = "LimitExceeded in Draco, byte 23: expected at most 1000 points and";
        assert!(error.starts_with(expected) && error.contains("1020000"), "{error}");
    }

    #[test]
    fn a_far_index_is_named_as_it_is() {
        // 65536 points, so that indices use groups of seven bits; 2^33 + 7.
        let counts = [1, 0x80, 0x80, 4, 1];
        let indices = [0, 0, 0x87, 0x80, 0x80, 0x80, 0x20];
        let stream = [&b"DRACO\x02\x02\x01\0\0\0"[..], &counts, &indices, &[0]].concat();
        let error = decode(&stream, &Caps::default()).unwrap_err().to_string();
        let expected = "Codec in Draco, byte 23: expected a valid stream, found ";
        assert!(error.starts_with(expected) && error.contains("8589934599"), "{error}");
    }
}
