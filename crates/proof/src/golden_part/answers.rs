//! Queries of whole levels, objects and groups.

use serde_json::{Value, json};
use zvf_model::{Batch, Kind, ObjectId};
use zvf_query::{Columns, Order, Query, Reader};

use super::Asked;
use crate::contents;
use crate::facts::{self, Rows, describe_each, given, list, members, or_error, skipped};

/// Returns the answers for a whole level, for objects and for groups.
pub(super) async fn describe_answers(expected: &Value, source: Asked<'_>) -> Value {
    let (all, some) = (&expected["read_all"], &expected["read_objects"]);
    let mut groups = Vec::new();
    for expected in list(&expected["read_groups"]) {
        let query = source.query().in_groups(expected["group"].as_u64());
        let mut answer = or_error(describe_answer(expected, source, query, true).await);
        answer["group"] = given();
        groups.push(answer);
    }
    let ids = list(&some["ids"]).filter_map(Value::as_i64).map(ObjectId);
    let query = source.query().of_objects(ids);
    let mut objects = or_error(describe_answer(some, source, query, true).await);
    objects["ids"] = given();
    let all = match all["error"].is_string() {
        true => skipped("reads of a level that the reference fails at"),
        false => or_error(describe_answer(all, source, source.query(), false).await),
    };
    json!({"read_all": all, "read_objects": objects, "read_groups": groups})
}

async fn describe_answer(
    expected: &Value,
    source: Asked<'_>,
    query: Query,
    of_objects: bool,
) -> anyhow::Result<Value> {
    let kind = source.kind;
    let ordered = kind.is_chain() || (of_objects && !kind.has_links());
    let query = if ordered { query.order(Order::Objects) } else { query };
    let columns = list_columns(expected);
    let strings = describe_each(&expected["strings"], async |name, _| {
        digest_strings(name, source.reader, &query).await
    });
    let strings = strings.await;
    let query = query.columns(Columns::Named(columns.clone()));
    let answer = source.reader.run(&query).await?;
    let batch = &answer.batch;
    let mut rows = Rows::from_column(batch.positions());
    if kind == Kind::Line {
        rows = Rows(rows.0.chunks(2).map(|ends| ends.concat()).collect()); // a line is a row
    }
    let attributes = describe_each(&expected["attributes"], async |name, _| {
        let found = batch.field(name).map(|field| Rows::from_column(&field.column));
        Ok(json!(found.map(|rows| json!({"rows": rows.len(), "sha256": rows.sha256()}))))
    });
    let mut joined = positions_with_columns(batch, &columns).to_json();
    joined["attributes"] = given();
    let elements = match answer.complete {
        true => describe_elements(batch),
        false => {
            skipped("edges and faces over plain HTTP: the answer says that it is not complete")
        }
    };
    let parts = batch.parts();
    let lengths = || parts.offsets().windows(2).map(|pair| [(pair[1] - pair[0]) as i64]);
    let ids: Vec<i64> = parts.objects().iter().map(|id| id.0).collect();
    let is_stated = list(&expected["object_ids"]).count() > 0;
    Ok(json!({
        "rows": rows.to_json(),
        "nodes": rows.to_json(),
        "joined": joined,
        "attributes": attributes.await,
        "strings": strings,
        "polylines": lengths().count(),
        "vertices": batch.len(),
        "lengths_sha256": Rows::from_ints(lengths()).sha256(),
        "positions_sha256": facts::digest(batch.positions().rows()),
        "object_ids": if is_stated { json!(ids) } else { given() },
        "edges": elements,
        "faces": elements,
    }))
}

/// Returns the digest of all values of a text column.
async fn digest_strings(name: &str, reader: &Reader, query: &Query) -> anyhow::Result<String> {
    let query = query.clone().columns(Columns::Named(vec![name.to_owned()]));
    let answer = reader.run(&query).await?;
    let field = answer.batch.field(name).ok_or_else(|| anyhow::anyhow!("no such column"))?;
    let words = (0..field.column.len()).map(|row| field.value(row, 0));
    let words: Result<Vec<Value>, _> =
        words.map(|word| word.map(|w| facts::value_to_json(&w))).collect();
    Ok(facts::digest([json!(words?).to_string()].iter()))
}

/// Returns the facts of elements: the positions of their ends, and the number of trees they form.
fn describe_elements(batch: &Batch) -> Value {
    let found = Rows::from_pieces(&contents::element_points(batch));
    json!({
        "count": found.len(),
        "positions_f64_sha256_sorted": found.sha256_sorted(),
        "forest": count_trees(batch),
    })
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
    if expected["joined"]["attributes"].is_array() {
        return facts::texts(&expected["joined"]["attributes"]).collect();
    }
    members(&expected["attributes"]).map(|(name, _)| name.to_owned()).collect()
}
