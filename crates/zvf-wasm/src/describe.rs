//! What a store holds, as one document for the page.

use futures_util::future::join_all;
use serde_json::{Value as Json, json};
use zvf_error::Result;
use zvf_metadata::{AttributeSpecs, Dtype};
use zvf_model::{Categories, Kind, LevelId, LevelReader, Value};
use zvf_query::Reader;
use zvf_store::{Key, Notice};

use crate::error::{error_to_json, request_error};

/// Axes, bounds, kinds with their levels, attributes and groups. A level that cannot be read is named under `faults`.
///
/// # Errors
///
/// When no level can be read.
pub async fn describe_store(reader: &Reader) -> Result<Json> {
    let root = reader.store().root();
    let numbers = reader.store().level_numbers();
    let opened = join_all(numbers.iter().map(|number| reader.level(LevelId(*number)))).await;
    let (mut kinds, mut faults): (Vec<(Kind, Vec<LevelReader>)>, Vec<Json>) = Default::default();
    let mut first_fault = None;
    for (number, level) in numbers.iter().zip(opened) {
        match level {
            Ok(level) => add_level(reader, level, &mut kinds, &mut faults).await,
            Err(error) => {
                faults.push(json!({"level": number, "error": error_to_json(&error)}));
                first_fault.get_or_insert(error);
            }
        }
    }
    if let (true, Some(fault)) = (kinds.is_empty(), first_fault) {
        return Err(fault);
    }
    let mut described = Vec::with_capacity(kinds.len());
    for (kind, levels) in &kinds {
        described.push(describe_kind(*kind, levels).await?);
    }
    let groups = match kinds.first().and_then(|(_, levels)| levels.first()) {
        Some(level) => describe_groups(level).await?,
        None => Json::Null,
    };
    let axes: Vec<Json> = root
        .axes()
        .iter()
        .map(|axis| json!({"name": axis.name, "type": axis.kind, "unit": axis.unit}))
        .collect();
    Ok(json!({
        "version": root.zarr_vectors.zv_version.to_string(),
        "axes": axes,
        "bounds": root.zarr_vectors.bounds,
        "kinds": described,
        "groups": groups,
        "faults": faults,
        "notices": describe_notices(reader),
    }))
}

/// Returns what may be missing. A root that specifies attributes names them all, and a host that
/// cannot list hides none.
fn describe_notices(reader: &Reader) -> Vec<String> {
    let names_all = matches!(reader.store().root().zarr_vectors.attribute_specs(), Some(Ok(_)));
    let is_named = |key: &Key| names_all && key.as_str().ends_with("_attributes");
    let mut notices = reader.store().notices();
    notices.retain(|notice| !matches!(notice, Notice::CannotEnumerate { key } if is_named(key)));
    notices.iter().map(ToString::to_string).collect()
}

async fn add_level(
    reader: &Reader,
    level: LevelReader,
    kinds: &mut Vec<(Kind, Vec<LevelReader>)>,
    faults: &mut Vec<Json>,
) {
    let number = level.level();
    let extra: Vec<Kind> = level.extra_kinds().collect();
    let mut found = Vec::new();
    if let Some(first) = level.kinds().first() {
        found.push((*first, level.clone()));
    }
    for kind in extra {
        match reader.level_of_kind(number, kind).await {
            Ok(level) => found.push((kind, level)),
            Err(error) => {
                let error = error_to_json(&error);
                faults.push(json!({"level": number.0, "kind": kind.token(), "error": error}));
            }
        }
    }
    for (kind, level) in found {
        match kinds.iter_mut().find(|(listed, _)| *listed == kind) {
            Some((_, levels)) => levels.push(level),
            None => kinds.push((kind, vec![level])),
        }
    }
}

async fn describe_kind(kind: Kind, levels: &[LevelReader]) -> Result<Json> {
    let (mut described, mut attributes) = (Vec::with_capacity(levels.len()), Vec::new());
    let mut objects = Json::Null;
    for level in levels {
        let meta = level.node().meta();
        described.push(json!({
            "level": level.level().0,
            "vertices": meta.vertex_count,
            "error": meta.geometric_error(),
            "additive": meta.is_additive(),
            "sparsity": meta.object_sparsity,
            "chunkShape": level.chunk_shape().sizes(),
            "binShape": level.bins().map(|bins| bins.bin_shape().to_vec()),
            "chunks": level.chunks().await?.len(),
        }));
    }
    if let Some(finest) = levels.first() {
        // What coarser levels count is declared by the root, and no attribute of the finest one.
        let weight = |level: &LevelReader| {
            Some(
                level
                    .node()
                    .meta()
                    .extras
                    .get("zvf.coarsening")?
                    .get("weight")?
                    .as_str()?
                    .to_owned(),
            )
        };
        let weights: Vec<String> = levels.iter().skip(1).filter_map(weight).collect();
        attributes = describe_attributes(finest, &weights).await?;
        objects = finest.stated_objects().await?.map_or(Json::Null, |count| json!(count));
    }
    Ok(
        json!({"kind": kind.token(), "levels": described, "attributes": attributes, "objects": objects}),
    )
}

