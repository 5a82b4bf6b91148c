//! `FreeSurfer`: surfaces, values and annotations, big-endian.
//!
//! ```text
//! a file     the surface alone
//! a folder   lh.SURFACE, lh.NAME (coords_NAME), lh.NAME (one value a vertex), lh.NAME.annot (categories); rh likewise
//! ```
//!
//! Values are `float32`, those of several numbers are `NAME_0`, `NAME_1`, …. The volume that a surface was made from
//! is written again where the header record has it.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use serde_json::Value as Json;
use zvf_format::num::usize_from_u32;
use zvf_metadata::DtypeKind;
use zvf_model::{Field, Kind, ObjectId, Value};

use super::gifti::file_name;
use super::surfaces::{Hemisphere, hemispheres, is_values, surface_name};
use super::whole::{Whole, number, to_single};
use super::{Loss, Target, WriteOptions, Writer};
use crate::ConvertError;
use crate::read::Group;

pub(crate) fn open<'a>(
    target: Target<'a>,
    options: &WriteOptions,
) -> Result<Box<dyn Writer + 'a>, ConvertError> {
    Ok(super::whole::open(target, options, "FreeSurfer", encode))
}

fn encode(
    whole: &Whole,
    out: &mut Target<'_>,
    _options: &WriteOptions,
) -> Result<Vec<Loss>, ConvertError> {
    let fields: Vec<&Field> =
        whole.batch.fields().iter().filter(|field| &*field.name != "zv_join_key").collect();
    let values = is_values(whole);
    let is_label = whole.header.kind == Kind::PointCloud && !whole.groups.is_empty();
    if whole.header.kind != Kind::Mesh && !values && !is_label {
        let what = format!("a {}", whole.header.kind);
        let advice = "write a mesh, a label, or values by the number of the vertex";
        return Err(ConvertError::NoType { format: "FreeSurfer", what, advice });
    }
    if is_label {
        return write_labels(whole, out);
    }
    let Some(folder) = out.folder_path().map(Path::to_owned) else {
        for hemisphere in hemispheres(whole, true) {
            write_surface(whole, &hemisphere, None, out)?;
        }
        let lost = fields.iter().map(|field| {
            Loss::new(format!("vertex attribute {:?} is dropped: name a folder", field.name))
        });
        return Ok(lost.collect());
    };
    for hemisphere in hemispheres(whole, false) {
        let prefix = hemisphere.prefix();
        let path = |name: &str| folder.join(format!("{prefix}.{name}"));
        if !values {
            let name = surface_name(whole).unwrap_or_else(|| "white".to_owned());
            create(&path(&name), |out| write_surface(whole, &hemisphere, None, out))?;
        }
        for field in &fields {
            let own = hemisphere.field(field);
            let name = file_name(&field.name)?;
            let width = usize_from_u32(field.column.width());
            let coords = name.strip_prefix("coords_").filter(|_| width == 3);
            if let Some(name) = coords {
                create(&path(name), |out| write_surface(whole, &hemisphere, Some(&own), out))?;
            } else if own.categories.is_some() {
                create(&path(&format!("{name}.annot")), |out| write_annotation(whole, &own, out))?;
            } else if own.column.dtype().kind != DtypeKind::Text {
                for c in 0..width {
                    let name = if width == 1 { name.clone() } else { format!("{name}_{c}") };
                    create(&path(&name), |out| write_values(&own, c, hemisphere.faces.len(), out))?;
                }
            }
        }
    }
    Ok(Vec::new())
}

