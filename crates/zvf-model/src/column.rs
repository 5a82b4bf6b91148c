//! Values of one type, row after row: positions, attributes, ids.
//!
//! A column is bytes, a type and a width (how many values make a row), cheap to clone and to slice.
//! The bytes are always little-endian, however they were stored, so that typed slices, Arrow arrays
//! and files of other formats can use them without a copy.
//!
//! Not here: names, units and categories (see `Field`), and the origin of the bytes.

use bytes::{Bytes, BytesMut};
use thiserror::Error;
use zerocopy::{FromBytes, Immutable};
use zvf_format::num::{nearest_f32, saturating_floor_i64, usize_from_u32};
use zvf_metadata::{Dtype, DtypeKind};

use crate::Value;

/// Values of one type.
///
/// ```
/// use zvf_metadata::Dtype;
/// use zvf_model::{Column, Value};
///
/// let bytes = [1.0_f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat();
/// let points = Column::new(Dtype::FLOAT32, 2, bytes.into())?;
/// assert_eq!((points.len(), points.width()), (2, 2));
/// assert_eq!(points.value(1, 0), Value::Float(3.0));
/// assert_eq!(points.slice(1..2).float(0, 1), Some(4.0));
/// # Ok::<(), zvf_model::BadColumn>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    dtype: Dtype,  // never big-endian
    width: u32,    // not 0
    stride: usize, // bytes of a row: size times width, not 0
    bytes: Bytes,  // a multiple of the stride
}

impl Column {
    /// Creates a column from the rows in `bytes`, converted to little-endian if `dtype` is
    /// big-endian.
    ///
    /// # Errors
    ///
    /// When `width` is 0, a row would not fit in memory, or `bytes` is not a whole number of rows.
    pub fn new(dtype: Dtype, width: u32, bytes: Bytes) -> Result<Self, BadColumn> {
        let too_wide = BadColumn::Width { width };
        let size = usize::try_from(dtype.size).map_err(|_too_large| too_wide)?;
        let values = usize::try_from(width).map_err(|_too_large| too_wide)?;
        let stride = size.checked_mul(values).filter(|stride| *stride > 0).ok_or(too_wide)?;
        if bytes.len().checked_rem(stride) != Some(0) {
            return Err(BadColumn::Length { bytes: bytes.len(), stride });
        }
        // A code unit of text is swapped, otherwise the whole value.
        let unit = if dtype.kind == DtypeKind::Text { 4 } else { size };
        let bytes = if dtype.big_endian { swap_units(&bytes, unit) } else { bytes };
        Ok(Self { dtype: Dtype { big_endian: false, ..dtype }, width, stride, bytes })
    }

    /// Creates a column without rows.
    ///
    /// # Errors
    ///
    /// When `width` is 0 or a row would not fit in memory.
    pub fn empty(dtype: Dtype, width: u32) -> Result<Self, BadColumn> {
        Self::new(dtype, width, Bytes::new())
    }

    /// Returns the type of a value; never big-endian.
    pub const fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the number of values per row.
    pub const fn width(&self) -> u32 {
        self.width
    }

    /// Returns the bytes of one row.
    pub const fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.stride
    }

    /// Returns whether there are no rows.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns all rows, little-endian and contiguous.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the bytes of row `i`, or `None` past the end.
    pub fn row(&self, i: usize) -> &[u8] {
        let start = i.saturating_mul(self.stride); // past the end of any bytes
        self.bytes.get(start..start.saturating_add(self.stride)).unwrap_or(&[])
    }

    /// Returns the rows, as bytes.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.stride)
    }

    /// Returns the rows from `rows.start` to `rows.end`, sharing the bytes; clipped to the existing
    /// rows.
    pub fn slice(&self, rows: std::ops::Range<usize>) -> Self {
        let end = rows.end.min(self.len());
        let start = rows.start.min(end);
        let bytes = self.bytes.slice(start * self.stride..end * self.stride);
        Self { bytes, ..self.clone() }
    }

    /// Returns all values as a typed slice, if `T` is their type, this machine is little-endian and
    /// the bytes are aligned. [`Column::value`] always works.
    pub fn as_slice<T: NativeType>(&self) -> Option<&[T]> {
        let same = (self.dtype.kind, self.dtype.size) == T::TYPE;
        let native = cfg!(target_endian = "little");
        if same && native { <[T]>::ref_from_bytes(&self.bytes).ok() } else { None }
    }

    /// Returns value `c` of row `i`; [`Value::Null`] past the end.
    #[inline]
    pub fn value(&self, i: usize, c: usize) -> Value {
        let row = self.row(i);
        let size = self.stride / usize_from_u32(self.width);
        let start = c.saturating_mul(size); // past the end of any row
        row.get(start..start.saturating_add(size))
            .map_or(Value::Null, |bytes| Value::decode(self.dtype, bytes))
    }

    /// Returns value `c` of row `i` as a float, rounded if it is a large integer; `None` for text
    /// and past the end.
    #[inline]
    pub fn float(&self, i: usize, c: usize) -> Option<f64> {
        self.value(i, c).as_f64()
    }

    /// Returns all values as floats, row by row: large integers are rounded, and text becomes NaN.
    pub fn floats(&self) -> Vec<f64> {
        if let Some(values) = self.as_slice::<f64>() {
            return values.to_vec();
        }
        if let Some(values) = self.as_slice::<f32>() {
            return values.iter().map(|x| f64::from(*x)).collect();
        }
        let width = usize_from_u32(self.width);
        let places = (0..self.len()).flat_map(|row| (0..width).map(move |c| (row, c)));
        places.map(|(row, c)| self.float(row, c).unwrap_or(f64::NAN)).collect()
    }
}