/// Lists the attributes of vertices and objects, by the names that cells take.
async fn describe_attributes(level: &LevelReader, weights: &[String]) -> Result<Vec<Json>> {
    let mut list = Vec::new();
    if !level.store().can_list()
        && level.keeps_order().await?
        && level.bin_attribute().is_none()
        && let Some(Ok(specs)) = level.store().root().zarr_vectors.attribute_specs()
        && let Some(declared) = describe_declared(&specs, weights)
    {
        return Ok(declared);
    }
    for attribute in level.vertex_attributes().await? {
        let about = (attribute.dtype(), attribute.width(), attribute.categories());
        list.push(describe_attribute("vertex", attribute.name(), attribute.name(), about));
    }
    for attribute in level.object_attributes().await? {
        let key = format!("object.{}", attribute.name());
        let about = (attribute.dtype(), attribute.width(), None);
        list.push(describe_attribute("object", attribute.name(), &key, about));
    }
    Ok(list)
}

/// Lists the attributes as the root declares them, which takes no request; `None` if one has
/// categories, which only its document names.
fn describe_declared(specs: &AttributeSpecs, weights: &[String]) -> Option<Vec<Json>> {
    let mut list = Vec::new();
    for (scope, attributes) in &specs.scopes {
        let prefix = match scope.as_str() {
            "vertex" => "",
            "object" => "object.",
            _ => continue,
        };
        for (name, spec) in attributes.iter().filter(|(name, _)| !weights.contains(name)) {
            let dtype: Dtype = spec.dtype.parse().ok()?;
            let width = u32::try_from(spec.channels).ok().filter(|_| !spec.categorical)?;
            let key = format!("{prefix}{name}");
            list.push(describe_attribute(scope, name, &key, (dtype, width, None)));
        }
    }
    Some(list)
}

fn describe_attribute(
    scope: &str,
    name: &str,
    key: &str,
    (dtype, width, categories): (Dtype, u32, Option<&Categories>),
) -> Json {
    let categories = categories.map(|categories| {
        categories.values().iter().take(MAX_CATEGORIES).map(value_json).collect::<Vec<_>>()
    });
    let dtype = dtype.to_string();
    json!({"scope": scope, "name": name, "key": key, "dtype": dtype, "width": width, "categories": categories})
}

async fn describe_groups(level: &LevelReader) -> Result<Json> {
    let Some(groups) = level.groups().await? else { return Ok(Json::Null) };
    let count = groups.len().min(MAX_GROUPS);
    let list: Vec<Json> = (0..count)
        .map(|group| {
            let name = groups.name(group).unwrap_or_else(|| group.to_string());
            json!({"group": group, "name": name})
        })
        .collect();
    Ok(json!({"count": groups.len(), "list": list}))
}

/// Lists the chunks of a level by their places along the axes of space, one after the other; each once.
///
/// # Errors
///
/// When the level is not there, or presence cannot be read.
pub async fn describe_cells(
    reader: &Reader,
    level: LevelId,
    kind: Kind,
) -> Result<(usize, Vec<i32>)> {
    let level = reader.level_of_kind(level, kind).await?;
    let axes = level.axes();
    let table = level.chunks().await?;
    if table.len() > MAX_CELLS {
        return Err(request_error(format!("the level has more than {MAX_CELLS} chunks")));
    }
    let mut keys: Vec<&[i64]> =
        table.rows().filter_map(|key| key.get(key.len().checked_sub(axes)?..)).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut cells = Vec::with_capacity(keys.len() * axes);
    for at in keys.into_iter().flatten() {
        let at = i32::try_from(*at);
        cells.push(at.map_err(|_error| request_error("a chunk lies too far out"))?);
    }
    Ok((axes, cells))
}

/// Returns a value as JSON has it; whole numbers beyond 2^53 as text.
pub(crate) fn value_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Int(value) if value.unsigned_abs() > MAX_SAFE => json!(value.to_string()),
        Value::Int(value) => json!(value),
        Value::UInt(value) if *value > MAX_SAFE => json!(value.to_string()),
        Value::UInt(value) => json!(value),
        Value::Float(value) if value.is_finite() => json!(value),
        Value::Float(value) => json!(value.to_string()),
        Value::Text(text) => json!(text),
    }
}

/// Returns the values of a row: one alone, or a list.
pub(crate) fn row_json(mut values: Vec<Json>) -> Json {
    if values.len() == 1 { values.remove(0) } else { Json::Array(values) }
}

/// The largest whole number that JavaScript has exactly.
const MAX_SAFE: u64 = 1 << 53;
/// Categories of one attribute that are shown.
const MAX_CATEGORIES: usize = 4096;
/// Groups that are listed.
const MAX_GROUPS: u64 = 4096;
/// Chunks of a level that the page holds.
const MAX_CELLS: usize = 2_000_000;
