//! Rows of the table of levels: one for each kind of geometry of a level.

use std::sync::Arc;

use arrow_array::builder::{Float64Builder, ListBuilder};
use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
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
    let table = table(&all)?;
    let columns = context.layout.columns.iter().map(|column| {
        let name = column.field.name();
        let found = table.column_by_name(name).cloned();
        found.ok_or_else(|| bad_request("a column of levels", "another", name))
    });
    let columns = columns.collect::<Result<_>>()?;
    Ok(stream::iter([context.batch(columns, all.len())]).boxed())
}

/// Returns the table of levels, with all its columns.
pub(crate) fn table(all: &[LevelSummary]) -> Result<RecordBatch> {
    let counts = |count: &dyn Fn(&LevelSummary) -> Option<u64>| -> ArrayRef {
        Arc::new(all.iter().map(count).collect::<UInt64Array>())
    };
    let links = |level: &LevelSummary| {
        level.links.iter().filter(|links| links.delta == 0).map(|links| links.links).sum()
    };
    let levels = UInt32Array::from_iter_values(all.iter().map(|level| level.level));
    let kinds = all.iter().map(|level| level.kind.as_deref()).collect::<StringArray>();
    let vertices = Int64Array::from_iter_values(all.iter().map(|level| level.vertices));
    let parents = all.iter().map(|level| level.parent).collect::<Int64Array>();
    let errors = all.iter().map(|level| level.error).collect::<Float64Array>();
    let chunk_shapes = shapes(all.iter().map(|level| Some(level.chunk_shape.as_slice())));
    let bin_shapes = shapes(all.iter().map(|level| level.bin_shape.as_deref()));
    let columns: [(_, ArrayRef, _); 11] = [
        ("level", Arc::new(levels), false),
        ("kind", Arc::new(kinds), true),
        ("vertices", Arc::new(vertices), false),
        ("chunks", counts(&|level| level.chunks), true),
        ("objects", counts(&|level| level.objects), true),
        ("groups", counts(&|level| level.groups), true),
        ("links", counts(&links), true),
        ("parent", Arc::new(parents), true),
        ("error", Arc::new(errors), true),
        ("chunk_shape", chunk_shapes, true),
        ("bin_shape", bin_shapes, true),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
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
