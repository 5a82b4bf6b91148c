//! Text with one vertex a line, values between commas or tabs, names in the first line.
//!
//! As RFC 4180 has it: a value may stand in quotes, a quote in it is doubled, and a line may break in it.
//! Lines without anything are skipped. Types that are not stated are inferred from a sample, the start of
//! the file: whole numbers are `int64`, or `uint64` where they are too large for that, other numbers
//! `float64`, `true` and `false` are `bool`, all else is text as long as the longest.
//!
//! An empty value is a missing one, and so is `NA` and the like where all others are numbers: not a number
//! in a column of floats. Whole numbers with missing values beside them are floats as long as these hold
//! them exactly; one that they do not hold is refused, not rounded, unless the type is stated.

mod block;

use std::collections::VecDeque;

use zvf_format::Class;
use zvf_format::num::{saturating_u32_from_usize, to_u64};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::ObjectId;

use super::input::Bytes;
use super::lines::{Lines, MAX_LINE_BYTES};
use super::record::Vertices;
use super::roles::{AXES, MAX_AXES, OBJECT, PART, point_kind};
use super::values::{NamedValues, Values, float};
use super::{Notes, Piece, ReadOptions, Reader, TextOptions};
use crate::ConvertError;
use crate::error::{BadInput, Place};

