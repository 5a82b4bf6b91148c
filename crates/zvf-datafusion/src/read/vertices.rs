//! Rows of the table of vertices, chunk by chunk.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array};
use datafusion::error::Result;
use futures_util::stream::{self, StreamExt as _};
use zvf::format::num::usize_from_u32;
use zvf::query::LOCATION_FIELD;
use zvf::store::KeyTable;
use zvf::{Batch, Columns, Query};

use super::{Rows, ScanContext, take_every_nth};
use crate::columns::{Origin, open_level};
use crate::geometry::point_column;
use crate::joined::{fragment_column, is_group_column};
use crate::scan::Task;
use crate::values::{arrow_values, coordinates};
use crate::{bad_request, external_error};

/// Reads the vertices of a task.
pub(super) async fn rows(context: ScanContext, task: &Task) -> Result<Rows> {
    let mut query = task.narrow(context.scan.vertex_query()?, Query::in_chunks)?;
    if let Some(limit) = context.scan.limit {
        query = query.limit(limit);
    }
    let reader = context.store.reader();
    if context.layout.columns.is_empty() {
        let counts = reader.count(&query).await.map_err(external_error)?;
        return Ok(stream::iter(context.empty_batches(counts.vertices)).boxed());
    }
    let names: Vec<String> =
        context.layout.columns.iter().filter_map(|column| query_name(&column.origin)).collect();
    if !names.is_empty() {
        query = query.columns(Columns::Named(names));
    }
    let needs_objects =
        |origin: &Origin| matches!(origin, Origin::Object(_)) || is_group_column(origin);
    if context.layout.has(needs_objects) {
        query = query.with_owners();
    }
    let mut chunks = None;
    if context.layout.has(|origin| matches!(origin, Origin::Chunk(_) | Origin::Row(_))) {
        query = query.with_places();
        let level = open_level(&reader, context.scan.options).await?;
        chunks = Some(level.chunks().await.map_err(external_error)?);
    }
    let batches = reader.stream(query);
    let rows = batches.map(move |batch| {
        let batch = batch.map_err(external_error)?;
        record_batch(&context, &batch, chunks.as_deref())
    });
    Ok(rows.boxed())
}

/// Returns the name of an attribute in queries; `None` for a column that is no attribute.
fn query_name(origin: &Origin) -> Option<String> {
    match origin {
        Origin::Attribute(name) => Some(name.clone()),
        Origin::FragmentAttribute(name) => Some(fragment_column(name)),
        _ => None,
    }
}

fn record_batch(
    context: &ScanContext,
    batch: &Batch,
    chunks: Option<&KeyTable>,
) -> Result<RecordBatch> {
    let (positions, axes) = (coordinates(batch.positions())?, batch.positions().width());
    let places = match chunks {
        Some(_) => decode_places(batch)?,
        None => Vec::new(),
    };
    let lists = context.memberships.as_ref().map(|memberships| match batch.vertex_objects() {
        Some(owners) => memberships.lists(owners.iter().copied()),
        None => memberships.lists(std::iter::repeat_n(None, batch.len())),
    });
    let lists = lists.transpose()?;
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(context.layout.columns.len());
    for column in &context.layout.columns {
        columns.push(match &column.origin {
            Origin::Axis { axis, .. } => take_every_nth(&positions, *axis, usize_from_u32(axes))?,
            Origin::Attribute(name) => attribute(batch, name)?,
            Origin::FragmentAttribute(name) => attribute(batch, &fragment_column(name))?,
            Origin::Groups | Origin::GroupNames | Origin::GroupAttribute(_) => {
                let memberships = context.memberships.as_ref().zip(lists.as_ref());
                let (memberships, lists) = memberships
                    .ok_or_else(|| bad_request("columns of groups", "groups", "none"))?;
                memberships.column(&column.origin, column.field.data_type(), lists)?
            }
            Origin::Object(_) => match batch.vertex_objects() {
                Some(owners) => Arc::new(arrow_array::Int64Array::from_iter(
                    owners.iter().map(|owner| owner.map(|id| id.0)),
                )),
                None => arrow_array::new_null_array(column.field.data_type(), batch.len()),
            },
            Origin::Chunk(_) => {
                Arc::new(chunk_names(chunks, places.iter().map(|place| place.chunk))?)
            }
            Origin::Row(_) => {
                Arc::new(UInt32Array::from_iter_values(places.iter().map(|place| place.row)))
            }
            Origin::Geometry => point_column(column.field.data_type(), &positions)?,
            Origin::Own => {
                return Err(bad_request("a column of vertices", "another", column.field.name()));
            }
        });
    }
    context.batch(columns, batch.len())
}

/// Returns the attribute `name` of an answer.
fn attribute(batch: &Batch, name: &str) -> Result<ArrayRef> {
    let field = batch.field(name);
    arrow_values(field.ok_or_else(|| bad_request("an answer", "its columns", name))?)
}

/// The chunk and the row of a stored vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// The number of its chunk.
    pub(super) chunk: u32,
    /// Its row there.
    pub(super) row: u32,
}

/// Decodes the places of the vertices of an answer, from the column that `Query::with_places` adds.
pub(super) fn decode_places(batch: &Batch) -> Result<Vec<Spot>> {
    let field = batch.field(LOCATION_FIELD);
    let field = field.ok_or_else(|| bad_request("an answer", "places", "none"))?;
    let place = |row: usize| {
        let bytes: Result<[u8; 8], _> = field.column.row(row).try_into();
        let bytes = bytes.map_err(|_other| bad_request("a place", "8 bytes", "another number"))?;
        let [a, b, c, d, e, f, g, h] = bytes;
        let (row, chunk) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        Ok(Spot { chunk, row })
    };
    (0..batch.len()).map(place).collect()
}

/// Returns the keys of the chunks with these numbers, as text.
pub(super) fn chunk_names(
    chunks: Option<&KeyTable>,
    numbers: impl Iterator<Item = u32>,
) -> Result<StringArray> {
    let (mut last, mut name): (Option<u32>, _) = (None, String::new());
    let mut names = arrow_array::builder::StringBuilder::new();
    for number in numbers {
        if last != Some(number) {
            let key = chunks.and_then(|chunks| chunks.get(usize_from_u32(number)));
            let key =
                key.ok_or_else(|| bad_request("a vertex", "a chunk of the level", "another"))?;
            (last, name) = (Some(number), key.to_string());
        }
        names.append_value(&name);
    }
    Ok(names.finish())
}
