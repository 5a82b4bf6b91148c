//! Statistics of the attributes of a level, read chunk by chunk; nothing is cached.

use std::cmp::Ordering;
use std::sync::Arc;

use zvf_error::Result;
use zvf_format::key::Delta;
use zvf_format::num::{f64_from_u64, to_u64, usize_from_u32};
use zvf_model::{Batch, Kind, LevelId, LinkRecords, Value};
use zvf_store::Caching;

use super::sinks::answer_each;
use super::{Context, Purpose};
use crate::answer::{AttributeStatistics, Statistics, Summary};
use crate::level_cache::LevelCache;
use crate::predicate::Scope;
use crate::query::{Columns, Order, Query};
use crate::reader::Reader;

/// Returns the statistics of level `level`, of its geometry of `kind` if it has several;
/// `on_progress` is called with the number of vertices so far.
pub(crate) async fn statistics(
    reader: &Reader,
    level: LevelId,
    kind: Option<Kind>,
    on_progress: &mut (dyn FnMut(u64) + Send),
) -> Result<Statistics> {
    let cache = reader.level_cache(level, kind).await?;
    let kind = cache.kind(kind)?;
    let query = Query::all().at_level(level).columns(Columns::All).order(Order::Storage).uncached();
    // Only the rows matter, not the kind of geometry.
    let context = Arc::new(Context::new(query, Arc::clone(&cache), Kind::PointCloud, false).await?);
    let empty = context.empty().await?;
    let mut all = Statistics {
        level,
        vertices: 0,
        axes: vec![Summary::default(); usize_from_u32(empty.positions().width())],
        attributes: empty.fields().iter().map(AttributeStatistics::from_field).collect(),
    };
    answer_each(&context, Purpose::Each, usize::MAX, |answered| {
        add(&mut all, &answered.batch)?;
        on_progress(all.vertices);
        Ok(())
    })
    .await?;
    if kind.has_links() {
        all.attributes.extend(summarize_links(&cache).await?);
    }
    all.attributes.extend(summarize_objects(&cache).await?);
    Ok(all)
}

/// Summarizes the attributes of links within the level. A duplicated record counts once.
async fn summarize_links(cache: &LevelCache) -> Result<Vec<AttributeStatistics>> {
    let mut all = Vec::new();
    let Some(family) = cache.links(Delta::SAME).await? else { return Ok(all) };
    for attribute in family.attributes().await? {
        let (dtype, width) = (attribute.dtype(), attribute.width());
        let mut statistics = AttributeStatistics::new(Scope::Link, attribute.name(), dtype, width);
        for (number, segment) in family.segments().iter().enumerate() {
            let cells: Vec<usize> = (0..segment.cells().await?.len()).collect();
            for cells in cells.chunks(LINK_BATCH_CELLS) {
                let found = segment.read(cells, Caching::Once).await;
                let records = found.into_iter().collect::<Result<Vec<LinkRecords>, _>>()?;
                let columns = attribute.values(number, cells, &records, Caching::Once).await;
                for (records, column) in records.iter().zip(columns) {
                    let column = column?;
                    let leading = (0..records.len()).filter(|record| records.is_leading(*record));
                    let value = |record, component| match &column {
                        Some(column) => Ok(column.value(record, component)),
                        None => Ok(Value::Null),
                    };
                    statistics.add(leading, value)?;
                }
            }
        }
        all.push(statistics);
    }
    Ok(all)
}

async fn summarize_objects(cache: &LevelCache) -> Result<Vec<AttributeStatistics>> {
    let mut all = Vec::new();
    let Some(index) = cache.objects().await? else { return Ok(all) };
    let slots = index.slots();
    for attribute in cache.object_attributes().await? {
        let (dtype, width) = (attribute.dtype(), attribute.width());
        let mut statistics =
            AttributeStatistics::new(Scope::Object, attribute.name(), dtype, width);
        // Objects past the end of the column have no value.
        let stored = slots.min(attribute.len());
        statistics.components.iter_mut().for_each(|summary| summary.nulls += slots - stored);
        for start in (0..stored).step_by(OBJECT_BATCH_ROWS) {
            let rows: Vec<u64> = (start..stored).take(OBJECT_BATCH_ROWS).collect();
            let values = attribute.rows(&rows).await?;
            statistics.add(0..rows.len(), |row, component| Ok(values.value(row, component)))?;
        }
        all.push(statistics);
    }
    Ok(all)
}

