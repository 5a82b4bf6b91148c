//! All arrays of a store, with their chunks and bytes.
//!
//! This takes a single listing. The small arrays that versions before 0.9 keep per chunk are shown
//! as one. Without a listing, the arrays in documents are shown, with their recorded chunks; their
//! bytes are unknown.

use async_recursion::async_recursion as boxed;
use std::collections::{BTreeMap, HashSet};

use futures_util::stream::{self, StreamExt as _};
use serde::Serialize;
use zvf_format::Class;
use zvf_format::key::ChunkKey;
use zvf_format::num::to_u64;
use zvf_metadata::{ArrayDoc, LayoutFamily, Node};
use zvf_store::Store;

use super::levels::is_of_backend;
use super::{StoredTotals, codec_words, shard_shape, type_word};
use crate::Error;

/// The arrays of a store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// use zvf_jobs::inspect::Arrays;
///
/// let store = zvf_store::Store::open(path, zvf_store::OpenOptions::default()).await?;
/// let arrays = Arrays::list(&store).await?;
/// assert_eq!(arrays.arrays[0].path, "0/vertex_fragments");
/// assert_eq!(arrays.arrays[0].chunks, Some(3));
/// assert!(arrays.complete);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Arrays {
    /// By path.
    pub arrays: Vec<ArrayEntry>,
    /// Whether the list is complete.
    pub complete: bool,
}

/// One array, or one family of small arrays.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ArrayEntry {
    /// Its path below the root of the store.
    pub path: String,
    /// Items along each axis; `None` for a family of small arrays.
    pub shape: Option<Vec<u64>>,
    /// The type of an item.
    pub data_type: String,
    /// Its codecs.
    pub codecs: Vec<String>,
    /// Chunks per shard on each axis, if it is sharded.
    pub shard_shape: Option<Vec<u64>>,
    /// Number of stored or recorded chunks, if known. A shard without a record counts as one.
    pub chunks: Option<u64>,
    /// Stored objects and bytes, if they were listed.
    pub stored: Option<StoredTotals>,
}

impl Arrays {
    /// Lists `store`.
    ///
    /// # Errors
    ///
    /// When the backend fails, or a document cannot be read.
    #[boxed]
    pub async fn list(store: &Store) -> Result<Self, Error> {
        match store.nodes().objects("").await {
            Ok(objects) => {
                let objects = objects.iter().map(|(key, size)| (key.as_str(), *size));
                list_by_objects(store, objects).await
            }
            Err(error) if error.class() == Class::Unsupported => list_by_documents(store).await,
            Err(error) => Err(error),
        }
    }
}

/// The counts of one array, from the listing.
#[derive(Default)]
struct ArrayStats {
    chunks: u64,
    stored: StoredTotals,
    /// The node whose document is read: the array, or the first of its family.
    node: Option<String>,
    small: bool,
}

async fn list_by_objects(
    store: &Store,
    objects: impl Iterator<Item = (&str, u64)> + Clone,
) -> Result<Arrays, Error> {
    let small = store.family() != LayoutFamily::C;
    let documented = objects.clone().filter_map(|(key, _)| key.strip_suffix("/zarr.json"));
    let nodes: HashSet<&str> = documented.collect();
    let mut found: BTreeMap<String, ArrayStats> = BTreeMap::new();
    for (key, bytes) in objects {
        let Some((path, rest)) = array_of(key, small, &nodes) else { continue };
        let entry = found.entry(path.to_owned()).or_default();
        entry.stored.add(bytes)?;
        let is_document = rest.ends_with("zarr.json");
        // The document of a chunk has more information than that of the group around it.
        if is_document && (entry.node.is_none() || (rest != "zarr.json" && !entry.small)) {
            entry.small = rest != "zarr.json";
            entry.node = key.strip_suffix("/zarr.json").map(str::to_owned);
        }
        if !is_document {
            entry.chunks += 1;
        }
    }
    let entries = stream::iter(found.into_iter().map(|(path, found)| entry(store, path, found)));
    let entries: Vec<_> = entries.buffered(DOCUMENT_BATCH).collect().await;
    let arrays: Result<Vec<Option<ArrayEntry>>, Error> = entries.into_iter().collect();
    Ok(Arrays { arrays: arrays?.into_iter().flatten().collect(), complete: true })
}

/// Returns the node that an object belongs to, and the rest of its key. Chunks of an array are
/// always below its document, whatever their names.
fn array_of<'a>(key: &'a str, small: bool, nodes: &HashSet<&str>) -> Option<(&'a str, &'a str)> {
    if small && let Some(split) = family_of(key) {
        return Some(split);
    }
    if let Some(node) = key.strip_suffix("/zarr.json") {
        return Some((node, "zarr.json"));
    }
    let mut splits = key.rmatch_indices('/').map(|(at, _)| key.split_at(at));
    let (node, rest) = splits.find(|(node, _)| nodes.contains(node))?;
    Some((node, rest.strip_prefix('/')?))
}

