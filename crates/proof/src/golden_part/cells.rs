//! The cells of a level: chunks, fragments, positions, columns of vertices and of fragments.

use anyhow::Context;
use serde_json::{Value, json};
use zvf_format::key::ChunkKey;
use zvf_model::{AttributeReader, Categories, Column, LevelReader};
use zvf_store::Caching;

use crate::contents::{Cell, LevelContents, Rowset};
use crate::facts::{self, Rows, list, members};
use crate::report::Facts;

/// Compares the list of chunks, and the origin of the grid.
pub(super) async fn check_chunks(facts: &mut Facts<'_>, level: &LevelReader) -> anyhow::Result<()> {
    let keys: Vec<ChunkKey> = level.chunks().await?.iter().collect();
    facts.fact("chunk_count", keys.len());
    let components = || keys.iter().map(ChunkKey::components);
    if facts.expected["chunks"].is_array() {
        facts.fact("chunks", json!(components().collect::<Vec<_>>()));
    }
    if facts.expected["chunks_sha256"].is_string() {
        facts.fact("chunks_sha256", Rows::from_ints(components()).sha256());
    }
    facts.fact("vertex_dtype", level.dtype().to_string());
    if facts.expected["grid"].is_object() {
        let cells = level.node().required_cells("vertices").await?;
        let origin = cells.attributes().get("chunk_grid_origin").cloned().unwrap_or_default();
        facts.of("grid").fact("origin", origin);
        facts.of("grid").fact("shape", json!(cells.grid().map(|grid| grid.shape())));
    }
    Ok(())
}

/// Compares cells one by one, then all vertices.
pub(super) fn check_cells(facts: &mut Facts<'_>, contents: &LevelContents) {
    for expected in list(&facts.expected["cells"]) {
        let key = parse_key(&expected["chunk"]);
        let mut facts = facts.named(format!("cells/{key}"), expected);
        match contents.cells.iter().find(|cell| cell.key == key) {
            Some(cell) => check_cell(facts, cell),
            None => facts.fail("no such chunk"),
        }
    }
    let sets = || contents.cells.iter().flat_map(|cell| &cell.fragments);
    facts.of("fragments").known([
        ("total", sets().count()),
        ("range", sets().filter(|set| set.start.is_some()).count()),
        ("explicit", sets().filter(|set| set.start.is_none()).count()),
        ("zero_length", sets().filter(|set| set.rows.is_empty()).count()),
    ]);
    facts.of("vertices").rows(&contents.positions());
    let point = |point: &Vec<f64>| point.iter().map(|&x| facts::number_to_json(x)).collect();
    let head: Vec<Value> = contents.points().iter().take(3).map(point).collect();
    facts.of("vertices").fact("head", head);
}

fn check_cell(mut facts: Facts<'_>, cell: &Cell) {
    let Cell { positions, fragments, .. } = cell;
    let raw = facts.expected["buffer_sha256"].is_string();
    let rows = fragments.iter().flat_map(|set| &set.rows);
    let logical: Vec<&[u8]> = rows.map(|&row| positions.row(row)).collect();
    let lengths: Vec<usize> = fragments.iter().map(|set| set.rows.len()).collect();
    let lengths_sha256 = || Rows::from_ints(lengths.iter().map(|&len| [len as i64])).sha256();
    facts.each(&["chunk"], |name, expected| {
        Some(match name {
            _ if expected.is_null() => Value::Null,
            "rows" if raw => json!(positions.len()),
            "rows" => json!(logical.len()),
            "fragments" => json!(fragments.len()),
            "buffer_sha256" => json!(facts::digest(positions.rows())),
            "rows_sha256" => json!(facts::digest(logical.iter())),
            "fragment_rows" => fragments.iter().map(fragment_to_json).collect(),
            "fragment_lengths" => json!(lengths),
            "fragment_lengths_sha256" => json!(lengths_sha256()),
            _ => return None,
        })
    });
}

fn fragment_to_json(set: &Rowset) -> Value {
    match set.start {
        Some(start) => json!({"range": [start, set.rows.len()]}),
        None => json!({"explicit": set.rows}),
    }
}

/// Compares the columns of vertices. If the writer declared a wrong width, `truth` decides.
pub(super) async fn check_vertex_columns(
    mut facts: Facts<'_>,
    truth: &Value,
    contents: &LevelContents,
) -> anyhow::Result<()> {
    let Some(columns) = facts.expected.as_object() else { return Ok(()) };
    let mut names: Vec<&String> = columns.keys().collect();
    names.sort_unstable();
    let mut listed = contents.reader.attribute_names().await?;
    // zarr-vectors does not return the attribute that bins a level.
    let bins = contents.reader.bin_attribute();
    listed.names.retain(|name| bins.as_ref().is_none_or(|(bins, _)| bins != name));
    if listed.complete {
        facts.report.compare(&facts.at, &json!(names), listed.names);
    } else {
        facts.report.skip("names of attributes: this backend cannot list");
    }
    for (name, expected) in columns {
        let mut facts = facts.of(name);
        let truth = &truth["vertex_attributes"][name];
        let read = check_column(&mut facts, truth, contents, name).await;
        match (read, expected["error"].is_string()) {
            (read, false) => facts.finish(read),
            (Ok(()), true) => facts.fail("columns of no common length were read without an error"),
            (Err(_), true) => facts.report.passed += 1,
        }
    }
    Ok(())
}

