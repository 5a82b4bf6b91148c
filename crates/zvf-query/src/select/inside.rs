//! Tests of positions against a region, without copies.
//!
//! A box is compared in the type of the positions: its faces are moved inwards to the next number
//! of that type, so that the result is the same as with `f64` arithmetic on widened values; 64 rows
//! give one word of a bitmap. Other regions and other types are tested in `f64`, row by row.

use zvf_format::num::{ceil_f32, floor_f32, usize_from_u32};
use zvf_model::{Bounds, Column, NativeType};

use super::loaded_rows::LoadedRows;
use super::pieces::{Piece, Pieces};
use crate::region::Region;

/// A region that is prepared for testing positions.
pub(crate) struct Test<'a> {
    region: &'a Region,
    /// The faces of a closed box, ascending corner first.
    faces: Option<[[f64; AXES]; 2]>,
}

impl<'a> Test<'a> {
    pub(crate) fn new(region: &'a Region) -> Self {
        let faces = region.as_box().map(|(bounds, closed)| {
            let [mut low, mut high] = [[0.0; AXES]; 2];
            low[..bounds.axes()].copy_from_slice(bounds.low());
            high[..bounds.axes()].copy_from_slice(bounds.high());
            [low, if closed { high } else { high.map(f64::next_down) }]
        });
        Self { region, faces }
    }

    /// Appends the rows of `pieces` that are inside to `out`. Rows that are not loaded are left
    /// out: the caller checks for them first.
    pub(crate) fn rows(&self, loaded: &[LoadedRows], pieces: &[Piece], out: &mut Pieces) {
        for piece in pieces {
            if let Some(column) = loaded[usize_from_u32(piece.cell)].slice(piece.start, piece.len) {
                let run = |start, len| Piece { start: piece.start + start, len, ..*piece };
                self.column(&column, &mut |start, len| out.push(run(start, len)));
            }
        }
    }

    /// Calls `hit` with the runs of rows of `column` that are inside.
    fn column(&self, column: &Column, hit: &mut dyn FnMut(u32, u32)) {
        let axes = usize_from_u32(column.width());
        if let Some(faces) = &self.faces {
            if let Some(values) = typed_values::<f32>(column) {
                let faces = [faces[0].map(ceil_f32), faces[1].map(floor_f32)];
                return find_on_axes(axes, &values, &faces, hit);
            }
            if let Some(values) = typed_values::<f64>(column) {
                return find_on_axes(axes, &values, faces, hit);
            }
        }
        let mut point = [0.0; AXES];
        let point = point.get_mut(..axes).unwrap_or_default(); // no region has more axes
        for (row, at) in (0..column.len()).zip(0_u32..) {
            position(column, row, point);
            if self.region.contains(point) {
                hit(at, 1);
            }
        }
    }
}

/// Writes the widened coordinates of row `row` into `point`; NaN for values that are not numbers.
pub(crate) fn position(column: &Column, row: usize, point: &mut [f64]) {
    let bytes = column.row(row);
    match (column.dtype().kind, column.dtype().size) {
        (zvf_metadata::DtypeKind::Float, 4) => {
            for (x, bytes) in point.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *x = f32::from_le_bytes(*bytes).into();
            }
        }
        (zvf_metadata::DtypeKind::Float, 8) => {
            for (x, bytes) in point.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *x = f64::from_le_bytes(*bytes);
            }
        }
        _ => {
            for (axis, x) in point.iter_mut().enumerate() {
                *x = column.float(row, axis).unwrap_or(f64::NAN);
            }
        }
    }
}

/// Returns all values of `column` as a slice: in place, or copied if they are not aligned.
fn typed_values<T: NativeType>(column: &Column) -> Option<std::borrow::Cow<'_, [T]>> {
    if let Some(slice) = column.as_slice::<T>() {
        return Some(slice.into());
    }
    if (column.dtype().kind, column.dtype().size) != T::TYPE {
        return None;
    }
    let copy = bytes::Bytes::copy_from_slice(column.bytes());
    let copy = Column::new(column.dtype(), column.width(), copy).ok()?;
    Some(copy.as_slice::<T>()?.to_vec().into())
}

fn find_on_axes<T: Copy + PartialOrd>(
    axes: usize,
    values: &[T],
    faces: &[[T; AXES]; 2],
    hit: &mut dyn FnMut(u32, u32),
) {
    match axes {
        1 => find_in_box::<T, 1>(values, faces, hit),
        2 => find_in_box::<T, 2>(values, faces, hit),
        3 => find_in_box::<T, 3>(values, faces, hit),
        4 => find_in_box::<T, 4>(values, faces, hit),
        5 => find_in_box::<T, 5>(values, faces, hit),
        6 => find_in_box::<T, 6>(values, faces, hit),
        7 => find_in_box::<T, 7>(values, faces, hit),
        _ => find_in_box::<T, 8>(values, faces, hit),
    }
}

