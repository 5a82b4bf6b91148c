//! Builders of columns, from text, from bytes of records and from numbers.

use std::collections::HashMap;
use std::sync::Arc;

use zvf_error::{Error, Result};
use zvf_format::num::{nearest_f32, saturating_usize, usize_from_u32};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{BadColumn, Categories, Column, Field, Value};

use crate::dtypes::INT32;
use crate::error::cannot_hold;

/// The distinct texts of a column, numbered in order of appearance.
#[derive(Debug)]
pub struct Labels {
    codes: HashMap<String, i32>,
    categories: Categories,
}

impl Labels {
    /// Numbers texts by their codes.
    pub fn new(codes: HashMap<String, i32>) -> Self {
        let mut texts: Vec<(&String, &i32)> = codes.iter().collect();
        texts.sort_unstable_by_key(|(_, code)| **code);
        let texts = texts.into_iter().map(|(text, _)| Value::from(text.as_str())).collect();
        Self { categories: Categories::new(texts, None), codes }
    }
}

/// The type of codes of texts.
const CODES: Dtype = INT32;

/// Builder of a column, taken batch by batch.
#[derive(Debug)]
pub struct Values {
    dtype: Dtype, // its byte order is that of pushed bytes
    width: u32,
    bytes: Vec<u8>,
    labels: Option<Arc<Labels>>, // of texts, whose codes are the values
}

impl Values {
    /// Creates a builder without values.
    pub const fn new(dtype: Dtype, width: u32) -> Self {
        Self { dtype, width, bytes: Vec::new(), labels: None }
    }

    /// Creates a builder of the codes of texts, `width` per row.
    pub fn new_labels(labels: Labels, width: u32) -> Self {
        Self { labels: Some(Arc::new(labels)), ..Self::new(CODES, width) }
    }

    /// Returns whether the values are texts, which keep their white space.
    pub const fn is_text(&self) -> bool {
        self.labels.is_some() || matches!(self.dtype.kind, DtypeKind::Text)
    }

    /// Returns the type of the values.
    pub const fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the number of values in a row.
    pub const fn width(&self) -> u32 {
        self.width
    }

    /// Parses `text` and adds the value. Returns `false` if it is not a value of the type.
    pub fn push_text(&mut self, text: &str) -> bool {
        match &self.labels {
            Some(labels) => {
                push(labels.codes.get(text).map(|code| code.to_le_bytes()), &mut self.bytes)
            }
            None => push_text(self.dtype, text, &mut self.bytes),
        }
    }

    /// Adds bytes of values in the byte order of the type.
    #[inline]
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds the bytes at `slot` of each complete record of `stride` bytes, in the byte order of the type.
    pub(crate) fn push_records(&mut self, records: &[u8], stride: usize, slot: Slot) {
        // Copies of a constant length are inlined.
        match slot.size {
            size if size == stride => self.push_bytes(trim_partial_record(records, stride)),
            1 => push_fixed::<1>(&mut self.bytes, records, stride, slot.offset),
            2 => push_fixed::<2>(&mut self.bytes, records, stride, slot.offset),
            4 => push_fixed::<4>(&mut self.bytes, records, stride, slot.offset),
            8 => push_fixed::<8>(&mut self.bytes, records, stride, slot.offset),
            12 => push_fixed::<12>(&mut self.bytes, records, stride, slot.offset),
            16 => push_fixed::<16>(&mut self.bytes, records, stride, slot.offset),
            24 => push_fixed::<24>(&mut self.bytes, records, stride, slot.offset),
            _ => {
                records.chunks_exact(stride).for_each(|record| self.push_bytes(slot.slice(record)))
            }
        }
    }

    /// Returns an empty builder of the same type and width.
    pub fn without_rows(&self) -> Self {
        Self { labels: self.labels.clone(), ..Self::new(self.dtype, self.width) }
    }

    /// Makes a field of a column of these values.
    fn to_field(&self, name: &str, column: Column) -> Field {
        let field = Field::new(name, column);
        match &self.labels {
            Some(labels) => field.with_categories(labels.categories.clone()),
            None => field,
        }
    }

    /// Adds the rows of `more`, which must have the same type and width.
    pub fn append(&mut self, more: &Self) {
        self.bytes.extend_from_slice(&more.bytes);
    }

    /// Removes everything after `rows` rows, which were all added.
    pub fn truncate(&mut self, rows: usize) {
        self.bytes.truncate(rows * row_bytes(self.dtype, self.width));
    }

