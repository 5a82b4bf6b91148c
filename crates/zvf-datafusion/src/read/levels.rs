//! Rows of the table of levels: one for each kind of geometry of a level.

use std::sync::Arc;

use arrow_array::builder::{Float64Builder, ListBuilder};
use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray, UInt32Array, UInt64Array};
use datafusion::error::Result;
use futures_util::stream::{self, StreamExt as _};
use zvf::inspect::LevelSummary;

use super::{Rows, ScanContext};
use crate::{bad_request, external_error};

/// Reads all levels, in one batch.
pub(super) async fn rows(context: ScanContext) -> Result<Rows> {
    let reader = context.store.reader();
    let store = reader.store();
    let mut all = Vec::new();
    for number in store.level_numbers() {
        let mut level = LevelSummary::read(store, number).await.map_err(external_error)?;
        if let Some(fault) = &level.fault {
            return Err(bad_request(&format!("level {number}"), "one that can be read", fault));
        }
        if level.kind.is_none() {
            let opened = reader.level(zvf::LevelId(number)).await;
            let opened = opened.map_err(external_error)?;
            level.kind = opened.kinds().first().map(ToString::to_string);
        }
        let extra_kinds = std::mem::take(&mut level.beside);
        all.push(level);
        all.extend(extra_kinds);
    }
    let mut columns = Vec::with_capacity(context.layout.columns.len());
    for column in &context.layout.columns {
        columns.push(build_column(column.field.name(), &all)?);
    }
    let batch = context.batch(columns, all.len());
    Ok(stream::iter([batch]).boxed())
}

/// Builds the column `name` of the table.
fn build_column(name: &str, all: &[LevelSummary]) -> Result<ArrayRef> {
    let counts = |count: &dyn Fn(&LevelSummary) -> Option<u64>| -> ArrayRef {
        Arc::new(all.iter().map(count).collect::<UInt64Array>())
    };
    let links = |level: &LevelSummary| {
        level.links.iter().filter(|links| links.delta == 0).map(|links| links.links).sum()
    };
    Ok(match name {
        "level" => Arc::new(UInt32Array::from_iter_values(all.iter().map(|level| level.level))),
        "kind" => Arc::new(all.iter().map(|level| level.kind.as_deref()).collect::<StringArray>()),
        "vertices" => {
            Arc::new(Int64Array::from_iter_values(all.iter().map(|level| level.vertices)))
        }
        "chunks" => counts(&|level| level.chunks),
        "objects" => counts(&|level| level.objects),
        "groups" => counts(&|level| level.groups),
        "links" => counts(&links),
        "parent" => Arc::new(all.iter().map(|level| level.parent).collect::<Int64Array>()),
        "error" => Arc::new(all.iter().map(|level| level.error).collect::<Float64Array>()),
        "chunk_shape" => shapes(all.iter().map(|level| Some(level.chunk_shape.as_slice()))),
        "bin_shape" => shapes(all.iter().map(|level| level.bin_shape.as_deref())),
        _ => return Err(bad_request("a column of levels", "another", name)),
    })
}

fn shapes<'a>(all: impl Iterator<Item = Option<&'a [f64]>>) -> ArrayRef {
    let mut lists = ListBuilder::new(Float64Builder::new());
    for shape in all {
        if let Some(shape) = shape {
            lists.values().append_slice(shape);
        }
        lists.append(shape.is_some());
    }
    Arc::new(lists.finish())
}
