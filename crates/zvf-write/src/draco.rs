//! Vertices as Draco streams: points in row order, unchanged or on a grid.
//!
//! The grid covers the box of all chunks of the level, so that chunks agree; a point that rounding
//! would move out of its chunk goes to the next grid position inside. Faces remain links, because
//! the order keeps their rows valid.

use serde::{Deserialize, Serialize};
use zvf_draco::{DracoEncoder, Quantization};
use zvf_error::Result;
use zvf_format::num::{ceil_f32, f64_from_i64, floor_f32};
use zvf_metadata::Dtype;

use crate::error::setting_error;

/// How vertices become Draco streams.
///
/// ```
/// let grid = zvf_write::DracoPositions { bits: Some(14) };
/// assert_ne!(grid, zvf_write::DracoPositions::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DracoPositions {
    /// Bits per coordinate on the grid of the level; `None` for unchanged `float32`.
    pub bits: Option<u8>,
}

/// The parameters of a level, known before its first cell.
pub(crate) struct DracoPlan {
    grid: Option<Quantization>,
    chunk: [f64; 3],
}

impl DracoPlan {
    /// Returns the encoding for chunks of shape `chunk` from `low` to `high`.
    ///
    /// # Errors
    ///
    /// When there are not three axes of `float32`, the chunks are binned by an attribute, or the
    /// number of bits is invalid.
    pub(crate) fn new(
        positions: DracoPositions,
        dtype: Dtype,
        chunk: &[f64],
        low: &[i64],
        high: &[i64],
    ) -> Result<Self> {
        let what = "axes of Draco streams";
        let (Ok(chunk), Ok(low), Ok(high)) =
            (<[f64; 3]>::try_from(chunk), <[i64; 3]>::try_from(low), <[i64; 3]>::try_from(high))
        else {
            return Err(setting_error(what, "3, in chunks by place alone", chunk.len()));
        };
        if dtype != Dtype::FLOAT32 {
            let error = setting_error("positions of Draco streams", "float32", dtype);
            return Err(error.with_hint("round them with --dtype float32"));
        }
        let Some(bits) = positions.bits else { return Ok(Self { grid: None, chunk }) };
        if !(1..=30).contains(&bits) {
            return Err(setting_error("bits of Draco streams", "1 to 30", bits));
        }
        let corner = |n: i64, axis: usize| f64_from_i64(n) * chunk[axis];
        let origin = [0, 1, 2].map(|axis| floor_f32(corner(low[axis], axis)));
        let sides = [0, 1, 2]
            // The largest number and its successor are equal as floats.
            .map(|axis| corner(high[axis].saturating_add(1), axis) - f64::from(origin[axis]));
        let range = ceil_f32(sides.into_iter().fold(0.0, f64::max));
        Ok(Self { grid: Some(Quantization { origin, range, bits }), chunk })
    }

    /// Returns the stream of the positions of a chunk.
    pub(crate) fn encode(&self, bytes: &[u8], key: &[i64]) -> Result<Vec<u8>> {
        let positions: Vec<f32> =
            bytes.as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)).collect();
        let wrong = |fault: zvf_draco::DracoError| {
            setting_error("positions of Draco streams", fault.expected, fault.found)
        };
        let mut encoder = DracoEncoder::new(&positions).map_err(wrong)?;
        if let Some(grid) = self.grid {
            encoder = encoder.with_quantization(grid).map_err(wrong)?;
            if let Ok(key) = <[i64; 3]>::try_from(key) {
                let side = |n: i64, axis: usize| f64_from_i64(n) * self.chunk[axis];
                let low = [0, 1, 2].map(|axis| side(key[axis], axis));
                // As in `new`.
                let high = [0, 1, 2].map(|axis| side(key[axis].saturating_add(1), axis));
                encoder = encoder.with_bounds(low, high);
            }
        }
        Ok(encoder.encode())
    }
}
