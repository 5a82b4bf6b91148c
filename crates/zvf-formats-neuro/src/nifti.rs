//! The image of streamlines from a file that the caller names: `NIfTI`, or TRK.
//!
//! ```text
//! NIfTI-1, byte  field
//! 0              size of the header, i32: 348, which gives the byte order
//! 42             voxels on each axis, i16
//! 76             sign of the third axis, then the size of a voxel on each axis
//! 252            qform_code, sform_code, i16: above 0 where there is the transform
//! 256            quaternion b, c, d and offset x, y, z of the qform
//! 280            three rows of the sform
//! ```
//!
//! Numbers without a type are f32. Not here: NIfTI-2, whose header has 540 bytes.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde_json::{Map, Value as Json, json};
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_formats::{Input, ReadOptions, RecordNumbers, Spot, read_failed};

/// Reads the transform and the number of voxels of an image, as the record of a header: of a `NIfTI` file, also of a
/// compressed one, or of a TRK file.
///
/// # Errors
///
/// When the file cannot be read, or is of neither format, or has no transform.
pub fn read_image(path: &Path) -> Result<Map<String, Json>> {
    let mut start = Vec::new();
    let file = File::open(path).map_err(read_failed)?;
    file.take(HEADER_BYTES).read_to_end(&mut start).map_err(read_failed)?;
    if start.starts_with(b"TRACK") {
        let trk = crate::TRK.open(Input::path(path).begin()?, &ReadOptions::default())?;
        let mut records = trk.header().records.iter().filter_map(|(_, record)| record.as_object());
        return Ok(records.next().cloned().unwrap_or_default());
    }
    if start.starts_with(&[0x1f, 0x8b]) {
        let file = File::open(path).map_err(read_failed)?;
        start.clear();
        let stream = flate2::read::MultiGzDecoder::new(file);
        stream.take(HEADER_BYTES).read_to_end(&mut start).map_err(read_failed)?;
    }
    let bad = |expected: &str| {
        let place = path.display();
        Spot::new("a reference image", place).error(Class::Unsupported, expected, "another file")
    };
    let nifti = nifti_header(&start).ok_or_else(|| bad("a NIfTI-1 or TRK file"))?;
    nifti_record(nifti).ok_or_else(|| bad("an image with a transform (qform or sform)"))
}

/// Returns the header of a `NIfTI` file, unless it is cut off.
fn nifti_header(bytes: &[u8]) -> Option<RecordNumbers<'_>> {
    let mut orders = [true, false].into_iter().map(|big| RecordNumbers::new(bytes).with_order(big));
    let is_whole = to_u64(bytes.len()) == HEADER_BYTES;
    orders.find(|n| is_whole && u64::from(n.u32(0)) == HEADER_BYTES)
}

/// Returns the record of an image, if it has a transform.
fn nifti_record(n: RecordNumbers<'_>) -> Option<Map<String, Json>> {
    let float = |at: usize, item: usize| f64::from(n.f32(at + 4 * item));
    let dimensions = [42, 44, 46].map(|at| n.i16(at));
    let mut affine = [[0.0; 4], [0.0; 4], [0.0; 4], [0.0, 0.0, 0.0, 1.0]];
    if n.i16(254) > 0 {
        for (at, x) in affine.as_flattened_mut().iter_mut().take(12).enumerate() {
            *x = float(280, at);
        }
    } else if n.i16(252) > 0 {
        let (b, c, d) = (float(256, 0), float(256, 1), float(256, 2));
        let a = (1.0 - (b * b + c * c + d * d)).max(0.0).sqrt();
        let rotation = [
            [a * a + b * b - c * c - d * d, 2.0 * (b * c - a * d), 2.0 * (b * d + a * c)],
            [2.0 * (b * c + a * d), a * a + c * c - b * b - d * d, 2.0 * (c * d - a * b)],
            [2.0 * (b * d - a * c), 2.0 * (c * d + a * b), a * a + d * d - b * b - c * c],
        ];
        let sign = if float(76, 0) < 0.0 { -1.0 } else { 1.0 };
        let sizes = [float(76, 1), float(76, 2), float(76, 3) * sign];
        for (at, (row, from)) in affine.iter_mut().zip(rotation).enumerate() {
            row.iter_mut().zip(from).zip(sizes).for_each(|((x, r), size)| *x = r * size);
            row[3] = float(256, 3 + at);
        }
    } else {
        return None;
    }
    json!({"voxel_to_rasmm": affine, "dimensions": dimensions}).as_object().cloned()
}

/// Bytes of the header of a NIfTI-1 file.
const HEADER_BYTES: u64 = 348;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::parse_matrix;

    /// A header of 90 x 91 x 92 voxels with both transforms: a turn about the third axis, and two rows exchanged.
    fn header(qform: i16, sform: i16, is_big: bool) -> Vec<u8> {
        let mut bytes = vec![0_u8; 348];
        let mut put = |at: usize, number: &[u8]| {
            let mut number = number.to_vec();
            if is_big {
                number.reverse();
            }
            bytes[at..at + number.len()].copy_from_slice(&number);
        };
        put(0, &348_i32.to_le_bytes());
        for (axis, size) in [90_i16, 91, 92].into_iter().enumerate() {
            put(42 + 2 * axis, &size.to_le_bytes());
        }
        put(252, &qform.to_le_bytes());
        put(254, &sform.to_le_bytes());
        let floats = |at: usize, floats: &[f32]| -> Vec<(usize, [u8; 4])> {
            floats.iter().enumerate().map(|(n, x)| (at + 4 * n, x.to_le_bytes())).collect()
        };
        let all = [
            floats(76, &[-1.0, 2.0, 3.0, 4.0]),
            floats(256, &[0.0, 0.0, 1.0, 7.0, 8.0, 9.0]),
            floats(280, &[0.0, 2.0, 0.0, -5.0, 1.5, 0.0, 0.0, 6.0, 0.0, 0.0, 1.0, 0.5]),
        ];
        all.concat().iter().for_each(|(at, number)| put(*at, number));
        bytes
    }

    #[test]
    fn transforms_of_nifti_files_are_read() {
        let last = [0.0, 0.0, 0.0, 1.0];
        let by_rows = [[0.0, 2.0, 0.0, -5.0], [1.5, 0.0, 0.0, 6.0], [0.0, 0.0, 1.0, 0.5], last];
        // Half a turn, and the third axis is reflected.
        let turned = [[-2.0, 0.0, 0.0, 7.0], [0.0, -3.0, 0.0, 8.0], [0.0, 0.0, -4.0, 9.0], last];
        for is_big in [false, true] {
            for (qform, sform, expected) in [(1, 2, by_rows), (0, 1, by_rows), (1, 0, turned)] {
                let header = header(qform, sform, is_big);
                let record = nifti_record(nifti_header(&header).unwrap()).unwrap();
                assert_eq!(parse_matrix(&record["voxel_to_rasmm"]), Some(expected));
                assert_eq!(record["dimensions"], json!([90, 91, 92]));
                assert!(nifti_header(&header[..250]).is_none());
            }
            assert!(nifti_record(nifti_header(&header(0, 0, is_big)).unwrap()).is_none());
        }
        assert!(nifti_header(b"no image").is_none());
    }
}
