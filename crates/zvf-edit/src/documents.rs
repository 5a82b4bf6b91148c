//! Documents of nodes. They are kept as JSON, so that unknown fields are preserved.
//!
//! Not here: when they change, which is written with the arrays and groups.

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::grid::{Bins, ChunkShape};

use crate::changes::Changes;
use crate::error::{At, OrFail, Result, fail};
use crate::snapshot::Snapshot;

/// Reads the document of a node. Returns `None` when there is no such node.
pub(crate) fn read_doc(snap: &Snapshot, path: &str) -> Result<Option<Json>> {
    let key = doc_key(path);
    let Some(text) = snap.get(&key)? else { return Ok(None) };
    parse_doc(&text).map(Some).at(&key)
}

/// Parses a document whose members can be replaced: each that has members of its own is an object, or absent.
pub(crate) fn parse_doc(text: &[u8]) -> Result<Json> {
    let doc: Json = serde_json::from_slice(text)?;
    for place in OBJECTS {
        // Said by its type: a damaged member may be as long as the document.
        let found = match doc.pointer(place) {
            None | Some(Json::Null | Json::Object(_)) => continue,
            Some(Json::Array(_)) => "a list",
            Some(Json::String(_)) => "a text",
            Some(Json::Number(_)) => "a number",
            Some(Json::Bool(_)) => "true or false",
        };
        let text = format!("{place:?}: expected an object, found {found}; run \"zvf validate\"");
        return fail(Class::Encoding, text);
    }
    Ok(doc)
}

impl Changes {
    /// Sets the document of a node.
    pub(crate) fn put_doc(&mut self, path: &str, doc: &Json) -> Result<()> {
        self.insert(doc_key(path), Some(doc_bytes(doc)?));
        Ok(())
    }

    /// Adds the document of a group without attributes, if it does not exist.
    pub(crate) fn ensure_group(&mut self, snap: &Snapshot, path: &str) -> Result<()> {
        let group = json!({ "attributes": {}, "zarr_format": 3, "node_type": "group" });
        match read_doc(snap, path)? {
            Some(_) => Ok(()),
            None => self.put_doc(path, &group),
        }
    }
}

pub(crate) fn doc_key(path: &str) -> String {
    if path.is_empty() { "zarr.json".to_owned() } else { format!("{path}/zarr.json") }
}

/// Serializes a document.
pub(crate) fn doc_bytes(doc: &Json) -> Result<Bytes> {
    Ok(serde_json::to_vec(doc)?.into())
}

/// Pointers to the members of documents that edits replace members of.
const OBJECTS: [&str; 7] = [
    "",
    "/attributes",
    "/attributes/zarr_vectors",
    "/attributes/zarr_vectors_level",
    "/attributes/zvf",
    "/chunk_grid",
    "/chunk_grid/configuration",
];

/// Reads the chunk and bin shapes of level 0 from the level or the root.
pub(crate) fn read_grid(level: &Json, zv: &Json) -> Result<(ChunkShape, Bins)> {
    let shape = match read_sizes(level, "chunk_shape")? {
        Some(sizes) => ChunkShape::new(&sizes)?,
        None => root_chunk_shape(zv)?,
    };
    let bins = match read_sizes(zv, "base_bin_shape")? {
        Some(bin) => Bins::new(&shape, &bin)?,
        None => Bins::from_chunk_shape(&shape),
    };
    Ok((shape, bins))
}

/// Reads the chunk shape that the root states.
pub(crate) fn root_chunk_shape(zv: &Json) -> Result<ChunkShape> {
    let sizes =
        read_sizes(zv, "chunk_shape")?.or_fail(Class::Encoding, || missing_sizes("chunk_shape"))?;
    Ok(ChunkShape::new(&sizes)?)
}

/// Reads one size for each axis. Returns `None` where they are not stated.
pub(crate) fn read_sizes(block: &Json, name: &str) -> Result<Option<Vec<f64>>> {
    let value = &block[name];
    if value.is_null() {
        return Ok(None);
    }
    let floats =
        value.as_array().and_then(|list| list.iter().map(Json::as_f64).collect::<Option<_>>());
    floats.map(Some).or_fail(Class::Encoding, || missing_sizes(name))
}

fn missing_sizes(name: &str) -> String {
    format!("zarr.json: zarr_vectors.{name} is missing or no list of numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_whose_members_cannot_be_replaced_is_refused() {
        for sound in
            ["{}", r#"{"attributes": null}"#, r#"{"attributes": {"zvf": {"stale": true}}}"#]
        {
            parse_doc(sound.as_bytes()).unwrap();
        }
        for (text, place) in [
            ("[]", "\"\""),
            (r#"{"attributes": 1}"#, "\"/attributes\""),
            (r#"{"attributes": {"zvf": "x"}}"#, "\"/attributes/zvf\""),
            (r#"{"chunk_grid": {"configuration": []}}"#, "\"/chunk_grid/configuration\""),
        ] {
            let error = parse_doc(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(place) && error.contains("expected an object"), "{error}");
        }
    }
}
