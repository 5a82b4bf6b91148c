//! Parser of the text header of a TCK file.
//!
//! ```text
//! mrtrix tracks
//! count: 0000000012          often 0 or stale
//! datatype: Float32LE        also Float32BE, Float64LE, Float64BE
//! file: . 67                 the byte at which the triplets begin
//! END
//! ```
//!
//! Keys come in any order, and some repeat.

use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::{Bytes, FilePlace, quote};
use zvf_metadata::Dtype;

/// The header of a file.
pub(crate) struct TckHeader {
    /// The type of the numbers.
    pub(crate) dtype: Dtype,
    /// The offset of the triplets.
    pub(crate) start: u64,
    /// The declared number of streamlines, unless it is 0.
    pub(crate) count: Option<u64>,
    /// All other keys, in their order.
    pub(crate) keys: Vec<(String, String)>,
    /// Lines that are not `key: value`.
    pub(crate) odd_lines: u64,
}

impl TckHeader {
    /// Reads the header up to the line `END`.
    pub(crate) fn read(bytes: &mut Bytes) -> Result<Self> {
        let first = read_line(bytes, 1)?;
        if first.trim_end() != MAGIC {
            let found = quote(&first, MAX_SHOWN_CHARS);
            return bytes.spot(FilePlace::Line(1)).refuse(Class::BadMagic, MAGIC, found);
        }
        let (mut datatype, mut file, mut count) = (None, None, None);
        let (mut keys, mut odd_lines) = (Vec::new(), 0);
        for number in 2_u64.. {
            let text = read_line(bytes, number)?;
            let text = text.trim();
            if text == "END" {
                break;
            }
            let Some((key, value)) = text.split_once(':') else {
                odd_lines += u64::from(!text.is_empty());
                continue;
            };
            let (key, value) = (key.trim(), value.trim());
            match key {
                "datatype" => datatype = Some((number, value.to_owned())),
                "file" => file = Some((number, value.to_owned())),
                "count" => count = value.parse::<u64>().ok().filter(|count| *count > 0),
                _ => keys.push((key.to_owned(), value.to_owned())),
            }
        }
        let dtype = match &datatype {
            None => Dtype::FLOAT32,
            Some((number, name)) => parse_dtype(name).ok_or_else(|| {
                let place = FilePlace::Column { line: *number, column: "datatype".to_owned() };
                let expected = "Float32LE, Float32BE, Float64LE or Float64BE";
                bytes.spot(place).error(Class::BadTag, expected, quote(name, MAX_SHOWN_CHARS))
            })?,
        };
        let start = parse_start(bytes, file)?;
        Ok(Self { dtype, start, count, keys, odd_lines })
    }
}

/// Parses the offset in the key `file`, which must be in the same file and after the header.
fn parse_start(bytes: &Bytes, file: Option<(u64, String)>) -> Result<u64> {
    let end = bytes.position();
    let Some((line, value)) = file else {
        return bytes.spot("the header").refuse(Class::NotFound, "a line \"file: . N\"", "none");
    };
    let place = || FilePlace::Column { line, column: "file".to_owned() };
    let expected = "\". N\" with N a byte after the header";
    let found = || quote(&value, MAX_SHOWN_CHARS);
    let (name, offset) = value.split_once(char::is_whitespace).unwrap_or((value.as_str(), ""));
    if name != "." {
        let spot = bytes.spot(place()).hint("tracks in another file are not followed");
        return spot.refuse(Class::Unsupported, expected, found());
    }
    let offset = offset.trim().parse::<u64>().ok();
    let offset = bytes.spot(place()).need(offset, Class::Encoding, expected, found())?;
    if offset < end || bytes.len().is_some_and(|len| offset > len) {
        let expected = match bytes.len() {
            Some(len) => format!("a byte from {end} to {len}"),
            None => format!("a byte from {end} on"),
        };
        return bytes.spot(place()).refuse(Class::OutOfBounds, expected, offset);
    }
    Ok(offset)
}

/// Reads a line of the header without its end. Invalid UTF-8 is replaced.
fn read_line(bytes: &mut Bytes, number: u64) -> Result<String> {
    let mut text = Vec::new();
    loop {
        let at = bytes.position();
        let buffered = bytes.peek()?;
        let is_end = buffered.is_empty();
        if is_end || at > MAX_HEADER_BYTES {
            let found = if is_end { "the end of the file" } else { "a longer header" };
            let expected = if number == 1 { MAGIC } else { "a line END" };
            let class = if number == 1 { Class::BadMagic } else { Class::Truncated };
            return bytes.spot(FilePlace::Line(number)).refuse(class, expected, found);
        }
        let end = buffered.iter().position(|byte| *byte == b'\n');
        let line_bytes = end.map_or(buffered.len(), |end| end + 1);
        text.extend_from_slice(&buffered[..line_bytes]);
        bytes.take(line_bytes);
        if end.is_some() {
            break;
        }
        if number == 1 && text.len() > MAGIC.len() + 2 {
            return bytes.spot(FilePlace::Line(1)).refuse(Class::BadMagic, MAGIC, "a longer line");
        }
    }
    Ok(String::from_utf8_lossy(&text).trim_end_matches(['\r', '\n']).to_owned())
}

fn parse_dtype(name: &str) -> Option<Dtype> {
    let dtypes = [
        ("Float32LE", Dtype::FLOAT32),
        ("Float32BE", Dtype { big_endian: true, ..Dtype::FLOAT32 }),
        ("Float64LE", Dtype::FLOAT64),
        ("Float64BE", Dtype { size: 8, big_endian: true, ..Dtype::FLOAT32 }),
    ];
    dtypes.into_iter().find(|(key, _)| *key == name).map(|(_, dtype)| dtype)
}

const MAGIC: &str = "mrtrix tracks";
const MAX_HEADER_BYTES: u64 = 4 << 20;
/// Characters of a wrong text in an error message.
const MAX_SHOWN_CHARS: usize = 60;
