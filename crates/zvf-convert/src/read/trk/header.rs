//! The header of a TRK file, 1000 bytes in either byte order.
//!
//! ```text
//! offset  size  field
//! 0       6     magic, "TRACK" and a zero
//! 6       6     dim, 3 x i16: voxels of the image
//! 12      12    voxel_size, 3 x f32, in mm
//! 36      2     n_scalars, i16: values of each point besides its position
//! 38      200   scalar_name, 10 x 20 bytes
//! 238     2     n_properties, i16: values of each streamline
//! 240     200   property_name, 10 x 20 bytes
//! 440     64    vox_to_ras, 4 x 4 f32, row by row; not there where the last one is 0
//! 948     4     voxel_order, such as "LPS"
//! 988     4     n_count, i32: streamlines; 0 where it is not known
//! 992     4     version, i32: 1 (without vox_to_ras) or 2
//! 996     4     hdr_size, i32: 1000
//! ```
//!
//! A name may be followed by a zero and the number of values it stands for, in digits or as one byte at
//! the end; otherwise it stands for one.

use serde_json::{Value as Json, json};
use zvf_format::Class;

use crate::ConvertError;
use crate::error::Place;
use crate::read::input::Bytes;

/// What a header says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TrkHeader {
    pub(super) big_endian: bool,
    pub(super) dim: [i16; 3],
    pub(super) voxel_size: [f32; 3],
    /// Names with the number of values they stand for.
    pub(super) scalars: Vec<(String, u32)>,
    pub(super) properties: Vec<(String, u32)>,
    /// From voxels to the world, where it is recorded.
    pub(super) vox_to_ras: Option<[[f32; 4]; 4]>,
    /// For each axis of voxels, the axis of the world it runs along and whether forwards; LPS unless
    /// said.
    pub(super) order: [(usize, bool); 3],
    /// Streamlines, where they are counted.
    pub(super) count: Option<u64>,
}

impl TrkHeader {
    pub(super) fn read(bytes: &mut Bytes) -> Result<Self, ConvertError> {
        let raw: [u8; SIZE] = bytes.array("the header")?;
        let bad = |class, name: &str, expected: &str, found: String| {
            ConvertError::from(bytes.bad(class, Place::Named(name.to_owned()), expected, found))
        };
        if !raw.starts_with(b"TRACK") {
            let found = format!("{:02x?}", raw.get(..6).unwrap_or_default());
            return Err(bad(Class::BadMagic, "magic", "TRACK", found));
        }
        let size = Fields { raw: &raw, big_endian: false }.i32(996);
        let big_endian = size != EXPECTED_SIZE;
        let fields = Fields { raw: &raw, big_endian };
        if fields.i32(996) != EXPECTED_SIZE {
            return Err(bad(Class::BadTag, "hdr_size", "1000", size.to_string()));
        }
        let version = fields.i32(992);
        if !matches!(version, 1 | 2) {
            return Err(bad(Class::UnsupportedVersion, "version", "1 or 2", version.to_string()));
        }
        let voxel_size = [12, 16, 20].map(|at| fields.f32(at));
        if !voxel_size.iter().all(|size| size.is_finite() && *size > 0.0) {
            let found = format!("{voxel_size:?}");
            return Err(bad(Class::OutOfBounds, "voxel_size", "lengths above 0", found));
        }
        let names = |count: usize, start: usize, what: &str, rest: &str| {
            let values = fields.i16(count);
            let Ok(values) = u32::try_from(values) else {
                return Err(bad(Class::Negative, what, "0 or more", values.to_string()));
            };
            fields.names(start, values, rest).ok_or_else(|| {
                let expected = format!("names of {values} values");
                bad(Class::CountMismatch, what, &expected, "names of more, or twice".to_owned())
            })
        };
        let scalars = names(36, 38, "n_scalars", "scalars")?;
        let properties = names(238, 240, "n_properties", "properties")?;
        let matrix = [440, 456, 472, 488]
            .map(|row: usize| [0, 4, 8, 12].map(|column: usize| fields.f32(row + column)));
        let recorded = version == 2 && fields.f32(500) != 0.0;
        if recorded && !matrix.iter().flatten().all(|value| value.is_finite()) {
            return Err(bad(
                Class::OutOfBounds,
                "vox_to_ras",
                "finite numbers",
                "others".to_owned(),
            ));
        }
        let order = raw.get(948..951).unwrap_or_default();
        let Some(order) = axes_of(order) else {
            let found = format!("{:?}", String::from_utf8_lossy(order));
            let expected = "a letter each of L or R, P or A, I or S";
            return Err(bad(Class::BadTag, "voxel_order", expected, found));
        };
        let count = fields.i32(988);
        let Ok(count) = u64::try_from(count) else {
            return Err(bad(Class::Negative, "n_count", "0 or more", count.to_string()));
        };
        Ok(Self {
            big_endian,
            dim: [6, 8, 10].map(|at| fields.i16(at)),
            voxel_size,
            scalars,
            properties,
            vox_to_ras: recorded.then_some(matrix),
            order,
            count: Some(count).filter(|count| *count > 0),
        })
    }
}

