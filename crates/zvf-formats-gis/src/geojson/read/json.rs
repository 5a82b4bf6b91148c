//! Pull parser of JSON for `GeoJSON`: finds values in a stream, then parses them in place.
//!
//! Depth is bounded and no tree is built. Invalid JSON is refused: `NaN`, extra commas, text that is not UTF-8.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::Value as Json;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_formats::{FilePlace, Sequence, Spot};

/// Moves the bytes of the next value to `into`, at most `max_bytes`.
pub(crate) fn take_value(from: &mut Sequence, into: &mut Vec<u8>, max_bytes: u64) -> Result<()> {
    into.clear();
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    loop {
        let shown = from.peek()?;
        if shown.is_empty() {
            return from.here().refuse(Class::Truncated, "the rest of a value", "the end");
        }
        let mut taken = 0;
        let mut ended = false;
        for byte in shown {
            if quoted {
                taken += 1;
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' => escaped = true,
                    b'"' => {
                        quoted = false;
                        ended = depth == 0;
                    }
                    _ => {}
                }
            } else {
                match byte {
                    b'"' => quoted = true,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' if depth > 0 => {
                        depth -= 1;
                        ended = depth == 0;
                    }
                    b',' | b'}' | b']' | b':' | b' ' | b'\n' | b'\r' | b'\t' | 0x1e
                        if depth == 0 =>
                    {
                        ended = true;
                        break;
                    }
                    _ => {}
                }
                taken += 1;
            }
            if ended || depth > MAX_DEPTH {
                break;
            }
        }
        into.extend_from_slice(&shown[..taken]);
        from.take(taken);
        let expected = format_args!("values at most {MAX_DEPTH} deep");
        from.here().ensure(depth <= MAX_DEPTH, Class::LimitExceeded, expected, "deeper ones")?;
        if u64::try_from(into.len()).is_ok_and(|len| len > max_bytes) {
            let expected = format!("a value of at most {max_bytes} bytes");
            let spot = from.here().hint("raise --memory-limit");
            return spot.refuse(Class::LimitExceeded, expected, "a larger one");
        }
        if ended {
            return Ok(());
        }
    }
}

/// Skips white space and returns the next byte, without taking it.
pub(crate) fn next_byte(from: &mut Sequence) -> Result<Option<u8>> {
    loop {
        let shown = from.peek()?;
        if shown.is_empty() {
            return Ok(None);
        }
        let blank = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t' | 0x1e);
        let taken = shown.iter().position(|byte| !blank(byte)).unwrap_or(shown.len());
        let byte = shown.get(taken).copied();
        from.take(taken);
        if byte.is_some() {
            return Ok(byte);
        }
    }
}

/// Takes the next byte, which must be `byte`.
pub(crate) fn take_byte(from: &mut Sequence, byte: u8) -> Result<()> {
    let expected = format!("{:?}", char::from(byte));
    match next_byte(from)? {
        Some(next) if next == byte => {
            from.take(1);
            Ok(())
        }
        Some(next) => {
            from.here().refuse(Class::Encoding, expected, format!("{:?}", char::from(next)))
        }
        None => from.here().refuse(Class::Truncated, expected, "the end"),
    }
}

/// A parser of a value in memory.
#[derive(Clone, Copy)]
pub(crate) struct Text<'a> {
    text: &'a str,
    used: usize, // bytes of complete tokens, so that it is the start of a character
    at: u64,     // offset of the text in the file
}