/// A label for each group: its vertices, their places and values.
fn write_labels(whole: &Whole, out: &mut Target<'_>) -> Result<Vec<Loss>, ConvertError> {
    let owners = whole.owners().unwrap_or_default();
    let rows: HashMap<ObjectId, usize> =
        owners.iter().enumerate().filter_map(|(row, id)| Some(((*id)?, row))).collect();
    let value = whole.batch.field("value");
    let write = |group: &Group, out: &mut dyn Write| -> Result<(), ConvertError> {
        let known = group.members.iter().filter_map(|id| Some((id.0, *rows.get(id)?)));
        let members: Vec<(i64, usize)> = known.collect();
        writeln!(out, "#!ascii label\n{}", members.len())?;
        for (id, row) in members {
            let [x, y, z] = whole.point(row).map(number);
            let value = value.map_or(0.0, |field| field.column.float(row, 0).unwrap_or(0.0));
            writeln!(out, "{id} {x} {y} {z} {}", number(value))?;
        }
        Ok(())
    };
    match (out.folder_path().map(Path::to_owned), &whole.groups[..]) {
        (Some(folder), groups) => {
            for group in groups {
                let name = file_name(group.name.as_deref().unwrap_or("label"))?;
                create(&folder.join(format!("lh.{name}.label")), |out| write(group, out))?;
            }
        }
        (None, [group]) => write(group, out)?,
        (None, _) => {
            let what = format!("{} labels in one file", whole.groups.len());
            let advice = "name a folder";
            return Err(ConvertError::NoType { format: "FreeSurfer", what, advice });
        }
    }
    Ok(Vec::new())
}

fn create(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), ConvertError>,
) -> Result<(), ConvertError> {
    let mut file = std::io::BufWriter::new(std::fs::File::create_new(path)?);
    write(&mut file)?;
    file.flush()?;
    Ok(())
}

/// A number of 32 bits, its highest byte first.
fn int(value: usize) -> Result<[u8; 4], ConvertError> {
    let value = i32::try_from(value).map_err(|_too_large| ConvertError::NoType {
        format: "FreeSurfer",
        what: format!("the number {value}"),
        advice: "write it in parts",
    })?;
    Ok(reversed(value.to_le_bytes()))
}

const fn reversed([a, b, c, d]: [u8; 4]) -> [u8; 4] {
    [d, c, b, a]
}

fn write_surface(
    whole: &Whole,
    hemisphere: &Hemisphere,
    coords: Option<&Field>,
    out: &mut dyn Write,
) -> Result<(), ConvertError> {
    out.write_all(b"\xff\xff\xfecreated by zvf\n\n")?;
    out.write_all(&int(hemisphere.rows.len())?)?;
    out.write_all(&int(hemisphere.faces.len())?)?;
    for (at, row) in hemisphere.rows.iter().enumerate() {
        let point = match coords {
            Some(field) => [0, 1, 2].map(|c| field.column.float(at, c).unwrap_or(0.0)),
            None => whole.point(*row),
        };
        for x in point {
            out.write_all(&reversed(to_single(x).to_le_bytes()))?;
        }
    }
    for vertex in hemisphere.faces.as_flattened() {
        out.write_all(&int(*vertex)?)?;
    }
    match find_volume(whole, &hemisphere.prefix()) {
        Some(volume) => write_volume(volume, out),
        None => Ok(()),
    }
}

/// The volume of a surface in the header record.
fn find_volume<'a>(whole: &'a Whole, _prefix: &str) -> Option<&'a serde_json::Map<String, Json>> {
    let record = whole.record("surface")?.as_object()?;
    record.values().find_map(|file| file.get("volume")?.as_object())
}

/// A volume with something else than a number.
fn no_volume(key: &str, found: &Json) -> ConvertError {
    let what = format!("{found} in the {key} of its volume");
    ConvertError::NoType { format: "FreeSurfer", what, advice: "leave the volume out" }
}

fn write_volume(
    volume: &serde_json::Map<String, Json>,
    out: &mut dyn Write,
) -> Result<(), ConvertError> {
    for tag in volume.get("head").and_then(Json::as_array).into_iter().flatten() {
        let number = tag.as_u64().and_then(|tag| usize::try_from(tag).ok());
        out.write_all(&int(number.ok_or_else(|| no_volume("head", tag))?)?)?;
    }
    for (key, value) in volume.iter().filter(|(key, _)| *key != "head") {
        let value = match value {
            Json::Array(numbers) => numbers
                .iter()
                .map(|x| x.as_f64().map(number).ok_or_else(|| no_volume(key, x)))
                .collect::<Result<Vec<_>, _>>()?
                .join(" "),
            Json::String(text) => text.clone(),
            other => other.to_string(),
        };
        writeln!(out, "{key:6} = {value}")?;
    }
    Ok(())
}

