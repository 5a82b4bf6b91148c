//! Data outside the levels: parametric objects, headers, further geometries, segments.

use anyhow::Context;
use serde_json::{Value, json};
use zvf_model::{Column, LevelReader, ObjectId, Parametric, RowAttribute};
use zvf_query::{Columns, Query, Reader};
use zvf_store::{Caching, Store};

use super::cells::check_rows;
use super::tables;
use crate::contents::{self, LevelContents};
use crate::facts::{self, Rows, members};
use crate::report::Report;

/// Compares parametric objects, with their groups and values.
pub(super) async fn check_parametric(
    report: &mut Report,
    expected: &Value,
    store: &Store,
) -> anyhow::Result<()> {
    let found = Parametric::open(store).await?.context("no parametric objects")?;
    let shapes = found.shapes().await?;
    let shapes: Vec<Value> = shapes
        .iter()
        .map(|shape| {
            json!({
                "type": shape.type_name,
                "type_id": shape.type_id,
                "coefficients": shape.coefficients,
                "coefficient_names": shape.coefficient_names,
                "name": shape.name,
            })
        })
        .collect();
    report.compare("parametric/objects", &expected["objects"], shapes);
    if expected["groups"].is_array() {
        let groups = found.groups().await?.context("no groups")?;
        let all: Vec<u64> = (0..groups.len()).collect();
        let members: Vec<Value> =
            groups.members(&all).await?.iter().map(tables::members_to_json).collect();
        report.compare("parametric/groups", &expected["groups"], members);
    }
    for (name, expected) in members(&expected["object_attributes"]) {
        let attribute = found.object_attribute(name).await?;
        check_column(report, "parametric/object_attributes", name, expected, attribute).await?;
    }
    for (name, expected) in members(&expected["group_attributes"]) {
        let attribute = found.group_attribute(name).await?;
        check_column(report, "parametric/group_attributes", name, expected, attribute).await?;
    }
    Ok(())
}

async fn check_column(
    report: &mut Report,
    at: &str,
    name: &str,
    expected: &Value,
    attribute: Option<RowAttribute>,
) -> anyhow::Result<()> {
    let attribute = attribute.with_context(|| format!("no attribute {name}"))?;
    tables::check_values(report, &format!("{at}/{name}"), expected, &attribute).await
}

/// Compares the headers of other formats that a store keeps.
pub(super) async fn check_headers(
    report: &mut Report,
    expected: &Value,
    store: &Store,
) -> anyhow::Result<()> {
    let names = zvf_model::header_names(store).await?;
    if names.complete {
        let fact: Vec<&str> = members(expected).map(|(name, _)| name).collect();
        report.compare("headers", &json!(fact), names.names);
    }
    for (name, expected) in members(expected) {
        let found = zvf_model::header(store, name).await?;
        report.compare(&format!("headers/{name}"), expected, json!(found));
    }
    Ok(())
}

/// Compares the further geometries of one level.
pub(super) async fn check_composite(
    report: &mut Report,
    expected: &Value,
    contents: &LevelContents,
) -> anyhow::Result<()> {
    let level = &contents.reader;
    let geometries = level.geometries().await?;
    for (name, expected) in members(expected) {
        let at = format!("composite/{name}");
        let Some(geometry) = geometries.iter().find(|geometry| geometry.name() == name) else {
            // The first kind of a store is the level itself.
            let is_level = level.kinds().first().is_some_and(|kind| kind.to_string() == *name);
            report.check(&at, is_level, "no such geometry");
            if is_level {
                let rows = contents.positions();
                check_rows(report, &format!("{at}/positions"), &expected["positions"], &rows);
            }
            continue;
        };
        let keys: Vec<_> = geometry.chunks().await?.iter().collect();
        let cells = geometry.positions(&keys, Caching::Once).await;
        let cells = cells.into_iter().collect::<Result<Vec<_>, _>>()?;
        let rows = Rows(cells.iter().flat_map(|cell| Rows::from_column(cell).0).collect());
        check_rows(report, &format!("{at}/positions"), &expected["positions"], &rows);
        if expected["links"].is_object() {
            let links = geometry.links().await?.context("no links")?;
            check_rows(
                report,
                &format!("{at}/links"),
                &expected["links"],
                &Rows::from_column(&links),
            );
        }
    }
    Ok(())
}

/// Compares objects found by their number in a segmentation.
pub(super) async fn check_segments(
    report: &mut Report,
    at: &str,
    expected: &Value,
    level: &LevelReader,
    reader: &Reader,
) -> anyhow::Result<()> {
    let Some(list) = expected["skeleton_by_segment"].as_array() else { return Ok(()) };
    // The offset of the root; only in stores of some writers the translation of the level is the
    // same.
    let offset = level.coordinate_offset().map_or_else(|| vec![0.0; level.axes()], <[f64]>::to_vec);
    let attribute = level.object_attribute("segment_id").await?.context("no segment ids")?;
    let numbers = attribute.range(0..attribute.len()).await?;
    let index = level.objects().await?.context("no objects")?;
    let ids = index.ids(0..index.slots()).await?;
    for expected in list {
        let segment = &expected["segment_id"];
        let at = format!("{at}/skeleton_by_segment/{segment}");
        let row =
            (0..ids.len()).find(|&row| facts::value_to_json(&numbers.value(row, 0)) == *segment);
        let Some(ObjectId(id)) = row.map(|row| ids[row]) else {
            report.fail(&at, "no such segment");
            continue;
        };
        let names: Vec<String> =
            members(&expected["attributes"]).map(|(name, _)| name.to_owned()).collect();
        let query = Query::all().of_objects([ObjectId(id)]).at_level(level.level());
        let query = query.columns(Columns::Named(names.clone()));
        let Some(answer) = report.ok_or_report(&at, reader.run(&query).await) else { continue };
        let batch = &answer.batch;
        let rows = shift_positions(batch.positions(), &offset);
        check_rows(report, &format!("{at}/positions"), &expected["positions"], &rows);
        for name in &names {
            let fact = &expected["attributes"][name];
            let found = batch.field(name).map(|field| facts::digest(field.column.rows()));
            report.compare(&format!("{at}/attributes/{name}"), fact, json!(found));
        }
        // One tree: zarr-vectors loses edges between chunks here.
        let edges = batch.elements().map_or(0, |elements| elements.len());
        report.compare(&format!("{at}/edges"), &json!(batch.len() - 1), edges);
    }
    Ok(())
}

/// Returns the positions of a segment as zarr-vectors returns them: in world units, as `float32`.
fn shift_positions(positions: &Column, by: &[f64]) -> Rows {
    let row = |row| {
        let point = contents::point_at(positions, row);
        point.iter().zip(by).flat_map(|(x, by)| ((x + by) as f32).to_le_bytes()).collect()
    };
    Rows((0..positions.len()).map(row).collect())
}
