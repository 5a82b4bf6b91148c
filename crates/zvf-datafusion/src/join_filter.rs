//! Dynamic filters of joins: while a plan runs, a join tells which objects the other side has.
//!
//! ```text
//! v JOIN o ON v.object = o.object WHERE o.length > 50         the ids of these objects
//! object IN (SELECT object FROM members WHERE "group" = 3)    the members of the group
//! ```
//!
//! The engine pushes such a filter down to the leaf when it makes the plan, and updates it when it has read the build side of
//! the join. The filter is evaluated on the ids of the object index, whatever its form; only the chunks of the objects that
//! pass are read. The join tests all rows again, so more objects than necessary may pass.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{Array as _, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use datafusion::arrow::array::cast::AsArray as _;
use datafusion::error::Result;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{DynamicFilterTracking, split_conjunction};
use datafusion::physical_plan::PhysicalExpr;
use zvf::format::key::ChunkKey;
use zvf::format::num::to_u64;
use zvf::model::ObjectIndex;

use crate::columns::open_level;
use crate::external_error;
use crate::handle::StoreHandle;
use crate::scan::{Scan, Task};

/// The column of object ids.
const OBJECT: &str = "object";

/// Returns the dynamic filters of `filters` that use only the object column.
pub(crate) fn select_usable(filters: &[Arc<dyn PhysicalExpr>]) -> Vec<Arc<dyn PhysicalExpr>> {
    let is_usable = |filter: &&Arc<dyn PhysicalExpr>| {
        let columns = collect_columns(filter);
        DynamicFilterTracking::classify(filter).contains_dynamic_filter()
            && !columns.is_empty()
            && columns.iter().all(|column| column.name() == OBJECT)
    };
    let all = filters.iter().flat_map(split_conjunction);
    all.filter(is_usable).map(Arc::clone).collect()
}

/// The objects that dynamic filters select.
#[derive(Clone, Debug)]
pub(crate) struct JoinSelection {
    /// The ids.
    pub(crate) objects: Vec<i64>,
    /// The chunks that hold these objects.
    chunks: Vec<ChunkKey>,
}

impl JoinSelection {
    /// Evaluates `filters` for the objects of `scan`; returns `None` if the filters are not filled in yet or keep most objects.
    pub(crate) async fn read(
        store: &StoreHandle,
        scan: &Scan,
        filters: &[Arc<dyn PhysicalExpr>],
    ) -> Result<Option<Self>> {
        let reader = store.reader();
        let level = open_level(&reader, scan.options).await?;
        let Some(index) = level.objects().await.map_err(external_error)? else { return Ok(None) };
        let Some(mut objects) = find_passing_ids(&index, filters).await? else { return Ok(None) };
        if let Some(named) = &scan.objects {
            let named: HashSet<i64> = named.iter().copied().collect();
            objects.retain(|id| named.contains(id));
        }
        let query = Scan { objects: Some(objects.clone()), ..scan.clone() }.vertex_query()?;
        let chunks = reader.chunks(&query).await.map_err(external_error)?;
        Ok(Some(Self { objects, chunks }))
    }

    /// Returns how many chunks of `task` hold selected objects; `None` for a task that does not go by chunks.
    pub(crate) fn count_cells(&self, task: &Task) -> Result<Option<u64>> {
        let Some((first, end)) = task.keys()? else { return Ok(None) };
        let is_inside = |key: &&ChunkKey| {
            let key = key.components();
            first.as_ref().is_none_or(|first| first.components() <= key)
                && end.as_ref().is_none_or(|end| key < end.components())
        };
        Ok(Some(to_u64(self.chunks.iter().filter(is_inside).count())))
    }
}

