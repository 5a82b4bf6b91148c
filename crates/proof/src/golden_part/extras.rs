//! Data outside the levels: parametric objects, headers, further geometries, segments.

use anyhow::Context;
use serde_json::{Map, Value, json};
use zvf_model::{Column, LevelReader, Parametric, Shape};
use zvf_query::{Columns, Query, Reader};
use zvf_store::{Caching, Store};

use super::tables;
use crate::contents::{self, LevelContents};
use crate::facts::{self, Rows, describe_each, exact, given, list, members};
use crate::report::Report;

/// Returns parametric objects, with their groups and values.
pub(super) async fn describe_parametric(store: &Store, expected: &Value) -> anyhow::Result<Value> {
    let all = &Parametric::open(store).await?.context("no parametric objects")?;
    let shape = |shape: &Shape| {
        json!({
            "type": shape.type_name,
            "type_id": shape.type_id,
            "coefficients": shape.coefficients,
            "coefficient_names": shape.coefficient_names,
            "name": shape.name,
        })
    };
    let attribute = async |of_groups, name: &str| match of_groups {
        true => all.group_attribute(name).await,
        false => all.object_attribute(name).await,
    };
    let mut found = tables::describe_tables(expected, all.groups().await?, attribute).await?;
    found["objects"] = exact(all.shapes().await?.iter().map(shape).collect::<Vec<Value>>());
    Ok(found)
}

/// Returns the headers of other formats that a store keeps, and compares their names.
pub(super) async fn describe_headers(
    report: &mut Report,
    store: &Store,
    expected: &Value,
) -> anyhow::Result<Value> {
    let names = zvf_model::header_names(store).await?;
    if names.complete {
        let expected: Vec<&str> = members(expected).map(|(name, _)| name).collect();
        report.compare("headers", &json!(expected), names.names);
    }
    let header =
        async |name: &str, _: &Value| Ok(exact(json!(zvf_model::header(store, name).await?)));
    Ok(describe_each(expected, header).await)
}

/// Returns the expected geometries of one level.
pub(super) async fn describe_composite(
    contents: &LevelContents,
    expected: &Value,
) -> anyhow::Result<Value> {
    let level = &contents.reader;
    let geometries = level.geometries().await?;
    let mut found = Map::new();
    for (name, _) in members(expected) {
        let (rows, links) = match geometries.iter().find(|geometry| geometry.name() == name) {
            Some(geometry) => {
                let keys: Vec<_> = geometry.chunks().await?.iter().collect();
                let cells = geometry.positions(&keys, Caching::Once).await;
                let cells = cells.into_iter().collect::<Result<Vec<_>, _>>()?;
                let rows = cells.iter().flat_map(|cell| Rows::from_column(cell).0);
                (Rows(rows.collect()), geometry.links().await?)
            }
            None if level.kinds().first().is_some_and(|kind| kind.to_string() == *name) => {
                (contents.positions(), None)
            }
            None => continue,
        };
        let links = links.map(|links| Rows::from_column(&links));
        let facts = json!({
            "positions": rows.to_json(),
            "vertex_count": rows.len(),
            "links": links.as_ref().map(Rows::to_json),
            "edge_count": links.as_ref().map(Rows::len),
        });
        found.insert(name.to_owned(), facts);
    }
    Ok(found.into())
}

/// Returns the expected objects, found by their number in a segmentation.
pub(super) async fn describe_segments(
    level: &LevelReader,
    reader: &Reader,
    expected: &Value,
) -> anyhow::Result<Value> {
    if expected.is_null() {
        return Ok(Value::Null);
    }
    // The offset of the root; only in stores of some writers the translation of the level is the
    // same.
    let offset = level.coordinate_offset().map_or_else(|| vec![0.0; level.axes()], <[f64]>::to_vec);
    let attribute = level.object_attribute("segment_id").await?.context("no segment ids")?;
    let numbers = attribute.range(0..attribute.len()).await?;
    let index = level.objects().await?.context("no objects")?;
    let ids = index.ids(0..index.slots()).await?;
    let mut found = Vec::new();
    for expected in list(expected) {
        let segment = &expected["segment_id"];
        let row =
            (0..ids.len()).find(|&row| facts::value_to_json(&numbers.value(row, 0)) == *segment);
        let id = ids[row.with_context(|| format!("no segment {segment}"))?];
        let names: Vec<String> =
            members(&expected["attributes"]).map(|(name, _)| name.to_owned()).collect();
        let query = Query::all().of_objects([id]).at_level(level.level());
        let batch = reader.run(&query.columns(Columns::Named(names.clone()))).await?.batch;
        let attributes: Map<String, Value> = names
            .into_iter()
            .filter_map(|name| {
                let digest = facts::digest(batch.field(&name)?.column.rows());
                Some((name, digest.into()))
            })
            .collect();
        let edges = batch.elements().map_or(0, |elements| elements.len());
        // One tree: zarr-vectors loses edges between chunks here.
        anyhow::ensure!(edges + 1 == batch.len(), "segment {segment}: {edges} edges");
        found.push(json!({
            "segment_id": given(),
            "positions": shift_positions(batch.positions(), &offset).to_json(),
            "attributes": attributes,
            "edges": given(),
            "fragments": given(),
        }));
    }
    Ok(found.into())
}

/// Returns the positions of a segment as zarr-vectors returns them: in world units, as `float32`.
fn shift_positions(positions: &Column, by: &[f64]) -> Rows {
    let row = |row| {
        let point = contents::point_at(positions, row);
        point.iter().zip(by).flat_map(|(x, by)| ((x + by) as f32).to_le_bytes()).collect()
    };
    Rows((0..positions.len()).map(row).collect())
}
