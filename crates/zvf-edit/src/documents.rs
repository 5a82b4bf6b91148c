//! Writes the documents of a kind at a level: missing groups, columns of fragments, the level.
//!
//! Not here: documents of arrays, which are written with their chunks.

use serde_json::json;

use crate::arrays::{doc_bytes, doc_key, plain_group, read_doc};
use crate::changes::Changes;
use crate::error::Result;
use crate::geometry::Geometry;

impl Geometry {
    /// Adds the document of the group `name` if it does not exist.
    pub(crate) fn ensure_group(&self, name: &str, out: &mut Changes) -> Result<()> {
        let path = format!("{}/{name}", self.path);
        if read_doc(&self.snap, &path)?.is_none() {
            out.insert(doc_key(&path), Some(doc_bytes(&plain_group())?));
        }
        Ok(())
    }

    /// Writes the columns of fragments and the document of the level: counts and claims.
    pub(crate) fn write_level(&mut self, out: &mut Changes) -> Result<()> {
        for column in &mut self.fragment_columns {
            column.array.flush(&self.snap, out)?;
        }
        if !self.fragment_columns.is_empty() {
            self.ensure_group("fragment_attributes", out)?;
        }
        let (has_columns, has_objects) = (
            !self.columns.is_empty(),
            self.objects.as_ref().is_some_and(|objects| !objects.list.is_empty()),
        );
        if let Some(list) =
            self.doc["attributes"]["zarr_vectors_level"]["arrays_present"].as_array_mut()
        {
            for (name, is_present) in [
                ("object_index", has_objects),
                (
                    "vertex_attributes",
                    has_columns && list.iter().any(|name| name == "vertex_attributes"),
                ),
            ] {
                if is_present && !list.iter().any(|listed| listed == name) {
                    list.push(json!(name));
                }
            }
        }
        if read_doc(&self.snap, &self.path)?.as_ref() != Some(&self.doc) {
            out.insert(doc_key(&self.path), Some(doc_bytes(&self.doc)?));
        }
        Ok(())
    }
}
