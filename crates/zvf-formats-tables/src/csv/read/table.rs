//! A whole table as text, for columns that belong to something other than vertices.

use std::path::Path;

use zvf_error::Result;
use zvf_formats::{Bytes, Input, Lines};

use crate::csv::read::{Record, Records, is_missing};
use crate::csv::{CSV, TSV};

/// A table as text: the names of its columns and its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextTable {
    /// The name of each column, no two of them equal.
    pub names: Vec<String>,
    /// The rows, each with one value for each column.
    pub rows: Vec<TextRow>,
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextRow {
    /// The number of its first line in the file.
    pub line: u64,
    /// Its values as in the file, without quotes.
    pub values: Vec<String>,
}

/// Reads the CSV or TSV file at `path` by the rules of the reader of such files, whatever its
/// columns.
///
/// # Errors
///
/// When it cannot be read, is empty, or is not a table.
pub fn read_table(path: &Path) -> Result<TextTable> {
    let mut bytes = Input::path(path).begin()?;
    let is_tsv = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("tsv"));
    let (delimiter, format) = if is_tsv { (b'\t', TSV) } else { (b',', CSV) };
    bytes.set_format(format.name);
    parse_table(bytes, delimiter)
}

/// Reads a whole table.
pub(crate) fn parse_table(bytes: Bytes, delimiter: u8) -> Result<TextTable> {
    let (lines, spare) = (Lines::new(bytes), Record::default());
    let mut records = Records { lines, delimiter, comment: None, spare, sizes: (0, 0) };
    let first = records.need_first()?;
    let names: Vec<String> = (0..first.len()).map(|at| first.value(at).trim().to_owned()).collect();
    records.check_names(&names)?;
    let mut rows = Vec::new();
    while let Some(record) = records.next()? {
        records.check_len(&record, &names)?;
        let values = (0..record.len()).map(|at| record.value(at).to_owned()).collect();
        rows.push(TextRow { line: record.line, values });
    }
    Ok(TextTable { names, rows })
}

/// Returns whether a value of a column of numbers means a missing one.
pub fn is_missing_word(text: &str) -> bool {
    is_missing(text, &[])
}
