//! Writes the documents of a kind at a level: missing groups, columns of fragments, the level.
//!
//! Not here: documents of arrays, which are written with their chunks.

use serde_json::json;

use crate::arrays::read_doc;
use crate::changes::Changes;
use crate::error::Result;
use crate::geometry::Geometry;

impl Geometry {
    /// Adds the document of the group `name` if it does not exist.
    pub(crate) fn ensure_group(&self, name: &str, out: &mut Changes) -> Result<()> {
        out.ensure_group(&self.snap, &format!("{}/{name}", self.path))
    }

    /// Writes the document of the level: counts and claims.
    pub(crate) fn write_level(&mut self, out: &mut Changes) -> Result<()> {
        if !self.fragment_columns.is_empty() {
            self.ensure_group("fragment_attributes", out)?;
        }
        let has_objects = self.objects.as_ref().is_some_and(|objects| !objects.list.is_empty());
        let present = &mut self.doc["attributes"]["zarr_vectors_level"]["arrays_present"];
        if let Some(list) = present.as_array_mut()
            && has_objects
            && !list.iter().any(|listed| listed == "object_index")
        {
            list.push(json!("object_index"));
        }
        if read_doc(&self.snap, &self.path)?.as_ref() != Some(&self.doc) {
            out.put_doc(&self.path, &self.doc)?;
        }
        Ok(())
    }
}
