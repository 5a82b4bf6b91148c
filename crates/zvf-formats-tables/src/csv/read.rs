//! Text with one vertex per line, values separated by commas or tabs, names in the first line.
//!
//! Quoting follows RFC 4180: a value may be quoted, a quote in a quoted value is doubled, and a
//! quoted value may contain line breaks. Empty lines are skipped. Types that are not stated are
//! inferred from a sample, the start of the file: integers are `int64`, or `uint64` if they are too
//! large for that, other numbers `float64`, `true` and `false` are `bool`, everything else is text
//! as wide as the longest value, or codes of the distinct texts where one is longer than 256
//! characters.
//!
//! An empty value is missing, and so are `NA` and similar words in a column of numbers. A missing value is NaN in a
//! column of floats. A column of integers with missing values becomes `float64`; an integer that `float64` cannot
//! hold exactly is refused, not rounded, unless the type is stated.

mod block;
mod infer;
mod records;
mod table;

pub(crate) use table::parse_table;
pub use table::{TextRow, TextTable, is_missing_word, read_table};

use std::collections::VecDeque;

use zvf_error::{Error, Result, format_count};
use zvf_format::Class;
use zvf_format::num::{index_u32, to_u64};
use zvf_formats::{
    AXES, AddText, Bytes, FLOAT64, FieldNames, FilePlace, FileReader, Lines, MAX_AXES, NamedValues,
    Notes, OBJECT, PART, ReadOptions, TextOptions, Values, VertexBuilder, batch_rows, fit_texts,
    is_exact_float64, parse_f64, point_kind, quote,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::ObjectId;
use zvf_model::flow::Piece;

use crate::csv::read::infer::{ColumnType, infer_type, is_missing, trim_blanks};
use crate::csv::read::records::{Record, Records};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions, delimiter: u8) -> Result<FileReader> {
    let kind = point_kind(options, bytes.format())?;
    let text = options.text.clone();
    let delimiter = text.separator.unwrap_or(delimiter);
    let (lines, spare) = (Lines::new(bytes), Record::default());
    let mut records = Records { lines, delimiter, comment: text.comment, spare, sizes: (0, 0) };
    let first = records.need_first()?;
    let is_unnamed = |at: usize| text.has_header && first.value(at).trim().is_empty();
    let names: Vec<String> = (0..first.len())
        .map(|at| match text.has_header {
            true if !is_unnamed(at) => first.value(at).trim().to_owned(),
            false if at < 3 => AXES[at].to_owned(),
            _ => format!("c{at}"),
        })
        .collect();
    let unnamed = (0..first.len()).filter(|at| is_unnamed(*at));
    let mut marks: Vec<String> =
        unnamed.map(|at| format!("column {} has no name: it becomes \"c{at}\"", at + 1)).collect();
    let roles = Roles::assign(&names, &records, options)?;
    let (mut sample, sample_is_file) = read_sample(&mut records, options.memory.min(SAMPLE_BYTES))?;
    let mut types = Vec::new();
    if !text.has_header {
        sample.push_front(first);
    }
    for at in &roles.fields {
        let name = &names[*at];
        let column_type = match options.columns.stated_type(name) {
            Some(dtype) => ColumnType { dtype, exact: false, missing: Vec::new() },
            None => infer_column(&sample, *at, names.len(), &text),
        };
        if !column_type.missing.is_empty() {
            marks.push(format!(
                "{} in column {name:?}: taken for missing values (a type stated for it, such as \
                 {name}=<U16, keeps them as text)",
                column_type
                    .missing
                    .iter()
                    .map(|text| format!("{text:?}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            ));
        }
        types.push(column_type);
    }
    let fields = roles.fields.iter().zip(&types);
    let mut fields: Vec<NamedValues> =
        fields.map(|(at, kind)| NamedValues::new(&*names[*at], kind.dtype, 1)).collect();
    let texts = roles.fields.iter().zip(&types).zip(&mut fields);
    let texts = texts.filter(|((_, column_type), _)| column_type.is_text());
    let (at, texts): (Vec<usize>, Vec<_>) = texts.map(|((at, _), field)| (*at, field)).unzip();
    fit_columns(texts, &at, &records, (&sample, sample_is_file), (&names, options))?;
    let positions =
        Values::new(options.positions.unwrap_or(FLOAT64), index_u32(roles.positions.len()));
    let owned = roles.object.is_some() || kind.is_chain();
    let mut vertices = VertexBuilder::new(kind, positions, fields, owned);
    let axes = roles.positions.iter().map(|at| names[*at].clone()).collect();
    let mut header = vertices.header(axes)?;
    header.notes = marks;
    let rules = Rules {
        columns: names.len(),
        roles,
        is_chain: kind.is_chain(),
        exact_positions: options.positions.is_none(),
        exact: types.iter().map(|column_type| column_type.exact).collect(),
        missing: text.missing,
    };
    let batch_rows = batch_rows(&vertices.fields, options.batch_rows);
    let notes = Notes::default();
    let skipped =
        text.skip_bad_rows.then(|| Skipped { rows: 0, first: Vec::new(), notes: notes.clone() });
    let mut table = Table {
        rules,
        skipped,
        records,
        sample,
        sample_is_file,
        names,
        vertices,
        batch_rows,
        parts: (None, 0),
        block_end_line: 0,
    };
    Ok(FileReader::from_steps(header, move || table.read_next()).with_notes(notes))
}

/// Bad rows that were skipped.
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
    fn add(&mut self, error: &Error) {
        self.rows += 1;
        if self.first.len() < MAX_SKIPPED {
            self.first.push(error.sentence());
        }
    }

    /// Adds one note about the skipped rows. A second call adds nothing.
    fn note_skipped(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        if rows == 0 {
            return;
        }
        let (listed, first) = (self.first.len() as u64, self.first.join("; "));
        let more =
            if rows > listed { format!("; and {} more", rows - listed) } else { String::new() };
        self.notes.push(format!("{} skipped: {first}{more}", format_count(rows, "bad row")));
    }
}

/// Column indices by role, all of existing columns.
#[derive(Default)]
struct Roles {
    positions: Vec<usize>,
    object: Option<usize>,
    part: Option<usize>,
    fields: Vec<usize>,
}

impl Roles {
    fn assign(names: &[String], records: &Records, options: &ReadOptions) -> Result<Self> {
        records.check_names(names)?;
        let spot = records.lines.bytes().spot("names of columns");
        let choice = FieldNames::new(spot, "a column", names.iter().map(String::as_str));
        let columns = &options.columns;
        let positions: Vec<usize> = if columns.positions.is_empty() {
            let find_axis =
                |axis: &str| names.iter().position(|name| name.eq_ignore_ascii_case(axis));
            AXES.into_iter().map_while(find_axis).collect()
        } else {
            choice.positions(&columns.positions, |_| false)?
        };
        if positions.is_empty() || positions.len() > MAX_AXES {
            let expected = "a column \"x\", and \"y\", \"z\", \"t\" where there are any";
            return Err(choice.no_positions(Class::InvalidArgument, expected, "columns"));
        }
        let object = columns.object.as_ref().map(|name| choice.require(name)).transpose()?;
        let object = object.or_else(|| choice.find(OBJECT));
        let part = choice.find(PART).filter(|_| object.is_some());
        let fields = choice.others(columns.fields.as_ref(), |at| {
            positions.contains(&at) || [object, part].contains(&Some(at))
        })?;
        for (name, _) in &columns.types {
            choice.require(name)?;
        }
        Ok(Self { positions, object, part, fields })
    }
}

/// Rules for parsing a line into a row.
struct Rules {
    columns: usize, // values in a line
    roles: Roles,
    is_chain: bool,        // each row belongs to an object
    exact_positions: bool, // integers in positions must not be rounded
    exact: Vec<bool>,      // for each field: integers must not be rounded
    missing: Vec<String>,
}

/// The value of a line that cannot be read, with the reason.
enum BadValue {
    /// The integer at this index would be rounded.
    Rounded(usize),
    /// The value at `at` is not of type `dtype`.
    NoValue { at: usize, dtype: Dtype, is_field: bool },
}

impl Rules {
    /// Parses a line into `positions` and `fields`, and returns the object of the row. `value` returns the text at an index.
    fn read<'t, 'v>(
        &self,
        value: impl Fn(usize) -> &'t str,
        positions: &mut Values,
        fields: impl Iterator<Item = &'v mut Values>,
    ) -> Result<Option<ObjectId>, BadValue> {
        for at in &self.roles.positions {
            let text = trim_blanks(value(*at));
            if self.exact_positions && !is_exact_float64(text) {
                return Err(BadValue::Rounded(*at));
            }
            if !positions.push_text(text) {
                let dtype = positions.dtype();
                return Err(BadValue::NoValue { at: *at, dtype, is_field: false });
            }
        }
        for ((at, values), exact) in self.roles.fields.iter().zip(fields).zip(&self.exact) {
            let (dtype, text) = (values.dtype(), value(*at));
            let text = if values.is_text() { text } else { trim_blanks(text) };
            let is_float = dtype.kind == DtypeKind::Float;
            if *exact && is_float && !is_exact_float64(text) {
                return Err(BadValue::Rounded(*at));
            }
            let blank = is_float && (text.is_empty() || is_missing(text, &self.missing));
            if !values.push_text(if blank { "nan" } else { text }) {
                return Err(BadValue::NoValue { at: *at, dtype, is_field: true });
            }
        }
        let Some(at) = self.roles.object else { return Ok(None) };
        match value(at).trim() {
            "" if !self.is_chain => Ok(None),
            text => match text.parse() {
                // As in tables of other formats, -1 means no object, unless every vertex needs one.
                Ok(-1) if !self.is_chain => Ok(None),
                Ok(object) => Ok(Some(ObjectId(object))),
                Err(_) => Err(BadValue::NoValue { at, dtype: Dtype::INT64, is_field: false }),
            },
        }
    }
}

/// Reads the first records, up to about `max_bytes`. Returns them and whether they are the whole file.
fn read_sample(records: &mut Records, max_bytes: u64) -> Result<(VecDeque<Record>, bool)> {
    let mut sample = VecDeque::new();
    let mut bytes = 0_u64;
    while bytes < max_bytes {
        let Some(record) = records.next()? else { return Ok((sample, true)) };
        let size = record.text.len() + record.ends.len() * 8;
        bytes += to_u64(size) + 64;
        sample.push_back(record);
    }
    Ok((sample, false))
}

/// Fits the columns of inferred texts at the indices `at` to the texts of the file, which may be
/// longer than the sample.
fn fit_columns(
    columns: Vec<&mut NamedValues>,
    at: &[usize],
    records: &Records,
    (sample, sample_is_file): (&VecDeque<Record>, bool),
    (names, options): (&[String], &ReadOptions),
) -> Result<()> {
    let bytes = records.lines.bytes();
    let path = bytes.path().filter(|_| bytes.len().is_some());
    let visit = |add: AddText<'_>| {
        let mut add = |record: &Record| match record.len() == names.len() {
            true => (0..).zip(at).try_for_each(|(column, at)| add(column, record.value(*at))),
            false => Ok(()),
        };
        match path.filter(|_| !sample_is_file) {
            Some(path) => records.read_again(path, &options.text, add),
            None => sample.iter().try_for_each(&mut add),
        }
    };
    let visit = (sample_is_file || path.is_some()).then_some(visit);
    fit_texts(columns, sample_is_file, visit, options.memory, bytes.format())
}

/// Returns the type that fits all sampled values of column `at`, or nearly all of them if bad rows are skipped.
fn infer_column(
    sample: &VecDeque<Record>,
    at: usize,
    columns: usize,
    options: &TextOptions,
) -> ColumnType {
    let (skips, marks) = (options.skip_bad_rows, &options.missing);
    let rows = sample.iter().filter(|record| !skips || record.len() == columns);
    let values = rows.map(|record| record.value(at));
    let is_number = |text: &&str| parse_f64(text.trim()).is_some();
    let are_mostly_numbers = || {
        let filled = values.clone().filter(|text| !text.trim().is_empty());
        filled.clone().filter(is_number).count() * 10 >= (filled.count() * 9).max(1)
    };
    if skips && are_mostly_numbers() {
        let is_empty = |text: &str| text.is_empty() || is_missing(text, marks);
        return infer_type(values.filter(|text| is_number(text) || is_empty(text.trim())), marks);
    }
    infer_type(values, marks)
}

/// Reads the rows of a table in batches.
struct Table {
    rules: Rules,
    records: Records,
    sample: VecDeque<Record>, // records of the sample that are not yet in a batch
    sample_is_file: bool,     // types were inferred from the whole file
    names: Vec<String>,
    vertices: VertexBuilder,
    batch_rows: usize,
    parts: (Option<String>, i64), // last value in the part column, and the number of that part
    block_end_line: u64,          // last line of a block that has to be read line by line
    skipped: Option<Skipped>,
}

impl Table {
    fn read_next(&mut self) -> Result<Option<Piece>> {
        while self.vertices.rows() < self.batch_rows && self.push_next()? {}
        if self.vertices.rows() > 0 {
            return self.vertices.take().map(Some);
        }
        self.skipped.iter_mut().for_each(Skipped::note_skipped);
        Ok(None)
    }

    /// Adds the next line, or a block of lines. Returns `false` at the end of the file.
    fn push_next(&mut self) -> Result<bool> {
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

    /// Adds a block of lines if the next ones can be read as a block. Returns whether it did.
    fn push_block(&mut self) -> Result<bool> {
        let Self { rules, records, vertices, .. } = self;
        let by_line = self.skipped.is_some() || rules.roles.part.is_some();
        let delimiter = records.delimiter;
        if by_line || !(delimiter.is_ascii_punctuation() || delimiter == b'\t') {
            return Ok(false);
        }
        if records.lines.number() < self.block_end_line {
            return Ok(false);
        }
        let max_rows = self.batch_rows.saturating_sub(vertices.rows()); // the caller stops at `batch_rows`
        let comment = records.comment.unwrap_or(b'"');
        let Some((text, count)) = records.lines.peek_block(max_rows)? else { return Ok(false) };
        let plain = memchr::memchr2(b'"', comment, text.as_bytes()).is_none();
        let len = text.len();
        if plain && block::push(text, delimiter, rules, self.parts.1, vertices) {
            records.lines.take_block(len, count);
            return Ok(true);
        }
        self.block_end_line = records.lines.number() + count;
        Ok(false)
    }

    fn push(&mut self, record: &Record) -> Result<()> {
        self.records.check_len(record, &self.names)?;
        let spot = |at: usize| {
            let column = self.names[at].clone();
            self.records.lines.bytes().spot(FilePlace::Column { line: record.line, column })
        };
        let VertexBuilder { positions, fields, .. } = &mut self.vertices;
        let fields = fields.iter_mut().map(|field| &mut field.values);
        match self.rules.read(|at| record.value(at), positions, fields) {
            Ok(object) => {
                let part = self.part_number(record);
                self.vertices.end_row(object, part);
                Ok(())
            }
            Err(BadValue::Rounded(at)) => {
                let found: String = record.value(at).trim().chars().take(MAX_SHOWN_CHARS).collect();
                let hint = "the column has missing values or fractions: state its type, float64 to have it \
                            rounded, int64 where none is missing, or text";
                let expected = "a whole number that float64 holds exactly";
                spot(at).hint(hint).refuse(Class::Encoding, expected, found)
            }
            Err(BadValue::NoValue { at, dtype, is_field }) => {
                let is_inferred = is_field && !self.sample_is_file;
                let hint = "its type was inferred from the first lines: state it";
                let found = quote(record.value(at), MAX_SHOWN_CHARS);
                spot(at).hint(is_inferred.then_some(hint)).refuse(Class::Encoding, dtype, found)
            }
        }
    }

    /// Returns the number of the part that the record is in. A new part starts when the value in the part column changes.
    fn part_number(&mut self, record: &Record) -> i64 {
        if let Some(at) = self.rules.roles.part {
            let text = record.value(at);
            if self.parts.0.as_deref() != Some(text) {
                self.parts = (Some(text.to_owned()), self.parts.1 + 1);
            }
        }
        self.parts.1
    }
}

/// Size of the sample that types are inferred from.
const SAMPLE_BYTES: u64 = 8 << 20;
/// Characters of a bad value that a message shows.
const MAX_SHOWN_CHARS: usize = 40;
/// Rows that a note names.
const MAX_SKIPPED: usize = 10;

#[cfg(test)]
mod tests;
