//! Data outside the levels: parametric objects, headers, further geometries, segments.

use anyhow::Context;
use serde_json::{Value, json};
use zvf_model::{Column, LevelReader, Parametric, Shape};
use zvf_query::{Columns, Query, Reader};
use zvf_store::{Caching, Store};

use super::tables;
use crate::contents::{self, LevelContents};
use crate::facts::{self, Rows, members};
use crate::report::Facts;

/// Compares parametric objects, with their groups and values.
pub(super) async fn check_parametric(mut facts: Facts<'_>, store: &Store) -> anyhow::Result<()> {
    let found = &Parametric::open(store).await?.context("no parametric objects")?;
    let shapes = found.shapes().await?;
    let shape = |shape: &Shape| {
        json!({
            "type": shape.type_name,
            "type_id": shape.type_id,
            "coefficients": shape.coefficients,
            "coefficient_names": shape.coefficient_names,
            "name": shape.name,
        })
    };
    facts.fact("objects", shapes.iter().map(shape).collect::<Vec<Value>>());
    let attribute = async |of_groups, name: &str| match of_groups {
        true => found.group_attribute(name).await,
        false => found.object_attribute(name).await,
    };
    tables::check_tables(&mut facts, async || found.groups().await, attribute).await
}

/// Compares the headers of other formats that a store keeps.
pub(super) async fn check_headers(mut facts: Facts<'_>, store: &Store) -> anyhow::Result<()> {
    let names = zvf_model::header_names(store).await?;
    if names.complete {
        let fact: Vec<&str> = members(facts.expected).map(|(name, _)| name).collect();
        facts.report.compare("headers", &json!(fact), names.names);
    }
    for (name, _) in members(facts.expected) {
        facts.fact(name, json!(zvf_model::header(store, name).await?));
    }
    Ok(())
}

/// Compares the further geometries of one level.
pub(super) async fn check_composite(
    mut facts: Facts<'_>,
    contents: &LevelContents,
) -> anyhow::Result<()> {
    let level = &contents.reader;
    let geometries = level.geometries().await?;
    for (name, expected) in members(facts.expected) {
        let mut facts = facts.named(name, expected);
        let Some(geometry) = geometries.iter().find(|geometry| geometry.name() == name) else {
            // The first kind of a store is the level itself.
            let is_level = level.kinds().first().is_some_and(|kind| kind.to_string() == *name);
            facts.check(is_level, "no such geometry");
            if is_level {
                facts.of("positions").rows(&contents.positions());
            }
            continue;
        };
        let keys: Vec<_> = geometry.chunks().await?.iter().collect();
        let cells = geometry.positions(&keys, Caching::Once).await;
        let cells = cells.into_iter().collect::<Result<Vec<_>, _>>()?;
        let rows = Rows(cells.iter().flat_map(|cell| Rows::from_column(cell).0).collect());
        facts.of("positions").rows(&rows);
        if expected["links"].is_object() {
            let links = geometry.links().await?.context("no links")?;
            facts.of("links").rows(&Rows::from_column(&links));
        }
    }
    Ok(())
}

/// Compares objects found by their number in a segmentation.
pub(super) async fn check_segments(
    mut facts: Facts<'_>,
    level: &LevelReader,
    reader: &Reader,
) -> anyhow::Result<()> {
    let Some(list) = facts.expected.as_array() else { return Ok(()) };
    // The offset of the root; only in stores of some writers the translation of the level is the
    // same.
    let offset = level.coordinate_offset().map_or_else(|| vec![0.0; level.axes()], <[f64]>::to_vec);
    let attribute = level.object_attribute("segment_id").await?.context("no segment ids")?;
    let numbers = attribute.range(0..attribute.len()).await?;
    let index = level.objects().await?.context("no objects")?;
    let ids = index.ids(0..index.slots()).await?;
    for expected in list {
        let segment = &expected["segment_id"];
        let mut facts = facts.named(segment, expected);
        let row =
            (0..ids.len()).find(|&row| facts::value_to_json(&numbers.value(row, 0)) == *segment);
        let Some(id) = row.map(|row| ids[row]) else {
            facts.fail("no such segment");
            continue;
        };
        let names: Vec<String> =
            members(&expected["attributes"]).map(|(name, _)| name.to_owned()).collect();
        let query = Query::all().of_objects([id]).at_level(level.level());
        let query = query.columns(Columns::Named(names.clone()));
        let Some(answer) = facts.ok(reader.run(&query).await) else { continue };
        let batch = &answer.batch;
        facts.of("positions").rows(&shift_positions(batch.positions(), &offset));
        for name in &names {
            let found = batch.field(name).map(|field| facts::digest(field.column.rows()));
            facts.of("attributes").fact(name, json!(found));
        }
        // One tree: zarr-vectors loses edges between chunks here.
        let edges = batch.elements().map_or(0, |elements| elements.len());
        facts.named("edges", &json!(batch.len() - 1)).compare(edges);
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
