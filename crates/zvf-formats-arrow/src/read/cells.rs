//! Conversion of single array values to cells.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch, downcast_integer_array};
use arrow_schema::{DataType, TimeUnit};
use zvf_error::Result;
use zvf_formats::{BOOL, FeatureCell, FeatureColumns, civil_date};
use zvf_metadata::Dtype;

use crate::column::NUMBERS;

/// Returns the stored type of an Arrow type: `Some(None)` for text, `None` if it is not supported.
pub(crate) fn stored_type(data_type: &DataType) -> Option<Option<Dtype>> {
    match data_type {
        DataType::Boolean => Some(Some(BOOL)),
        DataType::Dictionary(_, values) => stored_type(values),
        DataType::Null
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Date32
        | DataType::Date64
        | DataType::Timestamp(..) => Some(None),
        number => {
            NUMBERS.into_iter().find(|(kind, _)| kind == number).map(|(_, dtype)| Some(dtype))
        }
    }
}

/// Adds the forms of the values of a column, for which all rows are read only where it may matter.
pub(crate) fn record_forms(to: &mut FeatureColumns, at: usize, array: &ArrayRef) -> Result<()> {
    if states_forms(array) {
        return (0..array.len()).try_for_each(|row| to.record_form(at, &read_cell(array, row)));
    }
    to.note_rows(at, array.len());
    Ok(())
}

/// Returns whether the values of a column, and not its type alone, decide how it is stored.
pub(crate) fn states_forms(array: &ArrayRef) -> bool {
    stored_type(array.data_type()) == Some(None) || array.logical_null_count() > 0
}

/// Returns a column of the schema in a batch with the `selected` ones, which ascend.
pub(crate) fn select<'a>(
    batch: &'a RecordBatch,
    selected: &[usize],
    column: usize,
) -> &'a ArrayRef {
    batch.column(selected.partition_point(|before| *before < column))
}

/// Returns the value in `row`.
pub(crate) fn read_cell(array: &ArrayRef, row: usize) -> FeatureCell<'_> {
    if array.is_null(row) {
        return FeatureCell::Missing;
    }
    match array.data_type() {
        DataType::Boolean => FeatureCell::Bool(array.as_boolean().value(row)),
        DataType::Int8 => FeatureCell::Int(primitive_value::<Int8Type>(array, row).into()),
        DataType::Int16 => FeatureCell::Int(primitive_value::<Int16Type>(array, row).into()),
        DataType::Int32 => FeatureCell::Int(primitive_value::<Int32Type>(array, row).into()),
        DataType::Int64 => FeatureCell::Int(primitive_value::<Int64Type>(array, row)),
        DataType::UInt8 => FeatureCell::UInt(primitive_value::<UInt8Type>(array, row).into()),
        DataType::UInt16 => FeatureCell::UInt(primitive_value::<UInt16Type>(array, row).into()),
        DataType::UInt32 => FeatureCell::UInt(primitive_value::<UInt32Type>(array, row).into()),
        DataType::UInt64 => FeatureCell::UInt(primitive_value::<UInt64Type>(array, row)),
        DataType::Float16 => {
            FeatureCell::Float(primitive_value::<Float16Type>(array, row).to_f64())
        }
        DataType::Float32 => FeatureCell::Float(primitive_value::<Float32Type>(array, row).into()),
        DataType::Float64 => FeatureCell::Float(primitive_value::<Float64Type>(array, row)),
        DataType::Utf8 => FeatureCell::Text(array.as_string::<i32>().value(row).into()),
        DataType::LargeUtf8 => FeatureCell::Text(array.as_string::<i64>().value(row).into()),
        DataType::Utf8View => FeatureCell::Text(array.as_string_view().value(row).into()),
        DataType::Dictionary(..) => {
            // The readers of Arrow and Parquet refuse keys outside the dictionary.
            let dictionary = array.as_any_dictionary();
            dictionary_key(dictionary.keys(), row)
                .map_or(FeatureCell::Missing, |key| read_cell(dictionary.values(), key))
        }
        DataType::Date32 => time_text(
            i128::from(primitive_value::<Date32Type>(array, row)) * DAY_NANOSECONDS,
            false,
        ),
        DataType::Date64 => {
            time_text(i128::from(primitive_value::<Date64Type>(array, row)) * 1_000_000, false)
        }
        DataType::Timestamp(unit, zone) => {
            let (count, unit_nanoseconds) = match unit {
                TimeUnit::Second => {
                    (primitive_value::<TimestampSecondType>(array, row), 1_000_000_000)
                }
                TimeUnit::Millisecond => {
                    (primitive_value::<TimestampMillisecondType>(array, row), 1_000_000)
                }
                TimeUnit::Microsecond => {
                    (primitive_value::<TimestampMicrosecondType>(array, row), 1_000)
                }
                TimeUnit::Nanosecond => (primitive_value::<TimestampNanosecondType>(array, row), 1),
            };
            match time_text(i128::from(count) * unit_nanoseconds, true) {
                FeatureCell::Text(text) if zone.is_some() => {
                    FeatureCell::Text(format!("{text}Z").into())
                }
                cell => cell,
            }
        }
        _ => FeatureCell::Missing,
    }
}

