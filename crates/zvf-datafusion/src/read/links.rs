//! Rows of the table of links: edges and faces, each once.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use datafusion::error::Result;
use futures_util::stream::StreamExt as _;
use zvf::store::KeyTable;
use zvf::{Batch, Columns, Elements, Query};

use super::vertices::{chunk_names, decode_places};
use super::{Rows, ScanContext};
use crate::columns::{Origin, open_level};
use crate::scan::Task;
use crate::values::arrow_values;
use crate::{bad_request, external_error};

/// Reads the links of a task.
pub(super) async fn rows(context: ScanContext, task: &Task) -> Result<Rows> {
    let reader = context.store.reader();
    let level = open_level(&reader, context.scan.options).await?;
    let chunks = level.chunks().await.map_err(external_error)?;
    let query = task.narrow(context.scan.base_query(), Query::with_links_of_chunks)?;
    let mut query = query.with_places();
    let names: Vec<String> =
        context.layout.attributes().map(|name| format!("link.{name}")).collect();
    if !names.is_empty() {
        query = query.columns(Columns::Named(names));
    }
    if context.layout.has(|origin| matches!(origin, Origin::Object(_))) {
        query = query.with_owners();
    }
    let batches = reader.stream(query);
    let rows = batches.map(move |batch| {
        let batch = batch.map_err(external_error)?;
        match batch.elements() {
            Some(elements) => record_batch(&context, &batch, elements, &chunks),
            None => Ok(RecordBatch::new_empty(Arc::clone(&context.schema))),
        }
    });
    Ok(rows.boxed())
}

fn record_batch(
    context: &ScanContext,
    batch: &Batch,
    elements: &Elements,
    chunks: &KeyTable,
) -> Result<RecordBatch> {
    let places = decode_places(batch)?;
    let place = |row: usize| {
        let place = places.get(row).copied();
        place.ok_or_else(|| bad_request("the end of a link", "a vertex of the answer", "another"))
    };
    let owners = batch.vertex_objects();
    let ends = |end: usize| elements.iter().filter_map(move |element| element.get(end).copied());
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(context.layout.columns.len());
    for column in &context.layout.columns {
        columns.push(match &column.origin {
            Origin::Chunk(end) => {
                let numbers = ends(*end).map(|row| place(row).map(|place| place.chunk));
                let numbers = numbers.collect::<Result<Vec<_>>>()?;
                Arc::new(chunk_names(Some(chunks), numbers.into_iter())?)
            }
            Origin::Row(end) => {
                let rows = ends(*end).map(|row| place(row).map(|place| place.row));
                Arc::new(UInt32Array::from(rows.collect::<Result<Vec<_>>>()?))
            }
            Origin::Object(end) => Arc::new(Int64Array::from_iter(ends(*end).map(|row| {
                owners.and_then(|owners| owners.get(row).copied().flatten()).map(|id| id.0)
            }))),
            Origin::Attribute(name) => {
                let found = elements.fields().iter().find(|field| {
                    &*field.name == name.as_str() || field.name.strip_prefix("link.") == Some(name)
                });
                let found = found.ok_or_else(|| bad_request("an answer", "its columns", name));
                arrow_values(found?)?
            }
            Origin::Axis { .. }
            | Origin::Geometry
            | Origin::FragmentAttribute(_)
            | Origin::Groups
            | Origin::GroupNames
            | Origin::GroupAttribute(_)
            | Origin::Own => {
                return Err(bad_request("a column of links", "another", column.field.name()));
            }
        });
    }
    context.batch(columns, elements.len())
}
