//! The node `ome`: the store described as an OME collection.
//!
//! It is not read back and may be absent, so [`Root`](super::Root) keeps the value unchanged; this
//! module parses it on request and builds it for writing.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde_json::Value;

use super::Object;
use super::error::{At, MetadataError};
use super::fields::Put;
use super::members::{Document, Member, Members, write};
use super::multiscales::Axis;

/// The node.
///
/// ```
/// use zvf_metadata::{Axis, Ome};
///
/// let ome = Ome::new(Ome::store_name("brain.zarrvectors"), &Axis::spatial(3).unwrap(), ["0", "1"]);
/// assert_eq!((ome.name.as_deref(), ome.nodes.len()), (Some("brain"), 2));
/// assert_eq!(Ome::parse(ome.to_value()).unwrap(), ome);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ome {
    /// `0.6`.
    pub version: Option<String>,
    /// `collection`.
    pub kind: Option<String>,
    /// The name of the store.
    pub name: Option<String>,
    /// The scene: the coordinate system and the transformations into it.
    pub attributes: Option<Value>,
    /// One node for each level, in order.
    pub nodes: Vec<OmeNode>,
    /// Unknown keys, which are kept.
    pub extras: Object,
}

impl Ome {
    /// Creates the node of a store with these axes and levels.
    pub fn new<'a>(name: &str, axes: &[Axis], levels: impl IntoIterator<Item = &'a str>) -> Self {
        let axes: Vec<_> = axes.iter().map(Axis::to_value).collect();
        let world = Put::new().put("id", "world").put("name", "world").put("axes", axes);
        let scene = Put::new()
            .put("coordinateSystems", vec![Value::from(world)])
            .put("coordinateTransformations", Vec::<Value>::new());
        Self {
            version: Some("0.6".to_owned()),
            kind: Some("collection".to_owned()),
            name: Some(name.to_owned()),
            attributes: Some(Put::new().put("scene", scene).into()),
            nodes: levels.into_iter().map(OmeNode::level).collect(),
            extras: Object::new(),
        }
    }

    /// Returns whether there is a node for the level in the group `name`.
    pub fn has_level(&self, name: &str) -> bool {
        self.nodes.iter().any(|node| node.name == name)
    }

    /// Returns the name of a store in a folder of this name.
    pub fn store_name(folder: &str) -> &str {
        let stem = [".zarrvectors", ".zv", ".zarr"].iter().find_map(|end| folder.strip_suffix(end));
        match stem.unwrap_or(folder) {
            "" => "zarr_vectors",
            name => name,
        }
    }

    /// Parses the value of the key `ome`.
    ///
    /// # Errors
    ///
    /// When a key has a value of another type.
    pub fn parse(value: Value) -> Result<Self, MetadataError> {
        Self::read(&At::Document.key("ome"), value)
    }

    /// Returns the value of `attributes.ome`.
    pub fn to_value(&self) -> Value {
        write(self).into()
    }
}

impl Document for Ome {
    fn members(&mut self, m: &mut Members<'_>) {
        m.option("version", &mut self.version);
        m.option("type", &mut self.kind);
        m.option("name", &mut self.name);
        m.option("attributes", &mut self.attributes);
        m.or_default("nodes", &mut self.nodes);
        m.extras(&mut self.extras);
    }
}

/// One node of the collection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OmeNode {
    /// `zv:level`.
    pub kind: String,
    /// The name of the level's group.
    pub name: String,
    /// Unknown keys, which are kept.
    pub extras: Object,
}

impl OmeNode {
    /// Creates the node of the level under `name`.
    pub fn level(name: &str) -> Self {
        Self { kind: "zv:level".to_owned(), name: name.to_owned(), extras: Object::new() }
    }
}

impl Document for OmeNode {
    fn members(&mut self, m: &mut Members<'_>) {
        m.required("type", &mut self.kind);
        m.required("name", &mut self.name);
        m.extras(&mut self.extras);
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString as _;

    use serde_json::json;

    use super::*;

    #[test]
    fn names_lose_their_extension() {
        for (folder, name) in [
            ("a.zarrvectors", "a"),
            ("b.zv", "b"),
            ("c.zarr", "c"),
            ("d.zarr.zv", "d.zarr"),
            ("e", "e"),
            (".zarr", "zarr_vectors"),
            ("", "zarr_vectors"),
        ] {
            assert_eq!(Ome::store_name(folder), name);
        }
    }

    #[test]
    fn a_node_without_a_name_is_refused() {
        let value = json!({"nodes": [{"type": "zv:level", "name": "0"}, {"type": "zv:level"}]});
        assert_eq!(
            Ome::parse(value).unwrap_err().to_string(),
            "BadTag in metadata, ome.nodes[1].name: expected a value, found nothing"
        );
    }
}
