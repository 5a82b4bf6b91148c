//! Object indexes of numbers: spans of rows of one long table.
//!
//! ```text
//! manifest_spans    i64 [n, 2]       start, count: the rows of object r
//! manifest_blocks   i64 [m, S + 1]   chunk, fragment: one reference a row
//! ```
//!
//! Spans may lie in any order, and rows that no span names are left over from edits. What comes out is the
//! same manifest that the other layouts store as a blob.

use std::ops::Range;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use zvf_error::{Error, Locate as _, Result};
use zvf_format::manifest::ManifestBuilder;
use zvf_format::num::{i64s_from_le, saturating_usize, to_u64};
use zvf_format::{Class, Expected};
use zvf_metadata::Dtype;
use zvf_store::DenseArray;

use super::ObjectManifest;

/// Checks that `array` is of 64-bit integers and has at least as many rows, and exactly as many columns,
/// as `shape` says.
pub(super) fn check_shape(array: &DenseArray, shape: &[Option<u64>]) -> Result<()> {
    let place = |error: Error| error.at_array(array.path());
    if array.dtype() != Dtype::INT64 {
        return Err(place(Error::new(Class::BadTag, "data type", "int64", "another")));
    }
    let found = array.shape();
    if found.len() != shape.len() {
        return Err(place(Error::new(Class::BadShape, "axes", to_u64(shape.len()), found.len())));
    }
    for (axis, (found, required)) in found.iter().zip(shape).enumerate() {
        let Some(required) = *required else { continue };
        if axis == 0 && *found < required {
            return Err(place(Error::new(
                Class::CountMismatch,
                "rows",
                Expected::AtLeast(required.into()),
                *found,
            )));
        }
        if axis > 0 && *found != required {
            return Err(place(Error::new(Class::BadShape, "columns", required, *found)));
        }
    }
    Ok(())
}

/// Returns the first `rows` rows, read in pieces of a bounded size.
pub(super) async fn all_rows(array: &DenseArray, rows: u64) -> Result<Bytes> {
    if rows <= PIECE {
        return array.rows(0..rows).await;
    }
    let mut bytes = Vec::new();
    for piece in pieces(0..rows) {
        bytes.extend_from_slice(&array.rows(piece).await?);
    }
    Ok(bytes.into())
}

/// Returns the rows in pieces of a bounded size.
pub(super) fn pieces(rows: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut start = rows.start;
    std::iter::from_fn(move || {
        let piece = start..start.saturating_add(PIECE).min(rows.end); // the last one ends with the rows
        start = piece.end;
        (piece.start < piece.end).then_some(piece)
    })
}

/// Returns the manifests of `rows`, each with its own fault.
pub(super) async fn manifests(
    spans: &DenseArray,
    blocks: &DenseArray,
    rows: &[u64],
    rank: u64,
) -> Result<Vec<Result<ObjectManifest>>> {
    let bytes = spans.take(rows).await?;
    let numbers: Vec<i64> = i64s_from_le(&bytes).collect();
    let spans: Vec<Result<Range<u64>>> = numbers
        .as_chunks::<2>()
        .0
        .iter()
        .map(|[start, count]| span(*start, *count, blocks.len()).at_array(spans.path()))
        .collect();
    let pieces = read(blocks, spans.iter().flatten().cloned().collect()).await?;
    let stride = saturating_usize(rank + 1) * 8; // a rank is at most 16
    let manifest = |(span, row): (Result<Range<u64>>, &u64)| {
        let span = span?;
        let after = pieces.partition_point(|(piece, _)| piece.start <= span.start);
        let piece = after.checked_sub(1).and_then(|at| pieces.get(at));
        let bytes = piece.and_then(|(piece, bytes)| {
            let at = |row: u64| saturating_usize(row - piece.start).checked_mul(stride);
            bytes.get(at(span.start)?..at(span.end)?)
        });
        bytes
            .ok_or_else(|| {
                Error::new(Class::OutOfBounds, "rows of a span", "those that were read", span.end)
            })
            .and_then(|bytes| blob(bytes, stride, rank))
            .and_then(|blob| ObjectManifest::new(*row, rank, blob))
            .at_array(blocks.path())
    };
    Ok(spans.into_iter().zip(rows).map(manifest).collect())
}