/// Builds a column from rows; each is copied once.
///
/// ```
/// use zvf_metadata::Dtype;
/// use zvf_model::{Column, ColumnBuilder};
///
/// let ids = Column::new(Dtype::INT64, 1, [7_i64, 8, 9].map(i64::to_le_bytes).concat().into())?;
/// let mut some = ColumnBuilder::empty_like(&ids);
/// some.push_rows(&ids, 1..3);
/// some.push_row(&ids, 0);
/// assert_eq!(some.finish().bytes()[..], [8_i64, 9, 7].map(i64::to_le_bytes).concat());
/// # Ok::<(), zvf_model::BadColumn>(())
/// ```
#[derive(Clone, Debug)]
pub struct ColumnBuilder {
    like: Column, // without rows
    bytes: BytesMut,
}

impl ColumnBuilder {
    /// Creates an empty builder for rows of the type and width of `column`.
    pub fn empty_like(column: &Column) -> Self {
        Self { like: column.slice(0..0), bytes: BytesMut::new() }
    }

    /// Returns the number of rows so far.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.like.stride
    }

    /// Returns whether there are no rows yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Reserves memory for `rows` more.
    pub fn reserve(&mut self, rows: usize) {
        self.bytes.reserve(rows * self.like.stride);
    }

    /// Appends rows of a column of the same type and width, clipped to the existing rows. Rows of
    /// another type are ignored.
    pub fn push_rows(&mut self, from: &Column, rows: std::ops::Range<usize>) {
        if (from.dtype, from.width) == (self.like.dtype, self.like.width) {
            // Past the end of any bytes, and therefore clipped.
            let end = rows.end.saturating_mul(from.stride).min(from.bytes.len());
            let start = rows.start.saturating_mul(from.stride).min(end);
            self.bytes.extend_from_slice(&from.bytes[start..end]);
        }
    }

    /// Appends one row of a column of the same type and width, if that row exists.
    pub fn push_row(&mut self, from: &Column, row: usize) {
        self.push_rows(from, row..row.saturating_add(1)); // the last number is no row
    }

    /// Appends rows as little-endian bytes; a partial row is ignored.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        if bytes.len().checked_rem(self.like.stride) == Some(0) {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Returns the rows as a column.
    #[must_use]
    pub fn finish(self) -> Column {
        Column { bytes: self.bytes.freeze(), ..self.like }
    }
}

/// A type that a column can be viewed as: Rust's integers and floats. The trait is sealed.
pub trait NativeType: sealed::Sealed + FromBytes + Immutable + Copy {
    /// Kind and size in bytes.
    const TYPE: (DtypeKind, u64);
}

/// Keeps the trait to this crate.
mod sealed {
    #[expect(unnameable_types, reason = "a trait that cannot be named cannot be implemented")]
    pub trait Sealed {}
}

macro_rules! elements {
    ($($rust:ty: $kind:ident $size:literal),* $(,)?) => {$(
        impl sealed::Sealed for $rust {}

        impl NativeType for $rust {
            const TYPE: (DtypeKind, u64) = (DtypeKind::$kind, $size);
        }
    )*};
}

