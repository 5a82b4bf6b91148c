//! Parallel parsing of a block of lines.
//!
//! A block is a run of complete lines in the buffer of the file, without quotes. It is split at line ends, each piece is
//! parsed into columns on a thread of its own, and the columns are appended in order. A block with a bad line is not taken;
//! the caller reads it line by line and reports the error.

use rayon::prelude::*;
use zvf_formats::Values;
use zvf_model::ObjectId;

use crate::csv::read::{Rules, VertexBuilder};

/// The values of a piece of a block.
struct LineValues {
    positions: Values,
    fields: Vec<Values>,
    objects: Vec<Option<ObjectId>>, // of each line
}

/// Adds the lines of `text`, which ends with a line feed, to `vertices`. Adds nothing and returns `false` if a line is bad.
pub(crate) fn push(
    text: &str,
    delimiter: u8,
    rules: &Rules,
    part: i64,
    vertices: &mut VertexBuilder,
) -> bool {
    let empty = || LineValues {
        positions: vertices.positions.without_rows(),
        fields: vertices.fields.iter().map(|field| field.values.without_rows()).collect(),
        objects: Vec::new(),
    };
    let read = |piece: &&str| parse_lines(piece, delimiter, rules, empty());
    let Some(pieces) = split_lines(text).par_iter().map(read).collect::<Option<Vec<_>>>() else {
        return false;
    };
    for piece in pieces {
        vertices.positions.append(&piece.positions);
        for (field, values) in vertices.fields.iter_mut().zip(&piece.fields) {
            field.values.append(values);
        }
        piece.objects.into_iter().for_each(|object| vertices.end_row(object, part));
    }
    true
}

/// Splits `text` into pieces of complete lines, of about the same size, one for each thread.
fn split_lines(mut text: &str) -> Vec<&str> {
    let size = text.len().div_ceil(rayon::current_num_threads()).max(MIN_PIECE_BYTES);
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let rest = text.as_bytes().get(size..).unwrap_or_default(); // empty for the last piece
        let end = memchr::memchr(b'\n', rest).map_or(text.len(), |at| size + at + 1);
        let (piece, after) = text.split_at(end);
        pieces.push(piece);
        text = after;
    }
    pieces
}

/// Parses the lines of `text` into columns. Returns `None` if a line is bad.
fn parse_lines(
    text: &str,
    delimiter: u8,
    rules: &Rules,
    mut into: LineValues,
) -> Option<LineValues> {
    let (mut start, mut ends) = (0, Vec::with_capacity(rules.columns));
    for end in memchr::memchr2_iter(delimiter, b'\n', text.as_bytes()) {
        ends.push(end);
        if text.as_bytes().get(end) == Some(&delimiter) {
            continue;
        }
        let line = text.get(start..end)?;
        let shorter = line.strip_suffix('\r').unwrap_or(line);
        if let Some(last) = ends.last_mut() {
            *last = start + shorter.len();
        }
        if !shorter.is_empty() {
            if ends.len() != rules.columns {
                return None;
            }
            let value = |at: usize| {
                let start = at.checked_sub(1).map_or(Some(start), |at| Some(ends.get(at)? + 1));
                start.zip(ends.get(at)).and_then(|(start, end)| text.get(start..*end)).unwrap_or("")
            };
            let row = rules.read(value, &mut into.positions, into.fields.iter_mut());
            into.objects.push(row.ok()?);
        }
        start = end + 1;
        ends.clear();
    }
    Some(into)
}

/// Smallest piece that is worth another thread.
const MIN_PIECE_BYTES: usize = 16 << 10;
