//! Comparison of two stores node by node: documents as JSON, arrays by their contents.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;
use zvf_metadata::{ArrayDoc, Node};
use zvf_store::Store;

use super::Case;
use crate::contents::{self, Payloads};
use crate::corpus;
use crate::report::Report;

/// Compares the levels of both sides.
pub(super) async fn compare_levels(report: &mut Report, case: &Case) -> anyhow::Result<()> {
    let theirs = corpus::open(&case.reference_store()).await?;
    let ours = corpus::open(&case.our_store()).await?;
    let (expected, found) = (list_nodes(&case.reference_store()), list_nodes(&case.our_store()));
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
        let expected =
            read_document(&case.reference_store(), node).with_context(|| node.clone())?;
        let what = format!("{node} document");
        if let Some(found) = report.ok_or_report(&what, read_document(&case.our_store(), node)) {
            report.compare(&what, &expected, found);
        }
        if let Ok(Node::Array(doc)) = Node::parse(expected.to_string().as_bytes()) {
            compare_array(report, [&theirs, &ours], node, &doc).await?;
        }
    }
    Ok(())
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

/// Compares the contents of an array of both stores.
pub(crate) async fn compare_array(
    report: &mut Report,
    [theirs, ours]: [&Store; 2],
    node: &str,
    doc: &ArrayDoc,
) -> anyhow::Result<()> {
    let expected = read_payloads(theirs, node, doc).await?;
    if let Some(found) = report.ok_or_report(node, read_payloads(ours, node, doc).await) {
        report.compare_payloads(node, &expected, &found);
    }
    Ok(())
}

/// Returns the paths of all nodes.
pub(crate) fn list_nodes(store: &Path) -> BTreeSet<String> {
    let files = archives::tree(store).into_keys();
    let folders = files.filter_map(|path| Some(path.strip_suffix("zarr.json")?.to_owned()));
    folders.map(|folder| folder.trim_end_matches('/').to_owned()).collect()
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
async fn read_payloads(store: &Store, node: &str, doc: &ArrayDoc) -> anyhow::Result<Payloads> {
    let (number, path) = node.split_once('/').context("an array above the levels")?;
    let level = store.level(number.parse()?).await?;
    if doc.nonempty_chunks.is_some() {
        return contents::read_cells(&level, path).await;
    }
    if path.ends_with("manifests") || path == "groups" {
        return contents::read_rows(&level, path).await;
    }
    let dense = level.dense(path).await?.context("no array")?;
    Ok(vec![("values".to_owned(), dense.read_all().await?.to_vec())])
}
