//! The body of a PLY file: values as text, or as bytes in either byte order.

use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_formats::{Bytes, FilePlace, Spot, push_text};
use zvf_metadata::{Dtype, DtypeKind};

use crate::ply::read::header::{Encoding, PlyElement, Property};

/// Sequential reader of values.
pub(crate) struct Body {
    bytes: Bytes,
    encoding: Encoding,
    start: u64,   // byte offset of the last value
    line: u64,    // line of the last value, in text
    word: String, // the last value, in text
}

impl Body {
    /// Creates a reader of the values after the header, whose last line is `header_line`.
    pub(crate) const fn new(bytes: Bytes, encoding: Encoding, header_line: u64) -> Self {
        let line = header_line + 1;
        Self { bytes, encoding, start: 0, line, word: String::new() }
    }

    /// Reads `rows` records of the scalar properties of `element`, and skips its lists.
    pub(crate) fn read_records(&mut self, element: &PlyElement, rows: usize) -> Result<Vec<u8>> {
        let mut block = Vec::new();
        if self.encoding != Encoding::Text
            && element.properties.iter().all(|property| property.list.is_none())
        {
            let sizes = element.properties.iter().map(|property| value_size(property.dtype));
            block.resize(sizes.sum::<usize>() * rows, 0); // `rows` are those of a block
            self.bytes.read(&mut block, &format!("element {}", element.name))?;
            return Ok(block);
        }
        for _ in 0..rows {
            for property in &element.properties {
                match property.list {
                    None => self.read_value(property, &mut block)?,
                    Some(_) => self.skip(property)?,
                }
            }
        }
        Ok(block)
    }

    /// Reads the next value, of `property`, and appends it to `to`.
    pub(crate) fn read_value(&mut self, property: &Property, to: &mut Vec<u8>) -> Result<()> {
        self.start = self.bytes.position();
        if self.encoding != Encoding::Text {
            let end = to.len();
            to.resize(end + value_size(property.dtype), 0);
            return self.bytes.read(&mut to[end..], &property.name);
        }
        self.read_word(&property.name)?;
        if push_text(property.dtype, &self.word, to) {
            return Ok(());
        }
        let found = format!("{:?}", self.word);
        self.spot(&property.name).refuse(Class::Encoding, property.dtype, found)
    }

    /// Reads the next value, of the integer type `dtype`.
    pub(crate) fn read_integer(&mut self, dtype: Dtype, name: &str) -> Result<i64> {
        if self.encoding == Encoding::Text {
            self.read_word(name)?;
            return self.word.parse().map_err(|_no_number| {
                self.spot(name).error(Class::Encoding, "a whole number", format!("{:?}", self.word))
            });
        }
        self.start = self.bytes.position();
        let mut bytes = [0; 8];
        let slot = &mut bytes[..value_size(dtype)];
        self.bytes.read(slot, name)?;
        if dtype.big_endian {
            slot.reverse();
        }
        let is_negative =
            dtype.kind == DtypeKind::Int && slot.last().is_some_and(|highest| *highest >= 0x80);
        if is_negative {
            bytes.iter_mut().skip(value_size(dtype)).for_each(|byte| *byte = 0xff);
        }
        Ok(i64::from_le_bytes(bytes))
    }

    /// Reads the length of the next list.
    pub(crate) fn read_length(&mut self, count: Dtype, name: &str) -> Result<u64> {
        let length = self.read_integer(count, name)?;
        u64::try_from(length).map_err(|_negative| {
            self.spot(name).error(Class::Negative, "a length of 0 or more", length)
        })
    }

