//! The distinct texts of columns of long texts, collected before the rows are read.
//!
//! A column of text is as wide as its longest value, so that one long value would make every row as
//! long. Such columns are read as codes of their distinct texts.

use std::collections::HashMap;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_metadata::Dtype;

use crate::error::Spot;
use crate::read::values::{Labels, NamedValues, Values};

/// Takes a text, and the index of its column.
pub type AddText<'a> = &'a mut dyn FnMut(usize, &str) -> Result<()>;

/// Makes columns of inferred types of texts as wide as the longest value, unless they are, and
/// those of long texts columns of codes, whose texts may take `max_bytes`. `visit` passes on each
/// text of the file; a stream that cannot be read twice has none.
pub fn fit_texts(
    mut columns: Vec<&mut NamedValues>,
    are_wide: bool,
    visit: Option<impl Fn(AddText<'_>) -> Result<()>>,
    max_bytes: u64,
    format: &'static str,
) -> Result<()> {
    if let Some(visit) = visit.as_ref().filter(|_| !are_wide && !columns.is_empty()) {
        let mut sizes: Vec<u64> = columns.iter().map(|field| field.values.dtype().size).collect();
        visit(&mut |at, text| {
            sizes[at] = sizes[at].max(text_bytes(text));
            Ok(())
        })?;
        for (field, size) in columns.iter_mut().zip(sizes) {
            let dtype = Dtype { size, ..field.values.dtype() };
            field.values = Values::new(dtype, field.values.width());
        }
    }
    let is_long = |field: &NamedValues| field.values.dtype().size > MAX_PADDED_BYTES;
    let Some(first) = columns.iter().find(|field| is_long(field)) else { return Ok(()) };
    let visit = visit.ok_or_else(|| stream_error(format, &first.name))?;
    let mut labels: Vec<Option<HashMap<String, i32>>> =
        columns.iter().map(|field| is_long(field).then(HashMap::new)).collect();
    let mut bytes = 0;
    visit(&mut |at, text| {
        let Some(codes) = labels[at].as_mut().filter(|codes| !codes.contains_key(text)) else {
            return Ok(());
        };
        bytes += to_u64(text.len()) * 2 + 120; // in both directions, and the entries
        let code = i32::try_from(codes.len()).ok().filter(|_| bytes <= max_bytes);
        let code =
            code.ok_or_else(|| text_limit_error(format, "columns of long texts", max_bytes))?;
        codes.insert(text.to_owned(), code);
        Ok(())
    })?;
    for (field, codes) in columns.into_iter().zip(labels) {
        if let Some(codes) = codes {
            field.values = Values::new_labels(Labels::new(codes), field.values.width());
        }
    }
    Ok(())
}

/// Returns the size of a text in a column.
pub fn text_bytes(text: &str) -> u64 {
    to_u64(text.chars().count()) * 4
}

/// Returns the error for distinct texts that take more than `max_bytes`.
pub(crate) fn text_limit_error(format: &'static str, place: &str, max_bytes: u64) -> Error {
    let expected = format!("different texts of at most {max_bytes} bytes");
    let spot = Spot::new(format, place).hint("raise --memory-limit, or choose fewer attributes");
    spot.error(Class::LimitExceeded, expected, "more")
}

/// Returns the error for long texts in a stream, which cannot be read twice.
fn stream_error(format: &'static str, column: &str) -> Error {
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
/// Maximum bytes of the attributes of a batch: a quarter of the lowest memory limit.
const MAX_BATCH_BYTES: usize = 8 << 20;
