//! The data type of a Zarr array, and its fill value.
//!
//! ```text
//! data_type                              fill_value
//! "variable_length_bytes", "bytes"       "" (empty), other text is base64
//! {"name": "fixed_length_utf32", …}      text
//! {"name": "null_terminated_bytes", …}   base64 of the bytes; "" is no text
//! "bool"                                 true, false
//! "int8" … "uint64"                      a whole number
//! "float16" … "float64"                  a number, "NaN", "Infinity", "-Infinity", "0x…" (its bits)
//! ```
//!
//! Both keep the value they were parsed from, so that a document is printed with its own spelling.
//!
//! Not here: element types of attributes (`dtype`), which use NumPy names.

use alloc::borrow::ToOwned as _;
use alloc::string::String;

use serde_json::Value;

use super::Object;
use super::dtype::{Dtype, DtypeKind};
use super::error::{At, MetadataError};
use super::fields::{Fields, Put, float, wrong_value_error};
use super::members::Member as _;
use zvf_format::Class;

/// The data type of an array.
///
/// ```
/// use zvf_metadata::{DataType, DataTypeKind, Dtype};
///
/// assert_eq!(DataType::variable_length_bytes().kind(), &DataTypeKind::VariableLengthBytes);
/// let rows = DataType::number(Dtype::FLOAT32);
/// assert_eq!(rows.item_size(), Some(4));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataType {
    kind: DataTypeKind,
    spelled: Value,
}

/// The meaning of a data type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataTypeKind {
    /// Byte strings of variable length.
    VariableLengthBytes,
    /// Numbers or booleans, or text of a fixed width; never big-endian, because the byte order
    /// belongs to the codecs.
    Fixed(Dtype),
    /// UTF-8 text, each item padded with zero bytes to this length; never 0.
    PaddedBytes(u64),
    /// An unknown type, by its name.
    Other(String),
}

impl DataType {
    /// Creates the type of variable-length byte strings.
    pub fn variable_length_bytes() -> Self {
        let spelled = Value::String("variable_length_bytes".to_owned());
        Self { kind: DataTypeKind::VariableLengthBytes, spelled }
    }

    /// Creates the type of items of a fixed size.
    pub fn number(dtype: Dtype) -> Self {
        let dtype = Dtype { big_endian: false, ..dtype };
        let spelled = if dtype.kind == DtypeKind::Text {
            join_configuration(UTF32, Put::new().put("length_bytes", dtype.size))
        } else {
            Value::String(dtype.into())
        };
        Self { kind: DataTypeKind::Fixed(dtype), spelled }
    }

    /// Returns the meaning.
    pub const fn kind(&self) -> &DataTypeKind {
        &self.kind
    }

    /// Returns the number of bytes per item, if it is fixed.
    pub const fn item_size(&self) -> Option<u64> {
        match &self.kind {
            DataTypeKind::Fixed(dtype) => Some(dtype.size),
            DataTypeKind::PaddedBytes(size) => Some(*size),
            DataTypeKind::VariableLengthBytes | DataTypeKind::Other(_) => None,
        }
    }

    pub(super) fn read(at: &At<'_>, value: Value) -> Result<Self, MetadataError> {
        let spelled = value.clone();
        let (name, configuration) = split_configuration(at, value)?;
        let kind = match name.as_str() {
            "variable_length_bytes" | "bytes" => DataTypeKind::VariableLengthBytes,
            UTF32 | PADDED_BYTES => {
                let is_text = name == UTF32;
                let rule = if is_text { "a multiple of 4 above 0" } else { "a count above 0" };
                let at = at.key("configuration");
                let size = Fields::new(&at, configuration).require("length_bytes", u64::read)?;
                if size == 0 || (is_text && !size.is_multiple_of(4)) {
                    let at = at.key("length_bytes");
                    return Err(MetadataError::rule(Class::BadShape, &at, rule, size));
                }
                match is_text {
                    true => DataTypeKind::Fixed(Dtype {
                        kind: DtypeKind::Text,
                        size,
                        big_endian: false,
                    }),
                    false => DataTypeKind::PaddedBytes(size),
                }
            }
            other => match other.parse::<Dtype>() {
                // Only the names: Zarr has no codes with a byte order.
                Ok(dtype) if String::from(dtype) == other => DataTypeKind::Fixed(dtype),
                _ => DataTypeKind::Other(name),
            },
        };
        Ok(Self { kind, spelled })
    }

    pub(super) fn to_value(&self) -> Value {
        self.spelled.clone()
    }
}

