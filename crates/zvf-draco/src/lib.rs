//! Draco streams of meshes and of points.
//!
//! ```text
//! "DRACO", version, geometry (0 points, 1 mesh), method, flags      header
//! sequential    counts, plain indices, attributes in the given order
//! edgebreaker   vertices and faces in another order                feature `edgebreaker`
//! kd-tree       points in another order                            feature `edgebreaker`
//! ```
//!
//! [`decode`] checks the counts of a stream against [`Limits`] before it allocates, and checks
//! every index: no stream causes a panic, and none takes more memory than its counts allow.
//! [`Encoder`] writes the sequential method, which every decoder supports and which preserves the
//! order, so that references by row stay valid.
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

mod bytes;
#[cfg_attr(
    not(feature = "edgebreaker"),
    expect(dead_code, reason = "walks are of the edgebreaker")
)]
mod corners;
#[cfg(feature = "edgebreaker")]
mod edgebreaker;
mod encode;
#[cfg(feature = "edgebreaker")]
mod kd_tree;
#[cfg(feature = "edgebreaker")]
mod mesh;
mod metadata;
mod octahedron;
mod predict;
mod sequential;
mod symbols;

pub use encode::{Encoder, Quantization};

use thiserror::Error;
use zvf_format::Class;
use zvf_format::num::{saturating_usize, to_u64, usize_from_u32};

use self::bytes::Cursor;

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
    #[must_use]
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

impl Attribute {
    /// Returns the length in bytes of the values of a point: at most 255 values of at most 8 bytes
    /// in any stream.
    fn row_bytes(&self) -> usize {
        usize_from_u32(self.width).saturating_mul(self.component.size())
    }
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
    /// Returns the type with this code in streams.
    const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Int8,
            2 => Self::UInt8,
            3 => Self::Int16,
            4 => Self::UInt16,
            5 => Self::Int32,
            6 => Self::UInt32,
            7 => Self::Int64,
            8 => Self::UInt64,
            9 => Self::Float32,
            10 => Self::Float64,
            11 => Self::Bool,
            _ => return None,
        })
    }

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

impl Meaning {
    const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Position,
            1 => Self::Normal,
            2 => Self::Color,
            3 => Self::TextureCoordinate,
            4 => Self::Generic,
            _ => return None,
        })
    }
}

/// The limits of a stream.
///
/// ```
/// let mut limits = zvf_draco::Limits::default();
/// limits.max_points = 1000;
/// assert!(limits.max_faces > 1000);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest number of points. All attributes together may have eight times as many values.
    pub max_points: usize,
    /// The largest number of faces.
    pub max_faces: usize,
    /// The largest number of points that a stream of this length can hold.
    max_meant: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_points: 1 << 26, max_faces: 1 << 27, max_meant: usize::MAX }
    }
}

impl Limits {
    /// Returns the limits that fit into `bytes` of memory.
    #[must_use]
    pub fn from_memory(bytes: u64) -> Self {
        // If the conversion saturates, there is no limit.
        let count = saturating_usize(bytes / BYTES_OF_A_POINT);
        Self { max_points: count, max_faces: count.saturating_mul(2), ..Self::default() }
    }

    /// Adds the limit that follows from the length of a stream; `usize::MAX` is no limit.
    fn with_stream_bytes(self, stream: usize) -> Self {
        let max_meant = stream.saturating_mul(MAX_POINTS_OF_A_BYTE).saturating_add(MIN_POINTS);
        Self { max_meant, ..self }
    }

    fn check(self, points: usize, faces: usize, byte: usize) -> Result<(), DracoError> {
        for (count, limit, what) in
            [(points, self.max_points, "points"), (faces, self.max_faces, "faces")]
        {
            if count > self.max_meant {
                let expected = format!("as many {what} as the bytes can mean");
                return Err(DracoError::new(Class::Codec, byte, expected, count.to_string()));
            }
            if count > limit {
                let expected = format!("at most {limit} {what}");
                return Err(DracoError::new(
                    Class::LimitExceeded,
                    byte,
                    expected,
                    count.to_string(),
                ));
            }
        }
        Ok(())
    }

