//! The cells of a level: chunks, fragments, positions, columns of vertices and of fragments.

use anyhow::Context;
use serde_json::{Value, json};
use zvf_format::key::ChunkKey;
use zvf_model::{AttributeReader, Column, LevelReader};
use zvf_store::Caching;

use crate::contents::{Cell, LevelContents, Rowset};
use crate::facts::{self, Rows, list, members};
use crate::report::Report;

/// Compares the list of chunks, and the origin of the grid.
pub(super) async fn check_chunks(
    report: &mut Report,
    at: &str,
    expected: &Value,
    level: &LevelReader,
) -> anyhow::Result<()> {
    let keys: Vec<ChunkKey> = level.chunks().await?.iter().collect();
    report.fact(at, expected, "chunk_count", keys.len());
    if expected["chunks"].is_array() {
        let found: Vec<Value> = keys.iter().map(key_to_json).collect();
        report.fact(at, expected, "chunks", found);
    }
    if expected["chunks_sha256"].is_string() {
        let found = Rows::from_ints(keys.iter().map(ChunkKey::components)).sha256();
        report.fact(at, expected, "chunks_sha256", found);
    }
    report.fact(at, expected, "vertex_dtype", level.dtype().to_string());
    if expected["grid"].is_object() {
        let cells = level.node().required_cells("vertices").await?;
        let origin = cells.attributes().get("chunk_grid_origin").cloned().unwrap_or_default();
        report.compare(&format!("{at}/grid/origin"), &expected["grid"]["origin"], origin);
        report.compare(
            &format!("{at}/grid/shape"),
            &expected["grid"]["shape"],
            json!(cells.grid().map(|grid| grid.shape())),
        );
    }
    Ok(())
}

/// Compares cells one by one, then all vertices.
pub(super) fn check_cells(
    report: &mut Report,
    at: &str,
    expected: &Value,
    contents: &LevelContents,
) {
    for expected in list(&expected["cells"]) {
        let key = parse_key(&expected["chunk"]);
        let what = format!("{at}/cells/{key}");
        match contents.cells.iter().find(|cell| cell.key == key) {
            Some(cell) => check_cell(report, &what, expected, cell),
            None => report.fail(&what, "no such chunk"),
        }
    }
    let sets = || contents.cells.iter().flat_map(|cell| &cell.fragments);
    report.known(
        format!("{at}/fragments"),
        &expected["fragments"],
        [
            ("total", sets().count()),
            ("range", sets().filter(|set| set.start.is_some()).count()),
            ("explicit", sets().filter(|set| set.start.is_none()).count()),
            ("zero_length", sets().filter(|set| set.rows.is_empty()).count()),
        ],
    );
    let positions: Vec<&Column> = contents.cells.iter().map(|cell| &cell.positions).collect();
    let rows = contents.rows_in_order(&positions);
    check_rows(report, &format!("{at}/vertices"), &expected["vertices"], &rows);
    let head: Vec<Value> =
        contents.points().iter().take(3).map(|point| point_to_json(point)).collect();
    report.compare(&format!("{at}/vertices/head"), &expected["vertices"]["head"], head);
}

