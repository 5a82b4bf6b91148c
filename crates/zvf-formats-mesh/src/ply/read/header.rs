//! Parser of the PLY header: lines of text up to `end_header`.
//!
//! ```text
//! ply
//! format ascii 1.0                        or binary_little_endian, binary_big_endian
//! comment …
//! element vertex 8                        a name and a count, in body order
//! property float x
//! property list uchar int vertex_indices  a count, then that many values
//! end_header
//! ```

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_formats::{Lines, quote};
use zvf_metadata::{Dtype, DtypeKind};

/// A parsed PLY header.
pub(crate) struct PlyHeader {
    pub(crate) encoding: Encoding,
    pub(crate) elements: Vec<PlyElement>,
}

/// The encoding of the values in the body.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Encoding {
    Text,
    LittleEndian,
    BigEndian,
}

/// A declared element.
pub(crate) struct PlyElement {
    pub(crate) name: String,
    pub(crate) count: u64,
    pub(crate) properties: Vec<Property>,
}

/// A property of an element: a scalar or a list.
pub(crate) struct Property {
    pub(crate) name: String,
    /// The type of a value, in the byte order of the file.
    pub(crate) dtype: Dtype,
    /// The type of the count, if the property is a list.
    pub(crate) list: Option<Dtype>,
}

impl PlyHeader {
    /// Reads and parses the header.
    pub(crate) fn read(lines: &mut Lines) -> Result<Self> {
        let mut encoding = None;
        let mut elements: Vec<PlyElement> = Vec::new();
        if lines.next()?.map(str::trim_end) != Some("ply") {
            return lines.here().refuse(Class::BadMagic, "ply", "another first line");
        }
        loop {
            let Some(line) = lines.next()? else {
                return lines.here().refuse(Class::Truncated, "end_header", "the end");
            };
            let line = line.to_owned();
            let words: Vec<&str> = line.split_ascii_whitespace().take(MAX_WORDS).collect();
            match words.as_slice() {
                ["end_header"] => break,
                [] | ["comment" | "obj_info", ..] => {}
                ["format", word, "1.0"] => {
                    encoding = Some(match *word {
                        "ascii" => Encoding::Text,
                        "binary_little_endian" => Encoding::LittleEndian,
                        "binary_big_endian" => Encoding::BigEndian,
                        _ => {
                            let expected = "ascii, binary_little_endian or binary_big_endian";
                            return refuse(lines, Class::Unsupported, expected, word);
                        }
                    });
                }
                ["format", _, version] => {
                    return refuse(lines, Class::UnsupportedVersion, "version 1.0", version);
                }
                ["element", name, count] => {
                    let Ok(count) = count.parse() else {
                        return refuse(lines, Class::Encoding, "a number of elements", &line);
                    };
                    if elements.len() >= MAX_HEADER_ITEMS {
                        return refuse(lines, Class::LimitExceeded, "at most 256 elements", name);
                    }
                    let name = (*name).to_owned();
                    elements.push(PlyElement { name, count, properties: Vec::new() });
                }
                ["property", ..] => {
                    let big_endian = encoding == Some(Encoding::BigEndian);
                    let property = parse_property(lines, &words, &line, big_endian)?;
                    let properties = elements.last_mut().map(|element| &mut element.properties);
                    let Some(properties) = properties else {
                        return refuse(lines, Class::Encoding, "an element first", &line);
                    };
                    if properties.iter().any(|existing| existing.name == property.name) {
                        let expected = "another name for each property";
                        return refuse(lines, Class::Duplicate, expected, &property.name);
                    }
                    if properties.len() >= MAX_HEADER_ITEMS {
                        let expected = "at most 256 properties of an element";
                        return refuse(lines, Class::LimitExceeded, expected, &property.name);
                    }
                    properties.push(property);
                }
                _ => {
                    let expected = "format, element, property, comment or end_header";
                    return refuse(lines, Class::BadTag, expected, &line);
                }
            }
        }
        let missing = || lines.here().error(Class::Truncated, "a line with the format", "none");
        Ok(Self { encoding: encoding.ok_or_else(missing)?, elements })
    }
}

/// Refuses a text of the current line.
fn refuse<T>(lines: &Lines, class: Class, expected: &str, found: &str) -> Result<T> {
    lines.here().refuse(class, expected, quote(found, MAX_SHOWN_CHARS))
}

fn parse_property(lines: &Lines, words: &[&str], line: &str, big_endian: bool) -> Result<Property> {
    let dtype = |word: &str| {
        let Some((_, kind, size)) = TYPES.iter().find(|(names, ..)| names.contains(&word)) else {
            return refuse(lines, Class::BadTag, "a type such as float or uchar", word);
        };
        Ok::<_, Error>(Dtype { kind: *kind, size: *size, big_endian: big_endian && *size > 1 })
    };
    match words {
        ["property", "list", count, item, name] => {
            let count = dtype(count)?;
            let expected = "a whole number to count with";
            let found = quote(line, MAX_SHOWN_CHARS);
            let is_whole = count.kind != DtypeKind::Float;
            lines.here().ensure(is_whole, Class::BadTag, expected, found)?;
            Ok(Property { name: (*name).to_owned(), dtype: dtype(item)?, list: Some(count) })
        }
        ["property", kind, name] if *kind != "list" => {
            Ok(Property { name: (*name).to_owned(), dtype: dtype(kind)?, list: None })
        }
        _ => refuse(lines, Class::Encoding, "a type and a name", line),
    }
}

/// Returns the name of a type, if it has one.
pub(crate) fn type_name(dtype: Dtype) -> Option<&'static str> {
    let entry = TYPES.iter().find(|(_, kind, size)| (*kind, *size) == (dtype.kind, dtype.size));
    entry.map(|(names, ..)| names[0])
}

#[rustfmt::skip]
const TYPES: [(&[&str], DtypeKind, u64); 8] = [
    (&["char", "int8"],      DtypeKind::Int, 1),   (&["uchar", "uint8"],   DtypeKind::UInt, 1),
    (&["short", "int16"],    DtypeKind::Int, 2),   (&["ushort", "uint16"], DtypeKind::UInt, 2),
    (&["int", "int32"],      DtypeKind::Int, 4),   (&["uint", "uint32"],   DtypeKind::UInt, 4),
    (&["float", "float32"],  DtypeKind::Float, 4), (&["double", "float64"], DtypeKind::Float, 8),
];
/// Limit of the elements, and of the properties of each.
const MAX_HEADER_ITEMS: usize = 256;
/// Maximum number of words of a line; the rest is ignored.
const MAX_WORDS: usize = 6;
/// Characters of a wrong line in an error message.
const MAX_SHOWN_CHARS: usize = 60;