/// Returns the family of small arrays that an object belongs to: `0/vertices`, `0/links/+1`.
fn family_of(key: &str) -> Option<(&str, &str)> {
    let family = key.split('/').nth(1)?;
    let (_, names) = FAMILIES.into_iter().find(|(name, _)| *name == family)?;
    let (end, _) = key.match_indices('/').nth(names + 1)?;
    let (path, rest) = (&key[..end], &key[end + 1..]);
    let cell = rest.split('/').next()?;
    let is_cell = cell.parse::<ChunkKey>().is_ok() || cell.starts_with("__shard") || is_tuple(cell);
    is_cell.then_some((path, rest))
}

/// Returns whether a name is a list of integers, longer than any chunk key.
fn is_tuple(name: &str) -> bool {
    name.split('.').count() > 1 && name.split('.').all(|part| part.parse::<i64>().is_ok())
}

async fn entry(
    store: &Store,
    path: String,
    stats: ArrayStats,
) -> Result<Option<ArrayEntry>, Error> {
    let Some(node) = &stats.node else { return Ok(None) };
    let node = store.nodes().node(node).await?;
    let Some(Node::Array(doc)) = node.as_deref() else { return Ok(None) };
    let stored = Some(stats.stored);
    let described = ArrayEntry { stored, ..describe_array(path, doc) };
    Ok(Some(if stats.small {
        ArrayEntry { shape: None, chunks: Some(stats.chunks), ..described }
    } else {
        ArrayEntry { chunks: described.chunks.or(Some(stats.chunks)), ..described }
    }))
}

fn describe_array(path: String, doc: &ArrayDoc) -> ArrayEntry {
    ArrayEntry {
        path,
        shape: Some(doc.shape.clone()),
        data_type: type_word(&doc.data_type),
        codecs: codec_words(doc),
        shard_shape: shard_shape(doc),
        chunks: doc.nonempty_chunks.as_ref().map(|keys| to_u64(keys.len())),
        stored: None,
    }
}

/// Lists the arrays in documents.
async fn list_by_documents(store: &Store) -> Result<Arrays, Error> {
    let mut arrays = Vec::new();
    for number in store.level_numbers() {
        let level = match store.level(number).await {
            Ok(level) => level,
            Err(error) if is_of_backend(error.class()) => return Err(error),
            Err(_damaged) => continue, // the list says that it is not complete
        };
        let mut paths: Vec<String> = ALONE.iter().map(|name| (*name).to_owned()).collect();
        for group in
            ["vertex_attributes", "fragment_attributes", "object_attributes", "link_attributes"]
        {
            let names = level.children(group).await?.names;
            paths.extend(names.into_iter().map(|name| format!("{group}/{name}")));
        }
        paths.sort_unstable();
        for path in paths {
            let path = format!("{number}/{path}");
            if let Some(Node::Array(doc)) = store.nodes().node(&path).await?.as_deref() {
                arrays.push(describe_array(path, doc));
            }
        }
    }
    Ok(Arrays { arrays, complete: false })
}

/// Number of documents that are requested at once.
const DOCUMENT_BATCH: usize = 32;

/// Families of small arrays, with the number of names between them and a cell.
const FAMILIES: [(&str, usize); 8] = [
    ("vertices", 0),
    ("vertex_fragments", 0),
    ("link_fragments", 0),
    ("vertex_attributes", 1),
    ("fragment_attributes", 1),
    ("links", 1),
    ("cross_chunk_links", 1),
    ("link_attributes", 2),
];

/// Arrays directly below a level, besides attributes and links.
const ALONE: [&str; 6] = [
    "vertices",
    "vertex_fragments",
    "link_fragments/0",
    "groups",
    "object_index/manifests",
    "object_index/object_ids",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_find_their_array() {
        let nodes = [
            "0",
            "0/vertices",
            "0/dots",
            "0/v2",
            "parametric/scalar",
            "0/groups/data",
            "0/cross_chunk_links/0/data",
        ];
        let nodes = HashSet::from(nodes);
        for (key, small, expected) in [
            ("zarr.json", false, None),
            ("0/zarr.json", false, Some(("0", "zarr.json"))),
            ("0/vertices/zarr.json", false, Some(("0/vertices", "zarr.json"))),
            ("0/vertices/c/1/2/3", false, Some(("0/vertices", "c/1/2/3"))),
            ("parametric/scalar/c", false, Some(("parametric/scalar", "c"))),
            ("0/dots/c.1.2.3", false, Some(("0/dots", "c.1.2.3"))),
            ("0/v2/1.2.3", false, Some(("0/v2", "1.2.3"))),
            ("0/v2/1/2/3", false, Some(("0/v2", "1/2/3"))),
            ("notes/readme.txt", false, None),
            ("0/vertices/1.-2.3/c/0", true, Some(("0/vertices", "1.-2.3/c/0"))),
            ("0/vertices/zarr.json", true, Some(("0/vertices", "zarr.json"))),
            ("0/vertices/__shard_0/c/0", true, Some(("0/vertices", "__shard_0/c/0"))),
            ("0/links/+1/0.0.1/zarr.json", true, Some(("0/links/+1", "0.0.1/zarr.json"))),
            ("0/groups/data/c/0", true, Some(("0/groups/data", "c/0"))),
            ("0/cross_chunk_links/0/data/c/0", true, Some(("0/cross_chunk_links/0/data", "c/0"))),
        ] {
            assert_eq!(array_of(key, small, &nodes), expected, "{key}");
        }
    }
}
