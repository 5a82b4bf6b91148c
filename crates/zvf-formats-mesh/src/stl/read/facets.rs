//! Parser of the triangles of an STL file.

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_formats::{Bytes, FilePlace, Lines, RecordNumbers, dot, quote_start};

use crate::stl::winding_normal;

/// A triangle as stored.
#[derive(Clone, Copy)]
pub(crate) struct Facet {
    pub(crate) normal: [f32; 3],
    pub(crate) corners: [[f32; 3]; 3],
    pub(crate) attribute: u16,
    /// The index of its solid in the file.
    pub(crate) solid: i64,
}

impl Facet {
    /// Returns whether the stored normal differs by more than a degree from that of the corners, where both exist.
    pub(crate) fn normal_differs(&self) -> bool {
        let (computed, stored) = (winding_normal(self.corners), self.normal.map(f64::from));
        let lengths = (dot(computed, computed) * dot(stored, stored)).sqrt();
        lengths.is_normal() && dot(computed, stored) < COS_1_DEGREE * lengths
    }
}

/// A parser of triangles.
pub(crate) enum Facets {
    Binary { bytes: Bytes, remaining: u32, name: String },
    Text(Box<TextFacets>),
}

impl Facets {
    /// Opens `bytes`, whose number is `length`.
    pub(crate) fn open(mut bytes: Bytes, length: u64) -> Result<Self> {
        let start = bytes.peek()?;
        let count = (start.len() >= 84).then(|| RecordNumbers::new(start).u32(80));
        let is_binary =
            count.is_some_and(|count| length == HEADER_BYTES + u64::from(count) * FACET_BYTES);
        let head = start.get(..start.len().min(512)).unwrap_or(start);
        let is_text = begins_with_solid(head) && !head.contains(&0);
        if !is_binary && is_text {
            return Ok(Self::Text(Box::new(TextFacets::new(Lines::new_lossy(bytes)))));
        }
        let Some(count) = count else {
            let expected = "84 bytes of header and count, or the word solid";
            return bytes.spot(FilePlace::Byte(length)).refuse(Class::Truncated, expected, length);
        };
        if !is_binary {
            // A file that is not stored, as in /proc, can have more bytes than its length.
            let available = length.saturating_sub(HEADER_BYTES);
            let class = match available / FACET_BYTES < u64::from(count) {
                true => Class::Truncated,
                false => Class::Trailing,
            };
            let expected = format!("{} bytes of {count} triangles", u64::from(count) * FACET_BYTES);
            let found = format!("{available} bytes");
            return bytes.spot(FilePlace::Byte(80)).refuse(class, expected, found);
        }
        let mut header = [0; 84];
        bytes.read(&mut header, "the header")?;
        let text = header[..80].split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(text).trim().to_owned();
        Ok(Self::Binary { bytes, remaining: count, name })
    }

    pub(crate) fn next(&mut self) -> Result<Option<Facet>> {
        match self {
            Self::Text(text) => text.next(),
            Self::Binary { remaining: 0, .. } => Ok(None),
            Self::Binary { bytes, remaining, .. } => {
                *remaining -= 1;
                read_facet(bytes).map(Some)
            }
        }
    }

    /// Returns the names of all solids, after all facets were read.
    pub(crate) fn into_names(self) -> Vec<String> {
        match self {
            Self::Binary { name, .. } => vec![name],
            Self::Text(text) => text.names,
        }
    }
}

fn read_facet(bytes: &mut Bytes) -> Result<Facet> {
    let start = bytes.position();
    let record: [u8; 50] = match bytes.peek()?.first_chunk() {
        Some(record) => {
            let record = *record;
            bytes.take(record.len());
            record
        }
        None => bytes.read_array("a triangle")?,
    };
    let numbers = RecordNumbers::new(&record);
    let triple = |at: usize| [0, 4, 8].map(|axis| numbers.f32(at + axis));
    let (normal, corners) = (triple(0), [12, 24, 36].map(triple));
    if let Some(at) = corners.iter().flatten().position(|x: &f32| !x.is_finite()) {
        let at = to_u64(at) * 4;
        let found = "NaN or infinity";
        let place = FilePlace::Byte(start + 12 + at);
        return bytes.spot(place).refuse(Class::OutOfBounds, "a finite coordinate", found);
    }
    Ok(Facet { normal, corners, attribute: numbers.u16(48), solid: 0 })
}

fn begins_with_solid(start: &[u8]) -> bool {
    let start = start.trim_ascii_start();
    start.get(..5).is_some_and(|word| word.eq_ignore_ascii_case(b"solid"))
}

