//! Types of values, and conversions between scripts and cells.
//!
//! ```text
//! float16 float32 float64   numbers, "NaN", "Infinity", "-Infinity"; null is NaN
//! int8 .. uint64            numbers without a fraction, in range
//! bool                      true, false
//! <U6                       text of at most six characters, UTF-32
//! ```

use serde_json::Value as Json;
use zvf_format::num;
use zvf_metadata::Fill;
use zvf_model::Value;

use crate::error::{EditError, Result};

/// The type of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    /// IEEE 754 numbers of 2, 4 or 8 bytes.
    Float(u8),
    /// Signed integers of 1 to 8 bytes.
    Int(u8),
    /// Unsigned integers of 1 to 8 bytes.
    UInt(u8),
    /// One byte, 0 or 1.
    Bool,
    /// Text of at most this many UTF-32 characters.
    Text(u32),
    /// Text of at most this many bytes, padded with zeros.
    Bytes(u32),
}

impl Scalar {
    /// Parses a numpy name. Returns the type, and whether it is big-endian.
    pub(crate) fn parse(name: &str) -> Result<(Self, bool)> {
        let unknown = || {
            EditError::invalid(format!(
                "dtype {name:?} is not known; use int8 to uint64, float16 to float64, bool or <U6"
            ))
        };
        let big = name.starts_with('>');
        let plain = name.trim_start_matches(['<', '>', '|', '=']);
        // A text without room for a character is no type: its rows have no bytes.
        let number = |text: &str| text.parse::<u32>().ok().filter(|n| *n > 0).ok_or_else(unknown);
        let scalar = match plain {
            "float16" | "f2" => Self::Float(2),
            "float32" | "f4" => Self::Float(4),
            "float64" | "f8" => Self::Float(8),
            "int8" | "i1" => Self::Int(1),
            "int16" | "i2" => Self::Int(2),
            "int32" | "i4" => Self::Int(4),
            "int64" | "i8" => Self::Int(8),
            "uint8" | "u1" => Self::UInt(1),
            "uint16" | "u2" => Self::UInt(2),
            "uint32" | "u4" => Self::UInt(4),
            "uint64" | "u8" => Self::UInt(8),
            "bool" | "b1" | "?" => Self::Bool,
            _ if plain.starts_with('U') => Self::text(number(&plain[1..])?).ok_or_else(unknown)?,
            _ if plain.starts_with('S') => Self::Bytes(number(&plain[1..])?),
            _ => return Err(unknown()),
        };
        Ok((scalar, big))
    }

    /// Returns the type of text of at most this many characters; `None` when no 32 bits hold the number of its bytes.
    pub(crate) fn text(characters: u32) -> Option<Self> {
        characters.checked_mul(4).map(|_bytes| Self::Text(characters))
    }

