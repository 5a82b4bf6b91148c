//! Encodes with the sequential method: positions and faces in their given order.
//!
//! Positions are unchanged `float32`, on a grid over a given box (the same for all chunks of a
//! level, so that neighbours agree), or integers. Integers take as many bytes as the largest of
//! them.

use zvf_format::Class;
use zvf_format::num::{
    nearest_f32, saturating_u32, saturating_u32_from_usize, to_u64, trunc_u64, usize_from_u32,
};

use crate::{Component, DracoError};

/// A grid to which positions are rounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantization {
    /// The corner with the smallest coordinates.
    pub origin: [f32; 3],
    /// The length of the longest side.
    pub range: f32,
    /// Bits of a coordinate, 1 to 30.
    pub bits: u8,
}

impl Quantization {
    /// Returns the grid of `bits` bits over the box of `positions`.
    ///
    /// ```
    /// let grid = zvf_draco::Quantization::from_positions(&[1.0, 2.0, 3.0, 5.0, 2.0, 2.0], 11);
    /// assert_eq!((grid.origin, grid.range), ([1.0, 2.0, 2.0], 4.0));
    /// ```
    pub fn from_positions(positions: &[f32], bits: u8) -> Self {
        let (mut low, mut high) = ([f32::INFINITY; 3], [f32::NEG_INFINITY; 3]);
        for point in positions.as_chunks::<3>().0 {
            for ((x, low), high) in point.iter().zip(&mut low).zip(&mut high) {
                *low = low.min(*x);
                *high = high.max(*x);
            }
        }
        let range = low.iter().zip(high).map(|(low, high)| high - low).fold(0.0, f32::max);
        let range = if range > 0.0 { range } else { 1.0 };
        let origin = if positions.is_empty() { [0.0; 3] } else { low };
        Self { origin, range, bits }
    }

    /// Returns the distance between neighbours.
    fn step(&self) -> f32 {
        self.range / nearest_f32(f64::from(self.last_cell()))
    }

    /// Returns the largest rounding error of a coordinate.
    pub fn error(&self) -> f32 {
        self.step() / 2.0
    }

    /// Returns the number of the last cell of an axis.
    fn last_cell(&self) -> u32 {
        // From 32 bits on, all of them are ones.
        1_u32.checked_shl(self.bits.into()).map_or(u32::MAX, |next| next.wrapping_sub(1))
    }

    /// Returns the coordinate that decoders compute for a cell of an axis that begins at `origin`.
    fn value(&self, cell: u32, origin: f32) -> f32 {
        nearest_f32(f64::from(cell)) * self.step() + origin
    }

    /// Returns the cell, or a neighbour if its coordinate is not in `low..high`.
    fn keep_inside(&self, cell: u32, origin: f32, (low, high): (f64, f64)) -> u32 {
        let is_inside = |cell| {
            let x = f64::from(self.value(cell, origin));
            x >= low && x < high
        };
        // At both ends of the axis, a neighbour is the cell itself.
        let near = [cell, cell.saturating_sub(1), cell.saturating_add(1).min(self.last_cell())];
        near.into_iter().find(|cell| is_inside(*cell)).unwrap_or(cell)
    }

    /// Returns the cell with the nearest coordinate.
    fn round(&self, x: f32, origin: f32) -> u32 {
        let cells = f64::from(x - origin) / f64::from(self.step());
        // A cell has at most 30 bits.
        saturating_u32(trunc_u64(cells.round().clamp(0.0, f64::from(self.last_cell()))))
    }
}

/// Positions and faces to be encoded.
///
/// ```
/// use zvf_draco::{DracoEncoder, Caps, Quantization};
///
/// let points = [0.0, 0.0, 0.0, 10.0, 5.0, 2.5_f32];
/// let grid = Quantization::from_positions(&points, 11);
/// let stream = DracoEncoder::new(&points)?.with_quantization(grid)?.encode();
/// let read = zvf_draco::decode(&stream, &Caps::default())?;
/// let second: Vec<f32> =
///     read.attributes[0].values[12..].as_chunks().0.iter().map(|x| f32::from_le_bytes(*x)).collect();
/// assert!((second[1] - 5.0).abs() <= grid.error());
/// # Ok::<(), zvf_draco::DracoError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DracoEncoder<'a> {
    positions: Positions<'a>,
    faces: Option<&'a [[u32; 3]]>,
    grid: Option<Quantization>,
    inside: Option<([f64; 3], [f64; 3])>,
}

