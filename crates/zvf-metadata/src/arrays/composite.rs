//! Attributes of composite stores: the geometries of a level, each in its own arrays.

use alloc::string::String;
use alloc::vec::Vec;

use super::super::error::{At, MetadataError};
use super::super::fields::{Fields, Put, flag, int, text};
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
            let at = At::Document.name(&name);
            let mut fields = Fields::from_value(&at, value)?;
            let entry = GeometryEntry {
                array: fields.require("array", text)?,
                vertex_count: fields.require("vertex_count", int)?,
                links_array: fields.take("links_array", text)?,
                has_links: fields.take("has_links", flag)?.unwrap_or(false),
                group: fields.take("group", text)?,
                extras: fields.into_remaining(),
            };
            Ok((name, entry))
        });
        Ok(Self { entries: entries.collect::<Result<_, MetadataError>>()? })
    }

    /// Finds the geometry of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&GeometryEntry> {
        self.entries.iter().find(|(n, _)| n == name).map(|(_, entry)| entry)
    }

    /// Returns the attributes.
    #[must_use]
    pub fn to_attributes(&self) -> Object {
        let entries = self.entries.iter().map(|(name, entry)| {
            let put = Put::new().put("array", entry.array.as_str());
            let put = put.put("vertex_count", entry.vertex_count);
            let put = put.put_some("links_array", entry.links_array.as_deref());
            let put =
                put.put("has_links", entry.has_links).put_some("group", entry.group.as_deref());
            (name.clone(), put.with_extras(&entry.extras).into())
        });
        entries.collect()
    }
}

/// Attributes of the array `links_<geom>`.
///
/// ```
/// use zvf_metadata::arrays::CompositeLinks;
///
/// let links = CompositeLinks { link_count: 30, link_width: 2, ..CompositeLinks::default() };
/// assert_eq!(CompositeLinks::parse(links.to_attributes()), Ok(links));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompositeLinks {
    /// Number of rows.
    pub link_count: i64,
    /// Number of columns.
    pub link_width: i64,
    /// Keys this crate does not know.
    pub extras: Object,
}

impl CompositeLinks {
    /// Parses attributes.
    ///
    /// # Errors
    ///
    /// When a count is missing, or has a value of another type.
    pub fn parse(attributes: Object) -> Result<Self, MetadataError> {
        let mut fields = Fields::new(&At::Document, attributes);
        Ok(Self {
            link_count: fields.require("link_count", int)?,
            link_width: fields.require("link_width", int)?,
            extras: fields.into_remaining(),
        })
    }

    /// Returns the attributes.
    #[must_use]
    pub fn to_attributes(&self) -> Object {
        let put = Put::new().put("link_count", self.link_count);
        put.put("link_width", self.link_width).with_extras(&self.extras)
    }
}