    /// Checks the number of values of all attributes. A value takes four bytes while it is decoded
    /// and up to eight in the result, and 64 bytes per point are available.
    fn check_values(self, values: u64, byte: usize) -> Result<(), DracoError> {
        let limit = to_u64(self.max_points).saturating_mul(8); // the largest number is none
        if values <= limit {
            return Ok(());
        }
        let expected = format!("at most {limit} values");
        Err(DracoError::new(Class::LimitExceeded, byte, expected, values.to_string()))
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
/// use zvf_draco::{Encoder, Limits};
///
/// let positions = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.5_f32];
/// let stream = Encoder::new(&positions)?.with_faces(&[[0, 1, 2]])?.encode();
/// let mesh = zvf_draco::decode(&stream, &Limits::default())?;
/// assert_eq!((mesh.points, mesh.faces), (3, Some(vec![[0, 1, 2]])));
/// # Ok::<(), zvf_draco::DracoError>(())
/// ```
///
/// # Errors
///
/// When the bytes are not a Draco stream, exceed `limits`, or use a method that this build does not
/// support.
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Geometry, DracoError> {
    let mut cursor = Cursor::new(bytes);
    let header = Header::read(&mut cursor)?;
    let limits = limits.with_stream_bytes(bytes.len());
    if header.has_metadata {
        metadata::skip(&mut cursor)?;
    }
    let geometry = match header.method {
        0 => sequential::decode(&mut cursor, &header, limits)?,
        _ => decode_unordered(&mut cursor, &header, limits)?,
    };
    check_faces(&geometry)?;
    Ok(geometry)
}

/// Decodes the methods that reorder points.
#[cfg(feature = "edgebreaker")]
fn decode_unordered(
    cursor: &mut Cursor<'_>,
    header: &Header,
    limits: Limits,
) -> Result<Geometry, DracoError> {
    if header.is_mesh { mesh::decode(cursor, limits) } else { kd_tree::decode(cursor, limits) }
}

#[cfg(not(feature = "edgebreaker"))]
fn decode_unordered(
    _cursor: &mut Cursor<'_>,
    _header: &Header,
    _limits: Limits,
) -> Result<Geometry, DracoError> {
    let expected = "the sequential method";
    Err(DracoError::new(Class::Unsupported, METHOD_BYTE, expected, "another one"))
}

fn check_faces(geometry: &Geometry) -> Result<(), DracoError> {
    let points = geometry.points;
    let corners = geometry.faces.iter().flatten().flatten();
    let far = corners.copied().find(|point| usize_from_u32(*point) >= points);
    far.map_or(Ok(()), |point| {
        let expected = format!("points below {points}");
        Err(DracoError::new(Class::OutOfBounds, 0, expected, point.to_string()))
    })
}

/// The first bytes of a stream.
struct Header {
    is_mesh: bool,
    method: u8,
    has_metadata: bool,
}

impl Header {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, DracoError> {
        let magic = cursor.take(5, "magic")?;
        if magic != b"DRACO" {
            let found = format!("{magic:02x?}");
            return Err(DracoError::new(Class::BadMagic, 0, "DRACO", found));
        }
        let (major, minor) = (cursor.byte("version")?, cursor.byte("version")?);
        if major != 2 || !(2..=3).contains(&minor) {
            let found = format!("{major}.{minor}");
            return Err(DracoError::new(Class::UnsupportedVersion, 5, "2.2 or 2.3", found));
        }
        let geometry = cursor.byte("geometry")?;
        if geometry > 1 {
            let expected = "0 (points) or 1 (mesh)";
            return Err(DracoError::new(Class::BadTag, 7, expected, geometry.to_string()));
        }
        let method = cursor.byte("method")?;
        if method > 1 {
            return Err(DracoError::new(Class::BadTag, 8, "method 0 or 1", method.to_string()));
        }
        let flags = cursor.take(2, "flags")?;
        let has_metadata = flags.get(1).is_some_and(|high| high & 0x80 != 0);
        Ok(Self { is_mesh: geometry == 1, method, has_metadata })
    }
}

/// The offset of the method in a stream.
#[cfg(not(feature = "edgebreaker"))]
const METHOD_BYTE: usize = 8;
/// The memory of a point with its attributes, and half a face, in bytes.
const BYTES_OF_A_POINT: u64 = 64;
/// The largest number of points per byte, reached by the best compression of regular meshes.
const MAX_POINTS_OF_A_BYTE: usize = 4096;
/// The number of points that is always allowed.
const MIN_POINTS: usize = 1 << 16;

#[cfg(all(test, feature = "edgebreaker"))]
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
            decode(&bytes, &Limits::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
            for end in (0..bytes.len()).step_by(bytes.len() / 100 + 1) {
                drop(decode(&bytes[..end], &Limits::default()));
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
                refused += u32::from(decode(&damaged, &Limits::default()).is_err());
            }
        }
        assert!(refused > 500, "{refused}");
    }

    #[test]
    fn counts_are_compared_with_limits_and_with_the_bytes() {
        let stream = |faces: &[u8]| {
            [&b"DRACO\x02\x02\x01\x01\0\0\0"[..], &[3], faces, &[0, 1, 0, 0]].concat()
        };
        let error = decode(&stream(&[0xff, 0xff, 0xff, 0x7f]), &Limits::default()).unwrap_err();
        assert!(error.to_string().contains("as many faces as the bytes can mean"), "{error}");
        let limits = Limits { max_faces: 5, ..Limits::default() };
        let error = decode(&stream(&[6]), &limits).unwrap_err();
        assert_eq!(error.class, Class::LimitExceeded, "{error}");
        // Values of the sequential method may take no bytes.
        let points = 1000_u32.to_le_bytes();
        let wide = [1, 1, 0, 6, 255, 0, 0, 1];
        let stream = [&b"DRACO\x02\x03\0\0\0\0"[..], &points, &wide].concat();
        let limits = Limits { max_points: 1000, ..Limits::default() };
        assert_eq!(
            decode(&stream, &limits).unwrap_err().to_string(),
            "LimitExceeded in Draco, byte 23: expected at most 8000 values, found 255000"
        );
    }

    #[test]
    fn a_far_index_is_named_as_it_is() {
        // 65536 points, so that indices use groups of seven bits; 2^33 + 7.
        let counts = [1, 0x80, 0x80, 4, 1];
        let indices = [0, 0, 0x87, 0x80, 0x80, 0x80, 0x20];
        let stream = [&b"DRACO\x02\x02\x01\0\0\0"[..], &counts, &indices, &[0]].concat();
        assert_eq!(
            decode(&stream, &Limits::default()).unwrap_err().to_string(),
            "OutOfBounds in Draco, byte 23: expected points below 65536, found 8589934599"
        );
    }
}
