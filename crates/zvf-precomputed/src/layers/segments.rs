//! Objects: their ids for viewers, their properties, and their geometry from an answer.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use zvf_error::Result;
use zvf_format::num::usize_from_u32;
use zvf_model::{Batch, Kind, LevelReader, Members, ObjectId, RowAttribute, RowValues, Value};
use zvf_query::{Columns, Query, Reader};

use super::attributes::{Attribute, check_properties};
use super::error::unsupported_error;

/// Returns the object of an id; `None` for ids out of range, because ids are not negative.
pub(crate) fn object_of(id: u64) -> Option<ObjectId> {
    i64::try_from(id).ok().map(ObjectId)
}

/// Reads the whole geometry of one object; `None` if it does not exist. A level without objects has
/// the object 0.
pub(crate) async fn read_object(
    reader: &Reader,
    level: &LevelReader,
    kind: Kind,
    id: u64,
    columns: Columns,
) -> Result<Option<Batch>> {
    let Some(object) = object_of(id) else { return Ok(None) };
    let query = match level.objects().await? {
        Some(_) => Query::all().of_objects([object]),
        None if id == 0 => Query::all(),
        None => return Ok(None),
    };
    let query = query.at_level(level.level()).of_kind(kind).columns(columns);
    let answer = reader.run(&query.limit_bytes(MAX_OBJECT_BYTES)).await?;
    let exists = answer.unknown_objects.is_empty() && !answer.batch.is_empty();
    Ok(exists.then_some(answer.batch))
}

/// The ids of a level and the rows of its index, up to a limit; and whether there are more.
pub(crate) struct Ids {
    pub(crate) ids: Vec<u64>,
    pub(crate) rows: Vec<u64>,
    has_more: bool,
}

impl Ids {
    pub(crate) async fn read(level: &LevelReader, limit: u64) -> Result<Self> {
        let Some(index) = level.objects().await? else {
            return Ok(Self { ids: vec![0], rows: Vec::new(), has_more: false });
        };
        let end = index.slots().min(limit);
        let (mut ids, mut rows) = (Vec::new(), Vec::new());
        for (row, object) in (0..end).zip(index.ids(0..end).await?) {
            if let Ok(id) = u64::try_from(object.0) {
                ids.push(id);
                rows.push(row);
            }
        }
        Ok(Self { ids, rows, has_more: index.slots() > end })
    }
}

/// Returns the attributes of objects, and their readers.
pub(crate) async fn object_attributes(
    level: &LevelReader,
) -> Result<Vec<(Attribute, RowAttribute)>> {
    let mut all = Vec::new();
    if level.objects().await?.is_none() {
        return Ok(all);
    }
    for values in level.object_attributes().await? {
        let field = values.field(values.range(0..0).await?.column().clone());
        let attribute = Attribute {
            name: values.name().to_owned(),
            dtype: values.dtype(),
            width: usize_from_u32(values.width()),
            categories: field.categories,
        };
        all.push((attribute, values));
    }
    Ok(all)
}

/// Returns the properties of segments: labels, numbers, and their groups as tags.
pub(crate) async fn segment_properties(level: &LevelReader) -> Result<Json> {
    let Ids { ids, rows, has_more } = Ids::read(level, MAX_SEGMENTS).await?;
    let mut properties = Vec::new();
    let attributes = object_attributes(level).await?;
    check_properties(attributes.iter().map(|(attribute, _)| attribute))?;
    for (attribute, values) in attributes {
        let read = values.rows(&rows).await?;
        properties.extend(describe(&attribute, &values, &read)?);
    }
    properties.extend(tags(level, &ids).await?);
    let texts: Vec<String> = ids.iter().map(u64::to_string).collect();
    let mut document = json!({
        "@type": "neuroglancer_segment_properties",
        "inline": {"ids": texts, "properties": properties},
    });
    if has_more {
        let note = format!("only the first {MAX_SEGMENTS} objects are described");
        document["note"] = note.into();
    }
    Ok(document)
}