pub(crate) fn open(
    bytes: Bytes,
    options: &ReadOptions,
    delimiter: u8,
) -> Result<Reader, ConvertError> {
    let kind = point_kind(options, bytes.format().name())?;
    let text = options.text.clone();
    let delimiter = text.separator.unwrap_or(delimiter);
    let (lines, spare) = (Lines::new(bytes), Record::default());
    let mut records = Records { lines, delimiter, comment: text.comment, spare, sizes: (0, 0) };
    let Some(first) = records.next()? else {
        let bad = records.lines.bytes().bad(
            Class::Truncated,
            Place::Line(1),
            "names of columns",
            "an empty file",
        );
        return Err(bad.into());
    };
    let names: Vec<String> = (0..first.len())
        .map(|at| match text.has_header {
            true => first.value(at).trim().to_owned(),
            false => AXES
                .get(at)
                .filter(|_| at < 3)
                .map_or_else(|| format!("c{at}"), |axis| (*axis).to_owned()),
        })
        .collect();
    let roles = Roles::assign(&names, &records, options)?;
    let (mut sample, whole) = sample(&mut records, options.memory.min(SAMPLE_BYTES))?;
    if !text.has_header {
        sample.push_front(first);
    }
    let inference = Inference { text: &text, columns: names.len() };
    let stated = |name: &String| {
        options.columns.types.iter().find(|(of, _)| of == name).map(|(_, dtype)| *dtype)
    };
    let (mut types, mut left_out) = (Vec::new(), Vec::new());
    for at in &roles.fields {
        let name = names.get(*at).map_or("", String::as_str);
        let inference = match names.get(*at).and_then(stated) {
            Some(dtype) => Told { dtype, exact: false, missing: Vec::new() },
            None => inference.infer(&sample, *at),
        };
        if !inference.missing.is_empty() {
            left_out.push(format!(
                "{} in column {name:?}: taken for missing values (a type stated for it, such as \
                 {name}=<U16, keeps them as text)",
                inference
                    .missing
                    .iter()
                    .map(|text| format!("{text:?}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            ));
        }
        types.push(inference);
    }
    let positions = Values::new(
        options.positions.unwrap_or(FLOAT64),
        saturating_u32_from_usize(roles.positions.len()),
    );
    let fields = roles.fields.iter().zip(&types).map(|(at, inference)| {
        NamedValues::new(names.get(*at).map_or("", String::as_str), inference.dtype, 1)
    });
    let owned = roles.object.is_some() || kind.is_chain();
    let mut vertices = Vertices::new(kind, positions, fields.collect(), owned);
    let axes = roles.positions.iter().filter_map(|at| names.get(*at).cloned()).collect();
    let mut header = vertices.header(axes)?;
    header.left_out.extend(left_out);
    let rules = Rules {
        columns: names.len(),
        roles,
        is_chain: kind.is_chain(),
        exact_positions: options.positions.is_none(),
        exact: types.iter().map(|inference| inference.exact).collect(),
        missing: text.missing,
    };
    let batch_rows = options.batch_rows.max(1);
    let notes = Notes::default();
    let skipped =
        text.skip_bad_rows.then(|| Skipped { rows: 0, first: Vec::new(), notes: notes.clone() });
    Ok(Reader::new(
        header,
        Table {
            rules,
            skipped,
            records,
            sample,
            whole,
            names,
            vertices,
            batch_rows,
            parts: (None, 0),
            alone: 0,
        },
    )
    .with_notes(notes))
}

/// Rows that were left out.
struct Skipped {
    rows: u64,
    first: Vec<String>,
    notes: Notes,
}

impl Drop for Skipped {
    fn drop(&mut self) {
        self.note_skipped();
    }
}

impl Skipped {
    fn add(&mut self, error: &ConvertError) {
        self.rows += 1;
        if self.first.len() < MAX_SKIPPED {
            let text = match error {
                ConvertError::Input(bad) => {
                    format!("{}: expected {}, found {}", bad.place, bad.expected, bad.found)
                }
                other => other.to_string(),
            };
            self.first.push(text);
        }
    }

    /// Notes which rows were left out, once.
    fn note_skipped(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        if rows == 0 {
            return;
        }
        let (named, first) = (self.first.len() as u64, self.first.join("; "));
        let words = if rows == 1 { "row was" } else { "rows were" };
        let more =
            if rows > named { format!("; and {} more", rows - named) } else { String::new() };
        self.notes.push(format!("{rows} bad {words} skipped: {first}{more}"));
    }
}

/// Columns by what they are, as places in a line.
#[derive(Debug, Default)]
struct Roles {
    positions: Vec<usize>,
    object: Option<usize>,
    part: Option<usize>,
    fields: Vec<usize>,
}

impl Roles {
    fn assign(
        names: &[String],
        records: &Records,
        options: &ReadOptions,
    ) -> Result<Self, ConvertError> {
        for (at, name) in names.iter().enumerate() {
            if names.iter().take(at).any(|other| other == name) {
                let expected = "another name for each column";
                let found = format!("{name:?} twice");
                return Err(records.bad_header(Class::Duplicate, expected, found).into());
            }
        }
        let place = |wanted: &String| {
            names.iter().position(|name| name == wanted).ok_or_else(|| {
                let expected = format!("a column {wanted:?}");
                records.bad_header(Class::InvalidArgument, expected, list_names(names))
            })
        };
        let columns = &options.columns;
        let positions: Vec<usize> = if columns.positions.is_empty() {
            let named = |axis: &str| names.iter().position(|name| name.eq_ignore_ascii_case(axis));
            AXES.into_iter().map_while(named).collect()
        } else {
            columns.positions.iter().map(place).collect::<Result<_, _>>()?
        };
        if positions.is_empty() || positions.len() > MAX_AXES {
            let expected = "a column \"x\", and \"y\", \"z\", \"t\" where there are any";
            let bad = records.bad_header(Class::InvalidArgument, expected, list_names(names));
            return Err(bad.with_hint("say which columns are positions").into());
        }
        let usual = names.iter().position(|name| name == OBJECT);
        let object = columns.object.as_ref().map(place).transpose()?.or(usual);
        let part = names.iter().position(|name| name == PART).filter(|_| object.is_some());
        let other = |at: &usize| !positions.contains(at) && object != Some(*at);
        let fields = match &columns.fields {
            Some(wanted) => wanted.iter().map(place).collect::<Result<_, _>>()?,
            None => (0..names.len()).filter(other).filter(|at| part != Some(*at)).collect(),
        };
        for (name, _) in &columns.types {
            place(name)?;
        }
        Ok(Self { positions, object, part, fields })
    }
}

/// How a line becomes a row.
struct Rules {
    columns: usize, // values of a line
    roles: Roles,
    is_chain: bool,        // each row belongs to an object
    exact_positions: bool, // whole numbers among them must not be rounded
    exact: Vec<bool>,      // the same of each field
    missing: Vec<String>,
}

/// Why a line is no row: what is wrong with which of its values.
enum Fault {
    /// It would be rounded.
    Rounded(usize),
    /// It is none of this type.
    NoValue { at: usize, dtype: Dtype, is_field: bool },
}

impl Rules {
    /// Adds the values of a line, `value` by their places, and gives the object of the row.
    fn read<'t, 'v>(
        &self,
        value: impl Fn(usize) -> &'t str,
        positions: &mut Values,
        fields: impl Iterator<Item = &'v mut Values>,
    ) -> Result<Option<ObjectId>, Fault> {
        for at in &self.roles.positions {
            let text = trim(value(*at));
            if self.exact_positions && !is_held(text) {
                return Err(Fault::Rounded(*at));
            }
            if !positions.push_text(text) {
                let dtype = positions.dtype();
                return Err(Fault::NoValue { at: *at, dtype, is_field: false });
            }
        }
        for ((at, values), exact) in self.roles.fields.iter().zip(fields).zip(&self.exact) {
            let (dtype, text) = (values.dtype(), value(*at));
            let text = if dtype.kind == DtypeKind::Text { text } else { trim(text) };
            let is_float = dtype.kind == DtypeKind::Float;
            if *exact && is_float && !is_held(text) {
                return Err(Fault::Rounded(*at));
            }
            let blank = is_float && (text.is_empty() || is_missing(text, &self.missing));
            if !values.push_text(if blank { "nan" } else { text }) {
                return Err(Fault::NoValue { at: *at, dtype, is_field: true });
            }
        }
        let Some(at) = self.roles.object else { return Ok(None) };
        match value(at).trim() {
            "" if !self.is_chain => Ok(None),
            text => match text.parse() {
                // As in the tables of other formats: none where vertices need no object.
                Ok(-1) if !self.is_chain => Ok(None),
                Ok(object) => Ok(Some(ObjectId(object))),
                Err(_) => Err(Fault::NoValue { at, dtype: Dtype::INT64, is_field: false }),
            },
        }
    }
}

/// The lines of a file with their values.
struct Records {
    lines: Lines,
    delimiter: u8,
    comment: Option<u8>,
    spare: Record,         // whose memory the next one takes
    sizes: (usize, usize), // bytes and values of the last one: the next one is about as long
}

/// One line, or several where one breaks within quotes.
#[derive(Debug, Default)]
struct Record {
    text: String,
    ends: Vec<usize>, // of each value in the text
    line: u64,        // where it starts
}

impl Record {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn value(&self, at: usize) -> &str {
        let start = at.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let range = start.zip(self.ends.get(at).copied());
        range.and_then(|(start, end)| self.text.get(start..end)).unwrap_or("")
    }

    /// The same memory without values.
    fn clear(mut self) -> Self {
        self.text.clear();
        self.ends.clear();
        Self { line: 0, ..self }
    }

    /// Adds the values of a line; whether it ends within quotes.
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
        let mut fresh = !quoted; // at the start of a value
        while let Some(c) = chars.next() {
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => {
                    chars.next();
                    self.text.push('"');
                }
                '"' if quoted => quoted = false,
                '"' if fresh => quoted = true,
                c if c == delimiter && !quoted => {
                    self.ends.push(self.text.len());
                    fresh = true;
                    continue;
                }
                c => self.text.push(c),
            }
            fresh = false;
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
    fn next(&mut self) -> Result<Option<Record>, ConvertError> {
        let mut record = std::mem::take(&mut self.spare).clear();
        let (bytes, values) = self.sizes;
        record.text.reserve(bytes);
        record.ends.reserve(values);
        let mut quoted = false;
        loop {
            let Some(line) = self.lines.next()? else {
                if quoted {
                    let bad = self.bad(record.line, Class::Truncated, "a closing quote", "the end");
                    return Err(bad.into());
                }
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
                return Err(self.bad(record.line, Class::LimitExceeded, expected, "more").into());
            }
        }
    }

    fn bad(
        &self,
        line: u64,
        class: Class,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> BadInput {
        self.lines.bytes().bad(class, Place::Line(line), expected, found)
    }

    fn bad_header(
        &self,
        class: Class,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> BadInput {
        let place = Place::Named("names of columns".to_owned());
        self.lines.bytes().bad(class, place, expected, found)
    }
}

/// A line of which any number of blanks and tabs outside of quotes is one blank.
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

/// The first records, as many as `most` bytes hold; whether these are all.
fn sample(records: &mut Records, most: u64) -> Result<(VecDeque<Record>, bool), ConvertError> {
    let mut sample = VecDeque::new();
    let mut bytes = 0_u64;
    while bytes < most {
        let Some(record) = records.next()? else { return Ok((sample, true)) };
        let size = record.text.len() + record.ends.len() * 8;
        bytes += to_u64(size) + 64;
        sample.push_back(record);
    }
    Ok((sample, false))
}

/// What is known of the type of a column.
struct Told {
    dtype: Dtype,
    exact: bool,          // whole numbers must not be rounded
    missing: Vec<String>, // what stands for missing values, beside nothing at all
}

/// How types are inferred from values.
struct Inference<'a> {
    text: &'a TextOptions,
    columns: usize,
}

impl Inference<'_> {
    /// The type that all values of a column in the sample have, or nearly all where bad rows are skipped.
    fn infer(&self, sample: &VecDeque<Record>, at: usize) -> Told {
        if !self.text.skip_bad_rows {
            return inferred(sample.iter().map(|record| record.value(at)), &self.text.missing);
        }
        let rows = || sample.iter().filter(|record| record.len() == self.columns);
        let values =
            || rows().map(|record| record.value(at)).filter(|text| !text.trim().is_empty());
        let is_number = |text: &&str| float(text.trim()).is_some();
        let numbers = values().filter(is_number).count();
        if numbers * 10 >= (values().count() * 9).max(1) {
            let is_known = |text: &&str| {
                is_number(text)
                    || text.trim().is_empty()
                    || is_missing(text.trim(), &self.text.missing)
            };
            let values = rows().map(|record| record.value(at)).filter(is_known);
            return inferred(values, &self.text.missing);
        }
        inferred(rows().map(|record| record.value(at)), &self.text.missing)
    }
}

/// The type that all `values` have.
fn inferred<'a>(values: impl Iterator<Item = &'a str> + Clone, marks: &[String]) -> Told {
    let exactly = |dtype| Told { dtype, exact: true, missing: Vec::new() };
    let filled = || values.clone().filter(|text| !trim(text).is_empty());
    let mut seen = Seen::default();
    values.clone().for_each(|text| seen.add(trim(text), marks));
    if !seen.blank && !seen.not_signed {
        return exactly(Dtype::INT64);
    }
    if !seen.blank && !seen.not_unsigned {
        return exactly(Dtype { kind: DtypeKind::UInt, ..Dtype::INT64 });
    }
    if !seen.others || seen.numbers && !seen.words {
        let mut missing = seen.missing;
        missing.sort();
        return Told { missing, ..exactly(FLOAT64) };
    }
    exactly(text_type(filled, seen.blank))
}

/// What was seen of the values of a column.
#[derive(Default)]
struct Seen {
    blank: bool,          // some are empty
    not_signed: bool,     // some are no `int64`
    not_unsigned: bool,   // some are no `uint64`
    numbers: bool,        // some are numbers
    others: bool,         // some are no numbers
    words: bool,          // some of these are not how a missing number is written
    missing: Vec<String>, // the others, once each
}

impl Seen {
    fn add(&mut self, text: &str, marks: &[String]) {
        if text.is_empty() {
            self.blank = true;
            return;
        }
        let signed = !self.not_signed && text.parse::<i64>().is_ok();
        let unsigned = !self.not_unsigned && text.parse::<u64>().is_ok();
        self.not_signed |= !signed;
        self.not_unsigned |= !unsigned;
        if self.words {
            return; // text, whatever comes
        }
        if signed || unsigned || float(text).is_some() {
            self.numbers = true;
            return;
        }
        self.others = true;
        self.words = !is_missing(text, marks);
        if !self.words && !self.missing.iter().any(|known| known == text) {
            self.missing.push(text.to_owned());
        }
    }
}

/// The text without white space around it. Most has none, which its first and its last byte show.
fn trim(text: &str) -> &str {
    match text.as_bytes() {
        [b'!'..=b'~'] | [b'!'..=b'~', .., b'!'..=b'~'] => text,
        _ => text.trim(),
    }
}

/// Whether this is how programs write that a number is missing.
fn is_missing(text: &str, marks: &[String]) -> bool {
    // Most are numbers.
    let is_word = !text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    is_word && MISSING.iter().any(|known| text.eq_ignore_ascii_case(known))
        || marks.iter().any(|known| text == known)
}

/// Whether a whole number is one that a float of 64 bits holds; all other texts are no whole numbers.
fn is_held(text: &str) -> bool {
    // Most are short, or have a fraction.
    if text.len() <= EXACT_FLOAT64_DIGITS || memchr::memchr(b'.', text.as_bytes()).is_some() {
        return true;
    }
    match text.parse::<i128>() {
        #[expect(clippy::as_conversions, reason = "whether it is rounded is what is asked")]
        Ok(n) => n as f64 as i128 == n,
        Err(_) => {
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit())
        }
    }
}

/// The type of a column that is no number.
fn text_type<'a, I: Iterator<Item = &'a str>>(filled: impl Fn() -> I, blank: bool) -> Dtype {
    if !blank
        && filled()
            .all(|text| ["true", "false"].contains(&text.trim().to_ascii_lowercase().as_str()))
    {
        return Dtype { kind: DtypeKind::Bool, size: 1, big_endian: false };
    }
    let longest = filled().map(|text| text.chars().count()).max().unwrap_or(1); // without values one character
    let size = to_u64(longest) * 4;
    Dtype { kind: DtypeKind::Text, size, big_endian: false }
}

/// A file in the course of being read.
struct Table {
    rules: Rules,
    records: Records,
    sample: VecDeque<Record>, // read before, and still to be given
    whole: bool,              // nothing comes after the sample
    names: Vec<String>,
    vertices: Vertices,
    batch_rows: usize,
    parts: (Option<String>, i64), // what stood in the column of parts, and which one it was
    alone: u64,                   // the last line of those that have to be read one by one
    skipped: Option<Skipped>,
}

impl Iterator for Table {
    type Item = Result<Piece, ConvertError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.vertices.rows() < self.batch_rows {
            match self.push_next() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Some(Err(error)),
            }
        }
        if self.vertices.rows() == 0
            && let Some(skipped) = &mut self.skipped
        {
            skipped.note_skipped();
        }
        (self.vertices.rows() > 0).then(|| self.vertices.take())
    }
}

