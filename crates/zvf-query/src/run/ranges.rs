//! Compares many numbers at a time.
//!
//! A condition on one column of numbers tests whether the number is in one of several closed
//! ranges. `x < 3` means "at most 2" for integers, and "at most the float below 3" for floats; `x
//! != 3` is two ranges. The ranges are computed once per query, exactly, by the rules of
//! [`Value::compare`]. A row then takes two comparisons in the type of the column, and 64 rows give
//! one word of a bitmap.
//!
//! Not here: text, booleans, half floats, codes of categories. They are tested row by row.

use zvf_format::num::{ceil_f32, floor_f32};
use zvf_metadata::DtypeKind;
use zvf_model::{Column, Value};

use crate::predicate::{Comparison, Predicate};
use crate::select::bits::{Bits, WORD_ROWS};

/// The numbers for which a condition holds: closed ranges.
#[derive(Debug, PartialEq)]
pub(super) struct Ranges {
    whole: Vec<[i128; 2]>,
    /// Excludes NaN, for which no comparison holds.
    float: Vec<[f64; 2]>,
}

impl Ranges {
    /// Returns the ranges of a condition on one column.
    pub(super) fn new(test: &Predicate) -> Option<Self> {
        let mut ranges = Self { whole: Vec::new(), float: Vec::new() };
        match test {
            Predicate::Compare(_, comparison, value) => ranges.add(*comparison, value),
            Predicate::In(_, values) => {
                values.iter().for_each(|value| ranges.add(Comparison::Equal, value));
            }
            Predicate::IsNull(_) => {} // a number is something
            Predicate::Not(_) | Predicate::All(_) | Predicate::Any(_) => return None,
        }
        Some(ranges)
    }

    /// Adds the numbers for which `comparison` with `value` holds.
    fn add(&mut self, comparison: Comparison, value: &Value) {
        // The numbers below, equal to and above the value, for integers and for floats.
        let (whole, float) = match value {
            Value::Int(n) => ((*n).into(), None),
            Value::UInt(n) => ((*n).into(), None),
            Value::Float(x) if !x.is_nan() => (0, Some(*x)),
            Value::Null | Value::Bool(_) | Value::Float(_) | Value::Text(_) => return,
        };
        let (whole, float) = match float {
            None => (integer_neighbours(whole), floats_around_integer(whole)),
            Some(x) => (integers_around_float(x), float_neighbours(x)),
        };
        let parts: &[usize] = match comparison {
            Comparison::Less => &[0],
            Comparison::AtMost => &[0, 1],
            Comparison::Equal => &[1],
            Comparison::Unequal => &[0, 2],
            Comparison::AtLeast => &[1, 2],
            Comparison::Greater => &[2],
        };
        for part in parts {
            self.whole.extend(whole.get(*part).copied().flatten());
            self.float.extend(float.get(*part).copied().flatten());
        }
    }

    /// Tests component `component` of `len` rows of `column` from `first` on; `None` if the column
    /// does not contain integers or floats, or has fewer rows.
    pub(super) fn verdicts(
        &self,
        column: &Column,
        component: usize,
        first: usize,
        len: usize,
    ) -> Option<Bits> {
        let stride = column.stride();
        let rows = first.checked_mul(stride)?..first.checked_add(len)?.checked_mul(stride)?;
        let rows = Rows { bytes: column.bytes().get(rows)?, stride, component };
        let mut bits = Bits::from_verdict(len, false);
        let words = bits.words_mut();
        match (column.dtype().kind, column.dtype().size) {
            (DtypeKind::Int, 1) => rows.mark_whole(i8::from_le_bytes, &self.whole, words),
            (DtypeKind::Int, 2) => rows.mark_whole(i16::from_le_bytes, &self.whole, words),
            (DtypeKind::Int, 4) => rows.mark_whole(i32::from_le_bytes, &self.whole, words),
            (DtypeKind::Int, 8) => rows.mark_whole(i64::from_le_bytes, &self.whole, words),
            (DtypeKind::UInt, 1) => rows.mark_whole(u8::from_le_bytes, &self.whole, words),
            (DtypeKind::UInt, 2) => rows.mark_whole(u16::from_le_bytes, &self.whole, words),
            (DtypeKind::UInt, 4) => rows.mark_whole(u32::from_le_bytes, &self.whole, words),
            (DtypeKind::UInt, 8) => rows.mark_whole(u64::from_le_bytes, &self.whole, words),
            (DtypeKind::Float, 4) => {
                for [low, high] in &self.float {
                    rows.mark(f32::from_le_bytes, [ceil_f32(*low), floor_f32(*high)], words);
                }
            }
            (DtypeKind::Float, 8) => {
                self.float.iter().for_each(|range| rows.mark(f64::from_le_bytes, *range, words));
            }
            _ => return None,
        }
        Some(bits)
    }
}

