//! Rows of the table of links: edges and faces, each once.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt32Array, new_null_array};
use datafusion::error::Result;
use futures_util::stream::StreamExt as _;
use zvf::store::KeyTable;
use zvf::{Batch, Columns, Elements};

use super::vertices::{chunk_names, decode_places};
use super::{Rows, ScanContext};
use crate::columns::{Origin, object_number, open_level};
use crate::scan::Task;
use crate::{bad_request, external_error};

/// Reads the links of a task.
pub(super) async fn rows(context: ScanContext, task: &Task) -> Result<Rows> {
    let reader = context.store.reader();
    let level = open_level(&reader, context.scan.options).await?;
    let chunks = level.chunks().await.map_err(external_error)?;
    let mut query = task.narrow_links(context.scan.base_query())?.with_places();
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
            None => context.batch(
                context
                    .layout
                    .columns
                    .iter()
                    .map(|column| new_null_array(column.field.data_type(), 0))
                    .collect(),
                0,
            ),
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
    let values = zvf::convert::element_record_batch(batch, 0).map_err(external_error)?;
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
                owners.and_then(|owners| owners.get(row).copied().flatten()).map(object_number)
            }))),
            Origin::Attribute(name) => {
                let index = elements.fields().iter().position(|field| {
                    &*field.name == name.as_str() || field.name.strip_prefix("link.") == Some(name)
                });
                let found = index
                    .zip(values.as_ref())
                    .map(|(index, rows)| Arc::clone(rows.column(index + 1)));
                found.ok_or_else(|| bad_request("an answer", "its columns", name))?
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