/// Returns the ids of the index that pass all `filters`, ascending; `None` if vertices without an object pass, if more than
/// half of the ids pass, or if the index has more than [`MAX_IDS`] ids.
async fn find_passing_ids(
    index: &ObjectIndex,
    filters: &[Arc<dyn PhysicalExpr>],
) -> Result<Option<Vec<i64>>> {
    if index.slots() == 0 || index.slots() > MAX_IDS || filters.is_empty() {
        return Ok(None);
    }
    let mut passed = Vec::new();
    let mut start = 0;
    while start < index.slots() {
        let end = (start + BATCH_IDS).min(index.slots());
        let ids = index.ids(start..end).await.map_err(external_error)?;
        let ids: Vec<i64> = ids.into_iter().map(|id| id.0).collect();
        // The last value, null, stands for a vertex without an object.
        let column = ids.iter().copied().map(Some).chain([None]).collect::<Int64Array>();
        let Some(passes) = evaluate_filters(&column, filters)? else { return Ok(None) };
        passed.extend(ids.iter().zip(passes).filter(|(_, passes)| *passes).map(|(id, _)| *id));
        start = end;
    }
    passed.sort_unstable();
    passed.dedup();
    Ok((to_u64(passed.len()) <= index.slots() / 2).then_some(passed))
}

/// Returns which of `ids` pass all `filters`; `None` if the last one, which is null, passes.
fn evaluate_filters(
    ids: &Int64Array,
    filters: &[Arc<dyn PhysicalExpr>],
) -> Result<Option<Vec<bool>>> {
    let schema = Arc::new(Schema::new(vec![Field::new(OBJECT, DataType::Int64, true)]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(ids.clone())])?;
    let mut all = vec![true; ids.len()];
    for filter in filters {
        let filter = reassign_expr_columns(Arc::clone(filter), &schema)?;
        let values = filter.evaluate(&batch)?.into_array(ids.len())?;
        let values = values.as_boolean();
        for (row, passes) in all.iter_mut().enumerate() {
            *passes &= values.is_valid(row) && values.value(row);
        }
    }
    Ok(match all.pop() {
        Some(false) => Some(all),
        Some(true) | None => None,
    })
}

/// Largest number of ids for which filters are evaluated.
const MAX_IDS: u64 = 1 << 22;
/// Ids for which filters are evaluated at once.
const BATCH_IDS: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{
        Column, DynamicFilterPhysicalExpr, binary, in_list, is_null, lit,
    };

    use super::*;

    fn column(name: &str, index: usize) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new(name, index))
    }

    #[test]
    fn evaluates_filters_once_the_join_has_updated_them() {
        let schema = Schema::new(vec![
            Field::new("x", DataType::Float32, false),
            Field::new(OBJECT, DataType::Int64, true),
        ]);
        let object = column(OBJECT, 1);
        let dynamic =
            Arc::new(DynamicFilterPhysicalExpr::new(vec![Arc::clone(&object)], lit(true)));
        let filter: Arc<dyn PhysicalExpr> = Arc::clone(&dynamic) as _;
        let on_x = binary(column("x", 0), Operator::Gt, lit(1.0_f32), &schema).unwrap();
        let on_object = binary(Arc::clone(&object), Operator::Gt, lit(1_i64), &schema).unwrap();
        let conjunction = binary(Arc::clone(&filter), Operator::And, on_x, &schema).unwrap();
        let filters = select_usable(&[conjunction, on_object]);
        assert_eq!(filters.len(), 1);

        let ids = Int64Array::from(vec![Some(1), Some(2), Some(3), None]);
        assert_eq!(evaluate_filters(&ids, &filters).unwrap(), None);
        let listed =
            in_list(Arc::clone(&object), vec![lit(3_i64), lit(9_i64)], &false, &schema).unwrap();
        dynamic.update(Arc::clone(&listed)).unwrap();
        assert_eq!(evaluate_filters(&ids, &filters).unwrap(), Some(vec![false, false, true]));
        // The join keeps vertices without an object.
        let with_nulls = binary(listed, Operator::Or, is_null(object).unwrap(), &schema).unwrap();
        dynamic.update(with_nulls).unwrap();
        assert_eq!(evaluate_filters(&ids, &filters).unwrap(), None);
        dynamic.update(lit(false)).unwrap();
        assert_eq!(evaluate_filters(&ids, &filters).unwrap(), Some(vec![false; 3]));
    }
}
