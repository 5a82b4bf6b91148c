//! Types of values, and conversions between scripts and cells.
//!
//! ```text
//! float16 float32 float64   numbers, "NaN", "Infinity", "-Infinity"; null is NaN
//! int8 .. uint64            numbers without a fraction, in range
//! bool                      true, false
//! <U6                       text of at most six characters, UTF-32
//! ```

use std::fmt::Display;

use serde_json::{Value as Json, json};
use zvf_format::num;
use zvf_metadata::{Dtype, DtypeKind, Fill};
use zvf_model::Value;

use crate::error::{At, EditError, OrFail, Result, refused, unsupported};

/// The type of one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scalar {
    dtype: Dtype, // never big-endian, and of fewer bytes than 2^32
    /// Whether it is text of bytes, padded with zeros, and not of UTF-32.
    is_bytes: bool,
}

impl Scalar {
    pub(crate) const INT64: Self = Self { dtype: Dtype::INT64, is_bytes: false };

    /// Parses a numpy name. Returns the type, and whether it is big-endian.
    pub(crate) fn parse(name: &str) -> Result<(Self, bool)> {
        let plain = name.trim_start_matches(['>', '<', '|', '=']);
        // A text without room for a character is no type: its rows have no bytes.
        let length = plain.strip_prefix('S').and_then(|n| n.parse().ok()).filter(|n| *n > 0);
        let dtype = || {
            let dtype = name.parse::<Dtype>().ok()?;
            Some((Self::plain(dtype)?, dtype.big_endian))
        };
        length.map(|n| (Self::bytes(n), false)).or_else(dtype).or_refused(|| {
            format!(
                "dtype {name:?} is not known; use int8 to uint64, float16 to float64, bool or <U6"
            )
        })
    }

    /// Returns the little-endian type; `None` when no 32 bits hold the number of its bytes.
    pub(crate) fn plain(dtype: Dtype) -> Option<Self> {
        let dtype = Dtype { big_endian: false, ..dtype };
        (dtype.size <= u32::MAX.into()).then_some(Self { dtype, is_bytes: false })
    }

    /// Returns the type of text of at most this many bytes.
    pub(crate) fn bytes(length: u32) -> Self {
        let dtype = Dtype { kind: DtypeKind::Text, size: length.into(), big_endian: false };
        Self { dtype, is_bytes: true }
    }

    /// Returns the type of text of at most this many characters; `None` when no 32 bits hold the number of its bytes.
    pub(crate) fn text(characters: usize) -> Option<Self> {
        let size = num::to_u64(characters).checked_mul(CHARACTER_BYTES)?;
        Self::plain(Dtype { kind: DtypeKind::Text, size, big_endian: false })
    }

    pub(crate) const fn kind(self) -> DtypeKind {
        self.dtype.kind
    }

    /// Returns the name in documents.
    pub(crate) fn name(self) -> String {
        let Self { dtype, is_bytes } = self;
        if is_bytes { format!("|S{}", dtype.size) } else { dtype.to_string() }
    }

    /// Returns the data type of an array of these values, as its document states it.
    pub(crate) fn data_type(self) -> Json {
        let size = self.dtype.size;
        match (self.is_bytes, self.kind()) {
            (true, _) => {
                json!({"name": "null_terminated_bytes", "configuration": {"length_bytes": size}})
            }
            (false, DtypeKind::Text) => {
                json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": size}})
            }
            (false, _) => json!(self.dtype),
        }
    }

    /// Returns the bytes of one value.
    pub(crate) fn size(self) -> usize {
        num::saturating_usize(self.dtype.size)
    }

    /// Returns the number of bytes that are in another order in a big-endian array: those of a
    /// character of text, or of a value.
    pub(crate) fn swapped_bytes(self) -> usize {
        match (self.kind() == DtypeKind::Text, self.is_bytes) {
            (true, true) => 1,
            (true, false) => num::saturating_usize(CHARACTER_BYTES),
            (false, _) => self.size(),
        }
    }

    /// Returns whether the type is a float, which has NaN.
    pub(crate) fn is_float(self) -> bool {
        self.kind() == DtypeKind::Float
    }

    /// Returns the lowest and the highest integer; `None` for other types.
    fn range(self) -> Option<(i128, i128)> {
        let count = || 1_i128 << (self.size() * 8);
        match self.kind() {
            DtypeKind::Int => Some((-count() / 2, count() / 2 - 1)),
            DtypeKind::UInt => Some((0, count() - 1)),
            DtypeKind::Float | DtypeKind::Bool | DtypeKind::Text => None,
        }
    }