/// The neighbours of a number: below, equal, above; `None` if there is no such number.
type Neighbours<T> = [Option<[T; 2]>; 3];

/// Returns the integers around an integer of up to 65 bits.
fn integer_neighbours(n: i128) -> Neighbours<i128> {
    [Some([i128::MIN, n - 1]), Some([n, n]), Some([n + 1, i128::MAX])]
}

/// Returns the integers around a float.
#[expect(clippy::as_conversions, reason = "whole floats past 127 bits are past every column too")]
fn integers_around_float(x: f64) -> Neighbours<i128> {
    let (floor, ceil) = (x.floor() as i128, x.ceil() as i128);
    let below = Some([i128::MIN, ceil.saturating_sub(1)]); // saturates where no integer is below
    let above = Some([floor.saturating_add(1), i128::MAX]); // saturates where no integer is above
    [below, (floor == ceil).then_some([floor, floor]), above]
}

/// Returns the floats around a float that is not NaN.
fn float_neighbours(x: f64) -> Neighbours<f64> {
    let below = (x > f64::NEG_INFINITY).then(|| [f64::NEG_INFINITY, x.next_down()]);
    let above = (x < f64::INFINITY).then(|| [x.next_up(), f64::INFINITY]);
    [below, Some([x, x]), above]
}

/// Returns the floats around an integer of up to 65 bits.
#[expect(clippy::as_conversions, reason = "rounded to the nearest, and compared with what it was")]
fn floats_around_integer(n: i128) -> Neighbours<f64> {
    let near = n as f64;
    match (near as i128).cmp(&n) {
        std::cmp::Ordering::Equal => float_neighbours(near),
        // It lies between two floats.
        std::cmp::Ordering::Less => gap_neighbours(near, near.next_up()),
        std::cmp::Ordering::Greater => gap_neighbours(near.next_down(), near),
    }
}

fn gap_neighbours(below: f64, above: f64) -> Neighbours<f64> {
    [Some([f64::NEG_INFINITY, below]), None, Some([above, f64::INFINITY])]
}

/// Rows as little-endian bytes, and the index of the tested value.
struct Rows<'a> {
    bytes: &'a [u8],
    stride: usize,
    component: usize,
}

impl Rows<'_> {
    /// Sets the bits of the rows whose integer is in one of the ranges.
    fn mark_whole<T: Copy + PartialOrd + TryFrom<i128>, const N: usize>(
        &self,
        number: impl Fn([u8; N]) -> T,
        ranges: &[[i128; 2]],
        words: &mut [u64],
    ) {
        let is_signed = T::try_from(-1).is_ok();
        let max = i128::MAX >> (128 - 8 * N - usize::from(!is_signed));
        let min = if is_signed { -max - 1 } else { 0 };
        for [low, high] in ranges {
            // Otherwise the range is outside of the type's.
            if let (Ok(low), Ok(high)) = (T::try_from(*low.max(&min)), T::try_from(*high.min(&max)))
            {
                self.mark(&number, [low, high], words);
            }
        }
    }

    /// Sets the bits of the rows whose number is in a range.
    fn mark<T: Copy + PartialOrd, const N: usize>(
        &self,
        number: impl Fn([u8; N]) -> T,
        [low, high]: [T; 2],
        words: &mut [u64],
    ) {
        let inside = |x: T| u8::from((low <= x) & (x <= high));
        let blocks = self.bytes.chunks(WORD_ROWS.saturating_mul(self.stride)).zip(words); // too large: one block
        if self.stride == N {
            for (block, word) in blocks {
                *word |= pack_verdicts(block.as_chunks::<N>().0.iter().map(|x| inside(number(*x))));
            }
            return;
        }
        let at = self.component * N;
        for (block, word) in blocks {
            let rows = block.chunks_exact(self.stride);
            let numbers = rows.filter_map(|row| row.get(at..)?.first_chunk::<N>());
            *word |= pack_verdicts(numbers.map(|x| inside(number(*x))));
        }
    }
}

