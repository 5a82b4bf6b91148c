//! Parser of the NPY header: the type of a record, the shape and the order of the array.
//!
//! ```text
//! offset   size    field
//! 0        6       magic, 93 4e 55 4d 50 59
//! 6        2       version: 1.0, 2.0 or 3.0
//! 8        2 or 4  length n of the header: u16 in version 1.0, u32 after
//! 10 or 12 n       the header: a dictionary as Python writes it, with `descr`, `fortran_order`, `shape`
//! ```

use std::fmt::Display;

use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_formats::{ByteFault, Bytes, FilePlace, RecordField};
use zvf_metadata::Dtype;

/// A parsed NPY header.
#[derive(Debug, PartialEq)]
pub(crate) struct ArrayHeader {
    /// The fields of an element; one field without a name if the type is plain.
    pub(crate) fields: Vec<RecordField>,
    /// Whether the first index changes fastest.
    pub(crate) fortran_order: bool,
    /// The length of each axis.
    pub(crate) shape: Vec<u64>,
}

impl ArrayHeader {
    /// Reads the header at the start of `bytes`.
    pub(crate) fn read(bytes: &mut Bytes) -> Result<Self> {
        let start = bytes.position();
        let magic: [u8; 8] = bytes.read_array("the magic and version")?;
        let [b @ .., major, minor] = magic;
        if b != *b"\x93NUMPY" {
            let found = format!("{b:02x?}");
            return bytes.spot(FilePlace::Byte(start)).refuse(Class::BadMagic, "93 NUMPY", found);
        }
        let length = match (major, minor) {
            (1, 0) => u16::from_le_bytes(bytes.read_array("the length of the header")?).into(),
            (2 | 3, 0) => u32::from_le_bytes(bytes.read_array("the length of the header")?),
            _ => {
                let place = FilePlace::Byte(start + 6);
                let found = format!("{major}.{minor}");
                let expected = "version 1.0, 2.0 or 3.0";
                return bytes.spot(place).refuse(Class::UnsupportedVersion, expected, found);
            }
        };
        let at = bytes.position();
        let length = usize::try_from(length).ok().filter(|length| *length <= MAX_HEADER_BYTES);
        let place = FilePlace::Byte(at);
        let expected = "a header of at most 1 MiB";
        let found = "a longer one";
        let length = bytes.spot(place).need(length, Class::LimitExceeded, expected, found)?;
        let mut text = vec![0; length];
        bytes.read(&mut text, "the header")?;
        let to_error =
            |fault: ByteFault| bytes.spot(FilePlace::Byte(at + to_u64(fault.at))).fault(fault);
        Parser { text: &text, at: 0 }.parse_header().map_err(to_error)
    }

    /// Returns the number of elements, or `None` on overflow.
    pub(crate) fn element_count(&self) -> Option<u64> {
        zvf_format::num::checked_product(&self.shape)
    }
}

/// Parser of a Python literal. The grammar has no recursion, so the depth is bounded.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

type Parsed<T> = Result<T, ByteFault>;

