//! Parses JSON strictly and within limits. Every document is parsed here.
//!
//! * The text is UTF-8 and standard JSON. The bare words `NaN` and `Infinity`, which some writers
//!   produce, and literals too large for any number type (`1e999`) are refused; the error has the
//!   path of their key.
//! * A repeated key in one object is refused: readers disagree on which one counts.
//! * Size, depth and number of values have limits ([`Limits`]). Values are counted before they are
//!   allocated, and nothing recurses on the input.
//! * Integers that fit in 64 bits stay integers; larger ones become floats.
//!
//! A position in the text is at most a few bytes past its end, so `saturating_add` to one never
//! saturates.
//!
//! The presence list of an array document may be longer than the rest of the document, so it is
//! returned separately, as a [`KeyList`].
//!
//! Not here: the meaning of the values.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde_json::{Number, Value};

use super::Object;
use super::error::{At, MetadataError, path_name, quoted};
use super::keys::KeyList;
use zvf_format::num;
use zvf_format::{Class, Expected, Found};

/// The limits for a document.
///
/// ```
/// use zvf_metadata::{GroupDoc, Limits};
///
/// let narrow = Limits { bytes: 16, ..Limits::GROUP };
/// let error = GroupDoc::parse_within(br#"{"attributes": {}}"#, &narrow).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "LimitExceeded in metadata, document: expected at most 16, found 18",
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Length of the text in bytes.
    pub bytes: u64,
    /// Nesting depth of lists and objects.
    pub depth: usize,
    /// Number of values in memory; an object that is not empty counts as six. A presence list does
    /// not count.
    pub values: u64,
}

impl Limits {
    /// For root, level and other group documents.
    pub const GROUP: Self = Self { bytes: 1 << 24, depth: 64, values: 1 << 18 };

    /// For array documents.
    pub const ARRAY: Self = Self { bytes: 1 << 28, depth: 64, values: 1 << 20 };
}

/// A document, with its presence list separate.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) value: Value,
    pub(super) keys: Option<KeyList>,
    /// The byte range of the list with its brackets, if it is printed as writers print it.
    pub(super) printed: Option<Range<usize>>,
}

/// Parses the values of a document, and its presence list if there is one and `presence` is set.
///
/// # Errors
///
/// When `text` is not JSON as described at the top of this module, or exceeds `limits`.
pub(super) fn parse(text: &[u8], limits: &Limits, presence: bool) -> Result<Parsed, MetadataError> {
    let len = num::to_u64(text.len());
    if len > limits.bytes {
        let expected = Expected::AtMost(limits.bytes.into());
        return Err(MetadataError::new(Class::LimitExceeded, &At::Document, expected, len));
    }
    let mut parser = Parser {
        text: "",
        at: 0,
        open: Vec::new(),
        limits: *limits,
        values: 0,
        presence,
        keys: None,
        printed: None,
    };
    match core::str::from_utf8(text) {
        Ok(text) => parser.text = text,
        Err(error) => {
            parser.at = error.valid_up_to();
            let found =
                if text.starts_with(&[0x1f, 0x8b]) { "bytes of gzip" } else { "another byte" };
            return Err(parser.fault(Class::Encoding, "text in UTF-8", found));
        }
    }
    Ok(Parsed { value: parser.document()?, keys: parser.keys, printed: parser.printed })
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    open: Vec<Open>,
    limits: Limits,
    values: u64,
    presence: bool,
    keys: Option<KeyList>,
    printed: Option<Range<usize>>,
}

/// A list or object that is not closed yet.
enum Open {
    List(Vec<Value>),
    Object(Object, String),
    Presence(KeyList),
}