impl TrkHeader {
    /// What the way back needs.
    pub(super) fn record(&self) -> Json {
        let letters = [["L", "R"], ["P", "A"], ["I", "S"]];
        let letter = |(axis, forwards): &(usize, bool)| {
            letters.get(*axis).map_or("", |both| both[usize::from(*forwards)])
        };
        json!({
            "dimensions": self.dim,
            "voxel_sizes": self.voxel_size,
            "voxel_order": self.order.iter().map(letter).collect::<String>(),
            "voxel_to_rasmm": self.vox_to_ras,
        })
    }
}

/// Axes of the world by letters: R, A and S run forwards along the first, second and third.
fn axes_of(letters: &[u8]) -> Option<[(usize, bool); 3]> {
    let letters = if letters.iter().all(|letter| *letter == 0) { b"LPS" } else { letters };
    let axis = |letter: &u8| match letter.to_ascii_uppercase() {
        b'L' => Some((0, false)),
        b'R' => Some((0, true)),
        b'P' => Some((1, false)),
        b'A' => Some((1, true)),
        b'I' => Some((2, false)),
        b'S' => Some((2, true)),
        _ => None,
    };
    let axes: Vec<(usize, bool)> = letters.iter().map(axis).collect::<Option<_>>()?;
    let all = (0..3).all(|axis| axes.iter().any(|(of, _)| *of == axis));
    axes.try_into().ok().filter(|_| all)
}

/// The header, its numbers in one of the byte orders.
struct Fields<'a> {
    raw: &'a [u8; SIZE],
    big_endian: bool,
}

impl Fields<'_> {
    fn at<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes: [u8; N] =
            self.raw.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N]);
        if self.big_endian {
            bytes.reverse();
        }
        bytes
    }

    fn i16(&self, at: usize) -> i16 {
        i16::from_le_bytes(self.at(at))
    }

    fn i32(&self, at: usize) -> i32 {
        i32::from_le_bytes(self.at(at))
    }

    fn f32(&self, at: usize) -> f32 {
        f32::from_le_bytes(self.at(at))
    }

    /// Names for `values` values; those without one are called `rest` together.
    fn names(&self, start: usize, values: u32, rest: &str) -> Option<Vec<(String, u32)>> {
        let mut names: Vec<(String, u32)> = Vec::new();
        let mut left = values;
        for raw in self.raw.get(start..)?.chunks_exact(NAME).take(NAMES) {
            let end = raw.iter().position(|byte| *byte == 0).unwrap_or(NAME);
            let (name, after) = raw.split_at_checked(end)?;
            if name.is_empty() || left == 0 {
                break;
            }
            let width = width(after);
            left = left.checked_sub(width)?;
            names.push((String::from_utf8_lossy(name).into_owned(), width));
        }
        if left > 0 {
            names.push((rest.to_owned(), left));
        }
        let twice = names
            .iter()
            .enumerate()
            .any(|(at, (name, _))| names.iter().take(at).any(|(other, _)| other == name));
        (!twice).then_some(names)
    }
}

/// How many values a name stands for, by what comes after it.
fn width(after: &[u8]) -> u32 {
    let text: Vec<u8> = after.iter().copied().filter(|byte| *byte != 0).collect();
    let digits = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
    match (digits, text.as_slice()) {
        (Some(width), _) if width > 0 => width,
        (_, [byte]) => u32::from(*byte),
        _ => 1,
    }
}

const SIZE: usize = 1000;
const EXPECTED_SIZE: i32 = 1000;
/// Bytes of a name.
const NAME: usize = 20;
/// Names of scalars, and of properties.
const NAMES: usize = 10;