impl Parser<'_> {
    fn parse_header(mut self) -> Parsed<ArrayHeader> {
        let (mut fields, mut fortran_order, mut shape) = (None, None, None);
        self.expect_byte(b'{', "a dictionary")?;
        while !self.accept(b'}') {
            let start = self.at;
            let key = self.parse_string("a key")?;
            self.expect_byte(b':', "a colon")?;
            match key.as_str() {
                "descr" => fields = Some(self.parse_descr()?),
                "fortran_order" => fortran_order = Some(self.parse_bool()?),
                "shape" => shape = Some(self.parse_numbers()?),
                _ => {
                    let expected = "descr, fortran_order or shape";
                    return Err(new_fault(Class::BadTag, start, expected, format!("{key:?}")));
                }
            }
            if !self.accept(b',') {
                self.expect_byte(b'}', "a comma or the end of the dictionary")?;
                break;
            }
        }
        let missing = |name| new_fault(Class::Truncated, self.at, name, "none");
        Ok(ArrayHeader {
            fields: fields.ok_or_else(|| missing("the key descr"))?,
            fortran_order: fortran_order.ok_or_else(|| missing("the key fortran_order"))?,
            shape: shape.ok_or_else(|| missing("the key shape"))?,
        })
    }

    /// Parses a type, or a list of names with types and shapes.
    fn parse_descr(&mut self) -> Parsed<Vec<RecordField>> {
        if !self.accept(b'[') {
            let dtype = self.parse_dtype()?;
            return Ok(vec![RecordField { name: String::new(), dtype, width: 1 }]);
        }
        let mut fields = Vec::new();
        while !self.accept(b']') {
            self.expect_byte(b'(', "a field in parentheses")?;
            let name = self.parse_name()?;
            self.expect_byte(b',', "a comma")?;
            let dtype = self.parse_dtype()?;
            let start = self.at;
            let mut width = 1_u64;
            if self.accept(b',') && self.peek() != Some(b')') {
                let shape = match self.peek() {
                    Some(b'(') => self.parse_numbers()?,
                    _ => vec![self.parse_number()?],
                };
                // An overflow is refused below.
                width = shape.iter().fold(1, |product, length| product.saturating_mul(*length));
            }
            self.expect_byte(b')', "the end of the field")?;
            let width =
                u32::try_from(width).ok().filter(|width| (1..=MAX_FIELD_VALUES).contains(width));
            let width = width.ok_or_else(|| {
                let expected = "from 1 to 4096 values in a field";
                new_fault(Class::BadShape, start, expected, "another number")
            })?;
            fields.push(RecordField { name, dtype, width });
            if !self.accept(b',') {
                self.expect_byte(b']', "a comma or the end of the fields")?;
                break;
            }
        }
        if fields.is_empty() {
            return Err(new_fault(Class::BadShape, self.at, "a field", "none"));
        }
        Ok(fields)
    }

    /// Parses a name, or a title and a name. Titles are dropped.
    fn parse_name(&mut self) -> Parsed<String> {
        if !self.accept(b'(') {
            return self.parse_string("the name of a field");
        }
        self.parse_string("the title of a field")?;
        self.expect_byte(b',', "a comma")?;
        let name = self.parse_string("the name of a field")?;
        self.expect_byte(b')', "the end of the name")?;
        Ok(name)
    }

    fn parse_dtype(&mut self) -> Parsed<Dtype> {
        let start = self.at;
        let word = self.parse_string("a type")?;
        word.parse::<Dtype>().map_err(|_no_such_type| {
            let expected = "a type of numbers, booleans or text such as '<f4'";
            let mut fault = new_fault(Class::Unsupported, start, expected, format!("{word:?}"));
            fault.hint = Some("convert the array with astype() first");
            fault
        })
    }

    fn parse_bool(&mut self) -> Parsed<bool> {
        for (word, value) in [("True", true), ("False", false)] {
            self.skip_blanks();
            if self.rest().starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.unexpected_byte("True or False"))
    }

    fn parse_numbers(&mut self) -> Parsed<Vec<u64>> {
        self.expect_byte(b'(', "numbers in parentheses")?;
        let mut numbers = Vec::new();
        while !self.accept(b')') {
            numbers.push(self.parse_number()?);
            if !self.accept(b',') {
                self.expect_byte(b')', "a comma or the end of the numbers")?;
                break;
            }
        }
        Ok(numbers)
    }

    fn parse_number(&mut self) -> Parsed<u64> {
        self.skip_blanks();
        let rest = self.rest();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = std::str::from_utf8(&rest[..digits]).ok();
        let number = text.and_then(|text| text.parse().ok());
        let number = number.ok_or_else(|| self.unexpected_byte("a number"))?;
        self.at += digits;
        Ok(number)
    }

    fn parse_string(&mut self, what: &str) -> Parsed<String> {
        self.skip_blanks();
        let quote = self.peek().filter(|byte| matches!(byte, b'\'' | b'"'));
        let quote = quote.ok_or_else(|| self.unexpected_byte(what))?;
        let start = self.at + 1;
        let mut bytes = Vec::new();
        let mut rest = self.text[start..].iter();
        let mut consumed = 0_usize;
        while let Some(byte) = rest.next() {
            consumed += 1;
            match byte {
                byte if *byte == quote => {
                    self.at = start + consumed;
                    return String::from_utf8(bytes).map_err(|_no_text| {
                        new_fault(Class::Encoding, start, "text in UTF-8", "other bytes")
                    });
                }
                b'\\' => {
                    consumed += 1;
                    bytes.extend(rest.next());
                }
                byte => bytes.push(*byte),
            }
        }
        Err(new_fault(Class::Truncated, start, "a closing quote", "the end"))
    }

    fn rest(&self) -> &[u8] {
        &self.text[self.at..]
    }

    fn expect_byte(&mut self, byte: u8, what: &str) -> Parsed<()> {
        if self.accept(byte) { Ok(()) } else { Err(self.unexpected_byte(what)) }
    }

    /// Consumes `byte` if it is next.
    fn accept(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.rest().first().copied()
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.at += blanks;
    }

    fn unexpected_byte(&self, expected: &str) -> ByteFault {
        let found = match self.rest().first() {
            Some(byte) => format!("{:?}", char::from(*byte)),
            None => "the end".to_owned(),
        };
        new_fault(Class::Encoding, self.at, expected, found)
    }
}

fn new_fault(class: Class, at: usize, expected: &str, found: impl Display) -> ByteFault {
    ByteFault { at, ..ByteFault::new(class, expected, found) }
}

const MAX_HEADER_BYTES: usize = 1 << 20;
/// Values of a field.
const MAX_FIELD_VALUES: u32 = 4096;

#[cfg(test)]
mod tests {
    use zvf_formats::Input;

    use super::*;
    use crate::shared::fault;

