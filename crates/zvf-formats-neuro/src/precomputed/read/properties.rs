//! Segment properties: text, tags and numbers from the `info` of their folder.

use std::collections::HashMap;

use serde_json::Value as Json;
use zvf_error::Result;
use zvf_format::{Class, num};
use zvf_formats::{BOOL, categorical_field, json_items, new_column};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::Field;
use zvf_model::flow::Header;

use crate::precomputed::read::folder::{parse_id, spot};
use crate::precomputed::read::read_id;

/// Builds a field for each property, with one row for each of `ids`.
pub(crate) fn build_segment_fields(
    ids: &[u64],
    info: &Json,
    header: &mut Header,
) -> Result<Vec<Field>> {
    let place = "segment_properties/info";
    let Some(inline) = info.get("inline") else {
        header.left_out.push("segment properties that are not inline".to_owned());
        return Ok(Vec::new());
    };
    let property_ids = json_items(&inline["ids"]);
    let mut row_of = HashMap::new();
    for (row, id) in property_ids.iter().enumerate() {
        let number = id.as_str().and_then(parse_id);
        let id = spot(place).need(number, Class::Encoding, "ids as decimal texts", id)?;
        row_of.insert(id, row);
    }
    let rows: Vec<Option<usize>> = ids.iter().map(|id| row_of.get(id).copied()).collect();
    let mut fields = Vec::new();
    for (number, property) in json_items(&inline["properties"]).iter().enumerate() {
        let id = read_id(property, &format!("{place}, property {number}"))?;
        let place = format!("{place}, property {id:?}");
        let values = json_items(&property["values"]);
        if values.len() != property_ids.len() {
            let expected = format!("{} values", property_ids.len());
            return spot(&place).refuse(Class::CountMismatch, expected, values.len());
        }
        let value = |row: &Option<usize>| row.and_then(|row| values.get(row));
        match property["type"].as_str() {
            Some("label" | "description" | "string") => {
                let texts = rows.iter().map(|row| match value(row) {
                    None | Some(Json::Null) => Ok(None),
                    Some(Json::String(text)) => Ok(Some(text.as_str())),
                    Some(other) => {
                        let found = other.to_string();
                        let bad = spot(&place).error(Class::BadTag, "texts as values", found);
                        Err(bad)
                    }
                });
                let texts: Vec<Option<&str>> = texts.collect::<Result<_, _>>()?;
                fields.push(categorical_field(id, texts.into_iter(), Some(-1))?);
            }
            Some("number") => {
                fields.push(number_field(id, property, rows.iter().map(value), &place)?)
            }
            Some("tags") => {
                for (number, tag) in json_items(&property["tags"]).iter().enumerate() {
                    let tag =
                        spot(&place).need(tag.as_str(), Class::BadTag, "texts as tags", tag)?;
                    let name = format!("{id}:{tag}");
                    let has = |list: Option<&Json>| {
                        let mut list = list.into_iter().flat_map(json_items);
                        list.any(|n| n.as_u64() == Some(number as u64))
                    };
                    let bytes = rows.iter().map(|row| u8::from(has(value(row)))).collect();
                    fields.push(Field::new(name, new_column(BOOL, 1, bytes)?));
                }
            }
            kind => {
                let expected = "label, description, string, tags or number";
                return spot(&place).refuse(Class::BadTag, expected, format!("{kind:?}"));
            }
        }
    }
    Ok(fields)
}

fn number_field<'a>(
    name: &str,
    property: &Json,
    values: impl Iterator<Item = Option<&'a Json>>,
    place: &str,
) -> Result<Field> {
    let data_type = property["data_type"].as_str().unwrap_or_default();
    let dtype = parse_property_type(data_type).map(|(dtype, _)| dtype);
    let expected = "uint8 to int32, or float32";
    let dtype = spot(place).need(dtype, Class::BadTag, expected, format_args!("{data_type:?}"))?;
    let mut bytes = Vec::new();
    for value in values {
        match value.filter(|value| !value.is_null()) {
            None => push_fill_value(dtype, &mut bytes),
            Some(value) => push_number(dtype, value, &mut bytes).ok_or_else(|| {
                spot(place).error(Class::OutOfBounds, format!("a number of {data_type}"), value)
            })?,
        }
    }
    Ok(Field::new(name, new_column(dtype, 1, bytes)?))
}

