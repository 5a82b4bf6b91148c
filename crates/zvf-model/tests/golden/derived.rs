//! Stores of rare features, derived from archived stores. The tests of `zvf-validate` include this file.

use std::collections::BTreeMap;

use archives::{Files, edit_document, put_array};
use serde_json::{Value, json};
use zvf_format::link::FlatLinks;
use zvf_format::manifest::{BlockFragments, Manifest};
use zvf_store::{OpenOptions, Store};

/// Changes the attributes of a document.
pub(crate) fn edit(files: &mut Files, path: &str, change: impl FnOnce(&mut Value)) {
    edit_document(files, path, |doc| change(&mut doc["attributes"]));
}

/// Adds a token to the capabilities of the format that the root names.
pub(crate) fn announce(files: &mut Files, token: &str) {
    edit(files, "zarr.json", |all| {
        let tokens = &mut all["zarr_vectors"]["format_capabilities"];
        tokens.as_array_mut().unwrap().push(token.into());
    });
}

pub(crate) fn remove(files: &mut Files, folder: &str) {
    files.retain(|(path, _)| !path.starts_with(&format!("{folder}/")));
}

pub(crate) fn int64(numbers: impl IntoIterator<Item = i64>) -> Vec<u8> {
    numbers.into_iter().flat_map(i64::to_le_bytes).collect()
}

/// Returns `pc3_objects` with a dense index: spans from the last object to the first, and before each an unused reference.
pub(crate) async fn dense() -> Files {
    let mut files = archives::files("pc3_objects");
    let memory = archives::in_memory(&files).await;
    let store = Store::from_object_store(memory, &"".into(), OpenOptions::default()).await.unwrap();
    let rows = store.level(0).await.unwrap().rows("object_index").await.unwrap().unwrap();
    let blobs = rows.range(0..rows.count().await.unwrap()).await.unwrap();
    let (mut spans, mut blocks) = (Vec::new(), Vec::new());
    for blob in blobs.iter().rev() {
        blocks.extend([0, 0, 0, 999]);
        let start = i64::try_from(blocks.len() / 4).unwrap();
        for block in Manifest::parse(blob, 3).unwrap().blocks() {
            let fragments: Vec<u64> = match &block.fragments {
                BlockFragments::Single(fragment) => vec![*fragment],
                fragments => fragments.into_iter().collect(),
            };
            for fragment in fragments {
                blocks.extend(block.chunk.iter().map(|c| c.get()));
                blocks.push(i64::try_from(fragment).unwrap());
            }
        }
        spans.push([start, i64::try_from(blocks.len() / 4).unwrap() - start]);
    }
    spans.reverse();
    remove(&mut files, "0/object_index/manifests");
    let (n, m) = (spans.len(), blocks.len() / 4);
    put_array(&mut files, "0/object_index/manifest_spans", "int64", &[n, 2], int64(spans.concat()));
    put_array(&mut files, "0/object_index/manifest_blocks", "int64", &[m, 4], int64(blocks));
    edit(&mut files, "0/object_index/zarr.json", |all| all["layout"] = json!("dense_manifests_v1"));
    announce(&mut files, "dense_manifests");
    files
}

/// Returns `v070_gr3` with its links across chunks stored by the chunks that they touch: slots,
/// then rows.
pub(crate) fn partitioned() -> Files {
    let mut files = archives::files("v070_gr3");
    let family = "0/cross_chunk_links/0";
    let path = format!("{family}/data/c/0");
    let data = files.iter().find(|(name, _)| *name == path).unwrap().1.clone();
    let mut links_by_chunks: BTreeMap<Vec<Vec<i64>>, Vec<u8>> = BTreeMap::new();
    for record in FlatLinks::parse(&data, 2, 3).unwrap().records() {
        let ends: Vec<_> = record.endpoints().collect();
        let mut chunks: Vec<Vec<i64>> =
            ends.iter().map(|(chunk, _)| chunk.components().to_vec()).collect();
        chunks.sort();
        chunks.dedup();
        let slot = |chunk: &[i64]| chunks.iter().position(|candidate| candidate == chunk).unwrap();
        let mut bytes: Vec<u8> =
            ends.iter().map(|(chunk, _)| u8::try_from(slot(chunk.components())).unwrap()).collect();
        bytes.extend(int64(ends.iter().map(|(_, row)| i64::try_from(*row).unwrap())));
        links_by_chunks.entry(chunks.clone()).or_default().extend(bytes);
    }
    remove(&mut files, &format!("{family}/data"));
    for (chunks, bytes) in links_by_chunks {
        let name = |chunk: &Vec<i64>| {
            let parts: Vec<String> = chunk.iter().map(ToString::to_string).collect();
            parts.join(".")
        };
        let names: Vec<String> = chunks.iter().map(name).collect();
        let path = format!("{family}/{}/data", names.join("/"));
        put_array(&mut files, &path, "uint8", &[bytes.len()], bytes);
    }
    edit(&mut files, &format!("{family}/zarr.json"), |all| all["layout"] = json!("partitioned_v1"));
    announce(&mut files, "partitioned_cross_chunk_links");
    files
}