#[derive(Clone, Copy, Debug)]
enum Positions<'a> {
    Floats(&'a [f32]),
    Integers(&'a [u32]),
}

impl Positions<'_> {
    const fn len(&self) -> usize {
        match self {
            Self::Floats(all) => all.len() / 3,
            Self::Integers(all) => all.len() / 3,
        }
    }
}

impl<'a> DracoEncoder<'a> {
    /// Encodes points at `positions`, three numbers each.
    ///
    /// # Errors
    ///
    /// When they are not triples, or too many.
    pub fn new(positions: &'a [f32]) -> Result<Self, DracoError> {
        check_triples(positions.len())?;
        Ok(Self { positions: Positions::Floats(positions), faces: None, grid: None, inside: None })
    }

    /// Encodes points on a grid of integers below 2^31, as in meshes of several resolutions.
    ///
    /// # Errors
    ///
    /// When they are not triples, too many, or too large.
    pub fn from_integers(positions: &'a [u32]) -> Result<Self, DracoError> {
        check_triples(positions.len())?;
        if let Some(large) = positions.iter().find(|q| **q >= 1 << 31) {
            let found = large.to_string();
            return Err(DracoError::new(Class::Overflow, 0, "integers below 2^31", found));
        }
        Ok(Self {
            positions: Positions::Integers(positions),
            faces: None,
            grid: None,
            inside: None,
        })
    }

    /// Adds faces; without faces, the stream is a point cloud.
    ///
    /// # Errors
    ///
    /// When a face names a missing point.
    pub fn with_faces(self, faces: &'a [[u32; 3]]) -> Result<Self, DracoError> {
        let points = self.positions.len();
        let far = faces.as_flattened().iter().find(|point| usize_from_u32(**point) >= points);
        if let Some(far) = far {
            let expected = format!("points below {points}");
            return Err(DracoError::new(Class::OutOfBounds, 0, expected, far.to_string()));
        }
        Ok(Self { faces: Some(faces), ..self })
    }

    /// Rounds positions to a grid.
    ///
    /// # Errors
    ///
    /// When the grid has too few or too many bits, or positions are not finite or lie outside the
    /// grid.
    pub fn with_quantization(self, grid: Quantization) -> Result<Self, DracoError> {
        let bad = |expected: &str, found: String| {
            Err(DracoError::new(Class::OutOfBounds, 0, expected, found))
        };
        if !(1..=30).contains(&grid.bits) {
            return bad("1 to 30 bits", grid.bits.to_string());
        }
        if !(grid.range.is_finite() && grid.range > 0.0) {
            return bad("a range above 0", grid.range.to_string());
        }
        let Positions::Floats(all) = self.positions else {
            return bad("positions of floats", "integers".to_owned());
        };
        for point in all.as_chunks::<3>().0 {
            for (x, origin) in point.iter().zip(grid.origin) {
                let within = *x >= origin && *x - origin <= grid.range * (1.0 + f32::EPSILON * 4.0);
                if !within {
                    return bad("positions within the grid", x.to_string());
                }
            }
        }
        Ok(Self { grid: Some(grid), ..self })
    }

    /// Keeps points inside a box (its upper sides excluded): a point that rounding would move out
    /// gets the nearest grid position inside.
    #[must_use]
    pub fn with_bounds(self, low: [f64; 3], high: [f64; 3]) -> Self {
        Self { inside: Some((low, high)), ..self }
    }

    /// Returns the stream.
    pub fn encode(&self) -> Vec<u8> {
        let points = self.positions.len();
        let mut out = b"DRACO\x02".to_vec();
        match self.faces {
            Some(faces) => {
                out.extend([2, 1, 0, 0, 0]);
                push_varint(to_u64(faces.len()), &mut out);
                push_varint(to_u64(points), &mut out);
                out.push(1); // plain indices
                push_indices(faces, points, &mut out);
            }
            None => {
                out.extend([3, 0, 0, 0, 0]);
                // `check_triples` refuses larger numbers.
                out.extend(saturating_u32_from_usize(points).to_le_bytes());
            }
        }
        self.push_positions(&mut out);
        out
    }

