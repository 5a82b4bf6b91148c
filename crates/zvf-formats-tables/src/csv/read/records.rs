//! The lines of a file, divided into values.

use std::fmt::Display;
use std::path::Path;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_formats::{Bytes, FilePlace, Lines, MAX_LINE_BYTES, Spot, TextOptions};

/// Splits the lines of a file into records.
pub(crate) struct Records {
    pub(crate) lines: Lines,
    pub(crate) delimiter: u8,
    pub(crate) comment: Option<u8>,
    pub(crate) spare: Record, // its buffers are reused for the next record
    pub(crate) sizes: (usize, usize), // bytes and values of the last record
}

/// The values of one line, or of several where a quoted value contains line breaks.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) text: String,
    pub(crate) ends: Vec<usize>, // end of each value in `text`
    pub(crate) line: u64,        // number of its first line
}

impl Record {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn value(&self, at: usize) -> &str {
        let start = at.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let range = start.zip(self.ends.get(at).copied());
        range.and_then(|(start, end)| self.text.get(start..end)).unwrap_or("")
    }

    /// Removes the values and keeps the buffers.
    fn clear(mut self) -> Self {
        self.text.clear();
        self.ends.clear();
        Self { line: 0, ..self }
    }

    /// Adds the values of a line. Returns whether the line ends inside a quoted value.
    fn push(&mut self, line: &str, delimiter: u8, mut quoted: bool) -> bool {
        let delimiter = char::from(delimiter);
        if !quoted && !line.contains('"') {
            for value in line.split(delimiter) {
                self.text.push_str(value);
                self.ends.push(self.text.len());
            }
            return false;
        }
        let mut chars = line.chars().peekable();
        let mut at_start = !quoted; // of a value
        while let Some(c) = chars.next() {
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => {
                    chars.next();
                    self.text.push('"');
                }
                '"' if quoted => quoted = false,
                '"' if at_start => quoted = true,
                c if c == delimiter && !quoted => {
                    self.ends.push(self.text.len());
                    at_start = true;
                    continue;
                }
                c => self.text.push(c),
            }
            at_start = false;
        }
        if quoted {
            self.text.push('\n');
        } else {
            self.ends.push(self.text.len());
        }
        quoted
    }
}

impl Records {
    pub(crate) fn next(&mut self) -> Result<Option<Record>> {
        let mut record = std::mem::take(&mut self.spare).clear();
        let (bytes, values) = self.sizes;
        record.text.reserve(bytes);
        record.ends.reserve(values);
        let mut quoted = false;
        loop {
            let Some(line) = self.lines.next()? else {
                let expected = "a closing quote";
                self.spot(record.line).ensure(!quoted, Class::Truncated, expected, "the end")?;
                return Ok(None);
            };
            let is_comment = || {
                let first = line.trim_start().bytes().next();
                first.is_some() && first == self.comment
            };
            if !quoted && (line.is_empty() || is_comment()) {
                continue;
            }
            quoted = match self.delimiter {
                b' ' if !quoted => record.push(&join_blanks(line), b' ', quoted),
                delimiter => record.push(line, delimiter, quoted),
            };
            if record.line == 0 {
                record.line = self.lines.number();
            }
            if !quoted {
                self.sizes = (record.text.len(), record.ends.len());
                return Ok(Some(record));
            }
            if record.text.len() > MAX_LINE_BYTES {
                let expected = format!("at most {MAX_LINE_BYTES} bytes before the closing quote");
                return self.spot(record.line).refuse(Class::LimitExceeded, expected, "more");
            }
        }
    }

    /// Reads all rows of the file from its start.
    pub(crate) fn read_again(
        &self,
        path: &Path,
        text: &TextOptions,
        mut add: impl FnMut(&Record) -> Result<()>,
    ) -> Result<()> {
        let mut all =
            Self { lines: Lines::new(Bytes::open(path)?), spare: Record::default(), ..*self };
        if text.has_header {
            all.next()?;
        }
        while let Some(record) = all.next()? {
            add(&record)?;
            all.spare = record;
        }
        Ok(())
    }

    /// Returns the spot of a line.
    pub(crate) fn spot(&self, line: u64) -> Spot<FilePlace> {
        self.lines.bytes().spot(FilePlace::Line(line))
    }

    /// Reads the first record, of a file that is not empty.
    pub(crate) fn need_first(&mut self) -> Result<Record> {
        let first = self.next()?;
        let empty = || self.spot(1).error(Class::Truncated, "names of columns", "an empty file");
        first.ok_or_else(empty)
    }

    /// Refuses a name that is used by two columns.
    pub(crate) fn check_names(&self, names: &[String]) -> Result<()> {
        for (at, name) in names.iter().enumerate() {
            if names.iter().take(at).any(|previous| previous == name) {
                let expected = "another name for each column";
                return Err(self.bad_header(Class::Duplicate, expected, format!("{name:?} twice")));
            }
        }
        Ok(())
    }

    /// Refuses a record whose number of values differs from the number of names.
    pub(crate) fn check_len(&self, record: &Record, names: &[String]) -> Result<()> {
        if record.len() == names.len() {
            return Ok(());
        }
        let expected = format!("{} values", names.len());
        self.spot(record.line).refuse(Class::CountMismatch, expected, record.len())
    }

    fn bad_header(&self, class: Class, expected: impl Display, found: impl Display) -> Error {
        self.lines.bytes().spot("names of columns").error(class, expected, found)
    }
}

/// Replaces each run of blanks and tabs outside of quotes by one blank.
fn join_blanks(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut quoted = false;
    for c in line.trim().chars() {
        quoted ^= c == '"';
        let is_blank = !quoted && matches!(c, ' ' | '\t');
        if !is_blank {
            text.push(c);
        } else if !text.ends_with(' ') {
            text.push(' ');
        }
    }
    text
}