impl Parser<'_> {
    fn document(&mut self) -> Result<Value, MetadataError> {
        loop {
            if let Some(value) = self.start()?
                && let Some(whole) = self.attach(value)?
            {
                self.space();
                if self.at < self.text.len() {
                    return Err(self.fault(Class::Trailing, "the end of the document", "more"));
                }
                return Ok(whole);
            }
        }
    }

    /// Reads a value that is complete at once, or returns `None` after opening a list or object.
    fn start(&mut self) -> Result<Option<Value>, MetadataError> {
        self.space();
        let Some(byte) = self.peek() else { return Err(self.truncated_error("a value")) };
        let presence = byte == b'[' && self.is_at_presence();
        if !presence && !matches!(self.open.last(), Some(Open::Presence(_))) {
            self.charge(1)?;
        }
        match byte {
            b'{' => {
                self.check_depth()?;
                if self.closes(b'}') {
                    return Ok(Some(Value::Object(Object::new())));
                }
                self.charge(OBJECT_VALUES)?;
                self.open.push(Open::Object(Object::new(), String::new()));
                self.key()?;
                Ok(None)
            }
            b'[' if presence => {
                self.check_depth()?;
                if let Some((keys, len)) = KeyList::parse_printed(self.remaining_text()) {
                    let start = self.at;
                    self.at = self.at.saturating_add(len);
                    self.printed = Some(start..self.at);
                    self.keys = Some(keys);
                    return Ok(Some(Value::Null));
                }
                if self.closes(b']') {
                    self.keys = Some(KeyList::default());
                    return Ok(Some(Value::Null));
                }
                self.open.push(Open::Presence(KeyList::default()));
                Ok(None)
            }
            b'[' => {
                self.check_depth()?;
                if self.closes(b']') {
                    return Ok(Some(Value::Array(Vec::new())));
                }
                self.open.push(Open::List(Vec::new()));
                Ok(None)
            }
            b'"' => self.string().map(|text| Some(Value::String(text))),
            b'-' | b'0'..=b'9' => self.number().map(Some),
            _ => self.word().map(Some),
        }
    }

    /// Adds a complete value to the innermost list or object, and closes those that end here.
    /// Returns the document once nothing is open.
    fn attach(&mut self, mut value: Value) -> Result<Option<Value>, MetadataError> {
        loop {
            let end = match self.open.last_mut() {
                None => return Ok(Some(value)),
                Some(Open::List(items)) => {
                    items.push(value);
                    b']'
                }
                Some(Open::Presence(keys)) => {
                    let Value::String(key) = value else {
                        return Err(self.fault(Class::BadTag, "a chunk key", "another value"));
                    };
                    keys.push(&key);
                    b']'
                }
                Some(Open::Object(object, key)) => {
                    object.insert(core::mem::take(key), value);
                    b'}'
                }
            };
            self.space();
            match self.peek() {
                Some(b',') => {
                    self.at = self.at.saturating_add(1);
                    if end == b'}' {
                        self.key()?;
                    }
                    return Ok(None);
                }
                Some(byte) if byte == end => self.at = self.at.saturating_add(1),
                Some(_) => return Err(self.unexpected_error("a comma or the end")),
                None => return Err(self.truncated_error("a comma or the end")),
            }
            value = match self.open.pop() {
                None => return Ok(None), // something was open above
                Some(Open::List(mut items)) => {
                    items.shrink_to_fit();
                    Value::Array(items)
                }
                Some(Open::Object(object, _)) => Value::Object(object),
                Some(Open::Presence(mut keys)) => {
                    keys.shrink();
                    self.keys = Some(keys);
                    Value::Null
                }
            };
        }
    }

    /// Reads the next key of the innermost object, and the colon after it.
    fn key(&mut self) -> Result<(), MetadataError> {
        self.space();
        match self.peek() {
            Some(b'"') => {}
            Some(_) => return Err(self.unexpected_error("a key")),
            None => return Err(self.truncated_error("a key")),
        }
        self.charge(1)?;
        let name = self.string()?;
        let Some(Open::Object(object, key)) = self.open.last_mut() else { return Ok(()) };
        let twice = object.contains_key(&name);
        *key = name;
        if twice {
            return Err(self.fault(Class::Duplicate, "each key once", "it again"));
        }
        self.space();
        match self.peek() {
            Some(b':') => {
                self.at = self.at.saturating_add(1);
                Ok(())
            }
            Some(_) => Err(self.unexpected_error("a colon")),
            None => Err(self.truncated_error("a colon")),
        }
    }

    /// Reads a string, quotes included, and returns its text.
    fn string(&mut self) -> Result<String, MetadataError> {
        self.at = self.at.saturating_add(1);
        let mut text = String::new();
        loop {
            let rest = self.remaining_text();
            let run = rest.bytes().position(|b| matches!(b, b'"' | b'\\' | 0..0x20));
            let Some(run) = run else {
                self.at = self.text.len();
                return Err(self.truncated_error("the end of a string"));
            };
            text.push_str(rest.get(..run).unwrap_or_default()); // `run` is at a character of one byte
            self.at = self.at.saturating_add(run);
            match self.peek() {
                Some(b'"') => {
                    self.at = self.at.saturating_add(1);
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                _ => return Err(self.unexpected_error("no control characters in a string")),
            }
        }
    }

    /// Reads one escape sequence.
    fn escape(&mut self) -> Result<char, MetadataError> {
        let letter = self.text.as_bytes().get(self.at.saturating_add(1)).copied();
        let plain = match letter {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            Some(_) => return Err(self.unexpected_error("an escape of JSON")),
            None => return Err(self.truncated_error("an escape")),
        };
        self.at = self.at.saturating_add(2);
        Ok(plain)
    }

    /// Reads an escape of four hexadecimal digits, or a surrogate pair of two.
    fn unicode(&mut self) -> Result<char, MetadataError> {
        let first = self.hex(self.at);
        let (unit, len) = match first {
            Some(high @ 0xd800..=0xdbff) => {
                let low = self.hex(self.at.saturating_add(6));
                let low = low.filter(|low| (0xdc00..=0xdfff).contains(low));
                let pair = low.map(|low| {
                    // Ten bits of each.
                    ((high & 0x3ff) << 10 | (low & 0x3ff)).saturating_add(0x1_0000)
                });
                (pair, 12)
            }
            other => (other, 6),
        };
        let Some(c) = unit.and_then(char::from_u32) else {
            return Err(self.unexpected_error("a character in hexadecimal"));
        };
        self.at = self.at.saturating_add(len);
        Ok(c)
    }

    /// Reads the code unit of the escape at `at`.
    fn hex(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        let all = digits.bytes().all(|b| b.is_ascii_hexdigit());
        if all { u32::from_str_radix(digits, 16).ok() } else { None }
    }

    fn number(&mut self) -> Result<Value, MetadataError> {
        let rest = self.remaining_text();
        if rest.starts_with("-I") {
            return self.word();
        }
        let Some((len, whole)) = number_len(rest.as_bytes()) else {
            return Err(self.unexpected_error("a number"));
        };
        let digits = rest.get(..len).unwrap_or_default(); // all of one byte
        let exact = if whole { exact_number(digits) } else { None };
        let number = match exact {
            Some(number) => number,
            None => {
                let near = digits.parse().ok().and_then(Number::from_f64);
                near.ok_or_else(|| {
                    let rule = "a number that 64 bits can hold";
                    self.fault(Class::Overflow, rule, "more").with_quote(digits)
                })?
            }
        };
        self.at = self.at.saturating_add(len);
        Ok(Value::Number(number))
    }

    fn word(&mut self) -> Result<Value, MetadataError> {
        let rest = self.remaining_text();
        let end = rest.bytes().position(|b| !(b.is_ascii_alphanumeric() || b == b'-'));
        // `end` follows one-byte characters, so it is a character boundary.
        let word = end.map_or(rest, |end| rest.get(..end).unwrap_or_default());
        let value = match word {
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "NaN" | "Infinity" | "-Infinity" => {
                let error = self.fault(Class::Encoding, "a finite number", "a bare word");
                return Err(error.with_text(word.to_owned()));
            }
            _ => return Err(self.unexpected_error("a value")),
        };
        self.at = self.at.saturating_add(word.len());
        Ok(value)
    }

    /// Skips the opening bracket; if `end` follows at once, skips it too and returns `true`.
    fn closes(&mut self, end: u8) -> bool {
        self.at = self.at.saturating_add(1);
        self.space();
        let empty = self.peek() == Some(end);
        if empty {
            self.at = self.at.saturating_add(1);
        }
        empty
    }

    fn space(&mut self) {
        let space = |b: &u8| matches!(b, b' ' | b'\n' | b'\r' | b'\t');
        let run = self.remaining_text().bytes().take_while(|b| space(b)).count();
        self.at = self.at.saturating_add(run);
    }

    /// Returns the rest of the text: `at` is never inside a character.
    fn remaining_text(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Returns whether the list that starts here is `attributes.nonempty_chunks`.
    fn is_at_presence(&self) -> bool {
        let [Open::Object(_, first), Open::Object(_, second)] = self.open.as_slice() else {
            return false;
        };
        self.presence && first == "attributes" && second == "nonempty_chunks"
    }

    fn charge(&mut self, values: u64) -> Result<(), MetadataError> {
        self.values = self.values.saturating_add(values); // compared with the cap
        if self.values > self.limits.values {
            let expected = Expected::AtMost(self.limits.values.into());
            return Err(self.refuse(Class::LimitExceeded, expected, self.values));
        }
        Ok(())
    }

    fn check_depth(&self) -> Result<(), MetadataError> {
        let depth = self.open.len().saturating_add(1);
        if depth > self.limits.depth {
            let expected = Expected::AtMost(num::to_u64(self.limits.depth).into());
            return Err(self.refuse(Class::LimitExceeded, expected, depth));
        }
        Ok(())
    }

    fn truncated_error(&self, expected: &'static str) -> MetadataError {
        self.fault(Class::Truncated, expected, "the end of the text")
    }

    fn unexpected_error(&self, expected: &'static str) -> MetadataError {
        let words: String = self.remaining_text().chars().take(8).collect();
        self.fault(Class::Encoding, expected, "other text").with_text(quoted(&words))
    }

    fn fault(&self, class: Class, expected: &'static str, found: &'static str) -> MetadataError {
        self.refuse(class, Expected::Rule(expected), found)
    }

    fn refuse(&self, class: Class, expected: Expected, found: impl Into<Found>) -> MetadataError {
        let mut error = MetadataError::new(class, &At::Document, expected, found);
        error.error.offset = num::to_u64(self.at);
        let path = self.path();
        if !path.is_empty() {
            error.path = path;
        }
        error
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for open in &self.open {
            let step = match open {
                Open::List(items) => format!("[{}]", items.len()),
                Open::Presence(keys) => format!("[{}]", keys.len()),
                Open::Object(_, key) if key.is_empty() => continue, // between two keys
                Open::Object(_, key) if path.is_empty() => path_name(key),
                Open::Object(_, key) => format!(".{}", path_name(key)),
            };
            path.push_str(&step);
        }
        path
    }
}

/// Returns the length of the number at the start of `text`, and whether it has neither a point nor
/// an exponent.
fn number_len(text: &[u8]) -> Option<(usize, bool)> {
    let digits = |from: usize| {
        let run = text.get(from..).unwrap_or_default(); // none past the end
        let run = run.iter().take_while(|b| b.is_ascii_digit()).count();
        if run > 0 { Some(from.saturating_add(run)) } else { None }
    };
    let start = usize::from(text.first() == Some(&b'-'));
    let zero = text.get(start) == Some(&b'0');
    let mut end = if zero { start.saturating_add(1) } else { digits(start)? };
    if text.get(end).is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let mut whole = true;
    if text.get(end) == Some(&b'.') {
        (end, whole) = (digits(end.saturating_add(1))?, false);
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let sign = matches!(text.get(end.saturating_add(1)), Some(b'+' | b'-'));
        end = digits(end.saturating_add(if sign { 2 } else { 1 }))?;
        whole = false;
    }
    Some((end, whole))
}

/// Reads an integer of up to 64 bits.
fn exact_number(digits: &str) -> Option<Number> {
    match digits.parse::<i64>() {
        Ok(n) => Some(n.into()),
        Err(_) => digits.parse::<u64>().ok().map(Number::from),
    }
}

/// The cost of an object that is not empty, in addition to its values.
const OBJECT_VALUES: u64 = 5;

#[cfg(test)]
mod tests;