fn add(all: &mut Statistics, batch: &Batch) -> Result<()> {
    all.vertices += to_u64(batch.len());
    for (axis, summary) in all.axes.iter_mut().enumerate() {
        (0..batch.len()).for_each(|row| summary.add(batch.positions().value(row, axis)));
    }
    for (statistics, field) in all.attributes.iter_mut().zip(batch.fields()) {
        statistics.add(0..batch.len(), |row, component| Ok(field.value(row, component)?))?;
    }
    Ok(())
}

impl AttributeStatistics {
    /// Takes the values of some rows into account.
    fn add(
        &mut self,
        rows: impl Iterator<Item = usize> + Clone,
        value: impl Fn(usize, usize) -> Result<Value>,
    ) -> Result<()> {
        for (component, summary) in self.components.iter_mut().enumerate() {
            for row in rows.clone() {
                summary.add(value(row, component)?);
            }
        }
        Ok(())
    }
}

impl Summary {
    /// Takes one value into account.
    pub(crate) fn add(&mut self, value: Value) {
        let number = match &value {
            Value::Null => {
                self.nulls += 1;
                return;
            }
            Value::Float(x) if x.is_nan() => {
                self.nans += 1;
                return;
            }
            Value::Float(x) => *x,
            Value::Int(n) => zvf_format::num::f64_from_i64(*n),
            Value::UInt(n) => f64_from_u64(*n),
            Value::Bool(bit) => f64::from(u8::from(*bit)),
            Value::Text(_) => {
                self.is_text = true;
                0.0
            }
        };
        self.count += 1;
        self.move_mean(number, 1.0 / f64_from_u64(self.count));
        self.widen(&value);
    }

    /// Takes the values of `other` into account.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.nulls += other.nulls;
        self.nans += other.nans;
        self.is_text |= other.is_text;
        if other.count == 0 {
            return;
        }
        self.count += other.count;
        self.move_mean(other.mean, f64_from_u64(other.count) / f64_from_u64(self.count));
        other.min.iter().chain(&other.max).for_each(|value| self.widen(value));
    }

    /// Moves the mean towards `mean`, which has this weight.
    fn move_mean(&mut self, mean: f64, share: f64) {
        // An infinite mean does not change.
        self.mean += if self.mean.is_finite() { (mean - self.mean) * share } else { mean };
    }

    fn widen(&mut self, value: &Value) {
        let is = |bound: &Option<Value>, order| {
            bound.as_ref().is_none_or(|bound| value.compare(bound) == Some(order))
        };
        let (is_min, is_max) = (is(&self.min, Ordering::Less), is(&self.max, Ordering::Greater));
        if is_min {
            self.min = Some(value.clone());
        }
        if is_max {
            self.max = Some(value.clone());
        }
    }
}

/// Number of rows of the object index whose values are in memory at once.
const OBJECT_BATCH_ROWS: usize = 1 << 16;
/// Number of link cells whose records are in memory at once.
const LINK_BATCH_CELLS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(values: impl IntoIterator<Item = Value>) -> Summary {
        let mut summary = Summary::default();
        values.into_iter().for_each(|value| summary.add(value));
        summary
    }

    #[test]
    fn summaries_skip_missing_values() {
        let floats = [3.0, -1.0, f64::NAN, 4.0].map(Value::Float);
        let numbers = summary(floats.into_iter().chain([Value::Null]));
        assert_eq!((numbers.count, numbers.nulls, numbers.nans), (3, 1, 1));
        assert_eq!(
            (numbers.min.clone(), numbers.max.clone()),
            (Some(Value::Float(-1.0)), Some(Value::Float(4.0)))
        );
        assert_eq!(numbers.mean(), Some(2.0));
        assert_eq!(summary([1e308; 3].map(Value::Float)).mean(), Some(1e308));
        let infinite = summary([1.0, f64::INFINITY, 2.0].map(Value::Float));
        assert_eq!(infinite.mean(), Some(f64::INFINITY));
        let texts = summary(["b", "a"].map(Value::from));
        assert_eq!((texts.min.clone(), texts.mean()), (Some(Value::from("a")), None));
        let mut merged = summary([5_i64, 6, 7, 8, 9].map(Value::Int));
        merged.merge(&summary([-1_i64].map(Value::Int)));
        merged.merge(&Summary::default());
        assert_eq!((merged.count, merged.mean()), (6, Some(34.0 / 6.0)));
        assert_eq!((merged.min, merged.max), (Some(Value::Int(-1)), Some(Value::Int(9))));
    }
}