    /// Returns the value for absent in columns of objects and groups. Bool has none, and gives `false`.
    pub(crate) fn sentinel(self) -> Vec<u8> {
        match (self.range(), self.is_float()) {
            (Some((0, high)), _) => self.int_bytes(high),
            (Some((low, _)), _) => self.int_bytes(low),
            (None, true) => self.float_bytes(f64::NAN),
            (None, false) => vec![0; self.size()],
        }
    }

    fn float_bytes(self, x: f64) -> Vec<u8> {
        match self.size() {
            2 => half::f16::from_f64(x).to_le_bytes().to_vec(),
            4 => num::nearest_f32(x).to_le_bytes().to_vec(),
            _ => x.to_le_bytes().to_vec(),
        }
    }

    fn int_bytes(self, n: i128) -> Vec<u8> {
        n.to_le_bytes()[..self.size()].to_vec()
    }

    fn wrong(self, value: impl Display) -> EditError {
        EditError::invalid(format!("{value} is no {}", self.name()))
    }

    /// Encodes a number of a script.
    pub(crate) fn encode_f64(self, x: f64) -> Result<Vec<u8>> {
        match self.is_float() {
            true => Ok(self.float_bytes(x)),
            false => self.checked_int(exact_i128(x).ok_or_else(|| self.wrong(x))?),
        }
    }

    /// Encodes an integer; refuses one that the type does not hold.
    fn checked_int(self, n: i128) -> Result<Vec<u8>> {
        let (low, high) = self.range().ok_or_else(|| self.wrong(n))?;
        if n < low || n > high {
            return refused(format!("{n} does not fit {}: {low} to {high}", self.name()));
        }
        Ok(self.int_bytes(n))
    }

    /// Encodes a value of a script. The caller handles null.
    pub(crate) fn encode(self, value: &Json) -> Result<Vec<u8>> {
        let wrong = || self.wrong(value);
        match self.kind() {
            DtypeKind::Float => Ok(self.float_bytes(parse_number(value).ok_or_else(wrong)?)),
            DtypeKind::Int | DtypeKind::UInt => {
                let Json::Number(n) = value else { return Err(wrong()) };
                let whole = n.as_i64().map(i128::from).or(n.as_u64().map(i128::from));
                let whole = whole.or_else(|| n.as_f64().and_then(exact_i128));
                self.checked_int(whole.ok_or_else(wrong)?)
            }
            DtypeKind::Bool => Ok(vec![u8::from(value.as_bool().ok_or_else(wrong)?)]),
            DtypeKind::Text => {
                let text = value.as_str().ok_or_else(wrong)?;
                let mut bytes: Vec<u8> = match self.is_bytes {
                    true => text.into(),
                    false => text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(),
                };
                if bytes.len() > self.size() {
                    return refused(format!("{value} is longer than {}", self.name()));
                }
                bytes.resize(self.size(), 0);
                Ok(bytes)
            }
        }
    }

    /// Encodes the fill value of an array of this type.
    ///
    /// # Errors
    ///
    /// When it is not a value of this type, or bytes that the metadata does not decode.
    pub(crate) fn encode_fill(self, fill: &Fill) -> Result<Vec<u8>> {
        match (self.kind(), fill) {
            (DtypeKind::Float, Fill::Float(bits)) => Ok(self.float_bytes(f64::from_bits(*bits))),
            (DtypeKind::Int | DtypeKind::UInt, Fill::Int(n)) => self.checked_int((*n).into()),
            (DtypeKind::Int | DtypeKind::UInt, Fill::UInt(n)) => self.checked_int((*n).into()),
            (DtypeKind::Bool, Fill::Bool(flag)) => Ok(vec![u8::from(*flag)]),
            (DtypeKind::Text, Fill::Text(text)) => self.encode(&Json::from(text.as_str())),
            _ => unsupported(format!("{fill:?} is no {}", self.name())),
        }
    }

    /// Decodes a number to `f64`; NaN for other types.
    pub(crate) fn to_f64(self, bytes: &[u8]) -> f64 {
        match self.decode(bytes) {
            Value::Float(x) => x,
            Value::Int(n) => num::f64_from_i64(n),
            Value::UInt(n) => num::f64_from_u64(n),
            Value::Null | Value::Bool(_) | Value::Text(_) => f64::NAN,
        }
    }

