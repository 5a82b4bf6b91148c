//! Queries of whole levels, objects and groups.

use serde_json::{Value, json};
use zvf_model::{Batch, Kind, ObjectId};
use zvf_query::{Columns, Order, Query, Reader};

use super::Asked;
use crate::contents;
use crate::facts::{self, Rows, list, members};
use crate::report::Facts;

/// Compares reads of a whole level, of objects and of groups.
pub(super) async fn check_answers(facts: &mut Facts<'_>, truth: &Value, source: Asked<'_>) {
    if facts.expected["read_all"].is_object() {
        check_query(facts.of("read_all"), truth, source, source.query()).await;
    }
    if let Some(ids) = facts.expected["read_objects"]["ids"].as_array() {
        let ids = ids.iter().filter_map(Value::as_i64).map(ObjectId);
        let query = source.query().of_objects(ids);
        check_query(facts.of("read_objects"), &Value::Null, source, query).await;
    }
    for expected in list(&facts.expected["read_groups"]) {
        let group = expected["group"].as_u64().unwrap_or_default();
        let facts = facts.named(format!("read_groups/{group}"), expected);
        check_query(facts, &Value::Null, source, source.query().in_groups([group])).await;
    }
}

async fn check_query(mut facts: Facts<'_>, truth: &Value, source: Asked<'_>, query: Query) {
    let (kind, expected) = (source.kind, facts.expected);
    if expected["error"].is_string() {
        facts.report.skip("reads of a level that the reference fails at");
        return;
    }
    let of_objects = !facts.at.ends_with("read_all");
    let ordered = kind.is_chain() || (of_objects && !kind.has_links());
    let query = if ordered { query.order(Order::Objects) } else { query };
    let columns = list_columns(expected);
    let all = query.clone();
    let query = query.columns(Columns::Named(columns.clone()));
    let Some(answer) = facts.ok(source.reader.run(&query).await) else { return };
    let batch = &answer.batch;
    let mut rows = Rows::from_column(batch.positions());
    if kind == Kind::Line {
        rows = Rows(rows.0.chunks(2).map(|ends| ends.concat()).collect()); // a line is a row
    }
    facts.of("rows").rows(&rows);
    facts.of("nodes").rows(&rows);
    if expected["joined"].is_object() {
        facts.of("joined").rows(&positions_with_columns(batch, &columns));
    }
    for (name, _) in members(&expected["attributes"]) {
        let found = batch.field(name).map(|field| Rows::from_column(&field.column));
        let found = found.map(|rows| json!({"rows": rows.len(), "sha256": rows.sha256()}));
        facts.of("attributes").fact(name, json!(found));
    }
    for (name, _) in members(&expected["strings"]) {
        check_strings(facts.of("strings").of(name), name, source.reader, &all).await;
    }
    if expected["polylines"].is_u64() {
        check_chains(&mut facts, batch);
    }
    for name in ["edges", "faces"] {
        if expected[name].is_object() {
            if !answer.complete {
                // A backend that cannot list returns only some links; the answer states that.
                facts.report.skip(
                    "edges and faces over plain HTTP: the answer says that it is not complete",
                );
                continue;
            }
            // If the writer's input is known better than zarr-vectors reads it, the input decides.
            let fact = if truth[name].is_object() { &truth[name] } else { &expected[name] };
            check_elements(facts.named(name, fact), batch);
        }
    }
}

/// Compares a text column with the digest of all its values.
async fn check_strings(mut facts: Facts<'_>, name: &str, reader: &Reader, query: &Query) {
    let query = query.clone().columns(Columns::Named(vec![name.to_owned()]));
    let Some(answer) = facts.ok(reader.run(&query).await) else { return };
    let Some(field) = answer.batch.field(name) else {
        return facts.fail("no such column in the answer");
    };
    let words = (0..field.column.len()).map(|row| field.value(row, 0));
    let words: Result<Vec<Value>, _> =
        words.map(|word| word.map(|w| facts::value_to_json(&w))).collect();
    facts.compare_result(words.map(|words| facts::digest([json!(words).to_string()].iter())));
}

/// Compares an answer made of chains.
fn check_chains(facts: &mut Facts<'_>, batch: &Batch) {
    let parts = batch.parts();
    let lengths = || parts.offsets().windows(2).map(|pair| [(pair[1] - pair[0]) as i64]);
    let ids: Vec<i64> = parts.objects().iter().map(|id| id.0).collect();
    for (name, fact) in members(facts.expected) {
        let found = match name {
            "polylines" => json!(lengths().count()),
            "vertices" => json!(batch.len()),
            "lengths_sha256" => json!(Rows::from_ints(lengths()).sha256()),
            "positions_sha256" => json!(facts::digest(batch.positions().rows())),
            "object_ids" if fact.as_array().is_some_and(|list| !list.is_empty()) => json!(ids),
            _ => continue,
        };
        facts.fact(name, found);
    }
}

/// Compares elements by the positions of their ends.
fn check_elements(mut facts: Facts<'_>, batch: &Batch) {
    if facts.expected.get("forest").is_some() {
        return facts.fact("forest", json!(count_trees(batch)));
    }
    let found = Rows::from_pieces(&contents::element_points(batch));
    facts.fact("count", found.len());
    let positions = &facts.expected["positions_f64_sha256_sorted"];
    if positions.is_string() {
        facts.named("positions", positions).compare(found.sha256_sorted());
    }
}

/// Returns the number of trees that the edges of an answer form; `None` if there is a cycle.
fn count_trees(batch: &Batch) -> Option<usize> {
    let mut tree: Vec<usize> = (0..batch.len()).collect();
    let root = |tree: &[usize], mut at: usize| {
        while tree[at] != at {
            at = tree[at];
        }
        at
    };
    for rows in batch.elements()?.iter() {
        let (a, b) = (root(&tree, rows[0]), root(&tree, rows[1]));
        if a == b {
            return None;
        }
        tree[a] = b;
    }
    Some(tree.iter().enumerate().filter(|(at, up)| at == *up).count())
}

/// Returns positions, each followed by the named columns.
pub(super) fn positions_with_columns(batch: &Batch, names: &[String]) -> Rows {
    let mut rows = Rows::from_column(batch.positions());
    for name in names {
        let column =
            batch.field(name).map(|field| Rows::from_column(&field.column)).unwrap_or_default();
        rows = rows.join_columns(&column);
    }
    rows
}

/// Returns the columns that the facts of an answer name.
fn list_columns(expected: &Value) -> Vec<String> {
    if let Some(list) = expected["joined"]["attributes"].as_array() {
        return list.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    }
    members(&expected["attributes"]).map(|(name, _)| name.to_owned()).collect()
}
