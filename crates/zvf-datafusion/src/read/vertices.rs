//! Stored vertices, chunk by chunk.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array};
use datafusion::error::Result;
use futures_util::stream::{self, StreamExt as _};
use zvf::query::LOCATION_FIELD;
use zvf::store::KeyTable;
use zvf::{Batch, Columns};

use super::{Reading, Rows, strided};
use crate::columns::{Origin, open_level};
use crate::scan::Task;
use crate::{bad_request, external};

/// The vertices of a task.
pub(super) async fn rows(reading: Reading, task: &Task) -> Result<Rows> {
    let mut query = task.narrow(reading.scan.vertex_query()?)?;
    if let Some(limit) = reading.scan.limit {
        query = query.limit(limit);
    }
    let reader = reading.store.reader();
    if reading.layout.columns.is_empty() {
        let counts = reader.count(&query).await.map_err(external)?;
        let batches = reading.bare(counts.vertices)?;
        return Ok(stream::iter(batches.into_iter().map(Ok)).boxed());
    }
    let names: Vec<String> = reading.layout.attributes().map(str::to_owned).collect();
    if !names.is_empty() {
        query = query.columns(Columns::Named(names));
    }
    if reading.layout.has(|origin| matches!(origin, Origin::Object(_))) {
        query = query.with_owners();
    }
    let mut chunks = None;
    if reading.layout.has(|origin| matches!(origin, Origin::Chunk(_) | Origin::Row(_))) {
        query = query.with_places();
        let level = open_level(&reader, reading.scan.level, reading.scan.kind()?).await?;
        chunks = Some(level.chunks().await.map_err(external)?);
    }
    let batches = reader.stream(query);
    let rows = batches.map(move |batch| {
        let batch = batch.map_err(external)?;
        record_batch(&reading, &batch, chunks.as_deref())
    });
    Ok(rows.boxed())
}

fn record_batch(
    reading: &Reading,
    batch: &Batch,
    chunks: Option<&KeyTable>,
) -> Result<RecordBatch> {
    let rows = zvf::convert::record_batch(batch).map_err(external)?;
    let positions = rows.column(0).as_fixed_size_list();
    let axes = usize::try_from(positions.value_length()).unwrap_or(0);
    let places = batch.field(LOCATION_FIELD).map(|field| &field.column);
    let place = |row: usize| places.map_or((0, 0), |places| place_of(places, row));
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(reading.layout.columns.len());
    for column in &reading.layout.columns {
        columns.push(match &column.origin {
            Origin::Axis { axis, .. } => strided(positions.values(), *axis, axes)?,
            Origin::Attribute(name) => {
                let at = batch.fields().iter().position(|field| &*field.name == name.as_str());
                let at = at.ok_or_else(|| bad_request("an answer", "its columns", name))?;
                Arc::clone(rows.column(at + 1))
            }
            Origin::Object(_) => match batch.vertex_objects() {
                Some(owners) => Arc::new(arrow_array::Int64Array::from_iter(
                    owners.iter().map(|owner| owner.map(crate::columns::object_number)),
                )),
                None => super::nulls(column.field.data_type(), batch.len()),
            },
            Origin::Chunk(_) => {
                Arc::new(chunk_names(chunks, (0..batch.len()).map(|row| place(row).0))?)
            }
            Origin::Row(_) => {
                Arc::new(UInt32Array::from_iter_values((0..batch.len()).map(|row| place(row).1)))
            }
            Origin::Own => {
                return Err(bad_request("a column of vertices", "another", column.field.name()));
            }
        });
    }
    reading.batch(columns, batch.len())
}

/// The chunk, by its number, and the row of a vertex.
pub(super) fn place_of(places: &zvf::Column, row: usize) -> (u32, u32) {
    let bytes: [u8; 8] = places.row(row).try_into().unwrap_or([u8::MAX; 8]);
    let place = u64::from_le_bytes(bytes);
    let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    (half(place >> 32), half(place))
}

/// The keys of chunks, by their numbers.
pub(super) fn chunk_names(
    chunks: Option<&KeyTable>,
    numbers: impl Iterator<Item = u32>,
) -> Result<StringArray> {
    let mut last: Option<(u32, String)> = None;
    let mut names = arrow_array::builder::StringBuilder::new();
    for number in numbers {
        if last.as_ref().is_none_or(|(known, _)| *known != number) {
            let at = usize::try_from(number).unwrap_or(usize::MAX);
            let key = chunks.and_then(|chunks| chunks.get(at));
            let key =
                key.ok_or_else(|| bad_request("a vertex", "a chunk of the level", "another"))?;
            last = Some((number, key.to_string()));
        }
        names.append_value(last.as_ref().map_or("", |(_, name)| name));
    }
    Ok(names.finish())
}
