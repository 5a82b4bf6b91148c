//! Lines of text with their numbers.

use zvf_format::Class;
use zvf_format::num::to_u64;

use super::input::Bytes;
use crate::ConvertError;
use crate::error::{BadInput, Place};

/// Lines, from 1. A line ends with a line feed, a carriage return before it is not part of it. Where the first
/// line ends with a lone carriage return, as old programs write it, all lines do.
///
/// A line that lies whole in what is at hand is not copied: it is taken when the next one is asked for.
pub(super) struct Lines {
    bytes: Bytes,
    lenient: bool,   // other bytes than UTF-8 are in comments
    text: String,    // a line that is not as it stands in the file
    line: Vec<u8>,   // a line that does not lie whole in what is at hand
    in_place: usize, // bytes at hand of the line and its end, where it is not in `line`
    number: u64,
    end: Option<u8>, // what lines end with, once that is known
}

impl Lines {
    pub(super) fn new(bytes: Bytes) -> Self {
        let (text, line) = (String::new(), Vec::new());
        Self { bytes, lenient: false, text, line, in_place: 0, number: 0, end: None }
    }

    /// The same of a format in which only comments are for people: what is not UTF-8 is replaced.
    pub(super) fn new_lossy(bytes: Bytes) -> Self {
        Self { lenient: true, ..Self::new(bytes) }
    }

    /// The next line, or nothing at the end.
    pub(super) fn next(&mut self) -> Result<Option<&str>, ConvertError> {
        if self.advance()? { self.decode().map(Some) } else { Ok(None) }
    }

    /// Goes to the next line; whether there is one.
    fn advance(&mut self) -> Result<bool, ConvertError> {
        self.bytes.take(std::mem::take(&mut self.in_place));
        self.line.clear();
        if let Some(mark) = self.end {
            let end = memchr::memchr(mark, self.bytes.peek()?);
            if let Some(end) = end.filter(|end| *end <= MAX_LINE_BYTES) {
                self.in_place = end + 1;
                self.number += 1;
                return Ok(true);
            }
        }
        let is_one = self.copy_line()?;
        self.number += u64::from(is_one);
        Ok(is_one)
    }

    /// Lines that lie whole in what is at hand, with their ends, and how many there are: at most `most`. Nothing where there
    /// are too few to be worth it, lines do not end with a line feed, or not all is UTF-8.
    pub(super) fn block(&mut self, most: usize) -> Result<Option<(&str, u64)>, ConvertError> {
        self.bytes.take(std::mem::take(&mut self.in_place));
        if self.end != Some(b'\n') {
            return Ok(None);
        }
        let shown = self.bytes.peek()?;
        let (mut end, mut count) = (0, 0);
        for at in memchr::memchr_iter(b'\n', shown).take(most) {
            (end, count) = (at + 1, count + 1);
        }
        let text = shown.get(..end).and_then(|lines| std::str::from_utf8(lines).ok());
        Ok(text.filter(|_| count >= FEWEST).map(|text| (text, count)))
    }

    /// Goes past the lines of a block, `count` of them in `len` bytes.
    pub(super) fn take_block(&mut self, len: usize, count: u64) {
        self.bytes.take(len);
        self.number += count;
    }

    /// Takes a line piece by piece; whether there is one.
    fn copy_line(&mut self) -> Result<bool, ConvertError> {
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
            let end = memchr::memchr(mark, shown);
            let piece = shown.get(..end.unwrap_or(shown.len())).unwrap_or(shown);
            self.line.extend_from_slice(piece);
            let taken = piece.len().saturating_add(usize::from(end.is_some()));
            self.bytes.take(taken);
            ended = end.is_some();
            if self.line.len() > MAX_LINE_BYTES {
                let expected = format!("a line of at most {MAX_LINE_BYTES} bytes");
                let place = Place::Line(self.number + 1);
                return Err(self
                    .bytes
                    .bad(Class::LimitExceeded, place, expected, "a longer one")
                    .into());
            }
        }
        Ok(any)
    }

    /// The bytes of the line that came last.
    fn raw(&self) -> &[u8] {
        raw(&self.bytes, &self.line, self.in_place, self.number)
    }

    /// The line that came last as text.
    fn decode(&mut self) -> Result<&str, ConvertError> {
        let Self { bytes, lenient, text, line, in_place, number, end: _ } = self;
        let line = raw(bytes, line, *in_place, *number);
        match std::str::from_utf8(line) {
            Ok(line) => Ok(line),
            Err(_) if *lenient => {
                *text = String::from_utf8_lossy(line).into_owned();
                Ok(text)
            }
            Err(error) => {
                let found = format!("other bytes after {} of them", error.valid_up_to());
                let place = Place::Line(*number);
                Err(bytes.bad(Class::Encoding, place, "text in UTF-8", found).into())
            }
        }
    }

    /// The next line with those that it goes on in: a line that ends with `\` goes on in the next one, unless it is a
    /// comment.
    pub(super) fn next_continued(&mut self) -> Result<Option<&str>, ConvertError> {
        if !self.advance()? {
            return Ok(None);
        }
        if self.is_continued() { self.join().map(Some) } else { self.decode().map(Some) }
    }

    /// The bytes of it, where what they say as text is not looked at.
    pub(super) fn next_continued_bytes(&mut self) -> Result<Option<&[u8]>, ConvertError> {
        if !self.advance()? {
            return Ok(None);
        }
        if self.is_continued() {
            return self.join().map(|line| Some(line.as_bytes()));
        }
        Ok(Some(self.raw()))
    }

    /// Whether the line that came last goes on in the next one.
    fn is_continued(&self) -> bool {
        let line = self.raw();
        line.ends_with(b"\\") && !line.trim_ascii_start().starts_with(b"#")
    }

    /// The line that came last with those that it goes on in.
    fn join(&mut self) -> Result<&str, ConvertError> {
        let mut whole = self.decode()?.trim_end_matches('\\').to_owned();
        while let Some(line) = self.next()? {
            whole.push(' ');
            whole.push_str(line.trim_end_matches('\\'));
            let ends = !line.ends_with('\\');
            if whole.len() > MAX_LINE_BYTES {
                let expected =
                    format!("a line of at most {MAX_LINE_BYTES} bytes with those it goes on in");
                return Err(self.bad(Class::LimitExceeded, expected, "a longer one").into());
            }
            if ends {
                break;
            }
        }
        self.text = whole;
        Ok(&self.text)
    }

    /// The number of the line that came last.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Bytes up to the end of the line that came last.
    pub(super) fn position(&self) -> u64 {
        self.bytes.at() + to_u64(self.in_place)
    }

    /// The bytes after it.
    pub(super) fn into_bytes(mut self) -> Bytes {
        self.bytes.take(self.in_place);
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

/// A line without its end and the mark of a text in UTF-8: `in_place` bytes at hand, or what was copied.
fn raw<'a>(bytes: &'a Bytes, copied: &'a [u8], in_place: usize, number: u64) -> &'a [u8] {
    let line = match in_place.checked_sub(1) {
        Some(length) => bytes.at_hand().get(..length).unwrap_or_default(),
        None => copied,
    };
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mark: &[u8] = if number == 1 { "\u{feff}".as_bytes() } else { b"" };
    line.strip_prefix(mark).unwrap_or(line)
}

/// The longest line that is read.
pub(super) const MAX_LINE_BYTES: usize = 1 << 20;
/// Lines of a block.
const FEWEST: u64 = 16;
