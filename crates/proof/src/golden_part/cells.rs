//! The cells of a level: chunks, fragments, positions, columns of vertices and of fragments.

use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};
use zvf_format::key::ChunkKey;
use zvf_model::{Categories, Column, LevelReader};
use zvf_store::Caching;

use super::add_facts;
use crate::contents::{Cell, LevelContents, Rowset};
use crate::facts::{self, Rows, describe_each, given, list, members, or_error};
use crate::report::Report;

/// Returns the list of chunks, and the grid.
pub(super) async fn describe_chunks(level: &LevelReader) -> anyhow::Result<Value> {
    let keys: Vec<ChunkKey> = level.chunks().await?.iter().collect();
    let components: Vec<&[i64]> = keys.iter().map(ChunkKey::components).collect();
    let cells = level.node().cells("vertices").await.ok().flatten(); // older stores have none
    let grid = cells.map(|cells| {
        let origin = cells.attributes().get("chunk_grid_origin");
        json!({"origin": origin, "shape": cells.grid().map(|grid| grid.shape())})
    });
    Ok(json!({
        "chunk_count": keys.len(),
        "chunks_sha256": Rows::from_ints(&components).sha256(),
        "chunks": components,
        "vertex_dtype": level.dtype().to_string(),
        "grid": grid,
    }))
}

/// Returns the expected cells, the numbers of fragments, and all vertices.
pub(super) fn describe_cells(contents: &LevelContents, expected: &Value) -> Value {
    let cell = |expected: &Value| {
        let key = parse_key(&expected["chunk"]);
        let cell = contents.cells.iter().find(|cell| cell.key == key);
        cell.map(|cell| describe_cell(cell, expected["buffer_sha256"].is_string()))
    };
    let cells: Vec<_> = list(&expected["cells"]).map(cell).collect();
    let sets = || contents.cells.iter().flat_map(|cell| &cell.fragments);
    let point = |point: &Vec<f64>| point.iter().map(|&x| facts::number_to_json(x)).collect();
    let mut vertices = contents.positions().to_json();
    vertices["head"] = contents.points().iter().take(3).map(point).collect::<Vec<Value>>().into();
    json!({
        "cells": cells,
        "fragments": {
            "total": sets().count(),
            "range": sets().filter(|set| set.start.is_some()).count(),
            "explicit": sets().filter(|set| set.start.is_none()).count(),
            "zero_length": sets().filter(|set| set.rows.is_empty()).count(),
        },
        "vertices": vertices,
    })
}

/// Returns the facts of one cell; its rows are those of the buffer if `is_raw`.
fn describe_cell(cell: &Cell, is_raw: bool) -> Value {
    let Cell { positions, fragments, .. } = cell;
    let rows = fragments.iter().flat_map(|set| &set.rows);
    let logical: Vec<&[u8]> = rows.map(|&row| positions.row(row)).collect();
    let lengths: Vec<usize> = fragments.iter().map(|set| set.rows.len()).collect();
    let rows = |set: &Rowset| match set.start {
        Some(start) => json!({"range": [start, set.rows.len()]}),
        None => json!({"explicit": set.rows}),
    };
    json!({
        "chunk": given(),
        "rows": if is_raw { positions.len() } else { logical.len() },
        "fragments": fragments.len(),
        "buffer_sha256": facts::digest(positions.rows()),
        "rows_sha256": facts::digest(logical.iter()),
        "fragment_rows": fragments.iter().map(rows).collect::<Vec<Value>>(),
        "fragment_lengths_sha256":
            Rows::from_ints(lengths.iter().map(|&len| [len as i64])).sha256(),
        "fragment_lengths": lengths,
    })
}

/// Returns the columns of vertices, and compares their names. If the writer declared a wrong width,
/// `truth` decides.
pub(super) async fn describe_columns(
    report: &mut Report,
    at: &str,
    (expected, truth): (&Value, &Value),
    contents: &LevelContents,
) -> anyhow::Result<Value> {
    let mut names: Vec<&str> = members(expected).map(|(name, _)| name).collect();
    names.sort_unstable();
    let listed = list_columns(contents).await?;
    match listed.complete {
        true => report.compare(&format!("{at}/vertex_attributes"), &json!(names), listed.names),
        false => report.skip("names of attributes: this backend cannot list"),
    }
    let mut all = Map::new();
    for name in names {
        let truth = &truth["vertex_attributes"][name];
        let mut found = or_error(describe_column(contents, name, &expected[name]).await);
        if let Some(joined) = truth.get(JOINED) {
            report.compare(&format!("{at}/truth/{name}"), joined, found[JOINED].clone());
        }
        if truth["agree"] == json!(false) {
            for fact in ["ncols", "count", "sha256_sorted", "head", JOINED] {
                found[fact] = given(); // declared with a wrong width
            }
        }
        all.insert(name.to_owned(), found);
    }
    Ok(all.into())
}