fn find_in_box<T: Copy + PartialOrd, const D: usize>(
    values: &[T],
    [low, high]: &[[T; AXES]; 2],
    hit: &mut dyn FnMut(u32, u32),
) {
    let (Some(low), Some(high)) = (low.first_chunk::<D>(), high.first_chunk::<D>()) else { return };
    let rows = values.as_chunks::<D>().0;
    for (block, first) in rows.chunks(64).zip((0_u32..).step_by(64)) {
        let mut word = 0_u64;
        for row in block {
            let mut inside = true;
            for ((x, low), high) in row.iter().zip(low).zip(high) {
                inside &= (*low <= *x) & (*x <= *high);
            }
            word = (word >> 1) | (u64::from(inside) << 63);
        }
        word_runs(word >> (64 - block.len()), first, hit); // a block has 1 to 64 rows
    }
}

/// Calls `hit` with the runs of ones in `word`, whose lowest bit is row `first`.
fn word_runs(mut word: u64, first: u32, hit: &mut dyn FnMut(u32, u32)) {
    if word == u64::MAX {
        return hit(first, 64);
    }
    let mut at = first;
    while word != 0 {
        let skip = word.trailing_zeros();
        word = word.checked_shr(skip).unwrap_or(0); // a shift by all bits leaves none
        at += skip;
        let len = word.trailing_ones();
        hit(at, len);
        word = word.checked_shr(len).unwrap_or(0); // likewise
        at += len;
    }
}

const AXES: usize = Bounds::MAX_AXES;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zvf_metadata::Dtype;

    use super::*;

    fn column(dtype: &str, width: u32, values: &[f64]) -> Column {
        let dtype = dtype.parse::<Dtype>().unwrap();
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|x| match (dtype.kind, dtype.size) {
                (zvf_metadata::DtypeKind::Int, 4) => (*x as i32).to_le_bytes().to_vec(),
                (_, 4) => (*x as f32).to_le_bytes().to_vec(),
                _ => x.to_le_bytes().to_vec(),
            })
            .collect();
        Column::new(dtype, width, bytes.into()).unwrap()
    }

    fn hits(region: &Region, column: &Column) -> Vec<u32> {
        let (held_column, mut pieces) = (LoadedRows::Whole(column.clone()), Pieces::default());
        let len = u32::try_from(column.len()).unwrap();
        let all = Piece { cell: 0, start: 0, len, fragment: 0 };
        Test::new(region).rows(&[held_column], &[all], &mut pieces);
        pieces.list.iter().flat_map(|piece| piece.start..piece.end()).collect()
    }

    #[test]
    fn faces_are_compared_as_float64() {
        // 0.1 as f32 is above 0.1, and 0.3 as f32 is above 0.3.
        let rounded = column("float32", 1, &[0.1, 0.2, 0.3]);
        let region = Region::from(Bounds::new(&[0.1], &[0.3]).unwrap());
        assert_eq!(hits(&region, &rounded), [0, 1]);
        let exact = column("float64", 1, &[0.1, 0.2, 0.3]);
        assert_eq!(hits(&region, &exact), [0, 1, 2]);
        assert_eq!(hits(&region.into_half_open(), &exact), [0, 1]);
    }

    proptest! {
        /// The fast and the slow implementation agree, for every type and number of axes.
        #[test]
        fn words_agree_with_points(
            axes in 1_usize..9,
            values in prop::collection::vec(-4_i8..5, 0..600),
            dtype in prop::sample::select(vec!["float32", "float64", "int32"]),
            low in -5_i8..5, extent in 0_i8..6, open: bool,
        ) {
            let rows = values.len() / axes;
            let values: Vec<f64> = values.iter().take(rows * axes).map(|x| f64::from(*x)).collect();
            let column = column(dtype, u32::try_from(axes).unwrap(), &values);
            let (low, high) = (f64::from(low), f64::from(low) + f64::from(extent));
            let mut region = Region::from(Bounds::new(&vec![low; axes], &vec![high; axes]).unwrap());
            if open {
                region = region.into_half_open();
            }
            let expected: Vec<u32> = values
                .chunks(axes)
                .zip(0_u32..)
                .filter(|(point, _)| region.contains(point))
                .map(|(_, row)| row)
                .collect();
            prop_assert_eq!(hits(&region, &column), expected);
        }
    }
}