fn write_values(
    field: &Field,
    c: usize,
    faces: usize,
    out: &mut dyn Write,
) -> Result<(), ConvertError> {
    out.write_all(b"\xff\xff\xff")?;
    for count in [field.column.len(), faces, 1] {
        out.write_all(&int(count)?)?;
    }
    for row in 0..field.column.len() {
        let x = to_single(field.column.float(row, c).unwrap_or(f64::NAN));
        out.write_all(&reversed(x.to_le_bytes()))?;
    }
    Ok(())
}

/// A colour for each category, none of them twice: those of the record where it has them.
fn colours(whole: &Whole, names: &[String]) -> Vec<[u8; 3]> {
    let record = whole.record("surface").and_then(Json::as_object);
    let tables = record.into_iter().flat_map(|record| record.values());
    let entries = tables.filter_map(|file| file.get("table")?.as_array()).flatten();
    let known: HashMap<&str, [u8; 3]> = entries
        .filter_map(|entry| {
            let rgb = entry["rgbt"].as_array()?;
            let part = |at: usize| u8::try_from(rgb.get(at)?.as_u64()?).ok();
            Some((entry["name"].as_str()?, [part(0)?, part(1)?, part(2)?]))
        })
        .collect();
    let found: Option<Vec<[u8; 3]>> =
        names.iter().map(|name| known.get(name.as_str()).copied()).collect();
    let is_unique = |all: &Vec<[u8; 3]>| {
        let mut seen = std::collections::HashSet::new();
        all.iter().all(|colour| *colour != [0; 3] && seen.insert(*colour))
    };
    found.filter(is_unique).unwrap_or_else(|| {
        let colour = |number: u32| {
            let [low, middle, high, _] = number.to_le_bytes();
            [low.wrapping_mul(73), middle.wrapping_mul(151), high] // odd factors keep them apart
        };
        (1..).map(colour).take(names.len()).collect()
    })
}

fn write_annotation(whole: &Whole, field: &Field, out: &mut dyn Write) -> Result<(), ConvertError> {
    let Some(categories) = &field.categories else { return Ok(()) };
    let names: Vec<String> = categories
        .values()
        .iter()
        .map(|value| match value {
            Value::Text(text) => text.clone(),
            other => format!("{other:?}"),
        })
        .collect();
    let colours = colours(whole, &names);
    out.write_all(&int(field.column.len())?)?;
    for row in 0..field.column.len() {
        let code = match field.column.value(row, 0) {
            Value::Int(code) => usize::try_from(code).ok(),
            Value::UInt(code) => usize::try_from(code).ok(),
            _ => None,
        };
        let [r, g, b] = code.and_then(|code| colours.get(code)).copied().unwrap_or([0; 3]);
        out.write_all(&int(row)?)?;
        out.write_all(&[0, b, g, r])?;
    }
    out.write_all(&int(1)?)?;
    out.write_all(&reversed((-2_i32).to_le_bytes()))?;
    out.write_all(&int(names.len())?)?;
    write_name("zvf", out)?;
    out.write_all(&int(names.len())?)?;
    for (at, (name, rgb)) in names.iter().zip(&colours).enumerate() {
        out.write_all(&int(at)?)?;
        write_name(name, out)?;
        for part in rgb {
            out.write_all(&int(usize::from(*part))?)?;
        }
        out.write_all(&int(0)?)?;
    }
    Ok(())
}

/// Text with its length, which counts the zero at its end.
fn write_name(name: &str, out: &mut dyn Write) -> Result<(), ConvertError> {
    out.write_all(&int(name.len() + 1)?)?;
    out.write_all(name.as_bytes())?;
    out.write_all(&[0])?;
    Ok(())
}