    /// Decodes a whole number exactly. Returns `None` for other values, and beyond 64 bits.
    pub(crate) fn to_i64(self, bytes: &[u8]) -> Option<i64> {
        match self.decode(bytes) {
            Value::Int(n) => Some(n),
            Value::UInt(n) => i64::try_from(n).ok(),
            Value::Float(x) if x.fract() == 0.0 => num::floor_i64(x),
            Value::Float(_) | Value::Null | Value::Bool(_) | Value::Text(_) => None,
        }
    }

    /// Encodes an id.
    ///
    /// # Errors
    ///
    /// When the type does not hold it exactly, such as `float32` above 2^24.
    pub(crate) fn encode_id(self, id: i64) -> Result<Vec<u8>> {
        let bytes = self.encode(&Json::from(id))?;
        if self.to_i64(&bytes) == Some(id) {
            return Ok(bytes);
        }
        unsupported(format!(
            "{} does not hold the id {id} exactly; write the store again with \"zvf rewrite \
             --format-version 0.9.2\"",
            self.name()
        ))
    }

    /// Decodes a number to the `f64` with its shortest decimals. `float32` 0.1 gives 0.1.
    pub(crate) fn to_decimal(self, bytes: &[u8]) -> f64 {
        match bytes.first_chunk().filter(|_| self.dtype == Dtype::FLOAT32) {
            Some(bytes) => {
                let x = f32::from_le_bytes(*bytes);
                x.to_string().parse().unwrap_or_else(|_never| x.into())
            }
            None => self.to_f64(bytes),
        }
    }

    /// Decodes a value.
    pub(crate) fn decode(self, bytes: &[u8]) -> Value {
        if !self.is_bytes {
            return Value::decode(self.dtype, bytes);
        }
        let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
        Value::Text(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

/// Bytes of a character of text in UTF-32.
const CHARACTER_BYTES: u64 = 4;

/// Converts `x` to an integer exactly. Returns `None` for a fraction, and beyond both 64-bit types.
fn exact_i128(x: f64) -> Option<i128> {
    const ABOVE_U64: f64 = 18_446_744_073_709_551_616.0;
    if x.fract() != 0.0 {
        return None; // NaN and infinities as well
    }
    match (0.0..ABOVE_U64).contains(&x) {
        true => Some(num::trunc_u64(x).into()),
        false => num::floor_i64(x).map(i128::from),
    }
}

/// Parses a number of a script. NaN and infinities are strings, as JSON has none.
pub(crate) fn parse_number(value: &Json) -> Option<f64> {
    match value.as_str() {
        None => value.as_f64(),
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        Some(_) => None,
    }
}

/// The type of the rows of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnType {
    /// The type of one value.
    pub(crate) scalar: Scalar,
    /// The number of values in a row.
    pub(crate) width: u32,
    /// The dictionary of a column of codes.
    pub(crate) categories: Option<Categories>,
}

/// The dictionary of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Categories {
    /// The values, by code.
    pub(crate) values: Vec<Json>,
    /// The code for an absent value.
    pub(crate) missing: Option<i64>,
}

impl ColumnType {
    /// Creates the type of a column with one value in a row.
    pub(crate) const fn from_scalar(scalar: Scalar) -> Self {
        Self { scalar, width: 1, categories: None }
    }

    /// Returns the bytes of one row.
    pub(crate) fn size(&self) -> usize {
        self.scalar.size() * num::usize_from_u32(self.width)
    }

    /// Encodes a row of a script. Returns `None` for null, which the caller handles. Adds new categories to the dictionary.
    pub(crate) fn encode(&mut self, value: &Json) -> Result<Option<Vec<u8>>> {
        if let Some(categories) = &mut self.categories {
            let code = if value.is_null() {
                match categories.missing {
                    Some(code) => i128::from(code),
                    None => return Ok(None),
                }
            } else {
                let at = categories.values.iter().position(|listed| listed == value);
                let at = at.unwrap_or_else(|| {
                    categories.values.push(value.clone());
                    categories.values.len() - 1
                });
                i128::from(num::to_u64(at))
            };
            let bytes = self.scalar.checked_int(code);
            return bytes.map(Some).ok().or_unsupported(|| {
                format!("the codes of the categories, {}, are used up", self.scalar.name())
            });
        }
        if value.is_null() {
            return Ok(None);
        }
        let width = num::usize_from_u32(self.width);
        let list = value.as_array().filter(|list| list.len() == width);
        if width == 1 {
            return self.scalar.encode(list.map_or(value, |list| &list[0])).map(Some);
        }
        let list = list.or_refused(|| format!("{value} is no list of {width} values"))?;
        let mut row = Vec::with_capacity(self.size());
        for value in list {
            row.extend(match value.is_null() && self.scalar.is_float() {
                true => self.scalar.sentinel(),
                false => self.scalar.encode(value)?,
            });
        }
        Ok(Some(row))
    }

