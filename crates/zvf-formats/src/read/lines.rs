//! Reader of numbered lines.

use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::to_u64;

use crate::error::{FilePlace, Spot};
use crate::read::Bytes;

/// The lines of a file, numbered from 1. A line ends with a line feed; a carriage return before it is removed. If the
/// first line ends with a lone carriage return, as old programs write it, all lines do.
///
/// A line that is complete in the buffer is borrowed from it, and consumed by the call that returns the next line.
pub struct Lines {
    bytes: Bytes,
    lenient: bool,   // replace bytes that are not UTF-8
    text: String,    // the current line, where it differs from the bytes of the file
    line: Vec<u8>,   // the current line, where it is not complete in the buffer
    in_place: usize, // length in the buffer of the current line and its end; 0 if the line is in `line`
    number: u64,
    end: Option<u8>, // the byte that ends lines, once known
}

impl Lines {
    /// Creates a reader of lines.
    pub fn new(bytes: Bytes) -> Self {
        let (text, line) = (String::new(), Vec::new());
        Self { bytes, lenient: false, text, line, in_place: 0, number: 0, end: None }
    }

    /// Creates a reader that replaces bytes that are not UTF-8: for formats where only comments are free text.
    pub fn new_lossy(bytes: Bytes) -> Self {
        Self { lenient: true, ..Self::new(bytes) }
    }

    /// Returns the next line, or `None` at the end.
    #[expect(clippy::should_implement_trait, reason = "a line is borrowed until the next one")]
    pub fn next(&mut self) -> Result<Option<&str>> {
        if self.advance()? { self.decode().map(Some) } else { Ok(None) }
    }

    /// Moves to the next line. Returns `false` at the end.
    fn advance(&mut self) -> Result<bool> {
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
        let has_line = self.copy_line()?;
        self.number += u64::from(has_line);
        Ok(has_line)
    }

    /// Returns the complete lines in the buffer, at most `max_lines`, and their number. Returns
    /// `None` if there are too few to be worthwhile, if lines do not end with a line feed, or if
    /// the bytes are not UTF-8.
    pub fn peek_block(&mut self, max_lines: usize) -> Result<Option<(&str, u64)>> {
        self.bytes.take(std::mem::take(&mut self.in_place));
        if self.end != Some(b'\n') {
            return Ok(None);
        }
        let shown = self.bytes.peek()?;
        let (mut end, mut count) = (0, 0);
        for at in memchr::memchr_iter(b'\n', shown).take(max_lines) {
            (end, count) = (at + 1, count + 1);
        }
        let text = shown.get(..end).and_then(|lines| std::str::from_utf8(lines).ok());
        Ok(text.filter(|_| count >= MIN_BLOCK_LINES).map(|text| (text, count)))
    }

    /// Consumes a block of `count` lines in `len` bytes.
    pub fn take_block(&mut self, len: usize, count: u64) {
        self.bytes.take(len);
        self.number += count;
    }

    /// Copies the next line into `line`, buffer by buffer. Returns `false` at the end.
    fn copy_line(&mut self) -> Result<bool> {
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
                    // A carriage return ends a line by itself if no line feed follows. After the last byte of
                    // the buffer, the next buffer decides.
                    let first = shown.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
                    let after = first.and_then(|at| shown.get(at..at + 2));
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
            let taken = piece.len() + usize::from(end.is_some());
            self.bytes.take(taken);
            ended = end.is_some();
            if self.line.len() > MAX_LINE_BYTES {
                let expected = format!("a line of at most {MAX_LINE_BYTES} bytes");
                let place = FilePlace::Line(self.number + 1);
                let found = "a longer one";
                return self.bytes.spot(place).refuse(Class::LimitExceeded, expected, found);
            }
        }
        Ok(any)
    }

    /// Returns the bytes of the current line.
    fn line_bytes(&self) -> &[u8] {
        select_line_bytes(&self.bytes, &self.line, self.in_place, self.number)
    }

    /// Returns the current line as text.
    fn decode(&mut self) -> Result<&str> {
        let Self { bytes, lenient, text, line, in_place, number, end: _ } = self;
        let line = select_line_bytes(bytes, line, *in_place, *number);
        match std::str::from_utf8(line) {
            Ok(line) => Ok(line),
            Err(_) if *lenient => {
                *text = String::from_utf8_lossy(line).into_owned();
                Ok(text)
            }
            Err(error) => {
                let found = format!("other bytes after {} of them", error.valid_up_to());
                let place = FilePlace::Line(*number);
                bytes.spot(place).refuse(Class::Encoding, "text in UTF-8", found)
            }
        }
    }

    /// Returns the next line joined with its continuation lines. A line that ends with `\` continues in the next one,
    /// unless it is a comment.
    pub fn next_continued(&mut self) -> Result<Option<&str>> {
        if !self.advance()? {
            return Ok(None);
        }
        if self.is_continued() { self.join_continued().map(Some) } else { self.decode().map(Some) }
    }

    /// Returns the bytes of the next line with its continuation lines, without decoding a line that has none.
    pub fn next_continued_bytes(&mut self) -> Result<Option<&[u8]>> {
        if !self.advance()? {
            return Ok(None);
        }
        if self.is_continued() {
            return self.join_continued().map(|line| Some(line.as_bytes()));
        }
        Ok(Some(self.line_bytes()))
    }

    /// Checks whether the current line continues in the next one.
    fn is_continued(&self) -> bool {
        let line = self.line_bytes();
        line.ends_with(b"\\") && !line.trim_ascii_start().starts_with(b"#")
    }

    /// Joins the current line with its continuation lines.
    fn join_continued(&mut self) -> Result<&str> {
        let mut joined = self.decode()?.trim_end_matches('\\').to_owned();
        while let Some(line) = self.next()? {
            joined.push(' ');
            joined.push_str(line.trim_end_matches('\\'));
            let ends = !line.ends_with('\\');
            if joined.len() > MAX_LINE_BYTES {
                let expected =
                    format!("a line of at most {MAX_LINE_BYTES} bytes with those it goes on in");
                return self.here().refuse(Class::LimitExceeded, expected, "a longer one");
            }
            if ends {
                break;
            }
        }
        self.text = joined;
        Ok(&self.text)
    }

    /// Returns the number of the current line.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Returns the offset of the end of the current line.
    pub fn position(&self) -> u64 {
        self.bytes.position() + to_u64(self.in_place)
    }

    /// Returns the bytes after the current line.
    pub fn into_bytes(mut self) -> Bytes {
        self.bytes.take(self.in_place);
        self.bytes
    }

    /// Returns the input.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the spot of the current line.
    pub fn here(&self) -> Spot<FilePlace> {
        self.bytes.spot(FilePlace::Line(self.number))
    }
}

/// Returns a line without its end and without a byte order mark: the first `in_place` bytes of the buffer, or `copied`.
fn select_line_bytes<'a>(
    bytes: &'a Bytes,
    copied: &'a [u8],
    in_place: usize,
    number: u64,
) -> &'a [u8] {
    let line = match in_place.checked_sub(1) {
        Some(length) => &bytes.buffer()[..length],
        None => copied,
    };
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mark: &[u8] = if number == 1 { "\u{feff}".as_bytes() } else { b"" };
    line.strip_prefix(mark).unwrap_or(line)
}

/// Length of the longest line that is read.
pub const MAX_LINE_BYTES: usize = 1 << 20;
/// Smallest number of lines in a block.
const MIN_BLOCK_LINES: u64 = 16;
