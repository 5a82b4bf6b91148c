//! Checks that the documents of a store match the objects next to them. Every store is checked
//! right before it is published.
//!
//! ```text
//! each document              is of a node that was written or taken over by this build
//! each level of the root     has a document
//! arrays_present             names what is there
//! nonempty_chunks            lists cells of which each has its object
//! ```
//!
//! In a local directory this costs one look at each folder and at each listed object; in an object
//! store, one request per document and one listing per array. No cell is read.
//!
//! Not here: the content of cells (`zvf-validate`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use futures_util::stream::{self, StreamExt as _};

use zvf_error::{Error, Locate as _, Result, quote};
use zvf_format::Class;
use zvf_format::key::{ChunkKey, ChunkPath};
use zvf_metadata::{ArrayDoc, ChunkKeyEncoding, LayoutFamily, LevelDoc, Node, Root};
use zvf_publish::found;

use super::local::walk_nodes;
use super::upload::Uploads;
use crate::docs::DOCUMENT;
use crate::docs::document;
use crate::error::WithOp as _;
use crate::key::Key;
use crate::layout::chunk_grid;

/// Checks the consistency of the store in the folder `store` with the root document `root`.
/// `is_known` is true for nodes that have a document, and `stays` for arrays whose cells are
/// elsewhere.
pub(super) fn check_store(
    store: &Path,
    root: &[u8],
    is_known: &dyn Fn(&Key) -> bool,
    stays: &dyn Fn(&Key) -> bool,
) -> Result<()> {
    let Some(levels) = levels_of(root)? else { return Ok(()) };
    let is_there = |level: &Key| store.join(level.as_str()).join(DOCUMENT).is_file();
    if let Some(level) = levels.iter().find(|level| !is_there(level)) {
        return Err(missing_level_error(level));
    }
    walk_nodes(store, &mut |node, folder| {
        let text = found(fs::read(folder.join(DOCUMENT))).with_op("read").at_key(node)?;
        let Some(text) = text.filter(|_| !node.is_root()) else { return Ok(true) };
        if !is_known(node) {
            return Err(refuse(node, "nodes", "those of this build", "another one"));
        }
        match Node::parse(&text) {
            Ok(Node::Array(doc)) => {
                if !stays(node) {
                    check_array(folder, node, &doc)?;
                }
                Ok(false)
            }
            _ => {
                check_level(node, &text, |array| store.join(array.as_str()).is_dir())?;
                Ok(true)
            }
        }
    })
}

/// Checks the consistency of the uploaded store with the root document `root`. Each of `nodes` has
/// a document, except groups of old versions.
pub(super) async fn check_uploads(
    uploads: &Uploads,
    root: &[u8],
    nodes: &BTreeSet<Key>,
) -> Result<()> {
    let Some(levels) = levels_of(root)? else { return Ok(()) };
    let levels = BTreeSet::from_iter(levels);
    let below: Vec<Key> = nodes.union(&levels).filter(|key| !key.is_root()).cloned().collect();
    let documents = below.into_iter().map(|key| async move {
        let found = uploads.read(&document(&key)?).await?;
        Ok::<_, Error>((key, found))
    });
    let mut documents = stream::iter(documents).buffered(DOCUMENT_BATCH);
    while let Some(found) = documents.next().await {
        let (key, found) = found?;
        let Some(text) = found else {
            if levels.contains(&key) {
                return Err(missing_level_error(&key));
            }
            continue;
        };
        match Node::parse(&text) {
            Ok(Node::Array(doc)) => check_uploaded_array(uploads, &key, &doc).await?,
            _ => check_level(&key, &text, |array| {
                nodes.iter().any(|node| node == array || super::names::is_below(node, array))
            })?,
        }
    }
    Ok(())
}

async fn check_uploaded_array(uploads: &Uploads, key: &Key, doc: &ArrayDoc) -> Result<()> {
    let mut objects = BTreeMap::new();
    for (index, chunk) in listed_objects(key, doc)? {
        let names: Vec<String> = index.iter().map(u64::to_string).collect();
        objects.insert(key.join(&format!("c/{}", names.join("/")))?, chunk);
    }
    let lost = uploads.find_missing(key, objects.keys().cloned().collect()).await?;
    lost.first()
        .and_then(|object| objects.get(object))
        .map_or(Ok(()), |chunk| refuse_chunk(key, chunk))
}

