//! What the values of attributes are: smallest, largest, mean, and how many are missing.
//!
//! Vertices and links are read batch by batch, objects row by row of their index: memory does not grow with
//! the store. Every value of a row counts for itself, so an attribute of three values per row has three
//! times as many values as rows.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use futures_util::StreamExt as _;
use serde::Serialize;
use serde_json::Value as Json;
use zvf_metadata::Dtype;
use zvf_model::{BadCode, Field, Kind, LevelId, Value};
use zvf_query::{Query, Reader};

use super::json;
use crate::Error;

/// The values of one attribute.
///
/// ```no_run
/// # async fn run(reader: &zvf::Reader) -> Result<(), zvf::Error> {
/// for one in zvf::inspect::AttributeStats::read(reader, zvf::LevelId(0), None, &mut |_rows| {}).await? {
///     println!("{} {}: {:?} to {:?}", one.scope, one.name, one.min, one.max);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AttributeStats {
    /// What it belongs to: `vertex`, `link` or `object`.
    pub scope: &'static str,
    /// Its name.
    pub name: String,
    /// Values that are present, those that are not a number included.
    pub values: u64,
    /// Values that are missing.
    pub nulls: u64,
    /// Values that are not a number.
    pub nans: u64,
    /// The smallest value, or the first text in order; none where there is no value.
    pub min: Option<Json>,
    /// The largest value, or the last text in order.
    pub max: Option<Json>,
    /// The mean of numbers.
    pub mean: Option<f64>,
}

impl AttributeStats {
    /// Reads every value of a level, of the kind `kind` or of its first one. `on_progress` gets the rows so far.
    ///
    /// # Errors
    ///
    /// When the level does not exist or a cell of it cannot be read, and when a code stands for nothing.
    pub async fn read(
        reader: &Reader,
        level: LevelId,
        kind: Option<Kind>,
        on_progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Vec<Self>, Error> {
        let mut query = Query::all().at_level(level).increment_only().uncached();
        if let Some(kind) = kind {
            query = query.of_kind(kind);
        }
        let mut columns = Columns::default();
        let mut rows = 0_u64;
        let mut batches = reader.stream(query);
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            for field in batch.fields() {
                columns.add_field("vertex", field).map_err(|error| bad_code(field, &error))?;
            }
            for field in batch.elements().map_or(&[][..], |elements| elements.fields()) {
                columns.add_field("link", field).map_err(|error| bad_code(field, &error))?;
            }
            rows = rows.saturating_add(u64::try_from(batch.len()).unwrap_or(u64::MAX)); // shown only
            on_progress(rows);
        }
        let own = match kind {
            Some(kind) => reader.level_of_kind(level, kind).await?,
            None => reader.level(level).await?,
        };
        let slots = own.objects().await?.map_or(0, |index| index.slots());
        for name in own.object_attribute_names().await?.names {
            let Some(attribute) = own.object_attribute(&name).await? else { continue };
            let mut first = 0;
            while first < slots {
                let rows: Vec<u64> = (first..slots).take(OBJECT_BATCH_ROWS).collect();
                let values = attribute.rows(&rows).await?;
                let column = values.column();
                let stats = columns.get("object", &name, column.dtype());
                for row in 0..rows.len() {
                    for at in 0..usize::try_from(column.width()).unwrap_or(0) {
                        stats.add(values.value(row, at));
                    }
                }
                first += u64::try_from(rows.len()).unwrap_or(slots);
            }
        }
        Ok(columns.finish())
    }
}

fn bad_code(field: &Field, error: &BadCode) -> Error {
    let found = format!("{error} in {}", field.name);
    Error::bad_request("attribute", "codes that stand for something", &found)
}

/// What is known of each attribute, in the order of scopes and names.
#[derive(Default)]
struct Columns(BTreeMap<(usize, String), Running>);

impl Columns {
    fn get(&mut self, scope: &'static str, name: &str, dtype: Dtype) -> &mut Running {
        let place = SCOPES.iter().position(|known| *known == scope).unwrap_or(SCOPES.len());
        self.0.entry((place, name.to_owned())).or_insert_with(|| Running::new(dtype))
    }

