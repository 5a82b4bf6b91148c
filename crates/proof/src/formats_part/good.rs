//! Valid files: the results of reading them, and of writing them back.

use std::path::Path;

use anyhow::Context as _;
use serde_json::Value as Json;
use zvf_convert::Format;
use zvf_convert::read::{self, Input, Polygons, ReadOptions};
use zvf_convert::write;
use zvf_format::Class;
use zvf_model::{Field, Kind};

use super::facts::{
    Facts, hash_field, hash_half, hash_nullable, hash_numbers, hash_positions, hash_scaled,
    options, word,
};
use super::{read_format, write_copy};
use crate::facts::{list, members};
use crate::report::Report;

pub(super) fn check(
    report: &mut Report,
    path: &Path,
    folder: &str,
    entry: &Json,
) -> anyhow::Result<()> {
    let kind = kind(entry);
    // Faces of different lengths are described unchanged, and read as triangles.
    let is_mixed = entry.get("polys").is_some_and(|spec| spec["width"].is_null());
    let has_rings = members(&entry["features"]["types"]).any(|(name, _)| name.ends_with("Polygon"));
    let polygons = match (is_mixed, has_rings) {
        (true, _) => Polygons::Triangles,
        (_, true) => Polygons::Rings,
        _ => Polygons::Same,
    };
    let options = (kind, polygons);
    let format = read_format(path, folder);
    let is_unknown = format.or_else(|| Format::from_extension(path)).is_none();
    let facts = match Facts::read(path, format, options) {
        Err(error) if is_unknown && error.class() == Class::InvalidArgument => {
            report.skip("files of formats that this build does not know");
            return Ok(());
        }
        Err(error) if has_no_places(entry, &error) => {
            report.passed += 1; // refused with the advice to give positions
            return Ok(());
        }
        read => read.context("refused")?,
    };
    if facts.header.other_kinds.is_empty() {
        check_vertices(report, &facts, entry);
        check_objects(report, &facts, entry);
    } else {
        check_all_kinds(report, path, format, &facts, entry)?;
    }
    check_links(report, &facts, entry);
    let elements = facts.batch.elements().map_or(&[][..], zvf_model::Elements::fields);
    for (key, fields) in [
        ("vertex_attributes", facts.batch.fields()),
        ("object_attributes", &facts.object_fields),
        ("columns", &facts.object_fields),
        ("link_attributes", elements),
        ("face_attributes", elements),
    ] {
        // Normals of STL follow from the corners, so they are left out.
        let is_kept = |column: &&Json| {
            !(folder == "stl" && column["name"] == "normal" || column["type"] == "geometry")
        };
        if key != "vertex_attributes" || unused_points(&facts) == 0 {
            for column in list(&entry[key]).filter(is_kept) {
                check_column(report, key, fields, (column, entry));
            }
        }
    }
    let parts = entry.get("features").and_then(|_| entry["parts"]["lengths_sha256"].as_str());
    if let Some(expected) =
        parts.filter(|_| facts.header.kind.is_chain() && facts.header.other_kinds.is_empty())
    {
        let lengths = facts.part_lengths();
        report.claim(hash_numbers(&lengths) == expected, || format!("parts of {lengths:?}"));
    }
    check_groups(report, &facts, entry);
    check_again(report, path, format, options, &facts)
}

/// Checks a number that the corpus states; returns whether it is right.
fn check_count(report: &mut Report, what: &str, spec: &Json, found: usize) -> bool {
    let count = spec["count"].as_u64().unwrap_or(0);
    report.claim(found as u64 == count, || format!("{count} {what} expected, {found} found"));
    found as u64 == count
}

/// Returns whether a graph was refused because its nodes have no positions.
fn has_no_places(entry: &Json, error: &zvf_error::Error) -> bool {
    let has_spatial = members(&entry["obsm"]).any(|(key, _)| key.contains("spatial"));
    if entry.get("obsm").is_some() && !has_spatial {
        return error.class() == Class::NotFound;
    }
    let is_graph = entry.get("vertices").is_none() && entry["kind"] == "graph";
    is_graph && error.class() == Class::InvalidArgument
}