    /// Takes the rows so far as a column.
    pub fn take(&mut self) -> Result<Column> {
        new_column(self.dtype, self.width, std::mem::take(&mut self.bytes))
    }
}

/// Returns the bytes of a row of `width` values. Saturates on overflow: no record and no memory is
/// that long.
pub(crate) const fn row_bytes(dtype: Dtype, width: u32) -> usize {
    saturating_usize(dtype.size).saturating_mul(usize_from_u32(width))
}

/// The byte range of a field in a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Bytes before it.
    pub offset: usize,
    /// Its bytes.
    pub size: usize,
}

impl Slot {
    /// Returns the bytes of the field. Empty if the record is too short.
    pub(crate) fn slice(self, record: &[u8]) -> &[u8] {
        let end = self.offset.saturating_add(self.size); // a saturated end is past the end of every record
        record.get(self.offset..end).unwrap_or(&[])
    }
}

/// Removes an incomplete record at the end.
fn trim_partial_record(records: &[u8], stride: usize) -> &[u8] {
    let rest = records.chunks_exact(stride).remainder().len();
    records.get(..records.len() - rest).unwrap_or(records)
}

/// Adds the `N` bytes at `offset` of each complete record.
fn push_fixed<const N: usize>(to: &mut Vec<u8>, records: &[u8], stride: usize, offset: usize) {
    let records = records.chunks_exact(stride);
    let start = to.len();
    to.resize(start + records.len() * N, 0);
    let (slots, _) = to[start..].as_chunks_mut::<N>();
    for (slot, record) in slots.iter_mut().zip(records) {
        if let Some(value) = record.get(offset..).and_then(|value| value.first_chunk::<N>()) {
            *slot = *value;
        }
    }
}

/// Builder of an attribute.
#[derive(Debug)]
pub struct NamedValues {
    /// Its name.
    pub name: String,
    /// Its values.
    pub values: Values,
}

impl NamedValues {
    /// Creates a builder without values.
    pub fn new(name: impl Into<String>, dtype: Dtype, width: u32) -> Self {
        Self { name: name.into(), values: Values::new(dtype, width) }
    }

    /// Returns the number of bytes per row.
    pub const fn bytes(&self) -> usize {
        row_bytes(self.values.dtype, self.values.width)
    }

    /// Returns the values as an attribute, and begins anew.
    pub fn take(&mut self) -> Result<Field> {
        let column = self.values.take()?;
        Ok(self.values.to_field(&self.name, column))
    }

    /// Returns a field without rows.
    fn empty_field(&self) -> Result<Field> {
        let column = new_column(self.values.dtype, self.values.width, Vec::new())?;
        Ok(self.values.to_field(&self.name, column))
    }
}

/// Takes the rows of all `fields`.
pub fn take_fields(fields: &mut [NamedValues]) -> Result<Vec<Field>> {
    fields.iter_mut().map(NamedValues::take).collect()
}

/// Returns all `fields` without rows.
pub fn empty_fields(fields: &[NamedValues]) -> Result<Vec<Field>> {
    fields.iter().map(NamedValues::empty_field).collect()
}

/// Returns fields of the same types without rows.
pub fn without_rows(fields: &[Field]) -> Vec<Field> {
    fields.iter().map(|field| field.with_column(field.column.slice(0..0))).collect()
}

/// Creates a column from `bytes`.
pub fn new_column(dtype: Dtype, width: u32, bytes: Vec<u8>) -> Result<Column> {
    Column::new(dtype, width, bytes.into()).map_err(column_error)
}

/// Returns the error for a column that the model refuses.
pub fn column_error(error: BadColumn) -> Error {
    cannot_hold("a column", error, "choose fewer columns")
}

/// Quotes the first 40 characters of a bad text.
pub fn quote_start(text: &str) -> String {
    quote(text, 40)
}

/// Returns at most `max_chars` characters of the text, in quotes.
pub fn quote(text: &str, max_chars: usize) -> String {
    format!("{:?}", text.chars().take(max_chars).collect::<String>())
}