/// The value of items that are not stored.
///
/// ```
/// use zvf_metadata::{Fill, FillValue};
///
/// assert_eq!(FillValue::float(f64::NAN).fill(), &Fill::Float(f64::NAN.to_bits()));
/// assert_eq!(FillValue::empty().fill(), &Fill::Empty);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillValue {
    fill: Fill,
    spelled: Value,
}

/// The meaning of a fill value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fill {
    /// No bytes.
    Empty,
    /// Text.
    Text(String),
    /// True or false.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// The bits of a 64-bit float, so that NaN equals itself.
    Float(u64),
    /// Not known: bytes that are not empty, or the value of an unknown type.
    Other,
}

impl FillValue {
    /// Creates an empty byte string.
    pub fn empty() -> Self {
        Self { fill: Fill::Empty, spelled: Value::String(String::new()) }
    }

    /// Creates the zero of a kind; of text, the empty one.
    pub fn zero(kind: DtypeKind) -> Self {
        match kind {
            DtypeKind::Bool => Self::flag(false),
            DtypeKind::Int => Self::int(0),
            DtypeKind::UInt => Self::uint(0),
            DtypeKind::Float => Self::float(0.0),
            DtypeKind::Text => Self::text(""),
        }
    }

    /// Creates a boolean.
    pub fn flag(value: bool) -> Self {
        Self { fill: Fill::Bool(value), spelled: value.into() }
    }

    /// Creates a text.
    pub fn text(text: &str) -> Self {
        Self { fill: Fill::Text(text.to_owned()), spelled: text.into() }
    }

    /// Creates a signed integer.
    pub fn int(n: i64) -> Self {
        Self { fill: Fill::Int(n), spelled: n.into() }
    }

    /// Creates an unsigned integer.
    pub fn uint(n: u64) -> Self {
        Self { fill: Fill::UInt(n), spelled: n.into() }
    }

    /// Creates a number, finite or not.
    pub fn float(x: f64) -> Self {
        let spelled = WORDS.iter().find(|(_, bits)| *bits == x.to_bits());
        let spelled = match spelled {
            Some((word, _)) => Value::from(*word),
            None if x.is_nan() => Value::from("NaN"),
            None => float(x),
        };
        Self { fill: Fill::Float(x.to_bits()), spelled }
    }

    /// Returns the meaning.
    pub const fn fill(&self) -> &Fill {
        &self.fill
    }

    pub(super) fn read(
        at: &At<'_>,
        value: Value,
        data_type: &DataType,
    ) -> Result<Self, MetadataError> {
        let spelled = value.clone();
        let fill = match &data_type.kind {
            DataTypeKind::VariableLengthBytes => match &value {
                Value::Null => Fill::Empty,
                Value::String(text) if text.is_empty() => Fill::Empty,
                Value::Array(bytes) if bytes.is_empty() => Fill::Empty,
                Value::String(_) | Value::Array(_) => Fill::Other,
                Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                    return Err(wrong_value_error(at, "bytes", &value));
                }
            },
            DataTypeKind::PaddedBytes(_) => match String::read(at, value)? {
                empty if empty.is_empty() => Fill::Text(empty),
                _ => Fill::Other,
            },
            DataTypeKind::Fixed(dtype) => match dtype.kind {
                DtypeKind::Text => Fill::Text(String::read(at, value)?),
                DtypeKind::Bool => Fill::Bool(bool::read(at, value)?),
                DtypeKind::Int => Fill::Int(signed_int(at, value, dtype.size)?),
                DtypeKind::UInt => Fill::UInt(unsigned_int(at, value, dtype.size)?),
                DtypeKind::Float => Fill::Float(bits(at, value, dtype.size)?),
            },
            DataTypeKind::Other(_) => Fill::Other,
        };
        Ok(Self { fill, spelled })
    }

    pub(super) fn to_value(&self) -> Value {
        self.spelled.clone()
    }
}

/// Returns the name and configuration of an extension as one object.
pub(super) fn join_configuration(name: &str, configuration: Put) -> Value {
    Put::new().put("name", name).put("configuration", configuration).into()
}

/// Splits a name alone, or a name with its configuration, into the two.
pub(super) fn split_configuration(
    at: &At<'_>,
    value: Value,
) -> Result<(String, Object), MetadataError> {
    if value.is_string() {
        return Ok((String::read(at, value)?, Object::new()));
    }
    let mut fields = Fields::from_value(at, value)?;
    let name = fields.require("name", String::read)?;
    Ok((name, fields.take("configuration", Object::read)?.unwrap_or_default()))
}

