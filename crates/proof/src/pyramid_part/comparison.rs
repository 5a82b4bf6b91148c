//! Comparison of two stores node by node: documents as JSON, arrays by their contents.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;
use zvf_metadata::{ArrayDoc, Node};
use zvf_store::{Caching, Store};

use super::Case;
use crate::corpus;
use crate::report::Report;

/// Compares the levels of both sides.
pub(super) async fn compare_levels(report: &mut Report, case: &Case) -> anyhow::Result<()> {
    let theirs = corpus::open(&case.reference_store()).await?;
    let ours = corpus::open(&case.our_store()).await?;
    let (expected, found) = (list_nodes(&case.reference_store())?, list_nodes(&case.our_store())?);
    let skipped = |node: &&String| case.wide && is_link_of_level_0(node);
    if expected.iter().any(|node| skipped(&node)) {
        report.skip("links of level 0 in 64 bits: the reference reads it as 32");
    }
    for node in expected.union(&found).filter(|node| !skipped(node)) {
        let [expected, found] = [expected.contains(node), found.contains(node)];
        if expected != found {
            report.fail(node, if expected { "is not there" } else { "should not be there" });
            continue;
        }
        let texts =
            [case.reference_store(), case.our_store()].map(|store| read_document(&store, node));
        let [expected, found] = [texts[0].as_ref(), texts[1].as_ref()];
        let expected = expected.map_err(|error| anyhow::anyhow!("{node}: {error}"))?;
        report.compare_result(&format!("{node} document"), expected, found.cloned());
        if let Ok(Node::Array(doc)) = Node::parse(expected.to_string().as_bytes()) {
            let expected = read_payloads(&theirs, node, &doc).await?;
            match read_payloads(&ours, node, &doc).await {
                Ok(found) => compare_files(report, node, &expected, &found),
                Err(error) => report.fail(node, error),
            }
        }
    }
    Ok(())
}

fn compare_files(
    report: &mut Report,
    node: &str,
    expected: &[(String, Vec<u8>)],
    found: &[(String, Vec<u8>)],
) {
    if expected.len() != found.len() {
        report.fail(node, format!("{} payloads instead of {}", found.len(), expected.len()));
        return;
    }
    for ((key, expected), (key_found, found)) in expected.iter().zip(found) {
        let at = expected.iter().zip(found).position(|(a, b)| a != b);
        let why = format!(
            "{key_found} of {} bytes instead of {}, other at {at:?}",
            found.len(),
            expected.len()
        );
        report.check(&format!("{node} {key}"), key == key_found && expected == found, why);
    }
}

/// Returns whether a node belongs to the links that lead to or from level 0.
fn is_link_of_level_0(node: &str) -> bool {
    let mut parts = node.split('/');
    let Some(Ok(level)) = parts.next().map(str::parse::<i64>) else { return false };
    if parts.next() != Some("links") {
        return false;
    }
    if node.ends_with("/links") {
        return true; // without records, or compared elsewhere
    }
    let delta = parts.next().and_then(|delta| delta.parse::<i64>().ok()).unwrap_or(0);
    delta != 0 && (level == 0 || level + delta == 0)
}

/// Returns the paths of all nodes.
fn list_nodes(store: &Path) -> anyhow::Result<BTreeSet<String>> {
    let (mut nodes, mut open) = (BTreeSet::new(), vec![store.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.ends_with("zarr.json") {
                nodes.insert(folder.strip_prefix(store)?.to_string_lossy().into_owned());
            }
        }
    }
    Ok(nodes)
}

/// Returns the document of a node, without empty members.
fn read_document(store: &Path, node: &str) -> anyhow::Result<Value> {
    let mut value = corpus::read_json(&store.join(node).join("zarr.json"))?;
    let object = value.as_object_mut().context("a document that is no object")?;
    object.retain(|_, value| *value != Value::Array(Vec::new()));
    if node.is_empty() {
        // The name is that of the folder, so it differs.
        object
            .get_mut("attributes")
            .and_then(|all| all.get_mut("ome"))
            .map(|ome| ome["name"].take());
    }
    Ok(value)
}

/// Returns the decoded contents of an array, by key.
async fn read_payloads(
    store: &Store,
    node: &str,
    doc: &ArrayDoc,
) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let (number, path) = node.split_once('/').context("an array above the levels")?;
    let level = store.level(number.parse()?).await?;
    if doc.nonempty_chunks.is_some() {
        let cells = level.required_cells(path).await?;
        let keys: Vec<_> = cells.presence().await?.iter().collect();
        let payloads = cells.read_many(&keys, Caching::Once).await;
        let pair = |(key, payload): (_, Result<Option<_>, _>)| {
            let payload: bytes::Bytes = Option::context(payload?, "a cell that is listed")?;
            Ok((ToString::to_string(key), payload.to_vec()))
        };
        return keys.iter().zip(payloads).map(pair).collect();
    }
    if path.ends_with("manifests") || path == "groups" {
        let rows = level.rows(path).await?.context("no rows")?;
        let all = rows.range(0..rows.count().await?).await?;
        return Ok(all
            .iter()
            .enumerate()
            .map(|(at, row)| (at.to_string(), row.to_vec()))
            .collect());
    }
    let dense = level.dense(path).await?.context("no array")?;
    Ok(vec![("values".to_owned(), dense.read_all().await?.to_vec())])
}
