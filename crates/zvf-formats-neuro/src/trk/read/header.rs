//! Parser of the header of a TRK file: 1000 bytes in either byte order.
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
//! A name may be followed by a zero and the number of its values, in digits or as one byte at the end;
//! otherwise it has one value.

use serde_json::{Value as Json, json};
use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::{Bytes, RecordNumbers};

use crate::streamlines::{LETTERS, order_letters};

/// The header of a file.
pub(crate) struct TrkHeader {
    pub(crate) big_endian: bool,
    pub(crate) dim: [i16; 3],
    pub(crate) voxel_size: [f32; 3],
    /// Names with the number of their values.
    pub(crate) scalars: Vec<(String, u32)>,
    pub(crate) properties: Vec<(String, u32)>,
    /// The matrix from voxels to the world, where the file has it.
    pub(crate) vox_to_ras: Option<[[f32; 4]; 4]>,
    /// For each axis of voxels, the axis of the world along which it runs, and whether it runs forwards; by default LPS.
    pub(crate) order: [(usize, bool); 3],
    /// The number of streamlines, where the file has it.
    pub(crate) count: Option<u64>,
}

impl TrkHeader {
    pub(crate) fn read(bytes: &mut Bytes) -> Result<Self> {
        let raw: [u8; HEADER_BYTES] = bytes.read_array("the header")?;
        let spot = |name: &'static str| bytes.spot(name);
        if !raw.starts_with(b"TRACK") {
            return spot("magic").refuse(Class::BadMagic, "TRACK", format!("{:02x?}", &raw[..6]));
        }
        let size = RecordNumbers::new(&raw).i32(996);
        let big_endian = size != EXPECTED_HDR_SIZE;
        let fields = RecordNumbers::new(&raw).with_order(big_endian);
        let here = spot("hdr_size");
        here.ensure(fields.i32(996) == EXPECTED_HDR_SIZE, Class::BadTag, "1000", size)?;
        let version = fields.i32(992);
        if !matches!(version, 1 | 2) {
            return spot("version").refuse(Class::UnsupportedVersion, "1 or 2", version);
        }
        let voxel_size = [12, 16, 20].map(|at| fields.f32(at));
        if !voxel_size.iter().all(|size| size.is_finite() && *size > 0.0) {
            let found = format!("{voxel_size:?}");
            return spot("voxel_size").refuse(Class::OutOfBounds, "lengths above 0", found);
        }
        let names = |count: usize, start: usize, what: &str, rest_name: &str| {
            let values = fields.i16(count);
            let spot = bytes.spot(what);
            let values =
                spot.need(u32::try_from(values).ok(), Class::Negative, "0 or more", values)?;
            let names = parse_names(&raw[start..], values, rest_name);
            let expected = format_args!("names of {values} values");
            spot.need(names, Class::CountMismatch, expected, "names of more, or twice")
        };
        let scalars = names(36, 38, "n_scalars", "scalars")?;
        let properties = names(238, 240, "n_properties", "properties")?;
        let matrix = [440, 456, 472, 488]
            .map(|row: usize| [0, 4, 8, 12].map(|column: usize| fields.f32(row + column)));
        let has_matrix = version == 2 && fields.f32(500) != 0.0;
        if has_matrix && !matrix.iter().flatten().all(|value| value.is_finite()) {
            let expected = "finite numbers";
            return spot("vox_to_ras").refuse(Class::OutOfBounds, expected, "others".to_owned());
        }
        let order = &raw[948..951];
        let Some(order) = parse_order(order) else {
            let found = format!("{:?}", String::from_utf8_lossy(order));
            let expected = "a letter each of L or R, P or A, I or S";
            return spot("voxel_order").refuse(Class::BadTag, expected, found);
        };
        let count = fields.i32(988);
        let Ok(count) = u64::try_from(count) else {
            return spot("n_count").refuse(Class::Negative, "0 or more", count.to_string());
        };
        Ok(Self {
            big_endian,
            dim: [6, 8, 10].map(|at| fields.i16(at)),
            voxel_size,
            scalars,
            properties,
            vox_to_ras: has_matrix.then_some(matrix),
            order,
            count: Some(count).filter(|count| *count > 0),
        })
    }
}

impl TrkHeader {
    /// Returns the header record that the writer uses.
    pub(crate) fn record(&self) -> Json {
        json!({
            "dimensions": self.dim,
            "voxel_sizes": self.voxel_size,
            "voxel_order": order_letters(&self.order),
            "voxel_to_rasmm": self.vox_to_ras,
        })
    }
}

/// Parses axes of the world by letters: R, A and S run forwards along the first, second and third.
fn parse_order(letters: &[u8]) -> Option<[(usize, bool); 3]> {
    let letters = if letters.iter().all(|letter| *letter == 0) { b"LPS" } else { letters };
    let axis = |letter: &u8| {
        let at = LETTERS.iter().position(|known| known.eq_ignore_ascii_case(letter))?;
        Some((at / 2, at % 2 == 1))
    };
    let axes: Vec<(usize, bool)> = letters.iter().map(axis).collect::<Option<_>>()?;
    let has_all = (0..3).all(|axis| axes.iter().any(|(mapped_axis, _)| *mapped_axis == axis));
    axes.try_into().ok().filter(|_| has_all)
}

/// Parses the names of `values` values; the values without a name get `rest_name` together.
fn parse_names(raw: &[u8], values: u32, rest_name: &str) -> Option<Vec<(String, u32)>> {
    let mut names: Vec<(String, u32)> = Vec::new();
    let mut unnamed = values;
    for raw in raw.chunks_exact(NAME_BYTES).take(MAX_NAMES) {
        let end = raw.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
        let (name, after) = raw.split_at_checked(end)?;
        if name.is_empty() || unnamed == 0 {
            break;
        }
        let width = parse_width(after);
        unnamed = unnamed.checked_sub(width)?;
        names.push((String::from_utf8_lossy(name).into_owned(), width));
    }
    if unnamed > 0 {
        names.push((rest_name.to_owned(), unnamed));
    }
    let mut unique = std::collections::HashSet::new();
    names.iter().all(|(name, _)| unique.insert(name.clone())).then_some(names)
}
/// Parses the number of values of a name from the bytes after it.
fn parse_width(after: &[u8]) -> u32 {
    let text: Vec<u8> = after.iter().copied().filter(|byte| *byte != 0).collect();
    let digits = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
    match (digits, text.as_slice()) {
        (Some(width), _) if width > 0 => width,
        (_, [byte]) => u32::from(*byte),
        _ => 1,
    }
}

const HEADER_BYTES: usize = 1000;
const EXPECTED_HDR_SIZE: i32 = 1000;
/// Bytes of the field of a name.
const NAME_BYTES: usize = 20;
/// Most names of scalars, and of properties.
const MAX_NAMES: usize = 10;