    fn add_field(&mut self, scope: &'static str, field: &Field) -> Result<(), BadCode> {
        let stats = self.get(scope, &field.name, field.column.dtype());
        stats.is_text |= field.categories.is_some();
        for row in 0..field.column.len() {
            for at in 0..usize::try_from(field.column.width()).unwrap_or(0) {
                stats.add(field.value(row, at)?);
            }
        }
        Ok(())
    }

    fn finish(self) -> Vec<AttributeStats> {
        let one = |((place, name), stats): ((usize, String), Running)| {
            let as_json = |value: Value| match stats.is_text {
                true => json::value(value),
                false => json::stored(stats.dtype, value),
            };
            AttributeStats {
                scope: SCOPES.get(place).copied().unwrap_or_default(),
                name,
                values: stats.values,
                nulls: stats.nulls,
                nans: stats.nans,
                min: stats.min.map(as_json),
                max: stats.max.map(as_json),
                mean: (stats.numbers > 0).then_some(stats.mean),
            }
        };
        self.0.into_iter().map(one).collect()
    }
}

/// The values of an attribute so far.
struct Running {
    dtype: Dtype,
    is_text: bool, // whether values are what codes stand for
    values: u64,
    nulls: u64,
    nans: u64,
    min: Option<Value>,
    max: Option<Value>,
    numbers: u64,
    mean: f64, // of the finite numbers so far: a sum would overflow
}

impl Running {
    const fn new(dtype: Dtype) -> Self {
        let (values, nulls, nans, numbers) = (0, 0, 0, 0);
        Self {
            dtype,
            is_text: false,
            values,
            nulls,
            nans,
            min: None,
            max: None,
            numbers,
            mean: 0.0,
        }
    }

    fn add(&mut self, value: Value) {
        if value == Value::Null {
            self.nulls += 1;
            return;
        }
        self.values += 1;
        if let Some(number) = to_float(&value) {
            if number.is_nan() {
                self.nans += 1;
                return;
            }
            self.numbers += 1;
            self.mean += (number - self.mean) / self.numbers as f64;
        }
        let is = |order, known: &Option<Value>| match known {
            None => true,
            Some(known) => value.compare(known) == Some(order),
        };
        let (lower, upper) = (is(Ordering::Less, &self.min), is(Ordering::Greater, &self.max));
        if lower {
            self.min = Some(value.clone());
        }
        if upper {
            self.max = Some(value);
        }
    }
}

/// The float nearest to a number.
const fn to_float(value: &Value) -> Option<f64> {
    match value {
        Value::Int(n) => Some(*n as f64),
        Value::UInt(n) => Some(*n as f64),
        Value::Float(x) => Some(*x),
        Value::Null | Value::Bool(_) | Value::Text(_) => None,
    }
}

/// The order in which attributes are listed.
const SCOPES: [&str; 3] = ["vertex", "link", "object"];
/// Rows of objects that are read at once.
const OBJECT_BATCH_ROWS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_summed_up_without_what_is_missing() {
        let mut stats = Running::new(Dtype::parse("float64").unwrap());
        for value in [3.0, -1.0, f64::NAN, 4.0].map(Value::Float).into_iter().chain([Value::Null]) {
            stats.add(value);
        }
        assert_eq!((stats.values, stats.nulls, stats.nans), (4, 1, 1));
        assert_eq!((stats.min, stats.max), (Some(Value::Float(-1.0)), Some(Value::Float(4.0))));
        assert_eq!(stats.mean, 2.0);
        let mut large = Running::new(Dtype::parse("float64").unwrap());
        for x in [1e308; 3] {
            large.add(Value::Float(x));
        }
        assert_eq!(large.mean, 1e308);
        let mut words = Running::new(Dtype::parse("float64").unwrap());
        for text in ["b", "a"] {
            words.add(Value::from(text));
        }
        assert_eq!((words.min, words.numbers), (Some(Value::from("a")), 0));
    }
}