impl Table {
    /// Adds the next line, or a block of them; whether there are any.
    fn push_next(&mut self) -> Result<bool, ConvertError> {
        let record = match self.sample.pop_front() {
            Some(record) => record,
            None if self.push_block()? => return Ok(true),
            None => match self.records.next()? {
                Some(record) => record,
                None => return Ok(false),
            },
        };
        let pushed = self.push(&record);
        self.records.spare = record;
        match (pushed, &mut self.skipped) {
            (Err(error), Some(skipped)) => {
                skipped.add(&error);
                self.vertices.drop_open_row();
                Ok(true)
            }
            (pushed, _) => pushed.map(|()| true),
        }
    }

    /// Adds a block of lines, where the next ones can be read as one; whether it did.
    fn push_block(&mut self) -> Result<bool, ConvertError> {
        let Self { rules, records, vertices, .. } = self;
        let by_line = self.skipped.is_some() || rules.roles.part.is_some();
        let delimiter = records.delimiter;
        if by_line || !(delimiter.is_ascii_punctuation() || delimiter == b'\t') {
            return Ok(false);
        }
        if records.lines.number() < self.alone {
            return Ok(false);
        }
        let most = self.batch_rows.saturating_sub(vertices.rows()); // the caller asks while it is less
        let comment = records.comment.unwrap_or(b'"');
        let Some((text, count)) = records.lines.block(most)? else { return Ok(false) };
        let plain = memchr::memchr2(b'"', comment, text.as_bytes()).is_none();
        let len = text.len();
        if plain && block::push(text, delimiter, rules, self.parts.1, vertices) {
            records.lines.take_block(len, count);
            return Ok(true);
        }
        self.alone = records.lines.number() + count;
        Ok(false)
    }

