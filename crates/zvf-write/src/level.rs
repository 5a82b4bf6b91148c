//! Metadata of a level and its root: bounds, kind, convention of links, and the document of the
//! level.

use serde_json::Value as Json;
use zvf_error::{Error, Result};
use zvf_metadata::{LevelDoc, LinksConvention};
use zvf_model::{Extent, Kind};
use zvf_store::Build;

use crate::Outside;
use crate::geometry_path::GeometryPath;
use crate::level_columns::Columns;
use crate::schema::Schema;

/// Returns the bounds of the store, given the corners of the bounding box of its vertices.
pub(crate) fn bounds(
    schema: &Schema,
    outside: Outside,
    found: Option<[Vec<f64>; 2]>,
) -> [Vec<f64>; 2] {
    match (&schema.bounds, found) {
        (None, Some(found)) => found,
        (None, None) => {
            let high = schema.bins.chunk_shape().sizes().to_vec();
            [vec![0.0; high.len()], high]
        }
        (Some(declared), found) => {
            let corners = [declared.low().to_vec(), declared.high().to_vec()];
            match found.filter(|_| outside == Outside::Expand) {
                Some(found) => Extent::union(corners, found),
                None => corners,
            }
        }
    }
}

/// The data for the document of a level.
pub(crate) struct LevelDescription<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) columns: &'a Columns,
    pub(crate) vertices: u64,
    pub(crate) indexed: bool,
    pub(crate) owners: bool,
    pub(crate) links: bool,
    pub(crate) grouped: bool,
    pub(crate) explicit: bool,
}

impl LevelDescription<'_> {
    /// Writes the document at `geometry`; `edit_level` may change it.
    pub(crate) async fn write(
        &self,
        build: &Build,
        geometry: GeometryPath,
        edit_level: impl FnOnce(&mut LevelDoc),
    ) -> Result<()> {
        let mut level = LevelDoc { level: geometry.number().into(), ..self.level()? };
        // The root has the convention of the first kind.
        let kind_convention =
            geometry.is_extra().then(|| convention(self.schema.kind, self.explicit).into());
        level.links_convention = kind_convention;
        let path = geometry.to_string();
        let mut absent = vec!["groups", "object_attributes", "object_index", "vertex_attributes"];
        let present = build.names_below(&path)?;
        absent.retain(|name| !present.contains(*name));
        if !absent.is_empty() {
            level.extras.insert(zvf_store::ABSENT.to_owned(), absent.into());
        }
        edit_level(&mut level);
        build.group(&path, &level.to_group()).await
    }

    /// Returns the document.
    fn level(&self) -> Result<LevelDoc> {
        let mut level = LevelDoc::new(0);
        level.vertex_count = vertex_count(self.vertices)?;
        let families = [
            ("vertices", true),
            ("vertex_attributes", !self.columns.vertex.is_empty()),
            ("fragment_attributes", !self.columns.fragment.is_empty() || self.owners),
            ("links", self.links),
            ("object_index", self.indexed),
        ];
        let present = families.into_iter().filter(|(_, present)| *present);
        level.arrays_present = present.map(|(family, _)| family.to_owned()).collect();
        level.fragments_tile = true;
        level.fragment_link_groups = self.grouped;
        if let Some((name, values)) = &self.schema.by_attribute {
            let axes = self.schema.axes.iter().map(|axis| &axis.name);
            level.chunk_dims = Some([name].into_iter().chain(axes).cloned().collect());
            level.chunk_attribute_name = Some(name.clone());
            level.chunk_attribute_values = Some(values.iter().map(Json::from).collect());
        }
        Ok(level)
    }
}

/// Returns the number of vertices in the form of documents.
///
/// # Errors
///
/// `TooMuch` above 2^63 - 1.
pub(crate) fn vertex_count(vertices: u64) -> Result<i64> {
    i64::try_from(vertices).map_err(|_too_many| {
        Error::limit("vertices of a level", i64::MAX.cast_unsigned(), vertices)
    })
}

/// Returns the convention of links inside fragments.
pub(crate) const fn convention(kind: Kind, explicit: bool) -> LinksConvention {
    if matches!(kind, Kind::Skeleton) && !explicit {
        LinksConvention::ImplicitSequentialWithBranches
    } else if kind.has_links() {
        LinksConvention::Explicit
    } else {
        LinksConvention::ImplicitSequential
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_vertices_than_a_document_can_state_are_refused() {
        let most = i64::MAX.cast_unsigned();
        assert_eq!(vertex_count(most).unwrap(), i64::MAX);
        assert_eq!(
            vertex_count(most + 1).unwrap_err().sentence(),
            "vertices of a level: expected at most 9223372036854775807, found 9223372036854775808"
        );
    }
}