fn signed_int(at: &At<'_>, value: Value, size: u64) -> Result<i64, MetadataError> {
    let n = i64::read(at, value)?;
    let unused = unused_bits(size);
    if n << unused >> unused == n { Ok(n) } else { Err(overflow_error(at, n)) }
}

fn unsigned_int(at: &At<'_>, value: Value, size: u64) -> Result<u64, MetadataError> {
    let n = u64::read(at, value)?;
    let unused = unused_bits(size);
    if n << unused >> unused == n { Ok(n) } else { Err(overflow_error(at, n)) }
}

/// Returns how many of 64 bits an integer of `size` bytes does not have: it keeps its value only if
/// they can be shifted out and back in.
const fn unused_bits(size: u64) -> u64 {
    64_u64.saturating_sub(size.saturating_mul(8))
}

fn overflow_error(at: &At<'_>, found: impl Into<zvf_format::Found>) -> MetadataError {
    MetadataError::rule(Class::Overflow, at, "a value of the data type", found)
}

/// Reads the bits of a number, widened to 64 bits.
fn bits(at: &At<'_>, value: Value, size: u64) -> Result<u64, MetadataError> {
    let Value::String(word) = &value else { return f64::read(at, value).map(f64::to_bits) };
    if let Some((_, bits)) = WORDS.iter().find(|(spelling, _)| spelling == word) {
        return Ok(*bits);
    }
    let hex = word.strip_prefix("0x").filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    let raw = hex.and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let wide = raw.and_then(|raw| match size {
        2 => u16::try_from(raw).ok().map(widen_half),
        4 => u32::try_from(raw).ok().map(|raw| f64::from(f32::from_bits(raw)).to_bits()),
        _ => Some(raw),
    });
    wide.ok_or_else(|| wrong_value_error(at, "a number, NaN, Infinity or the bits of one", &value))
}

/// Returns the bits of a 16-bit float as those of a 64-bit float.
fn widen_half(raw: u16) -> u64 {
    let sign = u64::from(raw >> 15) << 63;
    let exponent = u64::from(raw >> 10 & 0x1f);
    let mantissa = u64::from(raw & 0x3ff);
    let rest = match (exponent, mantissa) {
        (0, _) => (f64::from(raw & 0x3ff) * HALF_STEP).to_bits(),
        (0x1f, _) => 0x7ff << 52 | mantissa << 42,
        _ => exponent.saturating_add(HALF_BIAS) << 52 | mantissa << 42, // at most 1038
    };
    sign | rest
}

/// The names of numbers that JSON cannot represent.
const WORDS: [(&str, u64); 3] = [
    ("NaN", 0x7ff8_0000_0000_0000),
    ("Infinity", 0x7ff0_0000_0000_0000),
    ("-Infinity", 0xfff0_0000_0000_0000),
];

/// The smallest positive 16-bit float: 2^-24.
const HALF_STEP: f64 = 1.0 / 16_777_216.0;

/// Converts a 16-bit exponent to a 64-bit one: 1023 - 15.
const HALF_BIAS: u64 = 1008;

