//! Objects, by their rows in the index.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt64Array};
use arrow_schema::DataType;
use datafusion::error::Result;
use futures_util::stream::{self, StreamExt as _};
use zvf::format::num::to_u64;
use zvf::model::{LevelReader, ObjectIndex, ObjectManifest};
use zvf::{ObjectId, UnknownIds, format};

use super::{Reading, Rows, nulls, numbers};
use crate::columns::{Origin, object_number, open_level};
use crate::geometry::line_column;
use crate::scan::Task;
use crate::values::attribute_values;
use crate::{bad_request, external};

/// The objects of a task.
pub(super) async fn rows(reading: Reading, task: &Task) -> Result<Rows> {
    let reader = reading.store.reader();
    let level = open_level(&reader, reading.scan.level, reading.scan.kind()?).await?;
    let Some(index) = level.objects().await.map_err(external)? else {
        return Ok(stream::empty().boxed());
    };
    let has_lines = reading.layout.has(|origin| *origin == Origin::Geometry);
    let at_once = if has_lines { LINES_AT_ONCE } else { ROWS_AT_ONCE };
    let parts: Vec<Vec<u64>> = match (&reading.scan.objects, task) {
        (Some(ids), _) => {
            let ids: Vec<ObjectId> = ids.iter().copied().map(ObjectId).collect();
            let mut rows: Vec<u64> =
                index.find(&ids).await.map_err(external)?.into_iter().flatten().collect();
            rows.sort_unstable();
            rows.dedup();
            rows.chunks(at_once).map(<[u64]>::to_vec).collect()
        }
        (None, Task::Rows { start, end }) => parts(*start, *end, at_once),
        (None, Task::Chunks { .. } | Task::All) => parts(0, index.slots(), at_once),
    };
    let rows = stream::iter(parts).then(move |rows| {
        let (reading, level, index) = (reading.clone(), level.clone(), index.clone());
        async move { batch(&reading, &level, &index, &rows).await }
    });
    Ok(rows.boxed())
}

fn parts(start: u64, end: u64, at_once: usize) -> Vec<Vec<u64>> {
    let step = to_u64(at_once);
    let mut parts = Vec::new();
    let mut first = start;
    while first < end {
        let next = first.saturating_add(step).min(end);
        parts.push((first..next).collect());
        first = next;
    }
    parts
}

async fn batch(
    reading: &Reading,
    level: &LevelReader,
    index: &ObjectIndex,
    rows: &[u64],
) -> Result<RecordBatch> {
    let own = |name: &str| {
        let named = |column: &crate::columns::TableColumn| {
            column.origin == Origin::Own && column.field.name() == name
        };
        reading.layout.columns.iter().any(named)
    };
    let manifests = match own("fragments") || own("chunks") {
        true => index.manifests(rows).await.map_err(external)?,
        false => Vec::new(),
    };
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(reading.layout.columns.len());
    for column in &reading.layout.columns {
        let name = column.field.name().as_str();
        columns.push(match (&column.origin, name) {
            (Origin::Attribute(name), _) => {
                match level.object_attribute(name).await.map_err(external)? {
                    Some(attribute) => attribute_values(&attribute, rows).await?,
                    None => nulls(column.field.data_type(), rows.len()),
                }
            }
            (Origin::Object(_), _) => {
                let ids = index.ids_of(rows).await.map_err(external)?;
                Arc::new(Int64Array::from_iter_values(ids.into_iter().map(object_number)))
            }
            (Origin::Geometry, _) => {
                let ids = index.ids_of(rows).await.map_err(external)?;
                lines(reading, column.field.data_type(), &ids).await?
            }
            (Origin::Own, "row") => numbers(rows.to_vec()),
            (Origin::Own, "fragments") => counted(&manifests, fragments)?,
            (Origin::Own, "chunks") => counted(&manifests, chunks)?,
            _ => return Err(bad_request("a column of objects", "another", name)),
        });
    }
    reading.batch(columns, rows.len())
}

/// The lines of objects, read whole.
async fn lines(reading: &Reading, data_type: &DataType, ids: &[ObjectId]) -> Result<ArrayRef> {
    // An id that is there twice is asked for once.
    let mut once = ids.to_vec();
    once.sort_unstable();
    once.dedup();
    let query = reading.scan.base_query()?.of_objects(once).unknown_ids(UnknownIds::Skip);
    let answer = reading.store.reader().run(&query).await.map_err(external)?;
    line_column(data_type, ids, &answer.batch)
}

fn counted(
    manifests: &[ObjectManifest],
    count: impl Fn(&ObjectManifest) -> Result<Option<u64>>,
) -> Result<ArrayRef> {
    let counts = manifests.iter().map(count).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(UInt64Array::from(counts)))
}

fn fragments(manifest: &ObjectManifest) -> Result<Option<u64>> {
    Ok(manifest.view().map_err(external)?.len())
}

fn chunks(manifest: &ObjectManifest) -> Result<Option<u64>> {
    let mut keys = HashSet::new();
    for reference in manifest.references().map_err(external)? {
        let (key, _): (format::key::ChunkKey, u64) = reference;
        keys.insert(key);
    }
    Ok(Some(to_u64(keys.len())))
}

/// Objects that are read at once.
const ROWS_AT_ONCE: usize = 4096;
/// Objects that are read at once with all their vertices.
const LINES_AT_ONCE: usize = 256;