/// Returns the levels of a root; `None` if nothing is checked, because it is of a single array or of
/// a store of another kind.
fn levels_of(root: &[u8]) -> Result<Option<Vec<Key>>> {
    let Ok(root) = Root::parse(root) else { return Ok(None) };
    let Ok(LayoutFamily::C) = root.zarr_vectors.zv_version.require_family() else {
        return Ok(None);
    };
    let levels = root.multiscales.iter().flat_map(|scale| &scale.datasets);
    levels.map(|dataset| Key::parse(&dataset.path)).collect::<Result<_>>().map(Some)
}

/// Checks that everything that a level declares exists.
fn check_level(key: &Key, text: &[u8], exists: impl Fn(&Key) -> bool) -> Result<()> {
    let Ok(level) = LevelDoc::parse(text) else { return Ok(()) }; // a group of another sort
    for name in &level.arrays_present {
        if !exists(&key.join(name)?) {
            return Err(refuse(key, "arrays_present", "what is there", name));
        }
    }
    Ok(())
}

/// Checks that the object of each listed chunk exists.
fn check_array(array_path: &Path, key: &Key, doc: &ArrayDoc) -> Result<()> {
    for (object, chunk) in listed_objects(key, doc)? {
        let names = object.iter().map(u64::to_string);
        let path = names.fold(array_path.join("c"), |path, name| path.join(name));
        if fs::metadata(&path).is_err() {
            return refuse_chunk(key, &chunk);
        }
    }
    Ok(())
}

fn refuse_chunk(key: &Key, chunk: &str) -> Result<()> {
    Err(refuse(key, "nonempty_chunks", "chunks that are stored", chunk))
}

fn missing_level_error(level: &Key) -> Error {
    refuse(level, "levels of the root", "a document for each", "none")
}

/// Returns the objects that contain the listed chunks of an array, by index, each with its first
/// chunk. Empty if nothing is listed.
fn listed_objects(key: &Key, doc: &ArrayDoc) -> Result<BTreeMap<Vec<u64>, String>> {
    let mut objects = BTreeMap::new();
    let (Some(listed), ChunkKeyEncoding::Default) = (&doc.nonempty_chunks, doc.chunk_key_encoding)
    else {
        return Ok(objects);
    };
    let grid = chunk_grid(key, doc)?;
    for text in listed.iter() {
        let chunk = text.parse::<ChunkKey>().at_key(key)?;
        let place = ChunkPath::from_key(&chunk, grid.origin()).at_key(key)?;
        let cells = place.index().iter().zip(&doc.chunk_shape);
        // An array of cells has chunks of one cell, or of all cells of a shard.
        let object = cells.map(|(at, cells)| at / (*cells).max(1)).collect();
        objects.entry(object).or_insert_with(|| text.to_owned());
    }
    Ok(objects)
}

fn refuse(key: &Key, what: &'static str, rule: &'static str, found: &str) -> Error {
    Error::new(Class::CountMismatch, what, rule, quote(found)).at_key(key)
}

/// Number of documents requested at once.
const DOCUMENT_BATCH: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// A way to damage a valid store.
    type Damage = fn(&Path);

    #[test]
    fn contradictions_between_documents_are_refused() {
        #[rustfmt::skip]
        let table: [(&str, Damage, &str); 5] = [
            ("sound", |_| (), ""),
            ("a level without vertices", |store| fs::remove_dir_all(store.join("0/vertices")).unwrap(),
                "CountMismatch in 0, arrays_present: expected what is there, found \"vertices\""),
            ("cells are gone", |store| fs::remove_dir_all(store.join("0/vertices/c")).unwrap(),
                "CountMismatch in 0/vertices, nonempty_chunks: expected chunks that are stored, found"),
            ("a level without a document", |store| fs::remove_file(store.join("0/zarr.json")).unwrap(),
                "CountMismatch in 0, levels of the root: expected a document for each, found \"none\""),
            ("an array of an older store", |store| {
                fs::create_dir_all(store.join("0/vertex_attributes/old")).unwrap();
                fs::copy(store.join("0/vertices/zarr.json"), store.join("0/vertex_attributes/old/zarr.json")).unwrap();
            }, "CountMismatch in 0/vertex_attributes/old, nodes: expected those of this build, found \"another one\""),
        ];
        for (what, damage, message) in table {
            let unpacked = archives::Unpacked::new("pc3_basic");
            damage(unpacked.path());
            let root = fs::read(unpacked.path().join(DOCUMENT)).unwrap();
            let is_known = |key: &Key| !key.as_str().ends_with("/old");
            match check_store(unpacked.path(), &root, &is_known, &|_| false) {
                Ok(()) => assert_eq!(message, "", "{what}"),
                Err(error) => {
                    assert!(
                        !message.is_empty() && error.to_string().starts_with(message),
                        "{what}: {error}"
                    );
                }
            }
        }
    }
}
