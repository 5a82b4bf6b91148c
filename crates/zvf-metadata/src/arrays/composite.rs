//! Attributes of composite stores: the geometries of a level, each in its own arrays.

use alloc::string::String;
use alloc::vec::Vec;

use super::super::error::{At, MetadataError};
use super::super::members::{Document, Member as _, Members, write};
use super::Object;

/// Attributes of the group `geometry_index`.
///
/// ```
/// use zvf_metadata::arrays::GeometryIndex;
///
/// let attributes = serde_json::json!({"graph": {"array": "vertices_graph", "vertex_count": 40,
///     "links_array": "links_graph", "has_links": true, "edge_count": 30}});
/// let index = GeometryIndex::parse(attributes.as_object().unwrap().clone()).unwrap();
/// assert_eq!(index.find("graph").unwrap().links_array.as_deref(), Some("links_graph"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GeometryIndex {
    /// Each geometry by its name, in the order of the document.
    pub entries: Vec<(String, GeometryEntry)>,
}

/// One geometry of a composite level.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GeometryEntry {
    /// The name of its array of vertices.
    pub array: String,
    /// Rows of that array.
    pub vertex_count: i64,
    /// The name of its array of links.
    pub links_array: Option<String>,
    /// Whether it has links.
    pub has_links: bool,
    /// The group that holds the geometry like a level: fragments, attributes, links and objects.
    pub group: Option<String>,
    /// Other keys, such as counts of edges and faces.
    pub extras: Object,
}

impl GeometryIndex {
    /// Parses attributes.
    ///
    /// # Errors
    ///
    /// When a geometry is not an object, or lacks the name or the row count of its array.
    pub fn parse(attributes: Object) -> Result<Self, MetadataError> {
        let entries = attributes.into_iter().map(|(name, value)| {
            let entry = GeometryEntry::read(&At::Document.name(&name), value)?;
            Ok((name, entry))
        });
        Ok(Self { entries: entries.collect::<Result<_, MetadataError>>()? })
    }

    /// Finds the geometry of this name.
    pub fn find(&self, name: &str) -> Option<&GeometryEntry> {
        self.entries.iter().find(|(n, _)| n == name).map(|(_, entry)| entry)
    }

    /// Returns the attributes.
    pub fn to_attributes(&self) -> Object {
        let entries = self.entries.iter();
        entries.map(|(name, entry)| (name.clone(), write(entry).into())).collect()
    }
}

impl Document for GeometryEntry {
    fn members(&mut self, m: &mut Members<'_>) {
        m.required("array", &mut self.array);
        m.required("vertex_count", &mut self.vertex_count);
        m.option("links_array", &mut self.links_array);
        m.or_default("has_links", &mut self.has_links);
        m.option("group", &mut self.group);
        m.extras(&mut self.extras);
    }
}