    /// Returns the name in documents.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Float(n) => format!("float{}", u32::from(n) * 8),
            Self::Int(n) => format!("int{}", u32::from(n) * 8),
            Self::UInt(n) => format!("uint{}", u32::from(n) * 8),
            Self::Bool => "bool".to_owned(),
            Self::Text(n) => format!("<U{n}"),
            Self::Bytes(n) => format!("|S{n}"),
        }
    }

    /// Returns the bytes of one value.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Float(n) | Self::Int(n) | Self::UInt(n) => n.into(),
            Self::Bool => 1,
            Self::Text(n) => num::usize_from_u32(n) * 4,
            Self::Bytes(n) => num::usize_from_u32(n),
        }
    }

    /// Returns whether the type is a float, which has NaN.
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::Float(_))
    }

    /// Returns the value for absent in columns of objects and groups. Bool has none, and gives `false`.
    pub(crate) fn sentinel(self) -> Vec<u8> {
        match self {
            Self::Float(_) => self.float_bytes(f64::NAN),
            Self::Int(n) => self.int_bytes(-(1_i128 << (u32::from(n) * 8 - 1))),
            Self::UInt(n) => self.int_bytes((1_i128 << (u32::from(n) * 8)) - 1),
            Self::Bool | Self::Text(_) | Self::Bytes(_) => vec![0; self.size()],
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

    /// Encodes a number of a script.
    pub(crate) fn encode_f64(self, x: f64) -> Result<Vec<u8>> {
        match self {
            Self::Float(_) => Ok(self.float_bytes(x)),
            Self::Int(_) | Self::UInt(_) => self.checked_int(
                exact_i128(x)
                    .ok_or_else(|| EditError::invalid(format!("{x} is no {}", self.name())))?,
            ),
            Self::Bool | Self::Text(_) | Self::Bytes(_) => {
                Err(EditError::invalid(format!("{x} is no {}", self.name())))
            }
        }
    }

    /// Encodes an integer; refuses one that the type does not hold.
    fn checked_int(self, n: i128) -> Result<Vec<u8>> {
        let (low, high) = match self {
            Self::Int(bytes) => {
                let half = 1_i128 << (u32::from(bytes) * 8 - 1);
                (-half, half - 1)
            }
            Self::UInt(bytes) => (0, (1_i128 << (u32::from(bytes) * 8)) - 1),
            Self::Float(_) | Self::Bool | Self::Text(_) | Self::Bytes(_) => {
                return Err(EditError::invalid(format!("{n} is no {}", self.name())));
            }
        };
        if n < low || n > high {
            return Err(EditError::invalid(format!(
                "{n} does not fit {}: {low} to {high}",
                self.name()
            )));
        }
        Ok(self.int_bytes(n))
    }

    /// Encodes a value of a script. The caller handles null.
    pub(crate) fn encode(self, value: &Json) -> Result<Vec<u8>> {
        let wrong = || EditError::invalid(format!("{value} is no {}", self.name()));
        match self {
            Self::Float(_) => Ok(self.float_bytes(parse_number(value).ok_or_else(wrong)?)),
            Self::Int(_) | Self::UInt(_) => {
                let Json::Number(n) = value else { return Err(wrong()) };
                if let Some(n) = n.as_i64() {
                    self.checked_int(n.into())
                } else if let Some(n) = n.as_u64() {
                    self.checked_int(n.into())
                } else {
                    self.checked_int(n.as_f64().and_then(exact_i128).ok_or_else(wrong)?)
                }
            }
            Self::Bool => Ok(vec![u8::from(value.as_bool().ok_or_else(wrong)?)]),
            Self::Text(n) => {
                let text = value.as_str().ok_or_else(wrong)?;
                let mut bytes: Vec<u8> =
                    text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
                if bytes.len() > num::usize_from_u32(n) * 4 {
                    return Err(EditError::invalid(format!(
                        "{value} is longer than {}",
                        self.name()
                    )));
                }
                bytes.resize(num::usize_from_u32(n) * 4, 0);
                Ok(bytes)
            }
            Self::Bytes(n) => {
                let mut bytes = value.as_str().ok_or_else(wrong)?.as_bytes().to_vec();
                if bytes.len() > num::usize_from_u32(n) {
                    return Err(EditError::invalid(format!(
                        "{value} is longer than {}",
                        self.name()
                    )));
                }
                bytes.resize(num::usize_from_u32(n), 0);
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
        match (self, fill) {
            (Self::Float(_), Fill::Float(bits)) => Ok(self.float_bytes(f64::from_bits(*bits))),
            (Self::Int(_) | Self::UInt(_), Fill::Int(n)) => self.checked_int((*n).into()),
            (Self::Int(_) | Self::UInt(_), Fill::UInt(n)) => self.checked_int((*n).into()),
            (Self::Bool, Fill::Bool(flag)) => Ok(vec![u8::from(*flag)]),
            (Self::Text(_) | Self::Bytes(_), Fill::Text(text)) => {
                self.encode(&Json::from(text.as_str()))
            }
            _ => Err(EditError::unsupported(format!("{fill:?} is no {}", self.name()))),
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
        Err(EditError::unsupported(format!(
            "{} does not hold the id {id} exactly; write the store again with \"zvf migrate\"",
            self.name()
        )))
    }

    /// Decodes a number to the `f64` with its shortest decimals. `float32` 0.1 gives 0.1.
    pub(crate) fn to_decimal(self, bytes: &[u8]) -> f64 {
        match (self, bytes.first_chunk::<4>()) {
            (Self::Float(4), Some(bytes)) => {
                let x = f32::from_le_bytes(*bytes);
                x.to_string().parse().unwrap_or_else(|_never| x.into())
            }
            _ => self.to_f64(bytes),
        }
    }

    /// Decodes a value.
    pub(crate) fn decode(self, bytes: &[u8]) -> Value {
        let mut wide = [0_u8; 8];
        if self.size() <= 8 {
            wide[..self.size()].copy_from_slice(&bytes[..self.size()]);
        }
        let unsigned = u64::from_le_bytes(wide);
        match self {
            Self::Float(2) => Value::Float(half::f16::from_le_bytes([wide[0], wide[1]]).into()),
            Self::Float(4) => {
                Value::Float(f32::from_le_bytes([wide[0], wide[1], wide[2], wide[3]]).into())
            }
            Self::Float(_) => Value::Float(f64::from_bits(unsigned)),
            Self::Int(n) => {
                let shift = 64 - u32::from(n) * 8;
                Value::Int((unsigned << shift).cast_signed() >> shift)
            }
            Self::UInt(_) => Value::UInt(unsigned),
            Self::Bool => Value::Bool(wide[0] != 0),
            Self::Text(_) => {
                let code = |c: &[u8]| u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
                let text: String = bytes
                    .chunks_exact(4)
                    .map(code)
                    .map_while(|c| if c == 0 { None } else { char::from_u32(c) })
                    .collect();
                Value::Text(text)
            }
            Self::Bytes(_) => {
                let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
                Value::Text(String::from_utf8_lossy(&bytes[..end]).into_owned())
            }
        }
    }
}

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
            return bytes.map(Some).map_err(|_full| {
                EditError::unsupported(format!(
                    "the codes of the categories, {}, are used up",
                    self.scalar.name()
                ))
            });
        }
        if value.is_null() {
            return Ok(None);
        }
        if self.width == 1 {
            let item =
                value.as_array().filter(|list| list.len() == 1).map_or(value, |list| &list[0]);
            return self.scalar.encode(item).map(Some);
        }
        let Json::Array(list) = value else {
            return Err(EditError::invalid(format!("{value} is no list of {} values", self.width)));
        };
        if list.len() != num::usize_from_u32(self.width) {
            return Err(EditError::invalid(format!("{value} is no list of {} values", self.width)));
        }
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
        match self.encode(value).map_err(|error| error.with_place(name))? {
            Some(row) => Ok(row),
            None if self.scalar.is_float() && self.categories.is_none() => Ok(self.sentinel()),
            None => Err(EditError::invalid(format!(
                "{name}: {} has no value for absent",
                self.scalar.name()
            ))),
        }
    }

    /// Encodes a row of a column of objects or groups, where null is `absent`. `name` is that of the column.
    pub(crate) fn encode_or(&mut self, absent: &[u8], name: &str, value: &Json) -> Result<Vec<u8>> {
        match self.encode(value).map_err(|error| error.with_place(name))? {
            Some(row) => Ok(row),
            None if self.scalar == Scalar::Bool => {
                Err(EditError::invalid(format!("{name}: bool has no value for absent")))
            }
            None => Ok(absent.to_vec()),
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
        let code = match value {
            Value::Int(n) => n,
            Value::UInt(n) => match i64::try_from(n) {
                Ok(n) => n,
                Err(_no_category) => return Value::Null,
            },
            Value::Null | Value::Bool(_) | Value::Float(_) | Value::Text(_) => return Value::Null,
        };
        if categories.missing == Some(code) {
            return Value::Null;
        }
        match usize::try_from(code).ok().and_then(|at| categories.values.get(at)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_categories_are_integers() {
        for (scalar, fits) in [
            (Scalar::Int(1), true),
            (Scalar::Float(4), false),
            (Scalar::Text(100), false),
            (Scalar::Bool, false),
        ] {
            let categories = Some(Categories { values: Vec::new(), missing: None });
            let mut ty = ColumnType { scalar, width: 1, categories };
            assert_eq!(ty.encode(&Json::from("a")).is_ok(), fits, "{}", scalar.name());
        }
    }

    #[test]
    fn text_has_a_number_of_bytes_of_32_bits() {
        assert_eq!(Scalar::parse("<U1073741823").unwrap().0, Scalar::Text(1_073_741_823));
        for unknown in ["<U1073741824", "<U0", "|S0", "<U", "<U-1"] {
            assert!(Scalar::parse(unknown).is_err(), "{unknown}");
        }
    }
}