/// Checks a file of several kinds: each of them is read. In VTK all kinds share vertices; in glTF
/// each vertex belongs to one kind.
fn check_all_kinds(
    report: &mut Report,
    path: &Path,
    format: Option<Format>,
    facts: &Facts,
    entry: &Json,
) -> anyhow::Result<()> {
    let (mut vertices, mut objects) = (facts.batch.len(), facts.lengths().len());
    for kind in &facts.header.other_kinds {
        let other = Facts::read(path, format, (Some(*kind), Polygons::Triangles));
        let other = other.with_context(|| format!("as {kind}: refused"))?;
        vertices += other.batch.len();
        objects += other.lengths().len();
    }
    let (has_primitives, has_features) =
        (entry.get("primitives").is_some(), entry.get("features").is_some());
    if !has_primitives && !has_features {
        check_vertices(report, facts, entry);
        return Ok(());
    }
    check_count(report, "vertices of all kinds", &entry["vertices"], vertices);
    if has_primitives {
        check_count(report, "objects of all kinds", &entry["objects"], objects);
    }
    Ok(())
}

/// Returns the kind to request, if the corpus names a possible one.
fn kind(entry: &Json) -> Option<Kind> {
    match entry["kind"].as_str() {
        Some("graph") => Some(Kind::Graph),
        // Edges as they are stored, not directed towards a root.
        Some("skeleton") if entry.get("layer").is_some() => Some(Kind::Graph),
        _ => None,
    }
}

fn check_vertices(report: &mut Report, facts: &Facts, entry: &Json) {
    let Some(spec) = entry.get("vertices") else { return };
    let axes = facts.header.axes.len();
    let (positions, spec_rows) = in_stored_units(facts, entry);
    let found = positions.len().checked_div(axes).unwrap_or(0);
    let unused = unused_points(facts);
    if unused > 0 {
        let count = spec["count"].as_u64().unwrap_or(0);
        report.claim(found as u64 + unused >= count, || {
            format!("{count} vertices expected, {found} found and {unused} unused")
        });
        return; // lines name points in their own order, some of them twice
    }
    if !check_count(report, "vertices", spec, found) || found == 0 {
        return;
    }
    let is_odd = has_odd_scale(entry);
    let is_exact = spec["exact"] != false && spec_rows.is_none() && !is_odd;
    let tolerance =
        spec["tolerance"].as_f64().unwrap_or(if spec_rows.is_some() { 0.01 } else { 0.0 });
    let single = if is_odd { f64::from(f32::EPSILON) } else { 0.0 };
    let wrong = members(spec_rows.unwrap_or(&spec["rows"])).find_map(|(row, place)| {
        let row = row.parse().unwrap_or(usize::MAX);
        list(place).enumerate().find_map(|(at, expected)| {
            let expected = expected.as_f64().unwrap_or(f64::NAN);
            let found = row.checked_mul(axes).and_then(|start| positions.get(start + at));
            let found = found.copied().unwrap_or(f64::NAN);
            let most = tolerance + single * expected.abs();
            let is_same = (found - expected).abs() <= most || found.is_nan() && expected.is_nan();
            (!is_same).then(|| format!("row {row} axis {at} is {found}, not {expected}"))
        })
    });
    let is_right = match is_exact {
        true => spec["sha256"] == hash_positions(&positions),
        false => wrong.is_none(),
    };
    let why = || wrong.unwrap_or_else(|| "the hash is another".to_owned());
    report.claim(is_right, || format!("positions: {}", why()));
}

/// Returns the number of points of a file that are in no cell, and therefore left out with a note.
fn unused_points(facts: &Facts) -> u64 {
    let notes = facts.header.left_out.iter();
    let counts = notes
        .filter_map(|note| note.strip_prefix("points that no cell names: ")?.parse::<u64>().ok());
    counts.sum()
}

/// Returns the scales of all axes, in nanometres if they are lengths.
fn scales(entry: &Json) -> Vec<f64> {
    let scale = |(_, spec): (&str, &Json)| match spec[1].as_str() {
        Some("m") => spec[0].as_f64().map(|scale| (scale * 1e9).round()),
        _ => spec[0].as_f64(),
    };
    members(&entry["dimensions"]).filter_map(scale).collect()
}

/// Returns whether a scale is not a power of two: then products in float32 are rounded.
fn has_odd_scale(entry: &Json) -> bool {
    scales(entry).iter().any(|scale| scale.log2().fract() != 0.0)
}

/// Returns positions as the corpus describes them, and the rows to compare after a transform.
fn in_stored_units<'a>(facts: &Facts, entry: &'a Json) -> (Vec<f64>, Option<&'a Json>) {
    let second = second_corner(entry).and_then(|name| facts.positions_with(name));
    let mut positions = second.unwrap_or_else(|| facts.positions());
    if let Some(rows) = entry.get("model_rows") {
        let affine = facts.header.space.as_ref().and_then(|space| space.affine);
        let is_identity = affine.is_none_or(|rows| {
            rows.iter().enumerate().all(|(at, row)| {
                row.iter().enumerate().all(|(n, x)| *x == f64::from(u8::from(at == n)))
            })
        });
        if !is_identity {
            return (positions, Some(rows));
        }
    }
    let scales = scales(entry);
    if scales.len() == facts.header.axes.len() {
        for (at, x) in positions.iter_mut().enumerate() {
            *x /= scales[at % scales.len()]; // powers of two and small numbers: exact
        }
    }
    (positions, None)
}

