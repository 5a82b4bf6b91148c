//! Element types with NumPy names: `float32`, `<f4`, `>i8`, `bool`, `<U6`.
//!
//! Not here: the data type of a Zarr array (`data_type`), which has other spellings.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use super::error::{At, MetadataError};
use zvf_format::Class;

/// The meaning of the bits of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DtypeKind {
    /// True or false, one byte.
    Bool,
    /// A signed integer.
    Int,
    /// An unsigned integer.
    UInt,
    /// An IEEE 754 number.
    Float,
    /// Text in UTF-32, padded with zeros.
    Text,
}

/// The type of one element.
///
/// ```
/// use zvf_metadata::{Dtype, DtypeKind};
///
/// let dtype = ">f4".parse::<Dtype>().unwrap();
/// assert_eq!((dtype.kind, dtype.size, dtype.big_endian), (DtypeKind::Float, 4, true));
/// assert_eq!("<U6".parse::<Dtype>().unwrap().size, 24);
/// assert_eq!("float99".parse::<Dtype>().unwrap_err().class(), zvf_format::Class::BadTag);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dtype {
    /// The meaning of the bits.
    pub kind: DtypeKind,
    /// Bytes of one element, never 0.
    pub size: u64,
    /// Whether the most significant byte comes first.
    pub big_endian: bool,
}

impl Dtype {
    /// `float32`, the default type of positions.
    pub const FLOAT32: Self = Self { kind: DtypeKind::Float, size: 4, big_endian: false };
    /// `float64`.
    pub const FLOAT64: Self = Self { kind: DtypeKind::Float, size: 8, big_endian: false };

    /// `int64`, the type of ids and link rows.
    pub const INT64: Self = Self { kind: DtypeKind::Int, size: 8, big_endian: false };

    pub(super) fn parse_at(at: &At<'_>, text: &str) -> Result<Self, MetadataError> {
        dtype_by_name(text).or_else(|| dtype_by_code(text)).ok_or_else(|| {
            MetadataError::rule(Class::BadTag, at, "an element type", "other text").with_quote(text)
        })
    }
}

/// Parses a name (`float32`) or a code with or without byte order (`<f4`).
///
/// # Errors
///
/// When `text` is neither, or names a type other than booleans, integers and floats of up to 64
/// bits and text of a fixed width.
impl FromStr for Dtype {
    type Err = MetadataError;

    fn from_str(text: &str) -> Result<Self, MetadataError> {
        Self::parse_at(&At::Document.key("dtype"), text)
    }
}

impl serde::Serialize for Dtype {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Dtype {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let swapped = self.big_endian && self.size > 1;
        let order = if swapped { '>' } else { '<' };
        let name = NAMES.iter().find(|(_, kind, size)| (*kind, *size) == (self.kind, self.size));
        match (self.kind, name) {
            (DtypeKind::Text, _) => write!(f, "{order}U{}", self.size.div_ceil(TEXT_UNIT)),
            (_, Some((name, ..))) if !swapped => f.pad(name),
            (kind, _) => {
                let letter = LETTERS.iter().find(|(_, known)| *known == kind);
                write!(f, "{order}{}{}", letter.map_or("", |(letter, _)| letter), self.size)
            }
        }
    }
}

impl From<Dtype> for String {
    fn from(dtype: Dtype) -> Self {
        format!("{dtype}")
    }
}

fn dtype_by_name(text: &str) -> Option<Dtype> {
    let &(_, kind, size) = NAMES.iter().find(|(name, ..)| *name == text)?;
    Some(Dtype { kind, size, big_endian: false })
}

fn dtype_by_code(text: &str) -> Option<Dtype> {
    let (order, code) = match text.as_bytes().first()? {
        b'<' | b'>' | b'|' | b'=' => text.split_at_checked(1)?,
        _ => ("<", text),
    };
    let (letter, digits) = code.split_at_checked(1)?;
    let big_endian = order == ">";
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: u32 = digits.parse().ok().filter(|&n| n > 0)?;
    if letter == "U" {
        let size = u64::from(number).saturating_mul(TEXT_UNIT); // below 2^34
        return Some(Dtype { kind: DtypeKind::Text, size, big_endian });
    }
    let (_, kind) = *LETTERS.iter().find(|(known, _)| *known == letter)?;
    let size = u64::from(number);
    let known = NAMES.iter().any(|&(_, k, s)| (k, s) == (kind, size));
    if known { Some(Dtype { kind, size, big_endian: big_endian && size > 1 }) } else { None }
}

/// Bytes of one character of text.
const TEXT_UNIT: u64 = 4;

/// The letters in codes, but for text.
const LETTERS: [(&str, DtypeKind); 4] = [
    ("b", DtypeKind::Bool),
    ("i", DtypeKind::Int),
    ("u", DtypeKind::UInt),
    ("f", DtypeKind::Float),
];

const NAMES: [(&str, DtypeKind, u64); 12] = [
    ("bool", DtypeKind::Bool, 1),
    ("int8", DtypeKind::Int, 1),
    ("int16", DtypeKind::Int, 2),
    ("int32", DtypeKind::Int, 4),
    ("int64", DtypeKind::Int, 8),
    ("uint8", DtypeKind::UInt, 1),
    ("uint16", DtypeKind::UInt, 2),
    ("uint32", DtypeKind::UInt, 4),
    ("uint64", DtypeKind::UInt, 8),
    ("float16", DtypeKind::Float, 2),
    ("float32", DtypeKind::Float, 4),
    ("float64", DtypeKind::Float, 8),
];

#[cfg(test)]
mod tests {
    use std::string::ToString as _;

    use super::*;

    #[test]
    fn spellings_are_parsed() {
        use DtypeKind::{Bool, Float, Int, Text, UInt};
        for (text, kind, size, big_endian, prints) in [
            ("float32", Float, 4, false, "float32"),
            ("<f4", Float, 4, false, "float32"),
            ("=f8", Float, 8, false, "float64"),
            (">f4", Float, 4, true, ">f4"),
            ("f2", Float, 2, false, "float16"),
            (">i8", Int, 8, true, ">i8"),
            ("int64", Int, 8, false, "int64"),
            ("|u1", UInt, 1, false, "uint8"),
            (">u1", UInt, 1, false, "uint8"),
            ("uint16", UInt, 2, false, "uint16"),
            ("bool", Bool, 1, false, "bool"),
            ("|b1", Bool, 1, false, "bool"),
            ("<U6", Text, 24, false, "<U6"),
            (">U2", Text, 8, true, ">U2"),
            ("<U4294967295", Text, 17_179_869_180, false, "<U4294967295"),
        ] {
            let dtype = text.parse::<Dtype>().unwrap();
            assert_eq!(dtype, Dtype { kind, size, big_endian }, "{text}");
            assert_eq!(dtype.to_string(), prints);
            assert_eq!(prints.parse::<Dtype>().unwrap(), dtype);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "", "f", "<", "float99", "<f3", "f16", "<U0", "<U", "U-1", "U+1", "<c8", "<M8", "b2",
            "é",
        ] {
            assert_eq!(
                text.parse::<Dtype>().unwrap_err().to_string(),
                format!("BadTag in metadata, dtype: expected an element type, found \"{text}\"")
            );
        }
    }
}
