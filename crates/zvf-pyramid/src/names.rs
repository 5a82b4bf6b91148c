//! Names for attributes that coarser levels add.

use zvf_error::Result;
use zvf_model::LevelReader;

/// Names of added attributes, which no attribute of level 0 has.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// How many vertices of level 0 a vertex represents.
    pub(crate) weight: String,
    /// The id of an object at level 0.
    pub(crate) source_id: String,
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
        let vertices = level.attribute_names().await?.names;
        let objects = level.object_attribute_names().await?.names;
        Ok(Self {
            weight: free(vertices, "count", "vertex_"),
            source_id: free(objects, "source_id", "zvf_"),
        })
    }
}