    fn push(&mut self, record: &Record) -> Result<(), ConvertError> {
        if record.len() != self.names.len() {
            let expected = format!("{} values", self.names.len());
            let found = record.len().to_string();
            return Err(self
                .records
                .bad(record.line, Class::CountMismatch, expected, found)
                .into());
        }
        let Vertices { positions, fields, .. } = &mut self.vertices;
        let fields = fields.iter_mut().map(|field| &mut field.values);
        match self.rules.read(|at| record.value(at), positions, fields) {
            Ok(object) => {
                let part = self.part(record);
                self.vertices.end_row(object, part);
                Ok(())
            }
            Err(Fault::Rounded(at)) => Err(self.rounded_integer(record, at).into()),
            Err(Fault::NoValue { at, dtype, is_field }) => {
                Err(self.unreadable_value(record, at, dtype, is_field && !self.whole).into())
            }
        }
    }

    /// Which part of the file the record is in.
    fn part(&mut self, record: &Record) -> i64 {
        if let Some(at) = self.rules.roles.part {
            let text = record.value(at);
            if self.parts.0.as_deref() != Some(text) {
                self.parts = (Some(text.to_owned()), self.parts.1.wrapping_add(1));
            }
        }
        self.parts.1
    }

    /// A whole number that a float would not hold.
    fn rounded_integer(&self, record: &Record, at: usize) -> BadInput {
        let column = self.names.get(at).cloned().unwrap_or_default();
        let place = Place::Column { line: record.line, column };
        let expected = "a whole number that float64 holds exactly";
        let found: String = record.value(at).trim().chars().take(MAX_SHOWN_CHARS).collect();
        let bad = self.records.lines.bytes().bad(Class::Encoding, place, expected, found);
        bad.with_hint(
            "the column has missing values or fractions: state its type, float64 to have it rounded, \
             int64 where none is missing, or text",
        )
    }