/// Appends a number. Returns `None` if it does not fit the type.
#[expect(clippy::as_conversions, reason = "sizes of these types are at most 4")]
fn push_number(dtype: Dtype, value: &Json, to: &mut Vec<u8>) -> Option<()> {
    let number = value.as_f64()?;
    if dtype.kind == DtypeKind::Float {
        to.extend(num::nearest_f32(number).to_le_bytes());
        return Some(());
    }
    let (min, max) = integer_range(dtype);
    let integer = num::floor_i64(number).filter(|_| number.fract() == 0.0)?;
    let integer = Some(integer).filter(|integer| (min..=max).contains(integer))?;
    to.extend(integer.to_le_bytes().iter().take(dtype.size as usize));
    Some(())
}

/// Appends the fill value of a missing object attribute: NaN, the minimum of a signed or the maximum of an unsigned type.
fn push_fill_value(dtype: Dtype, to: &mut Vec<u8>) {
    let (min, max) = integer_range(dtype);
    match dtype.kind {
        DtypeKind::Float => to.extend(f32::NAN.to_le_bytes()),
        DtypeKind::Int => to.extend(min.to_le_bytes().iter().take(dtype.size as usize)),
        _ => to.extend(max.to_le_bytes().iter().take(dtype.size as usize)),
    }
}

/// Returns the minimum and the maximum of an integer type of at most 32 bits.
fn integer_range(dtype: Dtype) -> (i64, i64) {
    let bits = dtype.size * 8;
    match dtype.kind {
        DtypeKind::Int => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    }
}

/// Parses the type name of a property into a type and a width.
pub(crate) fn parse_property_type(name: &str) -> Option<(Dtype, u32)> {
    let (name, width) = match name {
        "rgb" => ("uint8", 3),
        "rgba" => ("uint8", 4),
        "float32" | "uint8" | "int8" | "uint16" | "int16" | "uint32" | "int32" => (name, 1),
        _ => return None,
    };
    Some((name.parse::<Dtype>().ok()?, width))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refuses_values_that_are_no_texts() {
        let read = |id: Json, value: Json| {
            let property = json!({"id": id, "type": "label", "values": [value]});
            let info = json!({"inline": {"ids": ["7"], "properties": [property]}});
            let positions = new_column(Dtype::FLOAT32, 3, Vec::new()).unwrap();
            let axes = ["x", "y", "z"].map(str::to_owned).to_vec();
            let mut header = Header::new(zvf_model::Kind::Mesh, axes, positions);
            build_segment_fields(&[7], &info, &mut header)
        };
        assert_eq!(read(json!("a"), Json::Null).unwrap().len(), 1);
        for (id, value) in [(json!("a"), json!(5)), (json!(5), json!("text"))] {
            let error = read(id, value).unwrap_err();
            assert_eq!(error.class(), Class::BadTag, "{error}");
        }
    }

    #[test]
    fn fills_missing_numbers_and_refuses_numbers_out_of_range() {
        let read = |data_type: &str, values: &[Json]| {
            let property = json!({"data_type": data_type});
            let values = values.iter().map(Some).chain([None]);
            number_field("n", &property, values, "info").map(|field| field.column.bytes().to_vec())
        };
        let bytes = read("int16", &[json!(3), json!(-7.0), Json::Null]).unwrap();
        assert_eq!(bytes, [3_i16, -7, i16::MIN, i16::MIN].map(i16::to_le_bytes).concat());
        let bytes = read("uint8", &[json!(255), Json::Null]).unwrap();
        assert_eq!(bytes, [255, 255, 255]);
        let bytes = read("float32", &[json!(0.5), Json::Null]).unwrap();
        assert_eq!(bytes, [0.5, f32::NAN, f32::NAN].map(f32::to_le_bytes).concat());
        for (data_type, value) in [
            ("uint8", json!(256)),
            ("uint32", json!(-1)),
            ("int8", json!("3")),
            ("int32", json!(1e300)),
            ("int32", json!(0.5)),
        ] {
            let error = read(data_type, std::slice::from_ref(&value)).unwrap_err();
            assert_eq!(error.class(), Class::OutOfBounds, "{data_type} {value}");
        }
    }
}