/// Returns the second position of a box or an ellipsoid, which the corpus counts as a vertex.
fn second_corner(entry: &Json) -> Option<&'static str> {
    match entry["annotation_type"].as_str()? {
        "axis_aligned_bounding_box" => Some("upper_corner"),
        "ellipsoid" => Some("radii"),
        _ => None,
    }
}

fn check_objects(report: &mut Report, facts: &Facts, entry: &Json) {
    let Some(spec) = entry.get("objects") else { return };
    let mut lengths = facts.lengths();
    if second_corner(entry).is_some() {
        lengths.iter_mut().for_each(|length| *length *= 2);
    }
    check_count(report, "objects", spec, lengths.len());
    if let Some(expected) = spec["lengths_sha256"].as_str() {
        let shown: Vec<_> = lengths.iter().take(12).collect();
        report.claim(hash_numbers(&lengths) == expected, || {
            format!("lengths of objects are others: {shown:?}…")
        });
    }
    if let (true, Some(field)) = (spec["ids"].is_array(), &facts.header.id_field) {
        let column = facts.object_fields.iter().find(|known| *known.name == **field);
        let column = column.map(|field| &field.column);
        let found = column
            .into_iter()
            .flat_map(|column| (0..column.len()).map(|row| column.value(row, 0).to_string()));
        let text = |id: &Json| id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        let (found, expected): (Vec<String>, Vec<String>) =
            (found.collect(), list(&spec["ids"]).map(text).collect());
        report.claim(found == expected, || format!("ids are {found:?}, not {expected:?}"));
    }
}

fn check_links(report: &mut Report, facts: &Facts, entry: &Json) {
    let Some(spec) = entry.get("links") else { return };
    let (links, width) = facts.links();
    let is_right = check_count(report, "links", spec, links.len().checked_div(width).unwrap_or(0));
    if let Some(expected) = spec["sha256"].as_str().filter(|_| is_right) {
        report.claim(hash_numbers(&links) == expected, || "links are others");
    }
}

fn check_column(report: &mut Report, key: &str, fields: &[Field], (spec, entry): (&Json, &Json)) {
    let column = spec["name"].as_str().unwrap_or_default();
    let dtype = spec["dtype"].as_str().unwrap_or_default();
    let Some(field) = fields.iter().find(|field| *field.name == *column) else {
        let known: Vec<&str> = fields.iter().map(|field| &*field.name).collect();
        report.deny(format!("{key}: no {column:?} among {known:?}"));
        return;
    };
    let expected = spec["sha256"].as_str().unwrap_or_default();
    let found = if dtype == "float16" { hash_half(field) } else { hash_field(field, dtype) };
    let own = field.column.dtype();
    let is_same = found.as_deref() == Some(expected)
        || column == "radius"
            && hash_scaled(field, 1.0 / scale(entry)).as_deref() == Some(expected)
        || spec.get("codes").is_some_and(|codes| has_codes(field, spec, codes))
        || matches!(spec["type"].as_str(), Some("Int64" | "boolean"))
            && hash_nullable(field).as_deref() == Some(expected);
    report.claim(is_same, || {
        format!("{key}: {column:?} of {dtype} has other values (read as {own})")
    });
}

/// Returns the length factor of the affine of an entry: radii are described as they are stored.
fn scale(entry: &Json) -> f64 {
    let at = |row: usize, axis: usize| entry["affine"][row][axis].as_f64();
    let minor = |a: usize, b: usize| Some(at(1, a)? * at(2, b)? - at(1, b)? * at(2, a)?);
    let determinant =
        || Some(at(0, 0)? * minor(1, 2)? - at(0, 1)? * minor(0, 2)? + at(0, 2)? * minor(0, 1)?);
    determinant().map_or(1.0, |determinant| determinant.abs().cbrt())
}

/// Returns whether a column has the given categories and codes.
fn has_codes(field: &Field, spec: &Json, codes: &Json) -> bool {
    let Some(known) = &field.categories else { return false };
    let labels: Json = known.values().iter().map(|label| label.to_string()).collect();
    let bare = Field::new(&*field.name, field.column.clone());
    let dtype = codes["dtype"].as_str().unwrap_or_default();
    labels == spec["categories"] && hash_field(&bare, dtype).as_deref() == codes["sha256"].as_str()
}

