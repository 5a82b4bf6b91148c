//! Writer of `FreeSurfer`: surfaces, values and annotations, big-endian.
//!
//! ```text
//! a file     the surface alone
//! a folder   lh.SURFACE, lh.NAME (coords_NAME), lh.NAME (one value a vertex), lh.NAME.annot (categories); rh likewise
//! ```
//!
//! Values are `float32`, those of several numbers are `NAME_0`, `NAME_1`, …. The volume of a surface is taken from the
//! header record.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use serde_json::Value as Json;
use zvf_error::{Error, Result};
use zvf_format::num::{nearest_f32, usize_from_u32};
use zvf_formats::{
    CollectedInput, Encoded, Target, cannot_hold, format_number, json_items, narrow,
};
use zvf_metadata::DtypeKind;
use zvf_model::flow::{Group, Loss};
use zvf_model::{Field, Kind, ObjectId};

use crate::surface::write::{
    Hemisphere, category_of, create_file, is_values, label_texts, split_hemispheres, surface_name,
    vertex_numbers,
};
use crate::surface::write_gifti::file_name;

/// Writes a file.
pub(crate) fn encode(input: &CollectedInput, out: &mut Target<'_>) -> Encoded {
    let fields: Vec<&Field> =
        input.batch.fields().iter().filter(|field| &*field.name != "zv_join_key").collect();
    let values = is_values(input);
    let is_label = input.header.kind == Kind::PointCloud && !input.groups.is_empty();
    if input.header.kind != Kind::Mesh && !values && !is_label {
        let advice = "write a mesh, a label, or values by the number of the vertex";
        return Err(cannot_hold("FreeSurfer", format!("a {}", input.header.kind), advice));
    }
    if is_label {
        return write_labels(input, out);
    }
    if values && vertex_numbers(input, "FreeSurfer")?.is_some() {
        let what = "values of some vertices only, or in another order".to_owned();
        return Err(cannot_hold("FreeSurfer", what, "write GIFTI, which numbers them"));
    }
    let Some(folder) = out.folder_path().map(Path::to_owned) else {
        let (hemispheres, mut losses) = split_hemispheres(input, true)?;
        for hemisphere in hemispheres {
            write_surface(input, &hemisphere, None, out)?;
        }
        losses.extend(fields.iter().map(|field| {
            Loss::new(format!("vertex attribute {:?} is dropped: name a folder", field.name))
        }));
        return Ok(input.report(losses));
    };
    let (hemispheres, losses) = split_hemispheres(input, false)?;
    for hemisphere in hemispheres {
        let prefix = hemisphere.prefix();
        let path = |name: &str| folder.join(format!("{prefix}.{name}"));
        if !values {
            let name = surface_name(input).unwrap_or_else(|| "white".to_owned());
            create_file(&path(&name), |out| write_surface(input, &hemisphere, None, out))?;
        }
        for field in &fields {
            let hemisphere_field = hemisphere.slice_field(field);
            let name = file_name(&field.name)?;
            let width = usize_from_u32(field.column.width());
            let coords = name.strip_prefix("coords_").filter(|_| width == 3);
            if let Some(name) = coords {
                create_file(&path(name), |out| {
                    write_surface(input, &hemisphere, Some(&hemisphere_field), out)
                })?;
            } else if hemisphere_field.categories.is_some() {
                create_file(&path(&format!("{name}.annot")), |out| {
                    write_annotation(input, &hemisphere_field, out)
                })?;
            } else if hemisphere_field.column.dtype().kind != DtypeKind::Text {
                for c in 0..width {
                    let name = if width == 1 { name.clone() } else { format!("{name}_{c}") };
                    create_file(&path(&name), |out| {
                        write_values(&hemisphere_field, c, hemisphere.faces.len(), out)
                    })?;
                }
            }
        }
    }
    Ok(input.report(losses))
}

/// Writes a label for each group: its vertices, their positions and values.
fn write_labels(input: &CollectedInput, out: &mut Target<'_>) -> Encoded {
    let owners = input.owners().unwrap_or_default();
    let rows: HashMap<ObjectId, usize> =
        owners.iter().enumerate().filter_map(|(row, id)| Some(((*id)?, row))).collect();
    let value = input.batch.field("value");
    let write = |group: &Group, out: &mut dyn Write| -> Result<()> {
        let members = group.members.iter().filter_map(|id| Some((id.0, *rows.get(id)?)));
        let members: Vec<(i64, usize)> = members.collect();
        writeln!(out, "#!ascii label\n{}", members.len())?;
        for (id, row) in members {
            let [x, y, z] = input.point(row).map(format_number);
            let value = value.map_or(0.0, |field| field.column.float(row, 0).unwrap_or(0.0));
            writeln!(out, "{id} {x} {y} {z} {}", format_number(value))?;
        }
        Ok(())
    };
    match (out.folder_path().map(Path::to_owned), &input.groups[..]) {
        (Some(folder), groups) => {
            for group in groups {
                let name = file_name(group.name.as_deref().unwrap_or("label"))?;
                create_file(&folder.join(format!("lh.{name}.label")), |out| write(group, out))?;
            }
        }
        (None, [group]) => write(group, out)?,
        (None, _) => {
            let what = format!("{} labels in one file", input.groups.len());
            return Err(cannot_hold("FreeSurfer", what, "name a folder"));
        }
    }
    Ok(input.report(Vec::new()))
}

/// Encodes a number as 32 bits, big-endian.
fn write_int(value: usize, out: &mut dyn Write) -> Result<()> {
    let what = format_args!("the number {value}");
    let value: i32 = narrow(value, "FreeSurfer", what, "write it in parts")?;
    Ok(out.write_all(&to_big_endian(value.to_le_bytes()))?)
}