elements! {
    i8: Int 1, i16: Int 2, i32: Int 4, i64: Int 8,
    u8: UInt 1, u16: UInt 2, u32: UInt 4, u64: UInt 8,
    f32: Float 4, f64: Float 8,
}

/// Bytes that are not a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BadColumn {
    /// A row has no values, or more than fit in memory.
    #[error("a row of {width} values is not possible")]
    Width {
        /// Values per row.
        width: u32,
    },
    /// Not a whole number of rows.
    #[error("{bytes} bytes are not a whole number of rows of {stride} bytes")]
    Length {
        /// Number of bytes.
        bytes: usize,
        /// Bytes per row.
        stride: usize,
    },
}

impl From<BadColumn> for zvf_error::Error {
    fn from(error: BadColumn) -> Self {
        Self::from_cause(zvf_format::Class::CountMismatch, error)
    }
}

fn swap_units(bytes: &[u8], unit: usize) -> Bytes {
    let mut swapped = bytes.to_vec();
    swapped.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
    swapped.into()
}

impl Value {
    /// Decodes one little-endian value; text without its trailing zeros.
    #[inline]
    pub fn decode(dtype: Dtype, bytes: &[u8]) -> Self {
        use DtypeKind as Kind;
        match (dtype.kind, bytes) {
            (Kind::Bool, [byte]) => Self::Bool(*byte != 0),
            (Kind::Int, _) => Self::Int(read_signed(bytes)),
            (Kind::UInt, _) => Self::UInt(read_unsigned(bytes)),
            (Kind::Float, &[a, b]) => Self::Float(half::f16::from_le_bytes([a, b]).into()),
            (Kind::Float, &[a, b, c, d]) => Self::Float(f32::from_le_bytes([a, b, c, d]).into()),
            (Kind::Float, &[a, b, c, d, e, f, g, h]) => {
                Self::Float(f64::from_le_bytes([a, b, c, d, e, f, g, h]))
            }
            (Kind::Text, _) => Self::Text(text(bytes)),
            (Kind::Bool | Kind::Float, _) => Self::Null,
        }
    }

    /// Returns the value as a float, rounded if it is a large integer; `None` for text and null.
    #[inline]
    #[expect(clippy::as_conversions, reason = "rounding a large integer is what is asked for")]
    pub const fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(n) => Some(*n as f64),
            Self::UInt(n) => Some(*n as f64),
            Self::Float(x) => Some(*x),
            Self::Bool(flag) => Some(*flag as u8 as f64),
            Self::Null | Self::Text(_) => None,
        }
    }
}

/// Appends a number as the little-endian bytes of a value: rounded, and clamped to the type.
pub fn push_number(bytes: &mut Vec<u8>, dtype: Dtype, x: f64) {
    let size = usize::try_from(dtype.size).unwrap_or(8);
    match (dtype.kind, size) {
        (DtypeKind::Float, 2) => bytes.extend(half::f16::from_f64(x).to_le_bytes()),
        (DtypeKind::Float, 4) => bytes.extend(nearest_f32(x).to_le_bytes()),
        (DtypeKind::Float, _) => bytes.extend(x.to_le_bytes()),
        (DtypeKind::UInt, 8) => {
            let whole = if x < TWO_TO_63 {
                saturating_floor_i64(x + 0.5).max(0).unsigned_abs()
            } else {
                u64::MAX
            };
            bytes.extend(whole.to_le_bytes());
        }
        (DtypeKind::Int | DtypeKind::UInt | DtypeKind::Bool, _) => {
            let bits = u32::try_from(size).unwrap_or(8) * 8; // a number has 1 to 8 bytes
            let signed = dtype.kind == DtypeKind::Int;
            let max = if signed { i64::MAX >> (64 - bits) } else { !(-1 << bits.min(62)) };
            let min = if signed { !max } else { 0 };
            let whole = saturating_floor_i64(x + 0.5).clamp(min, max);
            bytes.extend(whole.to_le_bytes().iter().take(size));
        }
        (DtypeKind::Text, _) => bytes.extend(std::iter::repeat_n(0, size)),
    }
}

/// Floats from here on exceed signed 64-bit integers.
const TWO_TO_63: f64 = 9_223_372_036_854_775_807.0;

/// Decodes a whole number of this kind.
pub(crate) fn read_whole(bytes: &[u8], kind: DtypeKind) -> i128 {
    if kind == DtypeKind::Int { read_signed(bytes).into() } else { read_unsigned(bytes).into() }
}

