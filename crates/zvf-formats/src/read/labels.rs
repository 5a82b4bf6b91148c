//! The distinct texts of columns of long texts, collected before the rows are read.
//!
//! A column of text is as wide as its longest value, so that one long value would make every row as
//! long. Such columns are read as codes of their distinct texts.

use std::collections::HashMap;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_metadata::{Dtype, DtypeKind};

use crate::error::Spot;
use crate::read::values::{Labels, NamedValues};

/// Collector of the distinct texts of some columns.
#[derive(Debug)]
pub struct LabelCollector {
    columns: Vec<HashMap<String, i32>>,
    bytes: u64,
    max_bytes: u64,
    format: &'static str,
}

impl LabelCollector {
    /// Creates a collector for `columns` columns, whose texts may take `max_bytes`.
    pub fn new(columns: usize, max_bytes: u64, format: &'static str) -> Self {
        Self { columns: vec![HashMap::new(); columns], bytes: 0, max_bytes, format }
    }

    /// Adds a text of column `at`.
    pub fn add(&mut self, at: usize, text: &str) -> Result<()> {
        let Some(codes) = self.columns.get_mut(at).filter(|codes| !codes.contains_key(text)) else {
            return Ok(());
        };
        self.bytes += to_u64(text.len()) * 2 + 120; // in both directions, and the entries
        if let Some(code) = i32::try_from(codes.len()).ok().filter(|_| self.bytes <= self.max_bytes)
        {
            codes.insert(text.to_owned(), code);
            return Ok(());
        }
        Err(text_limit_error(self.format, "columns of long texts", self.max_bytes))
    }

    /// Returns the texts of each column.
    pub fn finish(self) -> impl Iterator<Item = Labels> {
        self.columns.into_iter().map(Labels::new)
    }
}

/// Returns the error for distinct texts that take more than `max_bytes`.
pub(crate) fn text_limit_error(format: &'static str, place: &str, max_bytes: u64) -> Error {
    let expected = format!("different texts of at most {max_bytes} bytes");
    let spot = Spot::new(format, place).hint("raise --memory-limit, or choose fewer attributes");
    spot.error(Class::LimitExceeded, expected, "more")
}

/// Returns whether a column of this type is too wide to pad every row.
pub fn is_long(dtype: Dtype) -> bool {
    dtype.kind == DtypeKind::Text && dtype.size > MAX_PADDED_BYTES
}

/// Returns the error for long texts in a stream, which cannot be read twice.
pub fn stream_error(format: &'static str, column: &str) -> Error {
    let expected = format!("texts of at most {} characters in a stream", MAX_PADDED_BYTES / 4);
    Spot::new(format, format!("column {column:?}"))
        .hint("give the file itself, state the type of the column, or leave it out")
        .error(Class::Unsupported, expected, "a longer one")
}

/// Returns the number of rows per batch for these columns: at most `max_rows`, and fewer if rows
/// are long.
pub fn batch_rows(fields: &[NamedValues], max_rows: usize) -> usize {
    let row = fields.iter().fold(0, |sum: usize, field| sum.saturating_add(field.bytes()));
    MAX_BATCH_BYTES.checked_div(row).unwrap_or(max_rows).clamp(1, max_rows.max(1))
}

/// Size in bytes up to which texts are padded: 256 characters.
const MAX_PADDED_BYTES: u64 = 1024;
/// Maximum bytes of the attributes of a batch.
const MAX_BATCH_BYTES: usize = 256 << 20;