/// Returns the properties of an attribute, one for each column.
fn describe(attribute: &Attribute, values: &RowAttribute, read: &RowValues) -> Result<Vec<Json>> {
    let field = values.field(read.column().clone());
    let count = read.column().len();
    let name = |at: usize| match attribute.width {
        1 => attribute.name.clone(),
        _ => format!("{}_{at}", attribute.name),
    };
    if !attribute.is_number() || field.categories.is_some() {
        let text = |row: usize| match field.value(row, 0) {
            Ok(Value::Null) => Ok(String::new()),
            Ok(value) => Ok(value.to_string()),
            Err(_) if !read.is_present(row) => Ok(String::new()),
            Err(error) => {
                let what = format!("{} of an object: {error}", attribute.name);
                Err(unsupported_error(what))
            }
        };
        let texts = (0..count).map(text).collect::<Result<Vec<String>, _>>()?;
        // A name makes the list readable; all other texts are only for search.
        let kind = if LABELS.contains(&attribute.name.as_str()) { "label" } else { "string" };
        return Ok(vec![json!({"id": name(0), "type": kind, "values": texts})]);
    }
    let property = |at: usize| {
        let numbers: Vec<Json> = (0..count).map(|row| number(&read.value(row, at))).collect();
        json!({"id": name(at), "type": "number", "data_type": attribute.stored_type().0, "values": numbers})
    };
    Ok((0..attribute.width).map(property).collect())
}

/// Returns a JSON number; a missing value is 0, because the format cannot represent it.
fn number(value: &Value) -> Json {
    match value {
        Value::Bool(flag) => json!(u8::from(*flag)),
        Value::Int(n) => json!(n),
        Value::UInt(n) => json!(n),
        Value::Float(x) if x.is_finite() => json!(x),
        Value::Float(_) | Value::Null | Value::Text(_) => json!(0),
    }
}

/// Returns groups as tags, if there are any and not too many.
async fn tags(level: &LevelReader, ids: &[u64]) -> Result<Option<Json>> {
    let Some(groups) = level.groups().await? else { return Ok(None) };
    if groups.is_empty() || groups.len() > MAX_TAGS {
        return Ok(None);
    }
    let all: Vec<u64> = (0..groups.len()).collect();
    // Tags are sorted by name, and rows refer to them by index.
    let mut by_name: Vec<(String, Members)> = all
        .iter()
        .zip(groups.members(&all).await?)
        .map(|(group, members)| {
            let name = groups.name(*group).unwrap_or_else(|| format!("group_{group}"));
            // A space ends a tag in the search of viewers.
            (name.replace(char::is_whitespace, "_"), members)
        })
        .collect();
    by_name.sort_by(|a, b| a.0.cmp(&b.0));
    let places: BTreeMap<u64, usize> = ids.iter().enumerate().map(|(at, id)| (*id, at)).collect();
    let mut of_rows = vec![Vec::new(); ids.len()];
    for (tag, (_, members)) in by_name.iter().enumerate() {
        let mut add = |id: i64| {
            let place = u64::try_from(id).ok().and_then(|id| places.get(&id));
            if let Some(row) = place.and_then(|place| of_rows.get_mut(*place)) {
                row.push(tag);
            }
        };
        match members {
            Members::Ids(ids) => ids.iter().for_each(|id| add(id.0)),
            Members::Range { start, stop } => {
                let first = (*start).max(0).cast_unsigned();
                let within = places
                    .range(first..)
                    .take_while(|(id, _)| i64::try_from(**id).is_ok_and(|id| id < *stop));
                let within: Vec<u64> = within.map(|(id, _)| *id).collect();
                within.iter().for_each(|id| add(id.cast_signed()));
            }
        }
    }
    let names: Vec<&String> = by_name.iter().map(|(name, _)| name).collect();
    Ok(Some(json!({"id": "groups", "type": "tags", "tags": names, "values": of_rows})))
}

/// Attributes that hold names.
const LABELS: [&str; 3] = ["name", "label", "title"];
/// The largest number of objects with properties.
const MAX_SEGMENTS: u64 = 200_000;
/// The largest number of groups that become tags.
const MAX_TAGS: u64 = 65_535;
/// The memory limit of the geometry of one object, in bytes.
const MAX_OBJECT_BYTES: u64 = 1 << 30;