impl<'a> Text<'a> {
    /// Creates a parser of the bytes of a value at offset `at` of the file.
    pub(crate) fn new(bytes: &'a [u8], at: u64) -> Result<Self> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Self { text, used: 0, at }),
            Err(error) => {
                let at = at + to_u64(error.valid_up_to());
                let spot = Spot::new(NAME, FilePlace::Byte(at));
                spot.refuse(Class::Encoding, "text in UTF-8", "other bytes")
            }
        }
    }

    /// Returns the spot of the next token.
    pub(crate) fn here(&self) -> Spot<FilePlace> {
        Spot::new(NAME, FilePlace::Byte(self.at + to_u64(self.used)))
    }

    /// Skips white space and returns the next byte, or 0 at the end. No token begins with 0.
    pub(crate) fn peek(&mut self) -> u8 {
        let rest = &self.text.as_bytes()[self.used..];
        let blank =
            rest.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).count();
        self.used += blank;
        rest.get(blank).copied().unwrap_or(0)
    }

    /// Takes the next byte if it is `byte`. Returns whether it is.
    pub(crate) fn take_if(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte;
        self.used += usize::from(found);
        found
    }

    /// Takes the next byte, which must be `byte`.
    fn expect_byte(&mut self, byte: u8) -> Result<()> {
        if self.take_if(byte) {
            return Ok(());
        }
        self.here().refuse(Class::Encoding, format!("{:?}", char::from(byte)), self.next_text())
    }

    /// Checks that nothing follows.
    pub(crate) fn expect_end(&mut self) -> Result<()> {
        self.peek();
        if self.used == self.text.len() {
            return Ok(());
        }
        self.here().refuse(Class::Encoding, "the end of a value", self.next_text())
    }

    /// Returns the next byte as text for messages.
    fn next_text(&self) -> String {
        let next = self.text.as_bytes().get(self.used);
        next.map_or_else(|| "the end".to_owned(), |byte| format!("{:?}", char::from(*byte)))
    }

    /// Reads a string.
    pub(crate) fn read_string(&mut self) -> Result<Cow<'a, str>> {
        self.expect_byte(b'"')?;
        let rest = &self.text[self.used..];
        let mut escaped = false;
        let mut plain = true;
        let end = rest.bytes().position(|byte| {
            let quote = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            plain &= byte != b'\\' && byte >= 0x20;
            quote
        });
        let expected = "the end of a text";
        let end = self.here().need(end, Class::Truncated, expected, "the end of the value")?;
        let inner = &rest[..end];
        let text = if plain {
            Cow::Borrowed(inner)
        } else {
            let quoted = &self.text[self.used - 1..self.used + end + 1];
            let text: Result<String, _> = serde_json::from_str(quoted);
            Cow::Owned(text.map_err(|_escape| {
                self.here().error(Class::Encoding, "a text", "an invalid escape")
            })?)
        };
        self.used += end + 1;
        Ok(text)
    }

    /// Reads a number and returns its text.
    pub(crate) fn read_number(&mut self) -> Result<&'a str> {
        self.peek();
        let rest = &self.text[self.used..];
        let end = rest
            .bytes()
            .position(|byte| !matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
        let number = &rest[..end.unwrap_or(rest.len())];
        if serde_json::from_str::<IgnoredAny>(number).is_err() {
            let found: String = rest.chars().take(12).collect();
            return self.here().refuse(Class::Encoding, "a number", format!("{found:?}"));
        }
        self.used += number.len();
        Ok(number)
    }

    /// Takes a word such as `null` if it is next. Returns whether it was.
    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        self.peek();
        let found = self.text[self.used..].starts_with(word);
        if found {
            self.used += word.len();
        }
        found
    }

    /// Reads a value of any type and returns its text.
    pub(crate) fn read_value(&mut self) -> Result<&'a str> {
        self.peek();
        let start = self.used;
        let mut open: Vec<u8> = Vec::new(); // the bytes that close them
        loop {
            match self.peek() {
                byte @ (b'{' | b'[') => {
                    self.used += 1;
                    let close = if byte == b'{' { b'}' } else { b']' };
                    if !self.take_if(close) {
                        open.push(close);
                        if byte == b'{' {
                            self.read_key()?;
                        }
                        continue;
                    }
                }
                b'"' => drop(self.read_string()?),
                b't' if self.take_word("true") => {}
                b'f' if self.take_word("false") => {}
                b'n' if self.take_word("null") => {}
                _ => {
                    self.read_number()?;
                }
            }
            loop {
                let Some(close) = open.last().copied() else {
                    return Ok(&self.text[start..self.used]);
                };
                if self.take_if(b',') {
                    if close == b'}' {
                        self.read_key()?;
                    }
                    break;
                }
                self.expect_byte(close)?;
                open.pop();
            }
        }
    }

    /// Reads the name of a member and its colon.
    pub(crate) fn read_key(&mut self) -> Result<Cow<'a, str>> {
        let key = self.read_string()?;
        self.expect_byte(b':')?;
        Ok(key)
    }

    /// Reads an object. Calls `member` with each name; it must read the value.
    pub(crate) fn read_members(
        &mut self,
        mut member: impl FnMut(Cow<'a, str>, &mut Self) -> Result<()>,
    ) -> Result<()> {
        self.read_list([b'{', b'}'], |text| {
            let key = text.read_key()?;
            member(key, text)
        })
    }

    /// Reads an array. Calls `item` for each item; it must read the item.
    pub(crate) fn read_items(&mut self, item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.read_list([b'[', b']'], item)
    }

    fn read_list(
        &mut self,
        [open, close]: [u8; 2],
        mut item: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.expect_byte(open)?;
        if self.take_if(close) {
            return Ok(());
        }
        loop {
            item(self)?;
            if !self.take_if(b',') {
                return self.expect_byte(close);
            }
        }
    }
}

/// Formats an object or an array as one line of text: `{"k": [1, 2]}`.
pub(crate) fn nested_text(text: &str) -> String {
    let Ok(value) = serde_json::from_str::<Json>(text) else { return text.to_owned() };
    let mut out = String::new();
    write_json(&value, &mut out);
    out
}

fn write_json(value: &Json, out: &mut String) {
    match value {
        Json::Object(members) => {
            out.push('{');
            for (at, (name, value)) in members.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                out.push_str(&Json::from(name.as_str()).to_string());
                out.push_str(": ");
                write_json(value, out);
            }
            out.push('}');
        }
        Json::Array(items) => {
            out.push('[');
            for (at, value) in items.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                write_json(value, out);
            }
            out.push(']');
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {
            out.push_str(&value.to_string())
        }
    }
}

pub(crate) const NAME: &str = "GeoJSON";
/// Depth of nested values.
const MAX_DEPTH: usize = 64;
