//! Skeletons and legacy meshes: one file, or two, for each object.

use std::collections::HashMap;

use serde_json::json;
use zvf_metadata::DtypeKind;

use super::sharded::Shards;
use super::{Folder, Objects, property_type, push_value, write_segment_properties};
use crate::ConvertError;
use crate::read::precomputed::shards::Sharding;

pub(super) fn write_skeletons(
    folder: &Folder,
    sharding: Option<Sharding>,
    objects: &mut Objects,
) -> Result<(), ConvertError> {
    let mut fields = objects.batch.fields().to_vec();
    fields.retain(|field| field.column.dtype().kind != DtypeKind::Text);
    // Readers look for the radius first.
    fields.sort_by_key(|field| &*field.name != "radius");
    let attributes = fields.iter().map(|field| {
        json!({
            "id": &*field.name,
            "data_type": property_type(&field.column),
            "num_components": field.column.width(),
        })
    });
    let mut info = json!({
        "@type": "neuroglancer_skeletons",
        "transform": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0],
        "vertex_attributes": attributes.collect::<Vec<_>>(),
    });
    if write_segment_properties(folder, objects)? {
        info["segment_properties"] = json!("segment_properties");
    }
    if let Some(sharding) = sharding {
        info["sharding"] = sharding.to_json();
    }
    let mut shards = sharding.map(Shards::new);
    let links = elements_by_object(objects)?;
    for (id, rows) in objects.rows.clone() {
        let own = links.get(&id).map_or(&[][..], Vec::as_slice);
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&count(rows.len())?.to_le_bytes());
        bytes.extend_from_slice(&count(own.len() / 2)?.to_le_bytes());
        for row in &rows {
            objects.position(*row, &mut bytes);
        }
        bytes.extend(own.iter().flat_map(|end| end.to_le_bytes()));
        for field in &fields {
            for row in &rows {
                for at in 0..field.column.width() as usize {
                    push_value(field, *row, at, &mut objects.lengths, &mut bytes);
                }
            }
        }
        match &mut shards {
            Some(shards) => shards.push(id, bytes),
            None => folder.write(&id.to_string(), &bytes)?,
        }
    }
    if let Some(shards) = shards {
        shards.write(folder)?;
    }
    folder.write_json("info", &info)
}

pub(super) fn write_meshes(folder: &Folder, objects: &mut Objects) -> Result<(), ConvertError> {
    let mut info = json!({"@type": "neuroglancer_legacy_mesh"});
    if write_segment_properties(folder, objects)? {
        info["segment_properties"] = json!("segment_properties");
    }
    let faces = elements_by_object(objects)?;
    let width = objects.batch.elements().map_or(3, zvf_model::Elements::width);
    for (id, rows) in objects.rows.clone() {
        let mut bytes = count(rows.len())?.to_le_bytes().to_vec();
        for row in &rows {
            objects.position(*row, &mut bytes);
        }
        for face in faces.get(&id).map_or(&[][..], Vec::as_slice).chunks(width) {
            for corner in 1..width.saturating_sub(1) {
                for end in [face[0], face[corner], face[corner + 1]] {
                    bytes.extend_from_slice(&end.to_le_bytes());
                }
            }
        }
        let name = format!("{id}:0:0");
        folder.write(&name, &bytes)?;
        folder.write_json(&format!("{id}:0"), &json!({"fragments": [name]}))?;
    }
    folder.write_json("info", &info)
}

/// Edges or faces of each object, by the numbers of its own vertices.
fn elements_by_object(objects: &Objects) -> Result<HashMap<u64, Vec<u32>>, ConvertError> {
    let mut own = vec![(0_u64, 0_u32); objects.batch.len()];
    for (id, rows) in &objects.rows {
        for (at, row) in rows.iter().enumerate() {
            own[*row] = (*id, count(at)?);
        }
    }
    let mut links: HashMap<u64, Vec<u32>> = HashMap::new();
    for element in objects.batch.elements().into_iter().flat_map(|elements| elements.iter()) {
        let Some((id, _)) = element.first().map(|row| own[*row]) else { continue };
        if element.iter().any(|row| own[*row].0 != id) {
            let what = format!("an edge or face between object {id} and another");
            let advice = "give all its vertices to one object";
            return Err(ConvertError::NoType { format: "precomputed", what, advice });
        }
        links.entry(id).or_default().extend(element.iter().map(|row| own[*row].1));
    }
    Ok(links)
}

fn count(n: usize) -> Result<u32, ConvertError> {
    u32::try_from(n).map_err(|_too_many| {
        let what = format!("an object of {n} vertices");
        ConvertError::NoType { format: "precomputed", what, advice: "divide it" }
    })
}
