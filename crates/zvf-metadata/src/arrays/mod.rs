//! The attributes of each kind of array, one type per kind.
//!
//! ```text
//! vertices, vertices_<geom>                        Vertices
//! vertex_fragments, link_fragments                 Fragments
//! vertex_attributes/<n>, fragment_attributes/<n>   Column
//! object_attributes/<n>, group_attributes/<n>,
//! parametric/*_attributes/<n>                      Rows
//! links/<d>, cross_chunk_links/<d>                 LinksFamily
//! links/<d>/<offsets>                              LinkSegment (and links/<d> of 0.6 and 0.7)
//! link_attributes/<n>/<d>[/<offsets>],
//! cross_chunk_link_attributes/<n>/<d>              LinkAttribute
//! object_index                                     ObjectIndex
//! groups                                           Groups
//! parametric                                       ParametricTypes
//! parametric/{objects,names,groups}                ParametricArray
//! geometry_index                                   GeometryIndex
//! headers/<format>                                 none: the attributes are the header
//! ```
//!
//! In 0.6 and 0.7 they are on the group of an array, later on the array. Each type is read and
//! printed by [`ArrayAttributes`]. Keys that a reader can do without are optional, even if a writer
//! must write them.
//!
//! Not here: the presence list, which [`ArrayDoc`](super::ArrayDoc) stores separately; the index of
//! the shards of 0.6 and 0.7 (`zvf-store`).

mod column;
mod composite;
mod groups;
mod links;
mod object_index;
mod parametric;
mod rows;
mod vertices;

pub use column::{Column, Dictionary};
pub use composite::{GeometryEntry, GeometryIndex};
pub use groups::{GroupRange, GroupsAttrs};
pub use links::{LinkColumnAttrs, LinksFamily, SegmentAttrs};
pub use object_index::{IdForm, IndexAttrs};
pub use parametric::{ParametricArray, ParametricType, ParametricTypes};
pub use rows::{Absence, Rows};
pub use vertices::{FragmentsAttrs, Vertices};

use super::Object;
use super::dtype::Dtype;
use super::error::{At, MetadataError};
use super::members::{Document, OLD_TAG, read, write};

/// Attributes as a type of their own.
///
/// ```
/// use zvf_metadata::arrays::{ArrayAttributes as _, GroupsAttrs};
///
/// let attributes = GroupsAttrs::new(7).to_attributes();
/// assert_eq!(GroupsAttrs::parse(attributes)?.num_groups, 7);
/// # Ok::<(), zvf_metadata::MetadataError>(())
/// ```
pub trait ArrayAttributes: Sized {
    /// Parses attributes.
    ///
    /// # Errors
    ///
    /// When a required key is missing, or a key has a value of another type.
    fn parse(attributes: Object) -> Result<Self, MetadataError>;

    /// Returns the attributes.
    fn to_attributes(&self) -> Object;
}

impl<D: Document> ArrayAttributes for D {
    fn parse(attributes: Object) -> Result<Self, MetadataError> {
        read(&At::Document, attributes)
    }

    fn to_attributes(&self) -> Object {
        write(self)
    }
}

/// Returns the tag that names the kind of array.
///
/// ```
/// let attributes = serde_json::json!({"zvf_array": "links"});
/// let tag = zvf_metadata::arrays::tag(attributes.as_object().unwrap());
/// assert_eq!(tag, Some("links"));
/// ```
pub fn tag(attributes: &Object) -> Option<&str> {
    attributes.get("zv_array").or_else(|| attributes.get(OLD_TAG))?.as_str()
}

/// Reads the element type under the key `dtype`.
fn dtype(text: Option<&str>, default: Option<Dtype>) -> Result<Dtype, MetadataError> {
    let at = At::Document.key("dtype");
    match (text, default) {
        (Some(text), _) => Dtype::parse_at(&at, text),
        (None, Some(dtype)) => Ok(dtype),
        (None, None) => {
            Err(MetadataError::rule(zvf_format::Class::BadTag, &at, "an element type", "nothing"))
        }
    }
}

#[cfg(test)]
mod tests;