/// Parses `text` as a `dtype` and appends the value, little-endian. Returns `false` if it is
/// invalid.
pub fn push_text(dtype: Dtype, text: &str, to: &mut Vec<u8>) -> bool {
    match (dtype.kind, dtype.size) {
        (DtypeKind::Float, 8) => push(parse_f64(text).map(f64::to_le_bytes), to),
        (DtypeKind::Float, 4) => push(parse_f32(text).map(f32::to_le_bytes), to),
        (DtypeKind::Float, _) => {
            let half = parse_f32(text).and_then(|x| {
                let half = half::f16::from_f32(x);
                (half.is_finite() || !x.is_finite()).then_some(half)
            });
            push(half.map(half::f16::to_le_bytes), to)
        }
        (DtypeKind::Int, 1) => push(text.parse().ok().map(i8::to_le_bytes), to),
        (DtypeKind::Int, 2) => push(text.parse().ok().map(i16::to_le_bytes), to),
        (DtypeKind::Int, 4) => push(text.parse().ok().map(i32::to_le_bytes), to),
        (DtypeKind::Int, _) => push(text.parse().ok().map(i64::to_le_bytes), to),
        (DtypeKind::UInt, 1) => push(text.parse().ok().map(u8::to_le_bytes), to),
        (DtypeKind::UInt, 2) => push(text.parse().ok().map(u16::to_le_bytes), to),
        (DtypeKind::UInt, 4) => push(text.parse().ok().map(u32::to_le_bytes), to),
        (DtypeKind::UInt, _) => push(text.parse().ok().map(u64::to_le_bytes), to),
        (DtypeKind::Bool, _) => push(parse_bool(text).map(|flag| [u8::from(flag)]), to),
        (DtypeKind::Text, size) => push_characters(text, size, to),
    }
}

fn push<const N: usize>(bytes: Option<[u8; N]>, to: &mut Vec<u8>) -> bool {
    bytes.inspect(|bytes| to.extend_from_slice(bytes)).is_some()
}

/// Parses a `float64`. Returns `None` if the text is not a number or the number overflows.
pub fn parse_f64(text: &str) -> Option<f64> {
    if let Some(x) = parse_short_decimal(text.as_bytes()) {
        return Some(x);
    }
    let x: f64 = text.parse().ok()?;
    (x.is_finite() || !text.contains(|c: char| c.is_ascii_digit())).then_some(x)
}

/// Parses a number of at most 15 digits without an exponent, the common case. Integer and power of ten are exact in
/// `float64`, so that their quotient is correctly rounded. Returns `None` for any other text.
fn parse_short_decimal(text: &[u8]) -> Option<f64> {
    let (is_negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if text.len() > EXACT_DIGITS {
        return None;
    }
    let (mut integer, mut point) = (0_u64, None);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => integer = integer * 10 + u64::from(byte - b'0'),
            b'.' if point.is_none() => point = Some(at),
            _ => return None,
        }
    }
    let digits = text.len() - usize::from(point.is_some());
    let fraction = point.map_or(0, |at| text.len() - at - 1);
    let power = POWERS_OF_TEN.get(fraction).filter(|_| digits > 0)?;
    #[expect(clippy::as_conversions, reason = "at most fifteen digits")]
    let x = integer as f64 / power;
    Some(if is_negative { -x } else { x })
}

/// Number of digits, with the point, up to which `float64` represents the digits as an exact
/// integer.
const EXACT_DIGITS: usize = 15;
const POWERS_OF_TEN: [f64; 15] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14];

/// Checks whether `float32` keeps the number in `text`: it has the same value, or the same digits
/// when printed with as many. Text that is not a number is kept.
pub fn survives_float32(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    if digits <= FLOAT32_DIGITS && exponent == "0" {
        return true;
    }
    let Some(x) = parse_f64(text) else { return true };
    let narrow = f64::from(nearest_f32(x));
    if narrow == x || x.is_nan() {
        return true;
    }
    let decimals = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let exponent = exponent.parse::<i32>().ok().zip(i32::try_from(decimals).ok());
    let Some((exponent, decimals)) = exponent else { return false };
    let last_digit = 10_f64.powi(exponent.saturating_sub(decimals));
    (narrow - x).abs() <= last_digit / 2.0
}

/// Digits that `float32` always keeps.
const FLOAT32_DIGITS: usize = 6;

/// Rounds a column of `float64` to `float32`.
pub fn narrow_column(column: &Column) -> Result<Column> {
    let (doubles, _) = column.bytes().as_chunks::<8>();
    let narrow = doubles.iter().flat_map(|x| nearest_f32(f64::from_le_bytes(*x)).to_le_bytes());
    new_column(Dtype::FLOAT32, column.width(), narrow.collect())
}

/// Parses a `float32`, as [`parse_f64`] does.
fn parse_f32(text: &str) -> Option<f32> {
    let x: f32 = text.parse().ok()?;
    (x.is_finite() || !text.contains(|c: char| c.is_ascii_digit())).then_some(x)
}