async fn check_column(
    facts: &mut Facts<'_>,
    truth: &Value,
    contents: &LevelContents,
    name: &str,
) -> anyhow::Result<()> {
    let expected = facts.expected;
    let attribute = contents.reader.attribute(name).await?.context("no such attribute")?;
    let values = contents.read_values(&attribute).await?;
    if expected["error"].is_string() {
        let misfit =
            values.iter().zip(&contents.cells).any(|(a, cell)| a.len() != cell.positions.len());
        anyhow::ensure!(!misfit, "a cell with another number of rows");
        return Ok(());
    }
    let rows = contents.rows_in_order(&values.iter().collect::<Vec<_>>());
    let joined = contents.positions().join_columns(&rows).sha256_sorted();
    facts.fact("dtype", attribute.dtype().to_string());
    facts.fact("sha256", rows.sha256());
    let with_position = "joined_with_position_sha256_sorted";
    if let Some(expected) = truth.get(with_position) {
        facts.named("truth", expected).compare(joined.clone());
    }
    if truth["agree"] == json!(false) {
        return Ok(()); // declared with a wrong width
    }
    facts.fact("ncols", attribute.width());
    facts.fact("count", rows.len());
    facts.fact("sha256_sorted", rows.sha256_sorted());
    facts.named("joined_with_position", &expected[with_position]).compare(joined);
    facts.fact("head", first_rows(contents, &values, &expected["head"]));
    check_documentation(facts, &attribute, contents).await
}

/// Compares the documentation of a column: categories, unit, description, names of channels.
async fn check_documentation(
    facts: &mut Facts<'_>,
    attribute: &AttributeReader,
    contents: &LevelContents,
) -> anyhow::Result<()> {
    let field = attribute.field(Column::empty(attribute.dtype(), attribute.width())?);
    let cells =
        contents.reader.node().cells(&format!("vertex_attributes/{}", attribute.name())).await?;
    let channels = cells.and_then(|cells| cells.attributes().get("channel_names").cloned());
    let categories = attribute.categories();
    let values = |categories: &Categories| {
        categories.values().iter().map(facts::value_to_json).collect::<Vec<_>>()
    };
    facts.known([
        ("categories", json!(categories.map(values))),
        ("fill_code", json!(categories.and_then(|categories| categories.missing_code()))),
        ("unit", json!(field.unit.as_deref())),
        ("description", json!(field.description.as_deref())),
        ("channel_names", json!(channels)),
    ]);
    Ok(())
}

/// Returns the first three rows, in the form of the corpus.
fn first_rows(contents: &LevelContents, values: &[Column], like: &Value) -> Value {
    let scalar = !like.get(0).is_some_and(Value::is_array);
    let mut found = Vec::new();
    'rows: for (cell, column) in contents.cells.iter().zip(values) {
        for &row in cell.fragments.iter().flat_map(|set| &set.rows) {
            if found.len() == 3 {
                break 'rows;
            }
            let head = facts::head_to_json(&column.slice(row..row + 1), 1, scalar);
            found.extend(list(&head).cloned());
        }
    }
    Value::Array(found)
}

/// Compares the columns of fragments.
pub(super) async fn check_fragment_columns(
    mut facts: Facts<'_>,
    level: &LevelReader,
) -> anyhow::Result<()> {
    for (name, expected) in members(facts.expected) {
        let mut facts = facts.named(name, expected);
        let Some(attribute) = level.fragment_attribute(name).await? else {
            facts.fail("no such attribute");
            continue;
        };
        facts.fact("dtype", attribute.dtype().to_string());
        facts.fact("ncols", attribute.width());
        for cell in list(&expected["cells"]) {
            let key = parse_key(&cell["chunk"]);
            let values = attribute.values_where_written(&[key], Caching::Once).await.pop();
            let found = values.context("one answer for one chunk")?.map(|values| match values {
                Some(values) => json!([values.len(), facts::digest(values.rows())]),
                None => json!("absent"),
            });
            let absent = cell["absent"] == json!(true);
            let fact = if absent { json!("absent") } else { json!([cell["rows"], cell["sha256"]]) };
            facts.named(key, &fact).compare_result(found);
        }
    }
    Ok(())
}

pub(super) fn parse_key(value: &Value) -> ChunkKey {
    let components: Vec<i64> = list(value).filter_map(Value::as_i64).collect();
    ChunkKey::new(&components).expect("the corpus names chunks by their coordinates")
}
