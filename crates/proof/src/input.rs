//! The input of a store of zarr-vectors, as `peers/write_stores.py` lists it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use zvf_model::Kind;

use crate::corpus;
use crate::golden_part::boxes::PointList;

#[derive(Deserialize)]
pub(crate) struct Input {
    pub(crate) id: String,
    kind: String,
    pub(crate) positions: Vec<Vec<f64>>,
    pub(crate) columns: BTreeMap<String, Vec<f64>>,
    /// The object of each vertex.
    pub(crate) objects: Option<Vec<i64>>,
    /// The offsets of the chains.
    pub(crate) parts: Option<Vec<usize>>,
    /// The vertices of each edge or face.
    pub(crate) ends: Option<Vec<Vec<usize>>>,
    /// The objects of each group.
    #[serde(default)]
    pub(crate) groups: Vec<Vec<i64>>,
}

impl Input {
    /// Returns the inputs of the stores that a writer left in `folder`.
    pub(crate) fn read_all(folder: &Path) -> anyhow::Result<Vec<Self>> {
        Ok(serde_json::from_value(corpus::read_json(&folder.join("stores.json"))?)?)
    }

    pub(crate) fn is_draco(&self) -> bool {
        self.kind == "draco"
    }

    pub(crate) fn kind(&self) -> anyhow::Result<Kind> {
        Ok(match self.kind.as_str() {
            "points" | "point_objects" | "by_attribute" => Kind::PointCloud,
            "draco" => Kind::Mesh,
            name => name.parse()?,
        })
    }

    /// Returns the points of each chain or element; nothing for points.
    pub(crate) fn pieces(&self) -> Vec<PointList> {
        let points = &self.positions;
        let chains = self.parts.iter().flat_map(|parts| parts.windows(2));
        let chains = chains.map(|ends| points[ends[0]..ends[1]].to_vec());
        let elements = self.ends.iter().flatten();
        let elements = elements.map(|row| row.iter().map(|&at| points[at].clone()).collect());
        chains.chain(elements).collect()
    }
}