/// Checks that `text` is not an integer that `float64` would round.
pub fn is_exact_float64(text: &str) -> bool {
    // Short numbers and fractions are the common case.
    if text.len() <= EXACT_DIGITS || memchr::memchr(b'.', text.as_bytes()).is_some() {
        return true;
    }
    match text.parse::<i128>() {
        #[expect(clippy::as_conversions, reason = "checks whether the conversion rounds")]
        Ok(n) => n as f64 as i128 == n,
        Err(_) => {
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit())
        }
    }
}

fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "true" | "True" | "TRUE" => Some(true),
        "0" | "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// Appends `text` in UTF-32, padded with zeros to `size` bytes. Returns `false` if it does not fit.
fn push_characters(text: &str, size: u64, to: &mut Vec<u8>) -> bool {
    let (Ok(size), Ok(_)) = (usize::try_from(size), u32::try_from(text.len())) else {
        return false;
    };
    if text.chars().count() * 4 > size {
        return false;
    }
    let end = to.len() + size;
    text.chars().for_each(|c| to.extend_from_slice(&u32::from(c).to_le_bytes()));
    to.resize(end, 0);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_text_of_every_type() {
        #[rustfmt::skip]
        let table: [(&str, &str, Option<&[u8]>); 34] = [
            ("int8", "-1", Some(b"\xff")),          ("int8", "128", None),
            ("int16", "-2", Some(b"\xfe\xff")),     ("int16", "1.0", None),
            ("int32", "3", Some(b"\x03\0\0\0")),    ("int32", "", None),
            ("int64", "+1", Some(b"\x01\0\0\0\0\0\0\0")), ("int64", "9223372036854775808", None),
            ("uint8", "255", Some(b"\xff")),        ("uint8", "-1", None),
            ("uint16", "258", Some(b"\x02\x01")),   ("uint16", "65536", None),
            ("uint32", "1", Some(b"\x01\0\0\0")),   ("uint32", "0x1", None),
            ("uint64", "1", Some(b"\x01\0\0\0\0\0\0\0")), ("uint64", "1 ", None),
            ("float16", "1", Some(b"\0\x3c")),      ("float16", "70000", None),
            ("float16", "inf", Some(b"\0\x7c")),    ("float16", "one", None),
            ("float32", "1.5", Some(b"\0\0\xc0\x3f")), ("float32", "1e39", None),
            ("float32", "-inf", Some(b"\0\0\x80\xff")), ("float32", "1,5", None),
            ("float64", "2", Some(b"\0\0\0\0\0\0\0\x40")), ("float64", "1e309", None),
            ("float64", "Infinity", Some(b"\0\0\0\0\0\0\xf0\x7f")), ("float64", "", None),
            ("bool", "True", Some(b"\x01")),        ("bool", "yes", None),
            ("bool", "0", Some(b"\0")),             ("<U2", "abc", None),
            ("<U2", "\u{e9}", Some(b"\xe9\0\0\0\0\0\0\0")), ("<U1", "\u{1f600}", Some(b"\0\xf6\x01\0")),
        ];
        for (dtype, text, bytes) in table {
            let mut values = Values::new(dtype.parse::<Dtype>().unwrap(), 1);
            assert_eq!(values.push_text(text), bytes.is_some(), "{dtype} {text}");
            let column = values.take().unwrap();
            assert_eq!(column.bytes()[..], *bytes.unwrap_or_default(), "{dtype} {text}");
        }
        assert!(parse_f64("nan").is_some_and(f64::is_nan));
    }

    /// The fast path accepts the same texts as the parser of the standard library and returns the same bits.
    #[test]
    fn parses_short_numbers_as_the_standard_library_does() {
        let samples = "|-|.|-.|1|-0|0|1.|.5|-.5|+1|1.5|1..5|1.5.|1e5|0.1|0.3|\
            123456789012345|1234567890123456|12345678901234.5|0.00000000000001|99.99999|\
            --1|1_0|1,5|inf|0x1|\u{661}|9007199254740993";
        let mut texts: Vec<String> = samples.split('|').map(ToString::to_string).collect();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..20_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let (digits, at) = (random % 1_000_000_000_000, random >> 60);
            let text = digits.to_string();
            let at = usize::try_from(at).unwrap().min(text.len());
            texts.push(format!("{}.{}", &text[..at], &text[at..]));
        }
        for text in texts {
            let found = parse_f64(&text).map(f64::to_bits);
            assert_eq!(
                found,
                text.parse::<f64>()
                    .ok()
                    .filter(|x| x.is_finite() || text == "inf")
                    .map(f64::to_bits),
                "{text}"
            );
        }
    }
}
