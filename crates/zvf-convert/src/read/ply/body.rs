//! The body of a PLY file: values as text, or as bytes in either order.

use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_metadata::{Dtype, DtypeKind};

use super::header::{Encoding, PlyElement, Property};
use crate::ConvertError;
use crate::error::{BadInput, Place};
use crate::read::input::Bytes;
use crate::read::values::push_text;

/// Values one after the other.
pub(super) struct Body {
    bytes: Bytes,
    encoding: Encoding,
    start: u64,   // of the value that came last, in bytes
    line: u64,    // the same, where values are text
    word: String, // that value
}

impl Body {
    /// The values after the header, which ended with line `line`.
    pub(super) const fn new(bytes: Bytes, encoding: Encoding, line: u64) -> Self {
        let line = line + 1;
        Self { bytes, encoding, start: 0, line, word: String::new() }
    }

    /// Records of all properties of `rows` elements that are no lists; the lists are passed over.
    pub(super) fn records(
        &mut self,
        of: &PlyElement,
        rows: usize,
    ) -> Result<Vec<u8>, ConvertError> {
        let mut block = Vec::new();
        if self.encoding != Encoding::Text && of.properties.iter().all(|one| one.list.is_none()) {
            let size = of.properties.iter().map(|one| size(one.dtype));
            block.resize(size.fold(0, usize::saturating_add).saturating_mul(rows), 0);
            self.bytes.read(&mut block, &format!("element {}", of.name))?;
            return Ok(block);
        }
        for _ in 0..rows {
            for property in &of.properties {
                match property.list {
                    None => self.value(property, &mut block)?,
                    Some(_) => self.skip(property)?,
                }
            }
        }
        Ok(block)
    }

    /// Adds the next value, of `property`, to `to`.
    pub(super) fn value(
        &mut self,
        property: &Property,
        to: &mut Vec<u8>,
    ) -> Result<(), ConvertError> {
        self.start = self.bytes.at();
        if self.encoding != Encoding::Text {
            let end = to.len();
            to.resize(end + size(property.dtype), 0);
            let place = to.get_mut(end..).unwrap_or_default();
            return self.bytes.read(place, &property.name);
        }
        self.next_word(&property.name)?;
        if push_text(property.dtype, &self.word, to) {
            return Ok(());
        }
        let found = format!("{:?}", self.word);
        Err(self.bad(Class::Encoding, &property.name, property.dtype.to_string(), found).into())
    }

    /// The next value as a whole number, of `dtype`.
    pub(super) fn read_integer(&mut self, dtype: Dtype, name: &str) -> Result<i64, ConvertError> {
        if self.encoding == Encoding::Text {
            self.next_word(name)?;
            let bad = |this: &Self| {
                this.bad(Class::Encoding, name, "a whole number", format!("{:?}", this.word))
            };
            return self.word.parse().map_err(|_no_number| bad(self).into());
        }
        self.start = self.bytes.at();
        let mut bytes = [0; 8];
        let place = bytes.get_mut(..size(dtype)).unwrap_or_default();
        self.bytes.read(place, name)?;
        if dtype.big_endian {
            place.reverse();
        }
        let negative =
            dtype.kind == DtypeKind::Int && place.last().is_some_and(|highest| *highest >= 0x80);
        if negative {
            bytes.iter_mut().skip(size(dtype)).for_each(|byte| *byte = 0xff);
        }
        Ok(i64::from_le_bytes(bytes))
    }

    /// How many values the next list has.
    pub(super) fn length(&mut self, count: Dtype, name: &str) -> Result<u64, ConvertError> {
        let length = self.read_integer(count, name)?;
        u64::try_from(length).map_err(|_negative| {
            self.bad(Class::Negative, name, "a length of 0 or more", length.to_string()).into()
        })
    }

    /// Lists of three numbers of 32 bits, each after a byte of their count, as long as `add` takes them and they lie whole in
    /// what is at hand; how many. None of other forms: those are read number by number.
    pub(super) fn triangles(
        &mut self,
        list: &Property,
        mut add: impl FnMut([i64; 3]) -> bool,
    ) -> Result<u64, ConvertError> {
        let is_plain = self.encoding == Encoding::LittleEndian
            && list.list.is_some_and(|count| count.size == 1)
            && list.dtype.size == 4;
        if !is_plain {
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

    /// Passes over a value or a list.
    pub(super) fn skip(&mut self, property: &Property) -> Result<(), ConvertError> {
        let values = match property.list {
            Some(count) => self.length(count, &property.name)?,
            None => 1,
        };
        let mut passed = [0; 8];
        for _ in 0..values {
            match self.encoding {
                Encoding::Text => self.next_word(&property.name)?,
                Encoding::LittleEndian | Encoding::BigEndian => {
                    let place = passed.get_mut(..size(property.dtype)).unwrap_or_default();
                    self.bytes.read(place, &property.name)?;
                }
            }
        }
        Ok(())
    }

    /// Nothing but blanks may follow.
    pub(super) fn check_end(&mut self) -> Result<(), ConvertError> {
        loop {
            let shown = self.bytes.peek()?;
            if shown.is_empty() {
                return Ok(());
            }
            let blanks = shown.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            if blanks == 0 {
                self.start = self.bytes.at();
                let expected = "the end after the last element";
                return Err(self.bad(Class::Trailing, "the end", expected, "more").into());
            }
            self.bytes.take(blanks);
        }
    }

    /// A fault in the value of `property` that came last.
    pub(super) fn bad(
        &self,
        class: Class,
        property: &str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> BadInput {
        let place = match self.encoding {
            Encoding::Text => Place::Column { line: self.line, column: property.to_owned() },
            Encoding::LittleEndian | Encoding::BigEndian => Place::Byte(self.start),
        };
        self.bytes.bad(class, place, expected, found)
    }

    /// The next word of text, as [`Self::word`].
    fn next_word(&mut self, property: &str) -> Result<(), ConvertError> {
        self.word.clear();
        loop {
            let shown = self.bytes.peek()?;
            if shown.is_empty() {
                if self.word.is_empty() {
                    let bad = self.bad(Class::Truncated, property, "a value", "the end");
                    return Err(bad.into());
                }
                return Ok(());
            }
            let mut taken = 0_usize;
            if self.word.is_empty() {
                let blanks = shown.iter().take_while(|byte| byte.is_ascii_whitespace());
                let mut lines = 0_u64;
                for byte in blanks {
                    taken += 1;
                    lines += u64::from(*byte == b'\n');
                }
                self.line += lines;
            }
            let rest = shown.get(taken..).unwrap_or(&[]);
            let letters = rest.iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
            let piece = rest.get(..letters).unwrap_or(&[]);
            self.word.push_str(&String::from_utf8_lossy(piece));
            let ended = letters < rest.len();
            self.bytes.take(taken + letters);
            if self.word.len() > MAX_WORD_BYTES {
                let expected = format!("a value of at most {MAX_WORD_BYTES} bytes");
                let bad = self.bad(Class::LimitExceeded, property, expected, "a longer one");
                return Err(bad.into());
            }
            if ended && !self.word.is_empty() {
                return Ok(());
            }
        }
    }
}

/// Bytes of a value.
fn size(dtype: Dtype) -> usize {
    usize::try_from(dtype.size).unwrap_or(0).min(8)
}

/// A count of one byte, and three numbers of four.
const TRIANGLE_BYTES: usize = 13;
/// Bytes of a value that is text.
const MAX_WORD_BYTES: usize = 1024;