/// Returns the dictionary key in `row`.
fn dictionary_key(keys: &dyn Array, row: usize) -> Option<usize> {
    fn index<T: TryInto<usize>>(key: T) -> Option<usize> {
        key.try_into().ok()
    }
    downcast_integer_array!(
        keys => index(keys.value(row)),
        _ => None,
    )
}

fn primitive_value<T: ArrowPrimitiveType>(array: &ArrayRef, row: usize) -> T::Native {
    array.as_primitive::<T>().value(row)
}

/// Formats nanoseconds since 1970 as `2024-03-10`, or with the time as `2024-03-10T23:59:58`.
fn time_text(nanoseconds: i128, with_time: bool) -> FeatureCell<'static> {
    let (days, rest) =
        (nanoseconds.div_euclid(DAY_NANOSECONDS), nanoseconds.rem_euclid(DAY_NANOSECONDS));
    let (year, month, day) = civil_date(days);
    let mut text = format!("{year:04}-{month:02}-{day:02}");
    if with_time {
        let (seconds, fraction) = (rest / 1_000_000_000, rest % 1_000_000_000);
        text += &format!("T{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        if fraction > 0 {
            text += format!(".{fraction:09}").trim_end_matches('0');
        }
    }
    FeatureCell::Text(text.into())
}

const DAY_NANOSECONDS: i128 = 86_400_000_000_000;

#[cfg(test)]
mod tests {
    use std::io;

    use arrow_array::DictionaryArray;
    use arrow_ipc::reader::FileReader;
    use arrow_ipc::writer::FileWriter;

    use super::*;

    /// The assumptions of `read_cell`.
    #[test]
    fn arrow_refuses_keys_outside_the_dictionary() {
        let labels: DictionaryArray<Int32Type> =
            ["first", "second"].repeat(4).into_iter().collect();
        let batch =
            RecordBatch::try_from_iter([("label", std::sync::Arc::new(labels) as ArrayRef)]);
        let batch = batch.unwrap();
        let mut writer = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        let mut file = writer.into_inner().unwrap();
        let read = |file: &[u8]| {
            let reader = FileReader::try_new(io::Cursor::new(file.to_vec()), None);
            reader.unwrap().map(|batch| batch.map(|_sound| ())).collect::<Result<Vec<_>, _>>()
        };
        assert_eq!(read(&file).unwrap().len(), 1);
        let keys = [0, 1].repeat(4).into_iter().flat_map(i32::to_le_bytes).collect::<Vec<_>>();
        let start = file.windows(keys.len()).position(|window| window == keys).unwrap();
        for key in [2_i32, -1] {
            file[start..start + 4].copy_from_slice(&key.to_le_bytes());
            read(&file).unwrap_err();
        }
    }

    #[test]
    fn formats_dates_and_times() {
        for (days, expected) in
            [(0, (1970, 1, 1)), (59, (1970, 3, 1)), (11_016, (2000, 2, 29)), (-1, (1969, 12, 31))]
        {
            assert_eq!(civil_date(days), expected);
        }
        let FeatureCell::Text(text) = time_text(1_710_115_198_250_000_000, true) else { panic!() };
        assert_eq!(text, "2024-03-10T23:59:58.25");
    }
}
