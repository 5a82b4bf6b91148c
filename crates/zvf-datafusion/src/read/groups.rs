//! Rows of the tables of groups and of their members.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::error::Result;
use futures_util::stream::{self, StreamExt as _};
use zvf::ObjectId;
use zvf::model::{LevelReader, Members};

use super::{Rows, ScanContext, numbers};
use crate::columns::{Origin, open_level};
use crate::values::attribute_values;
use crate::{bad_request, external_error};

/// Reads the groups, in one batch.
pub(super) async fn rows(context: ScanContext) -> Result<Rows> {
    let level = open(&context).await?;
    let Some(groups) = level.groups().await.map_err(external_error)? else {
        return Ok(stream::empty().boxed());
    };
    let all = context.scan.select_groups(&groups)?;
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(context.layout.columns.len());
    for column in &context.layout.columns {
        let name = column.field.name().as_str();
        columns.push(match (&column.origin, name) {
            (Origin::Attribute(name), _) => {
                let found = level.group_attribute(name).await.map_err(external_error)?;
                attribute_values(found.as_ref(), column.field.data_type(), &all).await?
            }
            (Origin::Own, "group") => numbers(all.clone()),
            (Origin::Own, "name") => {
                Arc::new(all.iter().map(|group| groups.name(*group)).collect::<StringArray>())
            }
            (Origin::Own, "members") => {
                let members = groups.members(&all).await.map_err(external_error)?;
                numbers(members.iter().map(Members::len).collect())
            }
            _ => return Err(bad_request("a column of groups", "another", name)),
        });
    }
    let batch = context.batch(columns, all.len());
    Ok(stream::iter([batch]).boxed())
}

/// Reads the members of all groups, group by group. Of a range of ids, only the ids that the level has are members.
pub(super) async fn members(context: ScanContext) -> Result<Rows> {
    let level = open(&context).await?;
    let Some(groups) = level.groups().await.map_err(external_error)? else {
        return Ok(stream::empty().boxed());
    };
    let all = context.scan.select_groups(&groups)?;
    let members = groups.members(&all).await.map_err(external_error)?;
    let is_range = |members: &Members| matches!(members, Members::Range { .. });
    let ids = match (members.iter().any(is_range), level.objects().await.map_err(external_error)?) {
        (true, Some(index)) => {
            let mut ids = index.ids(0..index.slots()).await.map_err(external_error)?;
            ids.sort_unstable();
            ids
        }
        _ => Vec::new(),
    };
    let (ids, context) = (Arc::new(ids), Arc::new(context));
    let parts = all.into_iter().zip(members).flat_map(move |(group, members)| {
        let (ids, context) = (Arc::clone(&ids), Arc::clone(&context));
        let members = match members {
            Members::Ids(ids) => ids,
            Members::Range { start, stop } => {
                let from = ids.partition_point(|id| id.0 < start);
                let to = ids.partition_point(|id| id.0 < stop);
                ids.get(from..to).unwrap_or_default().to_vec() // an empty range may end before its start
            }
        };
        let parts: Vec<Vec<ObjectId>> =
            members.chunks(BATCH_ROWS).map(<[ObjectId]>::to_vec).collect();
        parts.into_iter().map(move |part| member_batch(&context, group, &part))
    });
    Ok(stream::iter(parts).boxed())
}

fn member_batch(context: &ScanContext, group: u64, members: &[ObjectId]) -> Result<RecordBatch> {
    let column = |column: &crate::columns::TableColumn| -> ArrayRef {
        match column.field.name().as_str() {
            "group" => numbers(vec![group; members.len()]),
            _ => Arc::new(Int64Array::from_iter_values(members.iter().map(|id| id.0))),
        }
    };
    context.batch(context.layout.columns.iter().map(column).collect(), members.len())
}

async fn open(context: &ScanContext) -> Result<LevelReader> {
    open_level(&context.store.reader(), context.scan.options).await
}

/// Rows of a batch of members.
const BATCH_ROWS: usize = 8192;
