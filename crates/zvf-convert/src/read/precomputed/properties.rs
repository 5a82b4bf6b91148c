//! Properties of segments: text, tags and numbers, in the `info` of a folder of their own.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};
use zvf_format::Class;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Categories, Field, Value};

use super::folder::{bad, parse_id};
use crate::ConvertError;
use crate::read::Header;
use crate::read::values::column;

/// A column for each property, one row for each of `ids`.
pub(super) fn segment_fields(
    ids: &[u64],
    info: &Map<String, Json>,
    header: &mut Header,
) -> Result<Vec<Field>, ConvertError> {
    let place = "segment_properties/info";
    let Some(inline) = info.get("inline") else {
        header.left_out.push("segment properties that are not inline".to_owned());
        return Ok(Vec::new());
    };
    let own = inline.get("ids").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let mut row_of = HashMap::new();
    for (row, id) in own.iter().enumerate() {
        let Some(id) = id.as_str().and_then(parse_id) else {
            let expected = "ids as decimal texts";
            return Err(bad(Class::Encoding, place, expected, id.to_string()).into());
        };
        row_of.insert(id, row);
    }
    let rows: Vec<Option<usize>> = ids.iter().map(|id| row_of.get(id).copied()).collect();
    let mut fields = Vec::new();
    let properties = inline.get("properties").and_then(Json::as_array);
    for property in properties.into_iter().flatten() {
        let text = |key: &str| property.get(key).and_then(Json::as_str);
        let id = text("id").unwrap_or_default();
        let place = format!("{place}, property {id:?}");
        let values = property.get("values").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
        if values.len() != own.len() {
            let expected = format!("{} values", own.len());
            return Err(
                bad(Class::CountMismatch, &place, expected, values.len().to_string()).into()
            );
        }
        let value = |row: &Option<usize>| row.and_then(|row| values.get(row));
        match text("type") {
            Some("label" | "description" | "string") => {
                let texts = rows.iter().map(|row| value(row).and_then(Json::as_str));
                fields.push(text_field(id, texts)?);
            }
            Some("number") => {
                fields.push(number_field(id, property, rows.iter().map(value), &place)?)
            }
            Some("tags") => {
                let tags =
                    property.get("tags").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
                for (number, tag) in tags.iter().enumerate() {
                    let name = format!("{id}:{}", tag.as_str().unwrap_or_default());
                    let has = |list: Option<&Json>| {
                        let list = list.and_then(Json::as_array);
                        list.is_some_and(|list| {
                            list.iter().any(|n| n.as_u64() == Some(number as u64))
                        })
                    };
                    let bytes = rows.iter().map(|row| u8::from(has(value(row)))).collect();
                    let flag = Dtype { kind: DtypeKind::Bool, size: 1, ..Dtype::INT64 };
                    fields.push(Field::new(name, column(flag, 1, bytes)?));
                }
            }
            other => {
                let expected = "label, description, string, tags or number";
                return Err(bad(Class::BadTag, &place, expected, format!("{other:?}")).into());
            }
        }
    }
    Ok(fields)
}

/// Texts as codes of what they are.
fn text_field<'a>(
    name: &str,
    texts: impl Iterator<Item = Option<&'a str>>,
) -> Result<Field, ConvertError> {
    let (mut known, mut codes): (HashMap<&str, i32>, Vec<u8>) = (HashMap::new(), Vec::new());
    let mut values = Vec::new();
    for text in texts {
        let code = text.map_or(-1, |text| {
            *known.entry(text).or_insert_with(|| {
                values.push(Value::from(text));
                i32::try_from(values.len() - 1).unwrap_or(i32::MAX)
            })
        });
        codes.extend(code.to_le_bytes());
    }
    let dtype = Dtype { size: 4, ..Dtype::INT64 };
    let field = Field::new(name, column(dtype, 1, codes)?);
    Ok(field.with_categories(Categories::new(values, Some(-1))))
}

fn number_field<'a>(
    name: &str,
    property: &Json,
    values: impl Iterator<Item = Option<&'a Json>>,
    place: &str,
) -> Result<Field, ConvertError> {
    let data_type = property.get("data_type").and_then(Json::as_str).unwrap_or_default();
    let Some(dtype) = property_type(data_type).map(|(dtype, _)| dtype) else {
        let expected = "uint8 to int32, or float32";
        return Err(bad(Class::BadTag, place, expected, format!("{data_type:?}")).into());
    };
    let mut bytes = Vec::new();
    for value in values {
        let number = value.and_then(Json::as_f64).unwrap_or(f64::NAN);
        push_number(dtype, number, &mut bytes);
    }
    Ok(Field::new(name, column(dtype, 1, bytes)?))
}

#[expect(clippy::as_conversions, reason = "a float becomes the nearest number of the type")]
fn push_number(dtype: Dtype, number: f64, to: &mut Vec<u8>) {
    match (dtype.kind, dtype.size) {
        (DtypeKind::Float, _) => to.extend((number as f32).to_le_bytes()),
        (_, size) => to.extend((number as i64).to_le_bytes().iter().take(size as usize)),
    }
}

/// The type and the width of a property by its name.
pub(super) fn property_type(name: &str) -> Option<(Dtype, u32)> {
    let (name, width) = match name {
        "rgb" => ("uint8", 3),
        "rgba" => ("uint8", 4),
        "float32" | "uint8" | "int8" | "uint16" | "int16" | "uint32" | "int32" => (name, 1),
        _ => return None,
    };
    Some((name.parse::<Dtype>().ok()?, width))
}