const UTF32: &str = "fixed_length_utf32";
const PADDED_BYTES: &str = "null_terminated_bytes";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::fault;

    fn read(data_type: Value, fill: Value) -> Result<Fill, MetadataError> {
        let at = At::Document;
        let parsed_type = DataType::read(&at.key("data_type"), data_type.clone())?;
        assert_eq!(parsed_type.to_value(), data_type);
        let value = FillValue::read(&at.key("fill_value"), fill.clone(), &parsed_type)?;
        assert_eq!(value.to_value(), fill);
        Ok(value.fill)
    }

    fn padded_bytes(n: u64) -> Value {
        json!({"name": "null_terminated_bytes", "configuration": {"length_bytes": n}})
    }

    #[test]
    fn fills_of_each_type() {
        let utf32 = json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": 24}});
        for (data_type, fill, expected) in [
            (json!("variable_length_bytes"), json!(""), Fill::Empty),
            (json!("bytes"), json!([]), Fill::Empty),
            (json!({"name": "bytes"}), json!(null), Fill::Empty),
            (json!("bytes"), json!("AA=="), Fill::Other),
            (utf32, json!(""), Fill::Text(String::new())),
            (padded_bytes(256), json!(""), Fill::Text(String::new())),
            (padded_bytes(1), json!("AA=="), Fill::Other),
            (json!("bool"), json!(true), Fill::Bool(true)),
            (json!("int8"), json!(-128), Fill::Int(-128)),
            (json!("int64"), json!(i64::MIN), Fill::Int(i64::MIN)),
            (json!("uint16"), json!(65535), Fill::UInt(65535)),
            (json!("uint64"), json!(u64::MAX), Fill::UInt(u64::MAX)),
            (json!("float32"), json!(0), Fill::Float(0)),
            (json!("float64"), json!(1.5), Fill::Float(1.5_f64.to_bits())),
            (json!("float32"), json!("NaN"), Fill::Float(0x7ff8 << 48)),
            (json!("float32"), json!("Infinity"), Fill::Float(0x7ff0 << 48)),
            (json!("float32"), json!("-Infinity"), Fill::Float(0xfff0 << 48)),
            (json!("float32"), json!("0x3fc00000"), Fill::Float(1.5_f64.to_bits())),
            (json!("float64"), json!("0x7ff8000000000000"), Fill::Float(0x7ff8 << 48)),
            (json!("float16"), json!("0x3e00"), Fill::Float(1.5_f64.to_bits())),
            (json!("float16"), json!("0xfc00"), Fill::Float(0xfff0 << 48)),
            (json!("float16"), json!("0x0001"), Fill::Float((1.0 / 16_777_216.0_f64).to_bits())),
            (json!("float16"), json!("0x8000"), Fill::Float((-0.0_f64).to_bits())),
            (json!("complex64"), json!([0, 0]), Fill::Other),
            (json!("<f4"), json!(0), Fill::Other),
        ] {
            assert_eq!(
                read(data_type.clone(), fill.clone()).unwrap(),
                expected,
                "{data_type} {fill}"
            );
        }
    }

    #[test]
    fn faults_are_reported() {
        let utf32 = |n| json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": n}});
        for (data_type, fill, message) in [
            (json!(7), json!(0), "BadTag, data_type: an object, found 7"),
            (json!({}), json!(0), "BadTag, data_type.name: a value, found nothing"),
            (
                utf32(0),
                json!(""),
                "BadShape, data_type.configuration.length_bytes: a multiple of 4 above 0, found 0",
            ),
            (
                utf32(7),
                json!(""),
                "BadShape, data_type.configuration.length_bytes: a multiple of 4 above 0, found 7",
            ),
            (
                padded_bytes(0),
                json!(""),
                "BadShape, data_type.configuration.length_bytes: a count above 0, found 0",
            ),
            (json!("bytes"), json!(0), "BadTag, fill_value: bytes, found 0"),
            (
                json!("int8"),
                json!(128),
                "Overflow, fill_value: a value of the data type, found 128",
            ),
            (
                json!("uint32"),
                json!(1_u64 << 32),
                "Overflow, fill_value: a value of the data type, found 4294967296",
            ),
            (json!("bool"), json!(0), "BadTag, fill_value: true or false, found 0"),
        ] {
            assert_eq!(fault(&read(data_type, fill).unwrap_err()), message);
        }
        for (data_type, fill) in [
            ("float16", "0x10000"),
            ("float32", "0x100000000"),
            ("float64", "0x1ffffffffffffffff"),
            ("float64", "0x+1"),
            ("float64", "nan"),
        ] {
            assert_eq!(
                fault(&read(json!(data_type), json!(fill)).unwrap_err()),
                alloc::format!(
                    "BadTag, fill_value: a number, NaN, Infinity or the bits of one, found \"{fill}\""
                )
            );
        }
    }

    #[test]
    fn constructed_values_are_read_back() {
        let at = At::Document;
        let text = Dtype { kind: DtypeKind::Text, size: 24, big_endian: true };
        for (constructed, fill) in [
            (DataType::variable_length_bytes(), FillValue::empty()),
            (DataType::number(text), FillValue::text("")),
            (DataType::number(Dtype::INT64), FillValue::int(-1)),
            (DataType::number(Dtype { kind: DtypeKind::UInt, ..Dtype::INT64 }), FillValue::uint(1)),
            (DataType::number(Dtype::FLOAT32), FillValue::float(f64::NAN)),
            (DataType::number(Dtype::FLOAT32), FillValue::float(f64::NEG_INFINITY)),
            (DataType::number(Dtype::FLOAT32), FillValue::float(0.5)),
        ] {
            assert_eq!(DataType::read(&at, constructed.to_value()).unwrap(), constructed);
            assert_eq!(FillValue::read(&at, fill.to_value(), &constructed).unwrap(), fill);
        }
    }
}
