//! The documents of a kind at a level, as an edit leaves them: groups that are needed, columns of fragments, the level.
//!
//! Not here: documents of arrays, which change with their chunks.

use serde_json::json;

use crate::arrays::{doc_bytes, doc_key, plain_group, read_doc};
use crate::changes::Changes;
use crate::error::Result;
use crate::geometry::Geometry;

impl Geometry {
    /// Adds the group of this name, where it is not there.
    pub(crate) fn ensure_group(&self, name: &str, out: &mut Changes) -> Result<()> {
        let path = format!("{}/{name}", self.path);
        if read_doc(&self.snap, &path)?.is_none() {
            out.insert(doc_key(&path), Some(doc_bytes(&plain_group())?));
        }
        Ok(())
    }

    /// The document of the level: counts and claims.
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
            for (name, there) in [
                ("object_index", has_objects),
                (
                    "vertex_attributes",
                    has_columns && list.iter().any(|name| name == "vertex_attributes"),
                ),
            ] {
                if there && !list.iter().any(|known| known == name) {
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
