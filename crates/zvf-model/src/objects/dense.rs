//! Object indexes of numbers: spans of rows in one long table.
//!
//! ```text
//! manifest_spans    i64 [n, 2]       start, count: the rows of object r
//! manifest_blocks   i64 [m, S + 1]   chunk, fragment: one reference a row
//! ```
//!
//! Spans may be in any order, and rows outside all spans are leftovers of edits. The result is the
//! same manifest that the other layouts store as a blob.

use std::ops::Range;

use bytes::Bytes;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::manifest::ManifestBuilder;
use zvf_format::num::{i64s_from_le, saturating_usize, to_u64};
use zvf_format::{Class, Expected};
use zvf_metadata::Dtype;
use zvf_store::DenseArray;

use super::ObjectManifest;
use crate::open::references;

/// Checks that `array` contains 64-bit integers and has at least as many rows, and exactly as many
/// columns, as `shape`.
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

/// Returns the manifests of `rows`, each with its own error.
pub(super) async fn manifests(
    spans: &DenseArray,
    blocks: &DenseArray,
    rows: &[u64],
    rank: u64,
) -> Result<Vec<Result<ObjectManifest>>> {
    let bytes = spans.take(rows).await?;
    let numbers: Vec<i64> = i64s_from_le(&bytes).collect();
    let found = references(numbers.as_chunks::<2>().0, blocks).await?;
    let stride = saturating_usize(rank + 1) * 8; // a rank is at most 16
    let manifest = |(references, row): (Result<Bytes>, &u64)| {
        let references = references.at_array(spans.path())?;
        blob(&references, stride, rank)
            .and_then(|blob| ObjectManifest::new(*row, rank, blob))
            .at_array(blocks.path())
    };
    Ok(found.into_iter().zip(rows).map(manifest).collect())
}

/// Encodes rows of references as a manifest blob.
fn blob(rows: &[u8], stride: usize, rank: u64) -> Result<Bytes> {
    let mut builder = ManifestBuilder::new(rank)?;
    for row in rows.chunks_exact(stride) {
        let numbers: Vec<i64> = i64s_from_le(row).collect();
        let (chunk, fragment) = numbers.split_at(saturating_usize(rank)); // then one number
        let fragment = u64::try_from(fragment[0]).map_err(|_negative| {
            Error::new(Class::Negative, "fragment", Expected::AtLeast(0), fragment[0])
        })?;
        builder.push_single(chunk, fragment)?;
    }
    Ok(builder.encode().into())
}

/// Number of rows that are read at a time.
const PIECE: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_blocks() {
        let rows: Vec<u8> = [1_i64, -2, 5, 0, 0, 7].iter().flat_map(|n| n.to_le_bytes()).collect();
        let manifest = ObjectManifest::new(0, 2, blob(&rows, 24, 2).unwrap()).unwrap();
        let references: Vec<_> =
            manifest.references().map(|(chunk, fragment)| (chunk.to_string(), fragment)).collect();
        assert_eq!(references, [("1.-2".to_owned(), 5), ("0.0".to_owned(), 7)]);
        let negative: Vec<u8> = [1_i64, -2, -5].iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!(
            blob(&negative, 24, 2).unwrap_err().to_string(),
            "Negative, fragment: expected at least 0, found -5"
        );
    }
}
