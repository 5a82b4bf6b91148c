//! Statistics of the attributes of a level: read chunk by chunk, nothing kept.

use std::cmp::Ordering;
use std::sync::Arc;

use zvf_format::num::{f64_from_u64, to_u64, usize_from_u32};
use zvf_model::{Batch, Kind, LevelId, Value};

use super::{Context, Purpose, waves};
use crate::answer::{AttributeStatistics, Statistics, Summary};
use crate::error::QueryError;
use crate::predicate::Scope;
use crate::query::{Columns, Order, Query};
use crate::reader::Reader;

/// The statistics of level `level`, of its geometry of `kind` where it holds several.
pub(crate) async fn statistics(
    reader: &Reader,
    level: LevelId,
    kind: Option<Kind>,
) -> Result<Statistics, QueryError> {
    let warm = reader.warm(level, kind).await?;
    warm.kind(kind)?;
    let query = Query::all().at_level(level).columns(Columns::All).order(Order::Storage).uncached();
    // Rows are rows, whatever joins them.
    let context = Context::new(query, Arc::clone(&warm), Kind::PointCloud).await?;
    let empty = context.empty()?;
    let mut all = Statistics {
        level,
        vertices: 0,
        axes: vec![Summary::default(); usize_from_u32(empty.positions().width())],
        attributes: empty.fields().iter().map(AttributeStatistics::of_field).collect(),
    };
    for wave in &waves(&context, Purpose::Stream).await? {
        let batch = context.answer(wave, usize::MAX).await?;
        add(&mut all, &batch)?;
    }
    if let Some(index) = warm.level.objects().await? {
        let slots = index.slots();
        for name in warm.level.object_attribute_names().await?.names {
            let attribute = warm.of_objects(&name).await?;
            let mut own = AttributeStatistics::new(
                Scope::Object,
                attribute.name(),
                attribute.dtype(),
                attribute.width(),
            );
            // Objects behind the end of the column have no value.
            let stored = slots.min(attribute.len());
            own.components.iter_mut().for_each(|summary| summary.nulls += slots - stored);
            let mut start = 0;
            while start < stored {
                let end = stored.min(start + OBJECT_BATCH_ROWS);
                let rows: Vec<u64> = (start..end).collect();
                let values = attribute.rows(&rows).await?;
                for (component, summary) in own.components.iter_mut().enumerate() {
                    (0..rows.len()).for_each(|row| summary.add(values.value(row, component)));
                }
                start = end;
            }
            all.attributes.push(own);
        }
    }
    Ok(all)
}

fn add(all: &mut Statistics, batch: &Batch) -> Result<(), QueryError> {
    all.vertices += to_u64(batch.len());
    for (axis, summary) in all.axes.iter_mut().enumerate() {
        (0..batch.len()).for_each(|row| summary.add(batch.positions().value(row, axis)));
    }
    for (own, field) in all.attributes.iter_mut().zip(batch.fields()) {
        for (component, summary) in own.components.iter_mut().enumerate() {
            for row in 0..batch.len() {
                summary.add(field.value(row, component)?);
            }
        }
    }
    Ok(())
}

impl Summary {
    /// Takes one value into account.
    pub(crate) fn add(&mut self, value: Value) {
        let number = match &value {
            Value::Null => None,
            Value::Float(x) if x.is_nan() => None,
            Value::Float(x) => Some(*x),
            Value::Int(n) => Some(zvf_format::num::f64_from_i64(*n)),
            Value::UInt(n) => Some(f64_from_u64(*n)),
            Value::Bool(bit) => Some(f64::from(u8::from(*bit))),
            Value::Text(_) => {
                self.is_text = true;
                Some(0.0)
            }
        };
        let Some(number) = number else {
            self.nulls += 1;
            return;
        };
        self.count += 1;
        self.sum += number;
        let is = |known: &Option<Value>, order| {
            known.as_ref().is_none_or(|known| value.compare(known) == Some(order))
        };
        let (least, most) = (is(&self.min, Ordering::Less), is(&self.max, Ordering::Greater));
        match (least, most) {
            (true, true) => (self.min, self.max) = (Some(value.clone()), Some(value)),
            (true, false) => self.min = Some(value),
            (false, true) => self.max = Some(value),
            (false, false) => {}
        }
    }
}

/// Rows of the object index whose values are held at once.
const OBJECT_BATCH_ROWS: u64 = 1 << 16;