fn check_cell(report: &mut Report, what: &str, expected: &Value, cell: &Cell) {
    let Cell { positions, fragments, .. } = cell;
    let raw = expected["buffer_sha256"].is_string();
    let rows = fragments.iter().flat_map(|set| &set.rows);
    let logical: Vec<&[u8]> = rows.map(|&row| positions.row(row)).collect();
    let lengths: Vec<usize> = fragments.iter().map(|set| set.rows.len()).collect();
    let lengths_sha256 = || Rows::from_ints(lengths.iter().map(|&len| [len as i64])).sha256();
    report.each(what, expected, &["chunk"], |name, expected| {
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
    report: &mut Report,
    at: &str,
    expected: &Value,
    truth: &Value,
    contents: &LevelContents,
) -> anyhow::Result<()> {
    let Some(columns) = expected["vertex_attributes"].as_object() else { return Ok(()) };
    let mut names: Vec<&String> = columns.keys().collect();
    names.sort_unstable();
    let mut listed = contents.reader.attribute_names().await?;
    // zarr-vectors does not return the attribute that bins a level.
    let bins = contents.reader.bin_attribute();
    listed.names.retain(|name| bins.as_ref().is_none_or(|(bins, _)| bins != name));
    if listed.complete {
        report.compare(&format!("{at}/vertex_attributes"), &json!(names), listed.names);
    } else {
        report.skip("names of attributes: this backend cannot list");
    }
    for (name, expected) in columns {
        let at = format!("{at}/vertex_attributes/{name}");
        let truth = &truth["vertex_attributes"][name];
        let read = check_column(report, &at, expected, truth, contents, name).await;
        match (read, expected["error"].is_string()) {
            (Ok(()), false) => {}
            (Ok(()), true) => {
                report.fail(&at, "columns of no common length were read without an error")
            }
            (Err(_), true) => report.passed += 1,
            (Err(error), false) => report.fail(&at, format!("{error:#}")),
        }
    }
    Ok(())
}

async fn check_column(
    report: &mut Report,
    at: &str,
    expected: &Value,
    truth: &Value,
    contents: &LevelContents,
    name: &str,
) -> anyhow::Result<()> {
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
    report.fact(at, expected, "dtype", attribute.dtype().to_string());
    report.fact(at, expected, "sha256", rows.sha256());
    if let Some(expected) = truth.get("joined_with_position_sha256_sorted") {
        report.compare(&format!("{at}/truth"), expected, joined.clone());
    }
    if truth["agree"] == json!(false) {
        return Ok(()); // declared with a wrong width
    }
    report.fact(at, expected, "ncols", attribute.width());
    report.fact(at, expected, "count", rows.len());
    report.fact(at, expected, "sha256_sorted", rows.sha256_sorted());
    let with_position = &expected["joined_with_position_sha256_sorted"];
    report.compare(&format!("{at}/joined_with_position"), with_position, joined);
    report.fact(at, expected, "head", first_rows(contents, &values, &expected["head"]));
    check_documentation(report, at, expected, &attribute, contents).await
}

/// Compares the documentation of a column: categories, unit, description, names of channels.
async fn check_documentation(
    report: &mut Report,
    at: &str,
    expected: &Value,
    attribute: &AttributeReader,
    contents: &LevelContents,
) -> anyhow::Result<()> {
    let field = attribute.field(Column::empty(attribute.dtype(), attribute.width())?);
    let cells =
        contents.reader.node().cells(&format!("vertex_attributes/{}", attribute.name())).await?;
    let channels = cells.and_then(|cells| cells.attributes().get("channel_names").cloned());
    report.known(
        at,
        expected,
        [
            (
                "categories",
                json!(attribute.categories().map(|categories| {
                    categories.values().iter().map(facts::value_to_json).collect::<Vec<_>>()
                })),
            ),
            (
                "fill_code",
                json!(attribute.categories().and_then(|categories| categories.missing_code())),
            ),
            ("unit", json!(field.unit.as_deref())),
            ("description", json!(field.description.as_deref())),
            ("channel_names", json!(channels)),
        ],
    );
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
    report: &mut Report,
    at: &str,
    expected: &Value,
    level: &LevelReader,
) -> anyhow::Result<()> {
    for (name, expected) in members(&expected["fragment_attributes"]) {
        let at = format!("{at}/fragment_attributes/{name}");
        let attribute = level.fragment_attribute(name).await?;
        let Some(attribute) = attribute else {
            report.fail(&at, "no such attribute");
            continue;
        };
        report.fact(&at, expected, "dtype", attribute.dtype().to_string());
        report.fact(&at, expected, "ncols", attribute.width());
        for cell in list(&expected["cells"]) {
            let key = parse_key(&cell["chunk"]);
            let what = format!("{at}/{key}");
            let values = attribute.values_where_written(&[key], Caching::Once).await.pop();
            let found = values.context("one answer for one chunk")?.map(|values| match values {
                Some(values) => {
                    json!([values.len(), facts::digest(values.rows())])
                }
                None => json!("absent"),
            });
            let absent = cell["absent"] == json!(true);
            let fact = if absent { json!("absent") } else { json!([cell["rows"], cell["sha256"]]) };
            report.compare_result(&what, &fact, found);
        }
    }
    Ok(())
}

/// Compares rows with those of `count`, `sha256` and `sha256_sorted` that an expectation has.
pub(super) fn check_rows(report: &mut Report, at: &str, expected: &Value, rows: &Rows) {
    report.known(
        at,
        expected,
        [
            ("count", json!(rows.len())),
            ("sha256", json!(rows.sha256())),
            ("sha256_sorted", json!(rows.sha256_sorted())),
        ],
    );
}

pub(super) fn key_to_json(key: &ChunkKey) -> Value {
    json!(key.components())
}

pub(super) fn parse_key(value: &Value) -> ChunkKey {
    let components: Vec<i64> = list(value).filter_map(Value::as_i64).collect();
    ChunkKey::new(&components).expect("the corpus names chunks by their coordinates")
}

fn point_to_json(point: &[f64]) -> Value {
    point.iter().map(|&x| facts::number_to_json(x)).collect()
}
