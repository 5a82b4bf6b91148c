//! Writer of h5ad: positions of cells with their table, as anndata 0.7 and later reads them.
//!
//! ```text
//! obs/_index      names of the cells: those of the header record, by `obs_row`, or else their numbers
//! obs/NAME        numbers, booleans (enumerations), text, categories
//! obsm/spatial    positions; obsm/NAME: attributes of several values
//! var             a table without genes
//! ```
//!
//! The file is built in memory, under the memory limit.

use std::io::Write as _;

use hdf5_pure::{AttrValue, EnumTypeBuilder, FileBuilder, GroupBuilder};
use serde_json::Value as Json;
use zvf_error::{Error, Result};
use zvf_format::num::to_u64;
use zvf_formats::{
    BOOL, CollectedInput, Encoded, Target, cannot_hold, field_value, find_record, value_places,
    whole_number,
};
use zvf_metadata::DtypeKind;
use zvf_model::flow::{FlowReport, Header};
use zvf_model::{Batch, Column, Field, Value};

pub(crate) fn encode(input: &CollectedInput, out: &mut Target<'_>) -> Encoded {
    let mut file = FileBuilder::new();
    for (name, value) in encoding("anndata", "0.1.0") {
        file.set_attr(name, value);
    }
    add_tables(&input.header, &input.batch, &mut file)?;
    let mut var = file.create_group("var");
    add_frame(&mut var, &[], &[])?;
    file.add_group(var.finish());
    out.write_all(&file.finish().map_err(from_hdf5_error)?)?;
    Ok(FlowReport { objects: 0, ..input.report(Vec::new()) })
}

fn from_hdf5_error(error: impl std::fmt::Display) -> Error {
    cannot_hold(NAME, error, "leave columns out, or write Parquet")
}