/// A parser of a text file, word by word.
pub(crate) struct TextFacets {
    lines: Lines,
    line: String,
    at: usize, // bytes of the line that are parsed: complete words and white space
    names: Vec<String>,
    solid: i64,     // the index of the last name
    in_solid: bool, // whether the last solid did not end yet
}

impl TextFacets {
    const fn new(lines: Lines) -> Self {
        Self { lines, line: String::new(), at: 0, names: Vec::new(), solid: -1, in_solid: false }
    }

    fn next(&mut self) -> Result<Option<Facet>> {
        loop {
            if !self.in_solid {
                if !self.advance()? {
                    return Ok(None);
                }
                self.expect_word("solid", Class::Encoding)?;
                let name = self.take_rest_of_line();
                self.names.push(name);
                self.solid += 1;
                self.in_solid = true;
            }
            if self.take_word("endsolid")? {
                self.take_rest_of_line();
                self.in_solid = false;
                continue;
            }
            return self.parse_facet().map(Some);
        }
    }

    fn parse_facet(&mut self) -> Result<Facet> {
        self.expect_word("facet", Class::Encoding)?;
        self.expect_word("normal", Class::Encoding)?;
        let mut normal = [f32::NAN; 3];
        for x in &mut normal {
            let word = self.next_word()?;
            // Normals are only compared, so an invalid one is ignored.
            *x = self.line[word].parse().unwrap_or(f32::NAN);
        }
        self.expect_word("outer", Class::Encoding)?;
        self.expect_word("loop", Class::Encoding)?;
        let mut corners = [[0.0_f32; 3]; 3];
        for corner in &mut corners {
            self.expect_word("vertex", Class::BadShape)?;
            for x in corner {
                *x = self.parse_coordinate()?;
            }
        }
        self.expect_word("endloop", Class::BadShape)?;
        self.expect_word("endfacet", Class::Encoding)?;
        Ok(Facet { normal, corners, attribute: 0, solid: self.solid })
    }

    fn parse_coordinate(&mut self) -> Result<f32> {
        let word = self.next_word()?;
        let word = &self.line[word];
        let (class, found) = match word.parse::<f32>() {
            Ok(x) if x.is_finite() => return Ok(x),
            Ok(_) => (Class::OutOfBounds, format!("{word:?}")),
            Err(_) => (Class::Encoding, quote_start(word)),
        };
        self.lines.here().refuse(class, "a finite coordinate", found)
    }

    /// Takes the word `expected`, in any case, or fails with an error of `class`.
    fn expect_word(&mut self, expected: &str, class: Class) -> Result<()> {
        let word = self.next_word()?;
        let word = &self.line[word];
        if word.eq_ignore_ascii_case(expected) {
            return Ok(());
        }
        let is_prefix =
            expected.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        let found = quote_start(word);
        if is_prefix && !self.advance()? {
            return Err(self.truncated_error());
        }
        self.lines.here().refuse(class, format!("the word {expected}"), found)
    }

    /// Takes the next word if it is `expected`, and returns whether it was.
    fn take_word(&mut self, expected: &str) -> Result<bool> {
        if !self.advance()? {
            return Err(self.truncated_error());
        }
        let rest = &self.line[self.at..];
        let word = rest.split_ascii_whitespace().next().unwrap_or_default();
        let is_expected = word.eq_ignore_ascii_case(expected);
        if is_expected {
            self.at += word.len();
        }
        Ok(is_expected)
    }

    /// Takes the next word, and returns its range in the line.
    fn next_word(&mut self) -> Result<std::ops::Range<usize>> {
        if !self.advance()? {
            return Err(self.truncated_error());
        }
        let rest = &self.line[self.at..];
        let length = rest.bytes().position(|byte| byte.is_ascii_whitespace());
        let start = self.at;
        self.at += length.unwrap_or(rest.len());
        Ok(start..self.at)
    }

    fn take_rest_of_line(&mut self) -> String {
        let rest = self.line[self.at..].trim().to_owned();
        self.at = self.line.len();
        rest
    }

    /// Skips to the next word, and returns whether there is one.
    fn advance(&mut self) -> Result<bool> {
        loop {
            let rest = &self.line[self.at..];
            let white = rest.len() - rest.trim_ascii_start().len();
            if white < rest.len() {
                self.at += white;
                return Ok(true);
            }
            let Some(line) = self.lines.next()? else { return Ok(false) };
            self.line.clear();
            self.line.push_str(line);
            self.at = 0;
        }
    }

    fn truncated_error(&self) -> Error {
        self.lines.here().error(Class::Truncated, "the end of the solid", "the end of the file")
    }
}

/// Bytes before the triangles of a binary file.
const HEADER_BYTES: u64 = 84;
/// Bytes of a triangle.
const FACET_BYTES: u64 = 50;
const COS_1_DEGREE: f64 = 0.999_847_695_156_391_3;