/// Lists the columns of vertices, without the one that divides chunks.
pub(crate) async fn list_columns(
    contents: &LevelContents,
) -> zvf_error::Result<zvf_store::Listing> {
    let mut listed = contents.reader.attribute_names().await?;
    let bins = contents.reader.bin_attribute();
    listed.names.retain(|name| bins.as_ref().is_none_or(|(bins, _)| bins != name));
    Ok(listed)
}

/// Returns the values and the documentation of a column; the first rows in the form of the corpus.
pub(crate) async fn describe_column(
    contents: &LevelContents,
    name: &str,
    expected: &Value,
) -> anyhow::Result<Value> {
    let attribute = contents.reader.attribute(name).await?.context("no such attribute")?;
    let values = contents.read_values(&attribute).await?;
    for (column, cell) in values.iter().zip(&contents.cells) {
        ensure!(column.len() == cell.positions.len(), "a cell with another number of rows");
        let field = attribute.field(column.clone());
        (0..column.len()).try_for_each(|row| field.value(row, 0).map(drop))?;
    }
    let rows = contents.rows_in_order(&values.iter().collect::<Vec<_>>());
    let field = attribute.field(Column::empty(attribute.dtype(), attribute.width())?);
    let path = format!("vertex_attributes/{name}");
    let cells = contents.reader.node().cells(&path).await?;
    let labels = |categories: &Categories| {
        categories.values().iter().map(facts::value_to_json).collect::<Vec<_>>()
    };
    let mut found = rows.to_json();
    add_facts(
        &mut found,
        json!({
            "dtype": attribute.dtype().to_string(),
            "ncols": attribute.width(),
            JOINED: contents.positions().join_columns(&rows).sha256_sorted(),
            "head": first_rows(contents, &values, &expected["head"]),
            "categories": attribute.categories().map(labels),
            "fill_code": attribute.categories().and_then(|categories| categories.missing_code()),
            "unit": field.unit.as_deref(),
            "description": field.description.as_deref(),
            "channel_names": cells.and_then(|cells| cells.attributes().get("channel_names").cloned()),
        }),
    );
    Ok(found)
}

/// Returns the first three rows, in the form of the corpus.
fn first_rows(contents: &LevelContents, values: &[Column], like: &Value) -> Vec<Value> {
    let scalar = !like.get(0).is_some_and(Value::is_array);
    let cells = contents.cells.iter().zip(values);
    let rows = cells.flat_map(|(cell, column)| {
        let rows = cell.fragments.iter().flat_map(|set| &set.rows);
        rows.map(move |&row| facts::head_to_json(&column.slice(row..row + 1), 1, scalar)[0].take())
    });
    rows.take(3).collect()
}

/// Returns the columns of fragments, in the expected chunks.
pub(super) async fn describe_fragment_columns(level: &LevelReader, expected: &Value) -> Value {
    let column = async |name: &str, expected: &Value| -> anyhow::Result<Value> {
        let attribute = level.fragment_attribute(name).await?.context("no such attribute")?;
        let mut cells = Vec::new();
        for cell in list(&expected["cells"]) {
            let keys = [parse_key(&cell["chunk"])];
            let values = attribute.values_where_written(&keys, Caching::Once).await.pop();
            cells.push(match values.context("one answer for one chunk")?? {
                Some(values) => json!({
                    "chunk": given(), "rows": values.len(),
                    "sha256": facts::digest(values.rows()),
                }),
                None => json!({"chunk": given(), "absent": true}),
            });
        }
        let (dtype, width) = (attribute.dtype().to_string(), attribute.width());
        Ok(json!({"dtype": dtype, "ncols": width, "cells": cells}))
    };
    describe_each(expected, column).await
}

fn parse_key(value: &Value) -> ChunkKey {
    let components: Vec<i64> = list(value).filter_map(Value::as_i64).collect();
    ChunkKey::new(&components).expect("the corpus names chunks by their coordinates")
}

/// The fact of rows that each follow their position.
const JOINED: &str = "joined_with_position_sha256_sorted";
