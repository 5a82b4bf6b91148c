//! Writer of skeletons and meshes: one or two files for each object, or shards.

use std::collections::HashMap;
use std::error::Error as _;

use serde_json::json;
use zvf_error::{Result, join_causes};
use zvf_formats::{cannot_hold, count_u32, fan};
use zvf_metadata::DtypeKind;
use zvf_precomputed::encode::{LodMesh, encode_legacy_mesh, encode_multilod, encode_skeleton};

use crate::precomputed::read::shards::Sharding;
use crate::precomputed::write::sharded::Index;
use crate::precomputed::write::{
    Folder, Objects, property_type, push_value, write_segment_properties,
};

pub(crate) fn write_skeletons(
    folder: &Folder,
    sharding: Option<Sharding>,
    objects: &mut Objects,
) -> Result<()> {
    let mut fields = objects.batch.fields().to_vec();
    fields.retain(|field| field.column.dtype().kind != DtypeKind::Text);
    // Readers look for the radius first.
    fields.sort_by_key(|field| &*field.name != "radius");
    if let Some(radius) = fields.first_mut().filter(|field| &*field.name == "radius") {
        *radius = radius.with_column(objects.lengths.convert_column(&radius.column)?);
    }
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
    write_segment_properties(folder, objects, &mut info)?;
    let mut index = Index::new(folder, sharding, info);
    let links = elements_by_object(objects)?;
    for (id, rows) in objects.rows.clone() {
        let positions: Vec<f32> = rows.iter().flat_map(|row| objects.position(*row)).collect();
        let mut values = Vec::new();
        for field in &fields {
            for row in &rows {
                for at in 0..field.column.width() as usize {
                    push_value(field, *row, at, &mut objects.lengths, &mut values);
                }
            }
        }
        let bytes = encode_skeleton(&positions, links[&id].as_chunks().0, &[values])?;
        index.push(id, &id.to_string(), bytes)?;
    }
    folder.write_json("info", &index.finish()?)
}

pub(crate) fn write_meshes(folder: &Folder, objects: &mut Objects) -> Result<()> {
    let mut info = json!({"@type": "neuroglancer_legacy_mesh"});
    write_segment_properties(folder, objects, &mut info)?;
    let faces = elements_by_object(objects)?;
    let width = objects.batch.elements().map_or(3, zvf_model::Elements::width);
    for (id, rows) in objects.rows.clone() {
        let positions: Vec<f32> = rows.iter().flat_map(|row| objects.position(*row)).collect();
        let triangles: Vec<[u32; 3]> = faces[&id].chunks(width).flat_map(fan).collect();
        let bytes = encode_legacy_mesh(&positions, &triangles)?;
        let name = format!("{id}:0:0");
        folder.write(&name, &bytes)?;
        folder.write_json(&format!("{id}:0"), &json!({"fragments": [name]}))?;
    }
    folder.write_json("info", &info)
}

/// Writes meshes of several resolutions: a manifest and Draco streams for each object.
pub(crate) fn write_multilod(
    folder: &Folder,
    sharding: Option<Sharding>,
    objects: &mut Objects,
    coarser: &[Objects],
) -> Result<()> {
    let mut info = json!({
        "@type": "neuroglancer_multilod_draco",
        "vertex_quantization_bits": 16,
        "lod_scale_multiplier": 1,
        "transform": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0],
    });
    write_segment_properties(folder, objects, &mut info)?;
    let mut index = Index::new(folder, sharding, info);
    let levels = std::iter::once(&*objects).chain(coarser);
    let levels: Vec<(&Objects, HashMap<u64, Vec<u32>>)> =
        levels.map(|level| Ok((level, elements_by_object(level)?))).collect::<Result<_>>()?;
    for id in objects.rows.keys() {
        let lods = collect_lods(*id, &levels);
        let encoded = encode_multilod(&lods).map_err(|error| {
            cannot_hold(
                "precomputed",
                format!("the mesh of object {id}, {}", join_causes(&error, error.source())),
                "leave the object out, or write legacy meshes",
            )
        })?;
        index.push_manifest(*id, encoded.manifest, encoded.data)?;
    }
    folder.write_json("info", &index.finish()?)
}

/// Returns the resolutions of an object, the finest first; a coarser level may lack the object.
fn collect_lods(id: u64, levels: &[(&Objects, HashMap<u64, Vec<u32>>)]) -> Vec<LodMesh> {
    let mut lods: Vec<LodMesh> = Vec::new();
    for (level, faces) in levels {
        let Some(rows) = level.rows.get(&id) else { continue };
        let width = level.batch.elements().map_or(3, zvf_model::Elements::width);
        let face_corners = &faces[&id];
        let position = |row| [0, 1, 2].map(|axis| level.coordinate(row, axis));
        lods.push(LodMesh {
            positions: rows.iter().flat_map(|row| position(*row)).collect(),
            faces: face_corners.chunks(width).flat_map(fan).collect(),
            scale: level.lod_scale(),
        });
    }
    // The viewer shows the finest level where a third of the detail of the next level is visible.
    let finest = lods.get(1).map_or(1.0, |next| next.scale / 3.0);
    if let Some(first) = lods.first_mut() {
        first.scale = finest;
    }
    lods
}

/// Returns the edges or faces of each object, numbered by its own vertices.
fn elements_by_object(objects: &Objects) -> Result<HashMap<u64, Vec<u32>>> {
    let mut places: Vec<Option<(u64, u32)>> = vec![None; objects.batch.len()];
    for (id, rows) in &objects.rows {
        for (at, row) in rows.iter().enumerate() {
            places[*row] = Some((*id, count_vertices(at)?));
        }
    }
    let mut links: HashMap<u64, Vec<u32>> =
        objects.rows.keys().map(|id| (*id, Vec::new())).collect();
    for element in objects.batch.elements().into_iter().flat_map(|elements| elements.iter()) {
        let ends: Vec<(u64, u32)> = element.iter().filter_map(|row| places[*row]).collect();
        let Some((id, _)) = ends.first().copied() else { continue }; // vertices without an object are dropped
        if ends.len() < element.len() || ends.iter().any(|end| end.0 != id) {
            let what = format!("an edge or face between object {id} and another");
            return Err(cannot_hold("precomputed", what, "give all its vertices to one object"));
        }
        links.entry(id).or_default().extend(ends.into_iter().map(|(_, at)| at));
    }
    Ok(links)
}

fn count_vertices(n: usize) -> Result<u32> {
    count_u32(n, "precomputed", "vertices of an object")
}