    /// Reads the triangles that are complete in the buffer until `add` returns false, and returns their count: a fast path for
    /// little-endian lists with a count of one byte and 32-bit numbers. Returns 0 for lists of other types.
    pub(crate) fn read_triangles(
        &mut self,
        list: &Property,
        mut add: impl FnMut([i64; 3]) -> bool,
    ) -> Result<u64> {
        let has_fast_path = self.encoding == Encoding::LittleEndian
            && list.list.is_some_and(|count| count.size == 1)
            && list.dtype.size == 4;
        if !has_fast_path {
            return Ok(0);
        }
        let is_signed = list.dtype.kind == DtypeKind::Int;
        let number = |bytes: [u8; 4]| match is_signed {
            true => i64::from(i32::from_le_bytes(bytes)),
            false => i64::from(u32::from_le_bytes(bytes)),
        };
        let mut count = 0_usize;
        for face in self.bytes.peek()?.as_chunks::<TRIANGLE_BYTES>().0 {
            let [3, corners @ ..] = face else { break };
            let [a, b, c, ..] = corners.as_chunks::<4>().0 else { break };
            if !add([*a, *b, *c].map(number)) {
                break;
            }
            count += 1;
        }
        self.bytes.take(count * TRIANGLE_BYTES);
        Ok(to_u64(count))
    }

    /// Skips a value or a list.
    pub(crate) fn skip(&mut self, property: &Property) -> Result<()> {
        let values = match property.list {
            Some(count) => self.read_length(count, &property.name)?,
            None => 1,
        };
        let mut skipped = [0; 8];
        for _ in 0..values {
            match self.encoding {
                Encoding::Text => self.read_word(&property.name)?,
                Encoding::LittleEndian | Encoding::BigEndian => {
                    let slot = &mut skipped[..value_size(property.dtype)];
                    self.bytes.read(slot, &property.name)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that nothing but white space follows.
    pub(crate) fn check_end(&mut self) -> Result<()> {
        loop {
            let buffer = self.bytes.peek()?;
            if buffer.is_empty() {
                return Ok(());
            }
            let blanks = buffer.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            if blanks == 0 {
                self.start = self.bytes.position();
                let expected = "the end after the last element";
                return self.spot("the end").refuse(Class::Trailing, expected, "more");
            }
            self.bytes.take(blanks);
        }
    }

    /// Returns the spot of the last value: its line and property in text, else its byte.
    pub(crate) fn spot(&self, property: &str) -> Spot<FilePlace> {
        self.bytes.spot(match self.encoding {
            Encoding::Text => FilePlace::Column { line: self.line, column: property.to_owned() },
            Encoding::LittleEndian | Encoding::BigEndian => FilePlace::Byte(self.start),
        })
    }

    /// Reads the next word into [`Self::word`].
    fn read_word(&mut self, property: &str) -> Result<()> {
        self.word.clear();
        loop {
            let buffer = self.bytes.peek()?;
            if buffer.is_empty() {
                if self.word.is_empty() {
                    return self.spot(property).refuse(Class::Truncated, "a value", "the end");
                }
                return Ok(());
            }
            let mut blank_count = 0_usize;
            if self.word.is_empty() {
                let blanks = buffer.iter().take_while(|byte| byte.is_ascii_whitespace());
                let mut lines = 0_u64;
                for byte in blanks {
                    blank_count += 1;
                    lines += u64::from(*byte == b'\n');
                }
                self.line += lines;
            }
            let rest = buffer.get(blank_count..).unwrap_or(&[]);
            let word_bytes = rest.iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
            let piece = rest.get(..word_bytes).unwrap_or(&[]);
            self.word.push_str(&String::from_utf8_lossy(piece));
            let is_complete = word_bytes < rest.len();
            self.bytes.take(blank_count + word_bytes);
            if self.word.len() > MAX_WORD_BYTES {
                let expected = format!("a value of at most {MAX_WORD_BYTES} bytes");
                return self.spot(property).refuse(Class::LimitExceeded, expected, "a longer one");
            }
            if is_complete && !self.word.is_empty() {
                return Ok(());
            }
        }
    }
}

/// Returns the bytes of a value; the types of PLY have at most 8.
fn value_size(dtype: Dtype) -> usize {
    saturating_usize(dtype.size).min(8)
}

/// Bytes of a triangle: a count of one byte, and three numbers of four.
const TRIANGLE_BYTES: usize = 13;
/// Bytes of a text value.
const MAX_WORD_BYTES: usize = 1024;