    fn unreadable_value(
        &self,
        record: &Record,
        at: usize,
        dtype: Dtype,
        is_inferred: bool,
    ) -> BadInput {
        let column = self.names.get(at).cloned().unwrap_or_default();
        let place = Place::Column { line: record.line, column };
        let found: String = record.value(at).chars().take(MAX_SHOWN_CHARS).collect();
        let bytes = self.records.lines.bytes();
        let bad = bytes.bad(Class::Encoding, place, dtype.to_string(), format!("{found:?}"));
        if is_inferred {
            bad.with_hint("its type was inferred from the first lines: state it")
        } else {
            bad
        }
    }
}

fn list_names(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(MAX_NAMES).map(|name| format!("{name:?}")).collect();
    let more = if names.len() > MAX_NAMES { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

const FLOAT64: Dtype = Dtype { kind: DtypeKind::Float, size: 8, big_endian: false };
/// Bytes of the sample that types are inferred from.
const SAMPLE_BYTES: u64 = 8 << 20;
/// Digits of whole numbers that a float of 64 bits always holds.
const EXACT_FLOAT64_DIGITS: usize = 15;
/// What stands for a missing number, in any case of letters.
const MISSING: [&str; 7] = ["NA", "N/A", "#N/A", "<NA>", "null", "none", "nil"];
/// Characters of a wrong value that a message shows.
const MAX_SHOWN_CHARS: usize = 40;
/// Names that a message shows.
const MAX_NAMES: usize = 12;
/// Rows that a note names.
const MAX_SKIPPED: usize = 10;

#[cfg(test)]
mod tests;