    fn push_positions(&self, out: &mut Vec<u8>) {
        let (component, coding) = match (self.positions, self.grid) {
            (Positions::Integers(_), _) => (Component::UInt32, 1),
            (Positions::Floats(_), Some(_)) => (Component::Float32, 2),
            (Positions::Floats(_), None) => (Component::Float32, 0),
        };
        let code = if component == Component::UInt32 { 6 } else { 9 };
        // One decoder of one attribute: a position of three values, not normalized, id 0.
        out.extend([1, 1, 0, code, 3, 0, 0, coding]);
        match (self.positions, self.grid) {
            (Positions::Integers(all), _) => push_integers(all.iter().copied(), out),
            (Positions::Floats(all), None) => out.extend(all.iter().flat_map(|x| x.to_le_bytes())),
            (Positions::Floats(all), Some(grid)) => {
                let bounds = match self.inside {
                    Some(([a, b, c], [d, e, f])) => [Some((a, d)), Some((b, e)), Some((c, f))],
                    None => [None; 3],
                };
                let axes = grid.origin.into_iter().zip(bounds).cycle();
                let cells = all.iter().zip(axes).map(|(x, (origin, bounds))| {
                    let cell = grid.round(*x, origin);
                    bounds.map_or(cell, |bounds| grid.keep_inside(cell, origin, bounds))
                });
                let cells: Vec<u32> = cells.collect();
                push_integers(cells.into_iter(), out);
                for x in grid.origin {
                    out.extend(x.to_le_bytes());
                }
                out.extend(grid.range.to_le_bytes());
                out.push(grid.bits);
            }
        }
    }
}

fn check_triples(values: usize) -> Result<(), DracoError> {
    if !values.is_multiple_of(3) {
        let found = format!("{values} numbers");
        return Err(DracoError::new(Class::BadShape, 0, "three numbers a point", found));
    }
    if u32::try_from(values / 3).is_err() {
        let found = format!("{} points", values / 3);
        return Err(DracoError::new(Class::LimitExceeded, 0, "below 2^32 points", found));
    }
    Ok(())
}

fn push_indices(faces: &[[u32; 3]], points: usize, out: &mut Vec<u8>) {
    for index in faces.as_flattened() {
        let bytes = index.to_le_bytes();
        match points {
            0..0x100 => out.extend(bytes.iter().take(1)),
            0x100..0x1_0000 => out.extend(bytes.iter().take(2)),
            0x1_0000..0x20_0000 => push_varint(u64::from(*index), out),
            _ => out.extend(bytes),
        }
    }
}

/// Appends integers without prediction, in as many bytes as the largest of them with its sign.
fn push_integers(values: impl Iterator<Item = u32> + Clone, out: &mut Vec<u8>) {
    let largest = values.clone().max().unwrap_or(0);
    let width: u8 = match largest {
        0..0x80 => 1,
        0x80..0x8000 => 2,
        0x8000..0x80_0000 => 3,
        _ => 4,
    };
    out.extend([NO_PREDICTION, 0, width]);
    for value in values {
        let bytes = (value << 1).to_le_bytes(); // the sign is the lowest bit
        out.extend(bytes.iter().take(usize::from(width)));
    }
}

/// Appends a number in groups of seven bits.
fn push_varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    to.push(value.to_le_bytes()[0]);
}

/// The code of values that are not differences, -2 as a byte.
const NO_PREDICTION: u8 = 0xfe;