/// Packs at most 64 results, each 0 or 1, into the bits of a word.
fn pack_verdicts(verdicts: impl Iterator<Item = u8>) -> u64 {
    let mut all = [0_u8; WORD_ROWS];
    all.iter_mut().zip(verdicts).for_each(|(to, verdict)| *to = verdict);
    let mut word = 0;
    for eight in all.as_chunks::<8>().0.iter().rev() {
        // Each byte is shifted to its own bit in the highest byte.
        let bits = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        word = word << 8 | bits;
    }
    word
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zvf_metadata::Dtype;

    use super::*;
    use crate::predicate::ColumnRef;

    const COMPARISONS: [Comparison; 6] = [
        Comparison::Less,
        Comparison::AtMost,
        Comparison::Equal,
        Comparison::Unequal,
        Comparison::AtLeast,
        Comparison::Greater,
    ];

    /// Numbers at which rounding and the limits of types matter, as stored bytes of `dtype`.
    fn column(dtype: &str, width: u32) -> Column {
        let dtype = dtype.parse::<Dtype>().unwrap();
        let ends = [i64::MIN, i64::MAX, 1 << 53, (1 << 53) + 1, -(1 << 53) - 1, 255, 127, -128, 3];
        let integers = ends.into_iter().chain(-70..70);
        let floats = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 2.5, 1e300, 1e-320, -1e19];
        let floats = floats.into_iter().chain(integers.clone().map(|n| n as f64));
        let bytes: Vec<u8> = match (dtype.kind, dtype.size) {
            (DtypeKind::Float, 4) => floats.flat_map(|x| (x as f32).to_le_bytes()).collect(),
            (DtypeKind::Float, _) => floats.flat_map(f64::to_le_bytes).collect(),
            (_, size) => {
                let size = usize::try_from(size).unwrap();
                integers.flat_map(|n| n.to_le_bytes()[..size].to_vec()).collect()
            }
        };
        let stride = usize::try_from(dtype.size).unwrap() * usize::try_from(width).unwrap();
        let rows = bytes.len() / stride;
        Column::new(dtype, width, bytes[..rows * stride].to_vec().into()).unwrap()
    }

    fn check(test: &Predicate, column: &Column, component: usize, first: usize) {
        let len = column.len() - first;
        let found = Ranges::new(test).unwrap().verdicts(column, component, first, len).unwrap();
        let matches = |row: usize| Ok::<_, ()>(test.holds(&mut |_| column.value(row, component)));
        let expected = Bits::collect((first..column.len()).map(matches)).unwrap();
        assert_eq!(found, expected, "{test} of {:?}, value {component}", column.dtype());
    }

    const TYPES: [&str; 10] = [
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32",
        "float64",
    ];

    #[test]
    fn ranges_agree_with_comparing_values() {
        let odd_integer = (1_u64 << 53) + 1;
        let values = [
            Value::Int(3),
            Value::Int(-1),
            Value::Int(i64::MIN),
            Value::Int(i64::MAX),
            Value::UInt(u64::MAX),
            Value::UInt(odd_integer),
            Value::UInt(odd_integer + 2),
            Value::Int(-128),
            Value::Float(2.5),
            Value::Float(-0.0),
            Value::Float(f64::NAN),
            Value::Float(3.0),
            Value::Float(f64::INFINITY),
            Value::Float(f64::NEG_INFINITY),
            Value::Float(1e300),
            Value::Float(0.1),
            Value::Float(-1e19),
            Value::Float(9_007_199_254_740_992.0),
            Value::Null,
            Value::Bool(true),
            Value::Text("3".to_owned()),
        ];
        let tested =
            ColumnRef { scope: crate::predicate::Scope::Vertex, name: "x".into(), index: 0 };
        for dtype in TYPES {
            for (width, component) in [(1, 0), (3, 0), (3, 2)] {
                let column = column(dtype, width);
                for value in &values {
                    for comparison in COMPARISONS {
                        let test = Predicate::Compare(tested.clone(), comparison, value.clone());
                        check(&test, &column, component, 1);
                    }
                }
                check(&Predicate::In(tested.clone(), values.to_vec()), &column, component, 0);
                check(&Predicate::In(tested.clone(), Vec::new()), &column, component, 0);
                check(&Predicate::IsNull(tested.clone()), &column, component, 0);
            }
        }
    }

    #[test]
    fn columns_without_numbers_have_no_verdicts() {
        let test: Predicate = "x < 3".parse().unwrap();
        let ranges = Ranges::new(&test).unwrap();
        for dtype in ["bool", "float16", "<U2"] {
            let dtype = dtype.parse::<Dtype>().unwrap();
            let size = usize::try_from(dtype.size).unwrap();
            let column = Column::new(dtype, 1, vec![0; size].into()).unwrap();
            assert_eq!(ranges.verdicts(&column, 0, 0, 1), None);
        }
        let int8_column = column("int8", 1);
        assert_eq!(ranges.verdicts(&int8_column, 0, 0, int8_column.len() + 1), None);
        assert_eq!(Ranges::new(&"not x < 3".parse().unwrap()), None);
    }

    proptest! {
        #[test]
        fn floats_compare_as_values(numbers in prop::collection::vec(any::<f32>(), 1..200), x: f64, n: i64, at in 0..6_usize) {
            let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
            let column = Column::new(Dtype::FLOAT32, 1, bytes.into()).unwrap();
            let tested = ColumnRef { scope: crate::predicate::Scope::Vertex, name: "x".into(), index: 0 };
            let first = f64::from(numbers[0]);
            for value in [Value::Float(x), Value::Int(n), Value::Float(first), Value::Float(first.next_up())] {
                check(&Predicate::Compare(tested.clone(), COMPARISONS[at], value), &column, 0, 0);
            }
        }
    }
}
