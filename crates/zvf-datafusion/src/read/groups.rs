//! Groups, and who is in them.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::error::Result;
use futures_util::stream::{self, StreamExt as _};
use zvf::ObjectId;
use zvf::model::{Groups, LevelReader, Members};

use super::{Reading, Rows, nulls, numbers};
use crate::columns::{Origin, object_number, open_level};
use crate::values::attribute_values;
use crate::{bad_request, external};

/// The groups, in one batch.
pub(super) async fn rows(reading: Reading) -> Result<Rows> {
    let level = level(&reading).await?;
    let Some(groups) = level.groups().await.map_err(external)? else {
        return Ok(stream::empty().boxed());
    };
    let all = wanted(&reading, &groups);
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(reading.layout.columns.len());
    for column in &reading.layout.columns {
        let name = column.field.name().as_str();
        columns.push(match (&column.origin, name) {
            (Origin::Attribute(name), _) => {
                match level.group_attribute(name).await.map_err(external)? {
                    Some(attribute) => attribute_values(&attribute, &all).await?,
                    None => nulls(column.field.data_type(), all.len()),
                }
            }
            (Origin::Own, "group") => numbers(all.clone()),
            (Origin::Own, "name") => {
                Arc::new(all.iter().map(|group| groups.name(*group)).collect::<StringArray>())
            }
            (Origin::Own, "members") => {
                let members = groups.members(&all).await.map_err(external)?;
                numbers(members.iter().map(Members::len).collect())
            }
            _ => return Err(bad_request("a column of groups", "another", name)),
        });
    }
    let batch = reading.batch(columns, all.len());
    Ok(stream::iter([batch]).boxed())
}

/// The groups that are asked for.
fn wanted(reading: &Reading, groups: &Groups) -> Vec<u64> {
    let scan = &reading.scan;
    let is_wanted = |group: &u64| {
        let named =
            |names: &Vec<String>| groups.name(*group).is_some_and(|name| names.contains(&name));
        scan.groups.as_ref().is_none_or(|numbers| numbers.contains(group))
            && scan.group_names.as_ref().is_none_or(named)
    };
    (0..groups.len()).filter(is_wanted).collect()
}

/// The members of all groups, group by group. Where members are a range of ids, those that the level has.
pub(super) async fn members(reading: Reading) -> Result<Rows> {
    let level = level(&reading).await?;
    let Some(groups) = level.groups().await.map_err(external)? else {
        return Ok(stream::empty().boxed());
    };
    let all = wanted(&reading, &groups);
    let members = groups.members(&all).await.map_err(external)?;
    let is_range = |members: &Members| matches!(members, Members::Range { .. });
    let ids = match (members.iter().any(is_range), level.objects().await.map_err(external)?) {
        (true, Some(index)) => {
            let mut ids = index.ids(0..index.slots()).await.map_err(external)?;
            ids.sort_unstable();
            ids
        }
        _ => Vec::new(),
    };
    let (ids, reading) = (Arc::new(ids), Arc::new(reading));
    let parts = all.into_iter().zip(members).flat_map(move |(group, members)| {
        let (ids, reading) = (Arc::clone(&ids), Arc::clone(&reading));
        let members = match members {
            Members::Ids(ids) => ids,
            Members::Range { start, stop } => {
                let from = ids.partition_point(|id| id.0 < start);
                let to = ids.partition_point(|id| id.0 < stop);
                ids.get(from..to).unwrap_or_default().to_vec()
            }
        };
        let parts: Vec<Vec<ObjectId>> =
            members.chunks(ROWS_AT_ONCE).map(<[ObjectId]>::to_vec).collect();
        parts.into_iter().map(move |part| member_batch(&reading, group, &part))
    });
    Ok(stream::iter(parts).boxed())
}

fn member_batch(reading: &Reading, group: u64, members: &[ObjectId]) -> Result<RecordBatch> {
    let column = |column: &crate::columns::TableColumn| -> ArrayRef {
        match column.field.name().as_str() {
            "group" => numbers(vec![group; members.len()]),
            _ => Arc::new(Int64Array::from_iter_values(members.iter().copied().map(object_number))),
        }
    };
    reading.batch(reading.layout.columns.iter().map(column).collect(), members.len())
}

async fn level(reading: &Reading) -> Result<LevelReader> {
    open_level(&reading.store.reader(), reading.scan.level, reading.scan.kind()?).await
}

/// Members of a batch.
const ROWS_AT_ONCE: usize = 8192;
