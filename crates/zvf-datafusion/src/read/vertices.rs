//! Stored vertices, chunk by chunk.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array};
use datafusion::error::Result;
use futures_util::stream::{self, StreamExt as _};
use zvf::format::num::usize_from_u32;
use zvf::query::LOCATION_FIELD;
use zvf::store::KeyTable;
use zvf::{Batch, Columns};

use super::{Reading, Rows, strided};
use crate::columns::{Origin, open_level};
use crate::geometry::point_column;
use crate::joined::{fragment_column, is_of_groups};
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
    let names: Vec<String> =
        reading.layout.columns.iter().filter_map(|column| asked(&column.origin)).collect();
    if !names.is_empty() {
        query = query.columns(Columns::Named(names));
    }
    let needs_objects =
        |origin: &Origin| matches!(origin, Origin::Object(_)) || is_of_groups(origin);
    if reading.layout.has(needs_objects) {
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

/// What the store calls the column, where it is an attribute.
fn asked(origin: &Origin) -> Option<String> {
    match origin {
        Origin::Attribute(name) => Some(name.clone()),
        Origin::FragmentAttribute(name) => Some(fragment_column(name)),
        _ => None,
    }
}

fn record_batch(
    reading: &Reading,
    batch: &Batch,
    chunks: Option<&KeyTable>,
) -> Result<RecordBatch> {
    let rows = zvf::convert::record_batch(batch).map_err(external)?;
    let positions = rows.column(0).as_fixed_size_list();
    let axes = positions.value_length().try_into();
    let axes = axes.map_err(|_negative| bad_request("the positions", "axes", "less than none"))?;
    let places = match chunks {
        Some(_) => places(batch)?,
        None => Vec::new(),
    };
    let lists = reading.memberships.as_ref().map(|known| match batch.vertex_objects() {
        Some(owners) => known.lists(owners.iter().copied()),
        None => known.lists(std::iter::repeat_n(None, batch.len())),
    });
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(reading.layout.columns.len());
    for column in &reading.layout.columns {
        columns.push(match &column.origin {
            Origin::Axis { axis, .. } => strided(positions.values(), *axis, axes)?,
            Origin::Attribute(name) => attribute(batch, &rows, name)?,
            Origin::FragmentAttribute(name) => attribute(batch, &rows, &fragment_column(name))?,
            Origin::Groups | Origin::GroupNames | Origin::GroupAttribute(_) => {
                let known = reading.memberships.as_ref().zip(lists.as_ref());
                let (known, lists) =
                    known.ok_or_else(|| bad_request("columns of groups", "groups", "none"))?;
                known.column(&column.origin, column.field.data_type(), lists)?
            }
            Origin::Object(_) => match batch.vertex_objects() {
                Some(owners) => Arc::new(arrow_array::Int64Array::from_iter(
                    owners.iter().map(|owner| owner.map(crate::columns::object_number)),
                )),
                None => super::nulls(column.field.data_type(), batch.len()),
            },
            Origin::Chunk(_) => {
                Arc::new(chunk_names(chunks, places.iter().map(|place| place.chunk))?)
            }
            Origin::Row(_) => {
                Arc::new(UInt32Array::from_iter_values(places.iter().map(|place| place.row)))
            }
            Origin::Geometry => point_column(column.field.data_type(), positions)?,
            Origin::Own => {
                return Err(bad_request("a column of vertices", "another", column.field.name()));
            }
        });
    }
    reading.batch(columns, batch.len())
}

/// The attribute that an answer has under `name`.
fn attribute(batch: &Batch, rows: &RecordBatch, name: &str) -> Result<ArrayRef> {
    let at = batch.fields().iter().position(|field| &*field.name == name);
    let at = at.ok_or_else(|| bad_request("an answer", "its columns", name))?;
    Ok(Arc::clone(rows.column(at + 1)))
}

/// Where a vertex is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of its chunk.
    pub(super) chunk: u32,
    /// Its row there.
    pub(super) row: u32,
}

/// The places of all vertices of an answer that was asked for them.
pub(super) fn places(batch: &Batch) -> Result<Vec<Place>> {
    let field = batch.field(LOCATION_FIELD);
    let field = field.ok_or_else(|| bad_request("an answer", "places", "none"))?;
    let place = |row: usize| {
        let bytes: Result<[u8; 8], _> = field.column.row(row).try_into();
        let bytes = bytes.map_err(|_other| bad_request("a place", "8 bytes", "another number"))?;
        let [a, b, c, d, e, f, g, h] = bytes;
        let (row, chunk) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        Ok(Place { chunk, row })
    };
    (0..batch.len()).map(place).collect()
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
            let key = chunks.and_then(|chunks| chunks.get(usize_from_u32(number)));
            let key =
                key.ok_or_else(|| bad_request("a vertex", "a chunk of the level", "another"))?;
            last = Some((number, key.to_string()));
        }
        names.append_value(last.as_ref().map_or("", |(_, name)| name));
    }
    Ok(names.finish())
}