fn check_groups(report: &mut Report, facts: &Facts, entry: &Json) {
    for (group, spec) in members(&entry["groups"]) {
        let known = facts.groups.iter().find(|known| known.name.as_deref() == Some(group));
        let ids = known.into_iter().flat_map(|known| &known.members);
        let mut members: Vec<i64> = ids.map(|id| id.0).collect();
        let in_order = spec["sha256"] == hash_numbers(&members);
        members.sort_unstable();
        let is_same = in_order || spec["sha256"] == hash_numbers(&members);
        report.claim(known.is_some() && is_same, || {
            format!("the members of group {group:?} are {members:?}")
        });
    }
}

/// Writes the file in its own format and reads it again.
fn check_again(
    report: &mut Report,
    path: &Path,
    format: Option<Format>,
    (kind, polygons): (Option<Kind>, Polygons),
    facts: &Facts,
) -> anyhow::Result<()> {
    let own = format.or_else(|| Format::from_path(path));
    // A list of edges has no positions, and requires a table of nodes.
    let own = own.filter(|format| format.is_written() && *format != Format::Edgelist);
    let Some(format) = own else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let end = format.extensions().first().copied().unwrap_or("out");
    let place = folder.path().join(format!("again.{end}"));
    let written = || -> anyhow::Result<Vec<String>> {
        let losses = write::find_losses(&facts.header, format)?;
        let options = ReadOptions { polygons, ..options(path, Some(format), kind) };
        let reader = read::open(Input::path(path), Some(format), &options)?;
        let more = write_copy(reader, format, &place, format.capabilities().is_folder)?;
        Ok(losses.iter().map(ToString::to_string).chain(more).collect())
    };
    let losses = written().with_context(|| format!("cannot be written as {format}"))?;
    let again = Facts::read(&place, Some(format), (kind, polygons))
        .with_context(|| format!("what was written as {format} is refused"))?;
    if format == Format::FlatGeobuf {
        // The index reorders features, but the set is the same.
        let (before, after) = (facts.sorted_objects(), again.sorted_objects());
        let other = before.iter().zip(&after).find(|(a, b)| a != b);
        report.claim(before == after, || format!("features differ after writing: {other:?}"));
        return Ok(());
    }
    let (before, after) = (facts.positions(), again.positions());
    let is_close = |(a, b): (&f64, &f64)| {
        a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-4 * (1.0 + a.abs().max(b.abs()))
    };
    let are_close = before.len() == after.len() && before.iter().zip(&after).all(is_close);
    let is_lossy = !losses.is_empty();
    for (what, same) in [
        ("positions", are_close),
        ("objects", is_lossy || facts.lengths() == again.lengths()),
        ("links", is_lossy || facts.links() == again.links()),
        ("groups", is_lossy || facts.groups == again.groups),
    ] {
        report.claim(same, || format!("{what} differ after writing (losses: {losses:?})"));
    }
    for (before, after) in [
        (facts.batch.fields(), again.batch.fields()),
        (&facts.object_fields, &again.object_fields),
        (&facts.group_fields, &again.group_fields),
    ] {
        if !is_lossy {
            let lost = before.iter().find(|field| !after.iter().any(|other| is_same(field, other)));
            report.claim(lost.is_none(), || {
                let named =
                    after.iter().find(|other| lost.is_some_and(|field| field.name == other.name));
                let words = |field: &Field| format!("{} {:?}", field.name, first_values(field));
                let (lost, named) = (lost.map(words), named.map(words));
                format!("an attribute differs after writing: {lost:?}, {named:?}")
            });
        }
    }
    Ok(())
}

/// Returns whether two attributes have the same name and the same values, of whatever type.
fn is_same(field: &Field, other: &Field) -> bool {
    let rows = || 0..field.column.len();
    let width = field.column.width() as usize;
    let value = |field: &Field, row, at| field.value(row, at).ok().map(|value| word(&value));
    field.name == other.name
        && (field.column.len(), field.column.width()) == (other.column.len(), other.column.width())
        && rows().all(|row| (0..width).all(|at| value(field, row, at) == value(other, row, at)))
}

/// Returns the first values of an attribute.
fn first_values(field: &Field) -> Vec<String> {
    let rows = 0..field.column.len().min(6);
    rows.filter_map(|row| field.value(row, 0).ok().map(|value| word(&value))).collect()
}
