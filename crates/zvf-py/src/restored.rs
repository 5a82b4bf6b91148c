//! Record batches with the types that were written: `zvf._columns` stores them as numbers with a
//! unit.
//!
//! ```text
//! NAME_valid, "validity of NAME"          goes, and NAME has nulls where it is false
//! "nanoseconds since 1970-01-01"          a timestamp; of days a date; the lowest is null
//! "nanoseconds", described as "duration"  a duration; as "time of day" a time
//! a name that every table has             is vertex.NAME
//! ```
//!
//! Not here: tables on their way in (`arrow`).

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Date32Array, Int64Array, RecordBatch, make_array};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};

/// The columns that every table has.
const OWN: [&str; 3] = ["position", "part", "object"];

/// Returns a batch whose `columns`, those of attributes, have the types that were written.
pub(crate) fn restore(
    batch: &RecordBatch,
    columns: RangeInclusive<usize>,
) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    let described = |field: &Field| field.metadata().get("description").cloned();
    let mut validity = HashMap::new();
    for (field, array) in schema.fields().iter().zip(batch.columns()) {
        let of =
            described(field).and_then(|text| Some(text.strip_prefix("validity of ")?.to_owned()));
        if let (Some(of), Some(flags)) = (of, array.as_boolean_opt())
            && schema.field_with_name(&of).is_ok()
        {
            validity.insert(of, (field.name().clone(), flags.values().sliced()));
        }
    }
    let is_validity = |name: &String| validity.values().any(|(own, _)| own == name);
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for (at, (field, array)) in schema.fields().iter().zip(batch.columns()).enumerate() {
        if !columns.contains(&at) {
            fields.push(Arc::clone(field));
            arrays.push(array.clone());
            continue;
        }
        if is_validity(field.name()) {
            continue;
        }
        let unit = field.metadata().get("unit").map_or("", String::as_str);
        let mut array = restore_times(array, unit, described(field).as_deref())?;
        if let Some((_, flags)) = validity.get(field.name()) {
            let data = array.to_data().into_builder().null_bit_buffer(Some(flags.clone()));
            array = make_array(data.build()?);
        }
        let name = match OWN.contains(&field.name().as_str()) {
            true => format!("vertex.{}", field.name()),
            false => field.name().clone(),
        };
        let nullable = field.is_nullable() || array.null_count() > 0;
        let restored = Field::new(name, array.data_type().clone(), nullable);
        fields.push(Arc::new(restored.with_metadata(field.metadata().clone())));
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

/// Returns an array of 64-bit numbers with a unit as the times that they are; any other as it is.
fn restore_times(
    array: &ArrayRef,
    unit: &str,
    description: Option<&str>,
) -> Result<ArrayRef, ArrowError> {
    let Some(numbers) = array.as_primitive_opt::<Int64Type>() else { return Ok(array.clone()) };
    let (counted, since) = match unit.split_once(" since 1970-01-01") {
        Some((counted, zone)) => (counted, Some(zone)),
        None => (unit, None),
    };
    let time_unit = match counted {
        "seconds" => TimeUnit::Second,
        "milliseconds" => TimeUnit::Millisecond,
        "microseconds" => TimeUnit::Microsecond,
        "nanoseconds" => TimeUnit::Nanosecond,
        "days" if since == Some("") => return dates(numbers),
        _ => return Ok(array.clone()),
    };
    let data_type = match (since, description) {
        (Some(""), _) => DataType::Timestamp(time_unit, None),
        (Some(" UTC"), _) => DataType::Timestamp(time_unit, Some("UTC".into())),
        (None, Some("duration")) => DataType::Duration(time_unit),
        (None, Some("time of day")) => DataType::Time64(time_unit),
        _ => return Ok(array.clone()),
    };
    let numbers: Int64Array =
        numbers.iter().map(|number| number.filter(|n| *n != i64::MIN)).collect();
    Ok(make_array(numbers.to_data().into_builder().data_type(data_type).build()?))
}

/// Returns days as dates.
fn dates(numbers: &Int64Array) -> Result<ArrayRef, ArrowError> {
    let days = numbers.iter().map(|number| match number {
        None | Some(i64::MIN) => Ok(None),
        Some(days) => i32::try_from(days)
            .map(Some)
            .map_err(|_too_far| ArrowError::CastError(format!("the day {days} is no date"))),
    });
    Ok(Arc::new(days.collect::<Result<Date32Array, _>>()?))
}
