//! Settings of coarser levels that follow from level 0: names for the attributes that they add.

use zvf_error::Result;
use zvf_model::LevelReader;

use crate::levels::is_explicit;

/// Names of added attributes, which no attribute of level 0 has.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// How many vertices of level 0 a vertex represents.
    pub(crate) weight: String,
    /// The id of an object at level 0.
    pub(crate) source_id: String,
    /// Whether coarser levels get the columns that viewers expect, as level 0 has them.
    pub(crate) has_kept_columns: bool,
    /// Whether every edge is stored, including those that the order of the vertices implies.
    pub(crate) explicit: bool,
}

impl Names {
    /// Picks names that level 0 does not use.
    pub(crate) async fn pick_unused(level: &LevelReader) -> Result<Self> {
        let free = |taken: Vec<String>, name: &str, prefix: &str| {
            let mut name = name.to_owned();
            while taken.contains(&name) {
                name.insert_str(0, prefix);
            }
            name
        };
        let (vertices, objects) =
            (level.vertex_attributes().await?, level.object_attributes().await?);
        let vertices = vertices.iter().map(|column| column.name().to_owned()).collect();
        let objects: Vec<String> = objects.iter().map(|column| column.name().to_owned()).collect();
        let fragments = level.fragment_attribute_names().await?.names;
        let has_kept_columns = objects.iter().any(|name| name == "vertex_count")
            || fragments.iter().any(|name| name == SEGMENT);
        Ok(Self {
            weight: free(vertices, "count", "vertex_"),
            source_id: free(objects, "source_id", "zvf_"),
            has_kept_columns,
            explicit: is_explicit(level),
        })
    }
}

/// The column of fragments with their segments; it is made anew.
pub(crate) const SEGMENT: &str = "segment_id";