fn read_unsigned(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |wide, byte| wide << 8 | u64::from(*byte))
}

fn read_signed(bytes: &[u8]) -> i64 {
    let spare = 64_usize.saturating_sub(bytes.len() * 8).min(63);
    (read_unsigned(bytes) << spare).cast_signed() >> spare
}

/// Decodes UTF-32 text without trailing zeros; an invalid code unit becomes U+FFFD.
fn text(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(4).map(read_unsigned);
    let chars = units.map(|unit| u32::try_from(unit).ok().and_then(char::from_u32));
    let text: String = chars.map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    text.trim_end_matches('\0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dtype(text: &str) -> Dtype {
        text.parse::<Dtype>().unwrap()
    }

    #[test]
    fn values_of_every_type() {
        for (name, bytes, value) in [
            ("bool", &[1][..], Value::Bool(true)),
            ("int8", &[0xff], Value::Int(-1)),
            ("<i2", &[0xfe, 0xff], Value::Int(-2)),
            (">i2", &[0xff, 0xfe], Value::Int(-2)),
            ("int64", &[0, 0, 0, 0, 0, 0, 0, 0x80], Value::Int(i64::MIN)),
            ("uint8", &[0xff], Value::UInt(255)),
            ("uint64", &[0xff; 8], Value::UInt(u64::MAX)),
            ("float16", &[0x00, 0x3e], Value::Float(1.5)),
            (">f4", &[0xbf, 0x80, 0, 0], Value::Float(-1.0)),
            ("float64", &[0, 0, 0, 0, 0, 0, 0xf0, 0x3f], Value::Float(1.0)),
            ("<U2", &[0x61, 0, 0, 0, 0, 0, 0, 0], Value::from("a")),
            (">U2", &[0, 0, 0, 0x61, 0, 0x11, 0, 0], Value::from("a\u{fffd}")),
        ] {
            let column = Column::new(dtype(name), 1, Bytes::copy_from_slice(bytes)).unwrap();
            assert_eq!(column.value(0, 0), value, "{name}");
            assert_eq!(column.value(1, 0), Value::Null, "{name}");
            assert!(!column.dtype().big_endian);
        }
    }

    #[test]
    fn refuses_invalid_columns() {
        let bytes = || Bytes::from_static(&[0; 10]);
        for (dtype, width, message) in [
            ("float32", 0, "a row of 0 values is not possible"),
            ("float32", 1, "10 bytes are not a whole number of rows of 4 bytes"),
            ("int8", 3, "10 bytes are not a whole number of rows of 3 bytes"),
        ] {
            let error = Column::new(self::dtype(dtype), width, bytes()).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn slices_share_bytes_and_are_clamped() {
        let column = Column::new(dtype("int16"), 2, Bytes::from_static(&[0; 16])).unwrap();
        assert_eq!(column.len(), 4);
        for (rows, len) in [(0..4, 4), (1..3, 2), (3..9, 1), (9..12, 0)] {
            assert_eq!(column.slice(rows.clone()).len(), len, "{rows:?}");
        }
        assert_eq!(column.rows().len(), 4);
        assert!(column.row(4).is_empty());
    }

    #[test]
    fn typed_slices_need_the_same_type() {
        let floats = Column::new(Dtype::FLOAT32, 1, vec![0, 0, 128, 63].into()).unwrap();
        assert!(floats.as_slice::<i32>().is_none() && floats.as_slice::<f64>().is_none());
        if let Some(slice) = floats.as_slice::<f32>() {
            assert_eq!(slice, [1.0]);
        }
    }

    #[test]
    fn builders_take_rows_of_their_own_type() {
        let a = Column::new(dtype("int16"), 1, Bytes::from_static(&[1, 0, 2, 0, 3, 0])).unwrap();
        let foreign = Column::new(dtype("uint16"), 1, Bytes::from_static(&[9, 0])).unwrap();
        let mut builder = ColumnBuilder::empty_like(&a);
        builder.push_rows(&a, 1..7);
        builder.push_rows(&foreign, 0..1);
        builder.push_bytes(&[4, 0]);
        builder.push_bytes(&[5]);
        assert_eq!((builder.len(), builder.is_empty()), (3, false));
        assert_eq!(builder.finish().bytes()[..], [2, 0, 3, 0, 4, 0]);
    }
}
