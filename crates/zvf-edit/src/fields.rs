//! Typed access to the fields of an operation; unknown fields are refused.

use serde_json::{Map, Value as Json};

use crate::error::{EditError, Result};

/// The fields of one line of a script.
pub(crate) type Fields = Map<String, Json>;

/// Refuses fields that are not in `known_names`.
pub(crate) fn refuse_unknown(fields: &Fields, known_names: &[&str]) -> Result<()> {
    match fields.keys().find(|name| *name != "op" && !known_names.contains(&name.as_str())) {
        Some(name) => Err(EditError::invalid(format!(
            "there is no field {name:?} here; known: {}",
            known_names.join(", ")
        ))),
        None => Ok(()),
    }
}

pub(crate) fn need_field<'a>(fields: &'a Fields, name: &str) -> Result<&'a Json> {
    fields.get(name).ok_or_else(|| EditError::invalid(format!("the field {name:?} is missing")))
}

fn wrong_value(name: &str, what: &str, found: &Json) -> EditError {
    EditError::invalid(format!("{name}: expected {what}, found {found}"))
}

pub(crate) fn read_text(fields: &Fields, name: &str) -> Result<Option<String>> {
    match fields.get(name) {
        None => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(found) => Err(wrong_value(name, "text", found)),
    }
}

pub(crate) fn read_flag(fields: &Fields, name: &str) -> Result<Option<bool>> {
    match fields.get(name) {
        None => Ok(None),
        Some(Json::Bool(flag)) => Ok(Some(*flag)),
        Some(found) => Err(wrong_value(name, "true or false", found)),
    }
}

pub(crate) fn read_int(fields: &Fields, name: &str) -> Result<Option<i64>> {
    match fields.get(name) {
        None => Ok(None),
        Some(value) => {
            value.as_i64().map(Some).ok_or_else(|| wrong_value(name, "a whole number", value))
        }
    }
}

pub(crate) fn read_map<'a>(fields: &'a Fields, name: &str) -> Result<Option<&'a Fields>> {
    match fields.get(name) {
        None => Ok(None),
        Some(Json::Object(map)) => Ok(Some(map)),
        Some(found) => Err(wrong_value(name, "an object", found)),
    }
}

pub(crate) fn read_list<'a>(fields: &'a Fields, name: &str) -> Result<Option<&'a [Json]>> {
    match fields.get(name) {
        None => Ok(None),
        Some(Json::Array(list)) => Ok(Some(list)),
        Some(found) => Err(wrong_value(name, "a list", found)),
    }
}

pub(crate) fn read_ids(fields: &Fields, name: &str) -> Result<Option<Vec<i64>>> {
    let Some(items) = read_list(fields, name)? else { return Ok(None) };
    let ids: Result<Vec<i64>> = items
        .iter()
        .map(|id| id.as_i64().ok_or_else(|| wrong_value(name, "whole numbers", id)))
        .collect();
    ids.map(Some)
}

/// Parses a list of numbers.
pub(crate) fn parse_floats(value: &Json, name: &str) -> Result<Vec<f64>> {
    let items = value.as_array().ok_or_else(|| wrong_value(name, "a list of numbers", value))?;
    items
        .iter()
        .map(|x| crate::scalar::parse_number(x).ok_or_else(|| wrong_value(name, "a number", x)))
        .collect()
}

/// Returns a field whose value is one of `words`.
pub(crate) fn read_word(fields: &Fields, name: &str, words: &[&str]) -> Result<Option<String>> {
    match read_text(fields, name)? {
        Some(text) if !words.contains(&text.as_str()) => Err(EditError::invalid(format!(
            "{name}: expected {}, found {text:?}",
            words.join(" or ")
        ))),
        text => Ok(text),
    }
}

/// Converts an index of a script to one in a list of `length` items. Negative indices count from the end.
pub(crate) fn checked_index(n: i64, length: usize) -> Option<usize> {
    let place = if n < 0 { n.checked_add(i64::try_from(length).ok()?)? } else { n };
    usize::try_from(place).ok().filter(|place| *place < length)
}