/// Returns the attributes that tell the encoding of an element.
fn encoding(kind: &str, version: &str) -> [(&'static str, AttrValue); 2] {
    let text = |text: &str| AttrValue::VarLenString(text.to_owned());
    [("encoding-type", text(kind)), ("encoding-version", text(version))]
}

/// Adds the table of cells, and their positions.
fn add_tables(header: &Header, batch: &Batch, file: &mut FileBuilder) -> Result<()> {
    let record = find_record(header, NAME);
    let recorded = record["obs_names"].as_array();
    let recorded: Option<Vec<&str>> =
        recorded.and_then(|names| names.iter().map(Json::as_str).collect());
    let rows = batch.field("obs_row").filter(|_| recorded.is_some());
    let name_of = |row: usize| {
        let number = rows.and_then(|rows| whole_number(&rows.column.value(row, 0)));
        let number = number.and_then(|number| usize::try_from(number).ok());
        let name =
            recorded.as_ref().and_then(|names| names.get(number?)).map(|name| (*name).to_owned());
        name.unwrap_or_else(|| row.to_string())
    };
    let names: Vec<String> = (0..batch.len()).map(name_of).collect();
    let is_column = |field: &&Field| !(rows.is_some() && *field.name == *"obs_row");
    let (columns, wide): (Vec<&Field>, Vec<&Field>) =
        batch.fields().iter().filter(is_column).partition(|field| field.column.width() == 1);
    let mut obs = file.create_group("obs");
    add_frame(&mut obs, &names, &columns)?;
    file.add_group(obs.finish());
    let mut places = file.create_group("obsm");
    for (name, value) in encoding("dict", "0.1.0") {
        places.set_attr(name, value);
    }
    let key = record["spatial_key"].as_str().unwrap_or("spatial");
    add_array(&mut places, key, batch.positions());
    for field in wide.into_iter().filter(|field| *field.name != *key) {
        add_array(&mut places, &field.name, &field.column);
    }
    file.add_group(places.finish());
    Ok(())
}

/// Adds a data frame.
fn add_frame(group: &mut GroupBuilder, names: &[String], columns: &[&Field]) -> Result<()> {
    for (name, value) in encoding("dataframe", "0.2.0") {
        group.set_attr(name, value);
    }
    group.set_attr("_index", AttrValue::VarLenString("_index".to_owned()));
    let order = columns.iter().map(|field| field.name.to_string()).collect();
    group.set_attr("column-order", AttrValue::VarLenStringArray(order));
    add_texts(group, "_index", names);
    for field in columns {
        match &field.categories {
            Some(categories)
                if categories.values().iter().all(|value| matches!(value, Value::Bool(_))) =>
            {
                let inner = add_nullable_booleans(group.create_group(&field.name), field)?;
                group.add_group(inner.finish());
            }
            Some(categories) => {
                let mut inner = group.create_group(&field.name);
                for (name, value) in encoding("categorical", "0.2.0") {
                    inner.set_attr(name, value);
                }
                inner.set_attr("ordered", AttrValue::U8(0));
                let labels: Vec<String> =
                    categories.values().iter().map(ToString::to_string).collect();
                add_texts(&mut inner, "categories", &labels);
                add_codes(&mut inner, field, categories.missing_code())?;
                group.add_group(inner.finish());
            }
            None if field.column.dtype().kind == DtypeKind::Text => {
                let values: Vec<String> = (0..field.column.len())
                    .map(|row| field.column.value(row, 0).to_string())
                    .collect();
                add_texts(group, &field.name, &values);
            }
            None => add_array(group, &field.name, &field.column),
        }
    }
    Ok(())
}

/// Adds booleans with missing values, as values and a mask.
fn add_nullable_booleans(mut group: GroupBuilder, field: &Field) -> Result<GroupBuilder> {
    for (name, value) in encoding("nullable-boolean", "0.1.0") {
        group.set_attr(name, value);
    }
    let (mut values, mut mask) = (Vec::new(), Vec::new());
    for row in 0..field.column.len() {
        let truth = match field_value(field, row, 0)? {
            Value::Bool(truth) => Some(truth),
            _ => None,
        };
        values.push(u8::from(truth == Some(true)));
        mask.push(u8::from(truth.is_none()));
    }
    for (name, bytes) in [("values", values), ("mask", mask)] {
        let column = Column::new(BOOL, 1, bytes.into()).map_err(zvf_formats::column_error)?;
        add_array(&mut group, name, &column);
    }
    Ok(group)
}

fn add_texts(group: &mut GroupBuilder, name: &str, values: &[String]) {
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let dataset = group.create_dataset(name).with_vlen_strings(&values);
    for (name, value) in encoding("string-array", "0.2.0") {
        dataset.set_attr(name, value);
    }
}

/// Adds codes of categories, -1 for a missing value.
fn add_codes(group: &mut GroupBuilder, field: &Field, missing: Option<i64>) -> Result<()> {
    let missing = missing.map(i128::from);
    let code = |row: usize| match whole_number(&field.column.value(row, 0)) {
        number if number == missing => number.map(|_| -1),
        number => i32::try_from(number?).ok(),
    };
    let codes: Option<Vec<i32>> = (0..field.column.len()).map(code).collect();
    let codes = codes
        .ok_or_else(|| from_hdf5_error(format!("codes of {:?} beyond 32 bits", field.name)))?;
    let narrow: Result<Vec<i8>, _> = codes.iter().map(|code| i8::try_from(*code)).collect();
    let shape = [to_u64(codes.len())];
    let dataset = group.create_dataset("codes");
    let dataset = match narrow {
        Ok(narrow) if field.column.dtype().size == 1 => dataset.with_i8_data(&narrow),
        _ => dataset.with_i32_data(&codes),
    };
    for (name, value) in encoding("array", "0.2.0") {
        dataset.set_attr(name, value);
    }
    dataset.with_shape(&shape);
    Ok(())
}

/// Adds numbers or booleans, of one dimension or two.
fn add_array(group: &mut GroupBuilder, name: &str, column: &Column) {
    let (rows, width) = (to_u64(column.len()), u64::from(column.width()));
    let shape = if width == 1 && name != "spatial" { vec![rows] } else { vec![rows, width] };
    let dataset = group.create_dataset(name);
    let dtype = column.dtype();
    let raw = column.bytes();
    let dataset = match (dtype.kind, dtype.size) {
        (DtypeKind::Float, 4) => dataset.with_f32_data(&decode_numbers(raw, f32::from_le_bytes)),
        (DtypeKind::Float, 8) => dataset.with_f64_data(&decode_numbers(raw, f64::from_le_bytes)),
        (DtypeKind::Float | DtypeKind::Text, _) => dataset.with_f32_data(&widen_halves(column)),
        (DtypeKind::Int, 1) => dataset.with_i8_data(&decode_numbers(raw, i8::from_le_bytes)),
        (DtypeKind::Int, 2) => dataset.with_i16_data(&decode_numbers(raw, i16::from_le_bytes)),
        (DtypeKind::Int, 4) => dataset.with_i32_data(&decode_numbers(raw, i32::from_le_bytes)),
        (DtypeKind::Int, _) => dataset.with_i64_data(&decode_numbers(raw, i64::from_le_bytes)),
        (DtypeKind::UInt, 1) => dataset.with_u8_data(raw),
        (DtypeKind::UInt, 2) => dataset.with_u16_data(&decode_numbers(raw, u16::from_le_bytes)),
        (DtypeKind::UInt, 4) => dataset.with_u32_data(&decode_numbers(raw, u32::from_le_bytes)),
        (DtypeKind::UInt, _) => dataset.with_u64_data(&decode_numbers(raw, u64::from_le_bytes)),
        (DtypeKind::Bool, _) => {
            let truth =
                EnumTypeBuilder::u8_based().u8_value("FALSE", 0).u8_value("TRUE", 1).build();
            match truth {
                Ok(truth) => dataset.with_enum_u8_data(truth, raw),
                Err(_) => dataset.with_u8_data(raw),
            }
        }
    };
    dataset.with_shape(&shape);
    for (name, value) in encoding("array", "0.2.0") {
        dataset.set_attr(name, value);
    }
}

/// Decodes little-endian numbers.
fn decode_numbers<T, const N: usize>(raw: &[u8], decode: fn([u8; N]) -> T) -> Vec<T> {
    raw.as_chunks::<N>().0.iter().map(|bytes| decode(*bytes)).collect()
}

/// Converts half precision to `float32`, which is exact.
#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "half precision fits")]
fn widen_halves(column: &Column) -> Vec<f32> {
    let places = value_places(column);
    places.map(|(row, at)| column.float(row, at).unwrap_or(f64::NAN) as f32).collect()
}

const NAME: &str = "h5ad";

#[cfg(test)]
mod tests {
    use zvf_formats::{FormatOptions, Input, ReadOptions};
    use zvf_model::flow::Piece;

    use crate::H5AD;
    use crate::shared::{convert, open};

    #[test]
    fn cells_come_back() {
        let folder =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/h5ad");
        for name in ["plain.h5ad", "lzf.h5ad", "nullable.h5ad"] {
            let read = |input: Input| {
                let reader = open(input, Some(&H5AD), &ReadOptions::default()).unwrap();
                let records = reader.header().records.clone();
                (reader.collect::<Result<Vec<Piece>, _>>().unwrap(), records)
            };
            let expected = read(Input::path(folder.join(name)));
            let reader =
                open(Input::path(folder.join(name)), None, &ReadOptions::default()).unwrap();
            let (out, report) = convert(reader, &H5AD, &FormatOptions::default()).unwrap();
            assert_eq!(report.vertices, 40);
            let found = read(Input::reader(std::io::Cursor::new(out)));
            assert_eq!(found.1, expected.1, "{name}");
            let ([Piece::Vertices(found)], [Piece::Vertices(expected)]) =
                (&found.0[..], &expected.0[..])
            else {
                panic!()
            };
            for row in 0..found.len() {
                assert_eq!(
                    found.positions().row(row),
                    expected.positions().row(row),
                    "{name} {row}"
                );
                for field in expected.fields() {
                    let (found_value, expected_value) =
                        (found.field(&field.name).unwrap().value(row, 0), field.value(row, 0));
                    assert_eq!(
                        found_value.unwrap().to_string(),
                        expected_value.unwrap().to_string(),
                        "{name} {row} {}",
                        field.name
                    );
                }
            }
        }
    }
}
