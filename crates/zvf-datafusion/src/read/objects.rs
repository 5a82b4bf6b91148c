//! Rows of the table of objects, by their rows in the index.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt64Array};
use arrow_schema::DataType;
use datafusion::error::Result;
use futures_util::stream::{self, StreamExt as _};
use zvf::format::num::to_u64;
use zvf::model::{LevelReader, ObjectIndex, ObjectManifest};
use zvf::{ObjectId, UnknownIds};

use super::{Rows, ScanContext, numbers};
use crate::columns::{Origin, open_level};
use crate::geometry::line_column;
use crate::scan::Task;
use crate::values::attribute_values;
use crate::{bad_request, external_error};

/// Reads the objects of a task.
pub(super) async fn rows(context: ScanContext, task: &Task) -> Result<Rows> {
    let reader = context.store.reader();
    let level = open_level(&reader, context.scan.options).await?;
    let Some(index) = level.objects().await.map_err(external_error)? else {
        return Ok(stream::empty().boxed());
    };
    let has_lines = context.layout.has(|origin| *origin == Origin::Geometry);
    let batch_rows = if has_lines { BATCH_LINES } else { BATCH_ROWS };
    let parts: Box<dyn Iterator<Item = Vec<u64>> + Send> = match (&context.scan.objects, task) {
        (Some(ids), _) => {
            let ids: Vec<ObjectId> = ids.iter().copied().map(ObjectId).collect();
            let mut rows: Vec<u64> =
                index.find(&ids).await.map_err(external_error)?.into_iter().flatten().collect();
            rows.sort_unstable();
            rows.dedup();
            let parts: Vec<Vec<u64>> = rows.chunks(batch_rows).map(<[u64]>::to_vec).collect();
            Box::new(parts.into_iter())
        }
        (None, Task::Rows { start, end }) => Box::new(split_rows(*start..*end, batch_rows)),
        (None, Task::Chunks { .. } | Task::All) => {
            Box::new(split_rows(0..index.slots(), batch_rows))
        }
    };
    let rows = stream::iter(parts).then(move |rows| {
        let (context, level, index) = (context.clone(), level.clone(), index.clone());
        async move { batch(&context, &level, &index, &rows).await }
    });
    Ok(rows.boxed())
}

/// Splits a range of rows into lists of `batch_rows` rows, made one by one: an index may claim any number of rows.
fn split_rows(rows: Range<u64>, batch_rows: usize) -> impl Iterator<Item = Vec<u64>> {
    let mut first = rows.start;
    std::iter::from_fn(move || {
        let part = first..first.saturating_add(to_u64(batch_rows)).min(rows.end);
        first = part.end;
        (!part.is_empty()).then(|| part.collect())
    })
}

async fn batch(
    context: &ScanContext,
    level: &LevelReader,
    index: &ObjectIndex,
    rows: &[u64],
) -> Result<RecordBatch> {
    let has_own = |name: &str| {
        let has_name = |column: &crate::columns::TableColumn| {
            column.origin == Origin::Own && column.field.name() == name
        };
        context.layout.columns.iter().any(has_name)
    };
    let manifests = match has_own("fragments") || has_own("chunks") {
        true => index.manifests(rows).await.map_err(external_error)?,
        false => Vec::new(),
    };
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(context.layout.columns.len());
    for column in &context.layout.columns {
        let name = column.field.name().as_str();
        columns.push(match (&column.origin, name) {
            (Origin::Attribute(name), _) => {
                let found = level.object_attribute(name).await.map_err(external_error)?;
                attribute_values(found.as_ref(), column.field.data_type(), rows).await?
            }
            (Origin::Object(_), _) => {
                let ids = index.ids_of(rows).await.map_err(external_error)?;
                Arc::new(Int64Array::from_iter_values(ids.into_iter().map(|id| id.0)))
            }
            (Origin::Geometry, _) => {
                let ids = index.ids_of(rows).await.map_err(external_error)?;
                read_lines(context, column.field.data_type(), &ids).await?
            }
            (Origin::Own, "row") => numbers(rows.to_vec()),
            (Origin::Own, "fragments") => {
                Arc::new(manifests.iter().map(|one| one.view().len()).collect::<UInt64Array>())
            }
            (Origin::Own, "chunks") => numbers(manifests.iter().map(count_chunks).collect()),
            _ => return Err(bad_request("a column of objects", "another", name)),
        });
    }
    context.batch(columns, rows.len())
}

/// Reads the lines of objects, with all their vertices.
async fn read_lines(
    context: &ScanContext,
    data_type: &DataType,
    ids: &[ObjectId],
) -> Result<ArrayRef> {
    // The index may list an id twice.
    let mut distinct = ids.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let query = context.scan.base_query().of_objects(distinct).unknown_ids(UnknownIds::Skip);
    let answer = context.store.reader().run(&query).await.map_err(external_error)?;
    line_column(data_type, ids, &answer.batch)
}

/// Returns the number of distinct chunks of an object. A block may claim any number of fragments, so blocks are counted.
fn count_chunks(manifest: &ObjectManifest) -> u64 {
    let blocks = manifest.view().blocks();
    let blocks = blocks.filter(|block| !block.fragments.is_empty());
    let keys = blocks.map(|block| block.chunk.iter().map(|at| at.get()).collect());
    let distinct: HashSet<Vec<i64>> = keys.collect();
    to_u64(distinct.len())
}

/// Objects of a batch.
const BATCH_ROWS: usize = 4096;
/// Objects of a batch with all their vertices.
const BATCH_LINES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_split_one_list_after_the_other() {
        let all = |rows, batch_rows| split_rows(rows, batch_rows).collect::<Vec<_>>();
        assert_eq!(all(3..8, 2), [vec![3, 4], vec![5, 6], vec![7]]);
        assert!(all(5..5, 2).is_empty());
        let last = u64::MAX;
        assert_eq!(all(last - 3..last, 2), [vec![last - 3, last - 2], vec![last - 1]]);
        assert_eq!(split_rows(0..last, 2).nth(1), Some(vec![2, 3]));
    }

    #[test]
    fn chunks_of_an_object_are_counted_by_blocks() {
        // Three blocks: 2^62 fragments of chunk 4, one of chunk 4, none of chunk 5.
        let mut blob = 3_u32.to_le_bytes().to_vec();
        for (chunk, start, count) in [(4_u64, 0, 1_u64 << 62), (4, 7, 1), (5, 0, 0)] {
            blob.extend(chunk.to_le_bytes());
            blob.push(1);
            blob.extend([start, count].map(u64::to_le_bytes).as_flattened());
        }
        let manifest = ObjectManifest::new(0, 1, blob.into()).unwrap();
        assert_eq!(count_chunks(&manifest), 1);
    }
}