    /// Encodes a row of a column whose rows are absent only as NaN. `name` is that of the column.
    pub(crate) fn encode_present(&mut self, name: &str, value: &Json) -> Result<Vec<u8>> {
        match self.encode(value).at(name)? {
            Some(row) => Ok(row),
            None if self.scalar.is_float() && self.categories.is_none() => Ok(self.sentinel()),
            None => refused(format!("{name}: {} has no value for absent", self.scalar.name())),
        }
    }

    /// Encodes a row of a column of objects or groups, where null is `absent`. `name` is that of the column.
    pub(crate) fn encode_or(
        &mut self,
        absent: Option<&[u8]>,
        name: &str,
        value: &Json,
    ) -> Result<Vec<u8>> {
        let absent = absent.filter(|_| self.scalar.kind() != DtypeKind::Bool);
        match (self.encode(value).at(name)?, absent) {
            (Some(row), Some(absent)) if self.scalar.range().is_some() && row == absent => {
                refused(format!(
                    "{name}: {value} of {} stands for absent; add a column of a wider type",
                    self.scalar.name()
                ))
            }
            (Some(row), _) => Ok(row),
            (None, Some(absent)) => Ok(absent.to_vec()),
            (None, None) => {
                refused(format!("{name}: {} has no value for absent", self.scalar.name()))
            }
        }
    }

    /// Returns a row that is absent in every channel.
    pub(crate) fn sentinel(&self) -> Vec<u8> {
        self.scalar.sentinel().repeat(num::usize_from_u32(self.width))
    }

    /// Decodes one value of a row.
    pub(crate) fn decode_value(&self, row: &[u8], index: usize) -> Value {
        let size = self.scalar.size();
        let value = self.scalar.decode(&row[index * size..(index + 1) * size]);
        let Some(categories) = &self.categories else { return value };
        let is_meant = |code: &i128| categories.missing.map(i128::from) != Some(*code);
        let code = value.as_i128().filter(is_meant).and_then(|code| usize::try_from(code).ok());
        match code.and_then(|at| categories.values.get(at)) {
            Some(Json::String(text)) => Value::from(text.as_str()),
            Some(Json::Bool(flag)) => Value::from(*flag),
            Some(Json::Number(n)) => match (n.as_i64(), n.as_f64()) {
                (Some(n), _) => Value::Int(n),
                (None, Some(x)) => Value::Float(x),
                (None, None) => Value::Null,
            },
            _ => Value::Null,
        }
    }
}

/// Converts a value to JSON as scripts write it.
pub(crate) fn to_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(flag) => json!(flag),
        Value::Int(n) => json!(n),
        Value::UInt(n) => json!(n),
        Value::Float(x) if x.is_nan() => json!("NaN"),
        Value::Float(x) if x.is_infinite() => {
            json!(if *x > 0.0 { "Infinity" } else { "-Infinity" })
        }
        Value::Float(x) => json!(x),
        Value::Text(text) => json!(text),
    }
}

/// Converts a row to JSON as scripts write it.
pub(crate) fn row_json(ty: &ColumnType, row: &[u8]) -> Json {
    match ty.width {
        1 => to_json(&ty.decode_value(row, 0)),
        width => Json::Array(
            (0..num::usize_from_u32(width)).map(|i| to_json(&ty.decode_value(row, i))).collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_categories_are_integers() {
        for (name, fits) in [("int8", true), ("float32", false), ("<U100", false), ("bool", false)]
        {
            let (scalar, _) = Scalar::parse(name).unwrap();
            let categories = Some(Categories { values: Vec::new(), missing: None });
            let mut ty = ColumnType { scalar, width: 1, categories };
            assert_eq!(ty.encode(&Json::from("a")).is_ok(), fits, "{name}");
        }
    }

    #[test]
    fn text_has_a_number_of_bytes_of_32_bits() {
        assert_eq!(Scalar::parse("<U1073741823").unwrap().0.size(), 4_294_967_292);
        for unknown in ["<U1073741824", "<U0", "|S0", "<U", "<U-1"] {
            assert!(Scalar::parse(unknown).is_err(), "{unknown}");
        }
    }
}