const fn to_big_endian([a, b, c, d]: [u8; 4]) -> [u8; 4] {
    [d, c, b, a]
}

fn write_surface(
    input: &CollectedInput,
    hemisphere: &Hemisphere,
    coords: Option<&Field>,
    out: &mut dyn Write,
) -> Result<()> {
    out.write_all(b"\xff\xff\xfecreated by zvf\n\n")?;
    write_int(hemisphere.rows.len(), out)?;
    write_int(hemisphere.faces.len(), out)?;
    for x in hemisphere.points(input, coords) {
        out.write_all(&to_big_endian(x.to_le_bytes()))?;
    }
    for vertex in hemisphere.faces.as_flattened() {
        write_int(*vertex, out)?;
    }
    match find_volume(input, &hemisphere.prefix()) {
        Some(volume) => write_volume(volume, out),
        None => Ok(()),
    }
}

/// Returns the volume of a surface in the header record: that of a file with the prefix of its hemisphere, or, of a file that
/// was read by itself, one without a prefix.
fn find_volume<'a>(
    input: &'a CollectedInput,
    prefix: &str,
) -> Option<&'a serde_json::Map<String, Json>> {
    let record = input.record("surface").as_object()?;
    let is_own = |name: &str| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'));
    let has_prefix = |name: &str| name.starts_with("lh.") || name.starts_with("rh.");
    let prefixed = record.iter().filter(|(name, _)| is_own(name));
    let alone = record.iter().filter(|(name, _)| !has_prefix(name));
    prefixed.chain(alone).find_map(|(_, file)| file["volume"].as_object())
}

/// Returns the error for a volume with something else than a number.
fn volume_error(key: &str, found: &Json) -> Error {
    cannot_hold("FreeSurfer", format!("{found} in the {key} of its volume"), "leave the volume out")
}

fn write_volume(volume: &serde_json::Map<String, Json>, out: &mut dyn Write) -> Result<()> {
    for tag in volume.get("head").and_then(Json::as_array).into_iter().flatten() {
        let number = tag.as_u64().and_then(|tag| usize::try_from(tag).ok());
        write_int(number.ok_or_else(|| volume_error("head", tag))?, out)?;
    }
    for (key, value) in volume.iter().filter(|(key, _)| *key != "head") {
        let value = match value {
            Json::Array(numbers) => numbers
                .iter()
                .map(|x| x.as_f64().map(format_number).ok_or_else(|| volume_error(key, x)))
                .collect::<Result<Vec<_>, _>>()?
                .join(" "),
            Json::String(text) => text.clone(),
            value => value.to_string(),
        };
        writeln!(out, "{key:6} = {value}")?;
    }
    Ok(())
}

fn write_values(field: &Field, c: usize, faces: usize, out: &mut dyn Write) -> Result<()> {
    out.write_all(b"\xff\xff\xff")?;
    for count in [field.column.len(), faces, 1] {
        write_int(count, out)?;
    }
    for row in 0..field.column.len() {
        let x = nearest_f32(field.column.float(row, c).unwrap_or(f64::NAN));
        out.write_all(&to_big_endian(x.to_le_bytes()))?;
    }
    Ok(())
}

/// Returns a distinct colour for each category: from the header record, if it has them.
fn choose_colours(input: &CollectedInput, names: &[String]) -> Vec<[u8; 3]> {
    let record = input.record("surface").as_object();
    let tables = record.into_iter().flat_map(|record| record.values());
    let entries = tables.flat_map(|file| json_items(&file["table"]));
    let table: HashMap<&str, [u8; 3]> = entries
        .filter_map(|entry| {
            let part = |at: usize| u8::try_from(entry["rgbt"][at].as_u64()?).ok();
            Some((entry["name"].as_str()?, [part(0)?, part(1)?, part(2)?]))
        })
        .collect();
    let recorded: Option<Vec<[u8; 3]>> =
        names.iter().map(|name| table.get(name.as_str()).copied()).collect();
    let is_unique = |all: &Vec<[u8; 3]>| {
        let mut unique = std::collections::HashSet::new();
        all.iter().all(|colour| *colour != [0; 3] && unique.insert(*colour))
    };
    recorded.filter(is_unique).unwrap_or_else(|| {
        let colour = |number: u32| {
            let [low, middle, high, _] = number.to_le_bytes();
            [low.wrapping_mul(73), middle.wrapping_mul(151), high] // odd factors keep them apart
        };
        (1..).map(colour).take(names.len()).collect()
    })
}

fn write_annotation(input: &CollectedInput, field: &Field, out: &mut dyn Write) -> Result<()> {
    let Some(categories) = &field.categories else { return Ok(()) };
    let names = label_texts(categories);
    let colours = choose_colours(input, &names);
    write_int(field.column.len(), out)?;
    for row in 0..field.column.len() {
        let [r, g, b] = category_of(field, row)?.map_or([0; 3], |code| colours[code]);
        write_int(row, out)?;
        out.write_all(&[0, b, g, r])?;
    }
    write_int(1, out)?;
    out.write_all(&to_big_endian((-2_i32).to_le_bytes()))?;
    write_int(names.len(), out)?;
    write_name("zvf", out)?;
    write_int(names.len(), out)?;
    for (at, (name, rgb)) in names.iter().zip(&colours).enumerate() {
        write_int(at, out)?;
        write_name(name, out)?;
        for part in rgb {
            write_int(usize::from(*part), out)?;
        }
        write_int(0, out)?;
    }
    Ok(())
}

/// Writes a text with its length, which includes the zero at its end.
fn write_name(name: &str, out: &mut dyn Write) -> Result<()> {
    write_int(name.len() + 1, out)?;
    out.write_all(name.as_bytes())?;
    out.write_all(&[0])?;
    Ok(())
}