    fn parse(text: &str) -> Result<ArrayHeader, String> {
        let length = u16::try_from(text.len()).unwrap();
        let file = [b"\x93NUMPY\x01\0", &length.to_le_bytes()[..], text.as_bytes()].concat();
        read(file)
    }

    fn read(file: Vec<u8>) -> Result<ArrayHeader, String> {
        let mut bytes = Input::reader(std::io::Cursor::new(file)).begin().unwrap();
        bytes.set_format("npy");
        ArrayHeader::read(&mut bytes).map_err(|error| error.to_string())
    }

    #[test]
    fn parses_headers_of_numpy() {
        let field = |name: &str, dtype: &str, width| RecordField {
            name: name.into(),
            dtype: dtype.parse::<Dtype>().unwrap(),
            width,
        };
        for (text, fields, fortran_order, shape) in [
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }   \n",
                vec![field("", "float32", 1)],
                false,
                vec![3, 2],
            ),
            (
                "{\"shape\": (), \"descr\": \">i8\", \"fortran_order\": True}",
                vec![field("", ">i8", 1)],
                true,
                vec![],
            ),
            (
                "{'descr': [('it\\'s', '|u1', (2,)), (('title', 'b'), '<U3'), ('c', '<f8', 3), ('d', '|b1', )], \
                 'fortran_order': False, 'shape': (5,)}",
                vec![
                    field("it's", "uint8", 2),
                    field("b", "<U3", 1),
                    field("c", "float64", 3),
                    field("d", "bool", 1),
                ],
                false,
                vec![5],
            ),
        ] {
            assert_eq!(parse(text), Ok(ArrayHeader { fields, fortran_order, shape }), "{text}");
        }
    }

    #[test]
    fn refuses_broken_headers() {
        for (text, message) in [
            ("", "Encoding, byte 10: a dictionary, found the end"),
            ("[", "Encoding, byte 10: a dictionary, found '['"),
            ("{1", "Encoding, byte 11: a key, found '1'"),
            ("{'a", "Truncated, byte 12: a closing quote, found the end"),
            ("{'\u{e9}\\", "Truncated, byte 12: a closing quote, found the end"),
            ("{'descr' 1", "Encoding, byte 19: a colon, found '1'"),
            ("{'other': 1}", "BadTag, byte 11: descr, fortran_order or shape, found \"other\""),
            (
                "{'descr': '<c8'}",
                "Unsupported, byte 20: a type of numbers, booleans or text such as '<f4', found \
                 \"<c8\"; convert the array with astype() first",
            ),
            ("{'descr': []", "BadShape, byte 22: a field, found none"),
            ("{'descr': [1", "Encoding, byte 21: a field in parentheses, found '1'"),
            ("{'descr': [('a' 1", "Encoding, byte 26: a comma, found '1'"),
            (
                "{'descr': [('a', '<f4', (0,))]",
                "BadShape, byte 32: from 1 to 4096 values in a field, found another number",
            ),
            (
                "{'descr': [('a', '<f4', (99999999999, 99999999999))]",
                "BadShape, byte 32: from 1 to 4096 values in a field, found another number",
            ),
            (
                "{'descr': [('a', '<f4')('b'",
                "Encoding, byte 33: a comma or the end of the fields, found '('",
            ),
            ("{'fortran_order': 0", "Encoding, byte 28: True or False, found '0'"),
            ("{'shape': 1", "Encoding, byte 20: numbers in parentheses, found '1'"),
            ("{'shape': (-1", "Encoding, byte 21: a number, found '-'"),
            ("{'shape': (99999999999999999999", "Encoding, byte 21: a number, found '9'"),
            ("{'shape': (1 2", "Encoding, byte 23: a comma or the end of the numbers, found '2'"),
            ("{}", "Truncated, byte 12: the key descr, found none"),
            ("{'descr': '<f4'}", "Truncated, byte 26: the key fortran_order, found none"),
            (
                "{'descr': '<f4', 'fortran_order': True}",
                "Truncated, byte 49: the key shape, found none",
            ),
            (
                "{'shape': () 'descr'",
                "Encoding, byte 23: a comma or the end of the dictionary, found '\\''",
            ),
        ] {
            assert_eq!(fault(parse(text), "npy"), message, "{text}");
        }
        for (file, message) in [
            (&b"\x93NUMPI\x01\0"[..], "BadMagic, byte 0: 93 NUMPY, found [93, 4e, 55, 4d, 50, 49]"),
            (b"\x93NUMPY\x04\0", "UnsupportedVersion, byte 6: version 1.0, 2.0 or 3.0, found 4.0"),
            (
                b"\x93NUMPY\x02\0\xff\xff\xff\xff",
                "LimitExceeded, byte 12: a header of at most 1 MiB, found a longer one",
            ),
            (b"\x93NUM", "Truncated, byte 0: 8 bytes of the magic and version, found 4"),
            (b"\x93NUMPY\x01\0\x02\0{", "Truncated, byte 10: 2 bytes of the header, found 1"),
        ] {
            assert_eq!(fault(read(file.to_vec()), "npy"), message);
        }
    }
}