fn span(start: i64, count: i64, blocks: u64) -> Result<Range<u64>> {
    let range = u64::try_from(start).ok().zip(u64::try_from(count).ok());
    let Some((start, count)) = range else {
        let found = start.min(count);
        return Err(Error::new(Class::Negative, "span of blocks", Expected::AtLeast(0), found));
    };
    let end = start + count;
    if end > blocks {
        return Err(Error::new(
            Class::OutOfBounds,
            "end of a span of blocks",
            Expected::AtMost(blocks.into()),
            end,
        ));
    }
    Ok(start..end)
}

/// Returns the rows that the spans name, in pieces ascending by their start: near spans are read together.
async fn read(blocks: &DenseArray, mut spans: Vec<Range<u64>>) -> Result<Vec<(Range<u64>, Bytes)>> {
    spans.sort_by_key(|span| span.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            // A span may end near the largest number: an array may claim so many rows.
            Some(last) if span.start <= last.end.saturating_add(GAP) => {
                last.end = last.end.max(span.end);
            }
            _ => joined.push(span),
        }
    }
    let reads = joined.into_iter().map(|piece| async move {
        let bytes = blocks.rows(piece.clone()).await?;
        Ok((piece, bytes))
    });
    stream::iter(reads).buffered(CONCURRENT_READS).try_collect().await
}

/// Encodes rows of references as a manifest blob.
fn blob(rows: &[u8], stride: usize, rank: u64) -> Result<Bytes> {
    let mut builder = ManifestBuilder::new(rank)?;
    for row in rows.chunks_exact(stride) {
        let numbers: Vec<i64> = i64s_from_le(row).collect();
        let Some((fragment, chunk)) = numbers.split_last() else { continue };
        let fragment = u64::try_from(*fragment).map_err(|_negative| {
            Error::new(Class::Negative, "fragment", Expected::AtLeast(0), *fragment)
        })?;
        builder.push_single(chunk, fragment)?;
    }
    Ok(builder.encode().into())
}

/// Rows between two spans that are read rather than left out.
const GAP: u64 = 1024;
/// Pieces that are read at once.
const CONCURRENT_READS: usize = 16;
/// Rows read at a time.
const PIECE: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_lie_inside_the_blocks() {
        for (start, count, expected) in [
            (0, 0, Ok(0..0)),
            (3, 2, Ok(3..5)),
            (5, 0, Ok(5..5)),
            (4, 2, Err("OutOfBounds, end of a span of blocks: expected at most 5, found 6")),
            (-1, 2, Err("Negative, span of blocks: expected at least 0, found -1")),
            (1, -7, Err("Negative, span of blocks: expected at least 0, found -7")),
        ] {
            let found = span(start, count, 5).map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(str::to_owned));
        }
        assert!(span(i64::MAX, i64::MAX, u64::MAX).is_ok(), "2^64 - 2 is below the blocks claimed");
    }

    #[test]
    fn rows_become_blocks() {
        let rows: Vec<u8> = [1_i64, -2, 5, 0, 0, 7].iter().flat_map(|n| n.to_le_bytes()).collect();
        let manifest = ObjectManifest::new(0, 2, blob(&rows, 24, 2).unwrap()).unwrap();
        let references: Vec<_> = manifest
            .references()
            .unwrap()
            .map(|(chunk, fragment)| (chunk.to_string(), fragment))
            .collect();
        assert_eq!(references, [("1.-2".to_owned(), 5), ("0.0".to_owned(), 7)]);
        let negative: Vec<u8> = [1_i64, -2, -5].iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!(
            blob(&negative, 24, 2).unwrap_err().to_string(),
            "Negative, fragment: expected at least 0, found -5"
        );
    }
}