#[cfg(all(test, feature = "decode"))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Caps, decode};

    #[test]
    fn bytes_of_a_triangle() {
        let positions = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0];
        let grid = Quantization { origin: [0.0; 3], range: 1.0, bits: 8 };
        let stream = DracoEncoder::new(&positions)
            .and_then(|encoder| encoder.with_faces(&[[0, 1, 2]]))
            .and_then(|encoder| encoder.with_quantization(grid))
            .unwrap()
            .encode();
        let expected: &[u8] = b"DRACO\x02\x02\x01\x00\0\0\x01\x03\x01\0\x01\x02\
            \x01\x01\0\x09\x03\0\0\x02\xfe\0\x02\0\0\0\0\0\0\xfe\x01\0\0\0\0\0\0\xfe\x01\0\0\
            \0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\x3f\x08";
        assert_eq!(stream, expected);
    }

    #[test]
    fn points_stay_inside_of_their_box() {
        let grid = Quantization { origin: [0.0; 3], range: 10.0, bits: 4 };
        let points = [4.9, 0.0, 5.1_f32];
        let encoder = DracoEncoder::new(&points).unwrap().with_quantization(grid).unwrap();
        let values = |encoder: &DracoEncoder<'_>| -> Vec<f32> {
            let read = decode(&encoder.encode(), &Caps::default()).unwrap();
            let values = read.attributes[0].values.as_chunks::<4>().0.iter();
            values.map(|x| f32::from_le_bytes(*x)).collect()
        };
        let step = 10.0 / 15.0;
        assert_eq!(values(&encoder), [7.0 * step, 0.0, 8.0 * step]);
        let encoder = encoder.with_bounds([0.0, 0.0, 0.0], [4.7, 5.0, 5.2]);
        let inside = values(&encoder);
        assert!(inside[0] < 4.7 && inside[2] < 5.2, "{inside:?}");
    }

    #[test]
    fn refuses_what_a_stream_cannot_hold() {
        let far = DracoEncoder::new(&[0.0; 3]).unwrap().with_faces(&[[0, 0, 1]]).unwrap_err();
        assert_eq!(far.class, Class::OutOfBounds);
        let nan = DracoEncoder::new(&[f32::NAN; 3]).unwrap();
        let grid = Quantization { origin: [0.0; 3], range: 1.0, bits: 8 };
        assert_eq!(nan.with_quantization(grid).unwrap_err().class, Class::OutOfBounds);
        assert_eq!(DracoEncoder::new(&[0.0; 4]).unwrap_err().class, Class::BadShape);
        assert_eq!(DracoEncoder::from_integers(&[1 << 31; 3]).unwrap_err().class, Class::Overflow);
    }

    proptest! {
        /// Encoded geometry decodes within the error of the grid.
        #[test]
        fn round_trip(
            points in prop::collection::vec(prop::array::uniform3(-1e3_f32..1e3), 0..400),
            corners in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
            bits in prop::option::of(4_u8..24),
        ) {
            let flat = points.as_flattened();
            let faces: Vec<[u32; 3]> = corners
                .as_chunks::<3>().0.iter()
                .filter(|_| !points.is_empty())
                .map(|face| face.map(|corner| corner.index(points.len()) as u32))
                .collect();
            let encoder = DracoEncoder::new(flat).unwrap().with_faces(&faces).unwrap();
            let grid = bits.map(|bits| Quantization::from_positions(flat, bits));
            let encoder = match grid {
                Some(grid) => encoder.with_quantization(grid).unwrap(),
                None => encoder,
            };
            let read = decode(&encoder.encode(), &Caps::default()).unwrap();
            prop_assert_eq!(read.faces.as_ref(), Some(&faces));
            let values = read.positions().unwrap().values.as_chunks::<4>().0;
            let error = grid.map_or(0.0, |grid| grid.error() * 1.01 + 1e-3);
            for (value, x) in values.iter().zip(flat) {
                prop_assert!((f32::from_le_bytes(*value) - x).abs() <= error);
            }
        }

        /// No input panics, and faces name existing points.
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200), mesh: bool) {
            let mut stream = b"DRACO\x02\x02\x01\0\0\0".to_vec();
            if !mesh {
                stream[6..8].copy_from_slice(&[3, 0]);
            }
            stream.extend(bytes);
            if let Ok(read) = decode(&stream, &Caps::default()) {
                prop_assert!(read.faces.iter().flatten().flatten().all(|p| (*p as usize) < read.points));
            }
        }
    }
}
