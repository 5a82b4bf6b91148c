//! Lines of text with their numbers.

use zvf_format::Class;

use super::input::Bytes;
use crate::ConvertError;
use crate::error::{BadInput, Place};

/// Lines, from 1. A line ends with a line feed, a carriage return before it is not part of it. Where the first
/// line ends with a lone carriage return, as old programs write it, all lines do.
pub(super) struct Lines {
    bytes: Bytes,
    lenient: bool, // other bytes than UTF-8 are in comments
    text: String,
    line: Vec<u8>,
    number: u64,
    end: Option<u8>, // what lines end with, once that is known
}

impl Lines {
    pub(super) const fn new(bytes: Bytes) -> Self {
        Self { bytes, lenient: false, text: String::new(), line: Vec::new(), number: 0, end: None }
    }

    /// The same of a format in which only comments are for people: what is not UTF-8 is replaced.
    pub(super) const fn lenient(bytes: Bytes) -> Self {
        Self { bytes, lenient: true, text: String::new(), line: Vec::new(), number: 0, end: None }
    }

    /// The next line, or nothing at the end.
    pub(super) fn next(&mut self) -> Result<Option<&str>, ConvertError> {
        self.line.clear();
        let mut ended = false;
        let mut any = false;
        while !ended {
            let shown = self.bytes.peek()?;
            if shown.is_empty() {
                break;
            }
            any = true;
            let mark = match self.end {
                Some(mark) => mark,
                None => {
                    // A carriage return is the end of a line by itself when no line feed follows; where the
                    // last byte shown is one, what follows is not known yet.
                    let first = shown.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
                    let after = first.and_then(|at| shown.get(at..at.saturating_add(2)));
                    let before = self.line.last() == Some(&b'\r') && !shown.starts_with(b"\n");
                    let lone = before || matches!(after, Some([b'\r', next]) if *next != b'\n');
                    let mark = if lone { b'\r' } else { b'\n' };
                    if before {
                        self.line.pop();
                        self.end = Some(mark);
                        break;
                    }
                    if lone || shown.contains(&b'\n') {
                        self.end = Some(mark);
                    }
                    mark
                }
            };
            let end = shown.iter().position(|byte| *byte == mark);
            let piece = shown.get(..end.unwrap_or(shown.len())).unwrap_or(shown);
            self.line.extend_from_slice(piece);
            let taken = piece.len().saturating_add(usize::from(end.is_some()));
            self.bytes.take(taken);
            ended = end.is_some();
            if self.line.len() > LONGEST {
                let number = self.number.saturating_add(1);
                let expected = format!("a line of at most {LONGEST} bytes");
                let place = Place::Line(number);
                return Err(self
                    .bytes
                    .bad(Class::LimitExceeded, place, expected, "a longer one")
                    .into());
            }
        }
        if !any {
            return Ok(None);
        }
        self.number += 1;
        if self.line.ends_with(b"\r") {
            self.line.pop();
        }
        let mark: &[u8] = if self.number == 1 { "\u{feff}".as_bytes() } else { b"" };
        let line = self.line.strip_prefix(mark).unwrap_or(&self.line);
        match std::str::from_utf8(line) {
            Ok(text) => Ok(Some(text)),
            Err(_) if self.lenient => {
                self.text = String::from_utf8_lossy(line).into_owned();
                Ok(Some(&self.text))
            }
            Err(error) => {
                let found = format!("other bytes after {} of them", error.valid_up_to());
                Err(self.bad(Class::Encoding, "text in UTF-8", found).into())
            }
        }
    }

    /// The next line with those that it goes on in: a line that ends with `\` goes on in the next one, unless it is a
    /// comment.
    pub(super) fn next_continued(&mut self) -> Result<Option<&str>, ConvertError> {
        let goes_on = |line: &str| line.ends_with('\\') && !line.trim_start().starts_with('#');
        match self.next()? {
            None => return Ok(None),
            Some(line) if !goes_on(line) => return Ok(Some(self.current())),
            Some(_) => {}
        }
        let mut whole = self.current().trim_end_matches('\\').to_owned();
        while let Some(line) = self.next()? {
            whole.push(' ');
            whole.push_str(line.trim_end_matches('\\'));
            let ends = !line.ends_with('\\');
            if whole.len() > LONGEST {
                let expected =
                    format!("a line of at most {LONGEST} bytes with those it goes on in");
                return Err(self.bad(Class::LimitExceeded, expected, "a longer one").into());
            }
            if ends {
                break;
            }
        }
        self.text = whole;
        Ok(Some(&self.text))
    }

    /// The line that came last.
    fn current(&self) -> &str {
        let mark: &[u8] = if self.number == 1 { "\u{feff}".as_bytes() } else { b"" };
        let line = self.line.strip_prefix(mark).unwrap_or(&self.line);
        std::str::from_utf8(line).unwrap_or(&self.text)
    }

    /// The number of the line that came last.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// The bytes after it.
    pub(super) fn into_bytes(self) -> Bytes {
        self.bytes
    }

    pub(super) const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// A fault in the line that came last.
    pub(super) fn bad(
        &self,
        class: Class,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> BadInput {
        self.bytes.bad(class, Place::Line(self.number), expected, found)
    }
}

/// The longest line that is read.
pub(super) const LONGEST: usize = 1 << 20;
