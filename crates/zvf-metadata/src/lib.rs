//! The JSON documents of a store as types: root, levels, groups, arrays, and the attributes of each
//! kind of array.
//!
//! All documents pass one parser with [`Limits`] and become typed values. Parsing is lenient if the
//! meaning is clear, and keeps unknown keys in `extras`, so that printing loses nothing. Printing
//! writes one line, with the keys in the order of the specification; numbers that are measures are
//! written as floats.
//!
//! Parsing does not validate. A reader calls [`Root::open_checks`] before it goes on; a validator
//! calls [`validate`].
//!
//! Not here: the paths of documents in a store, and anything that is not JSON.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::as_conversions,
        clippy::std_instead_of_core,
        clippy::alloc_instead_of_core
    )
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod array;
pub mod arrays;
mod checks;
mod codec;
mod data_type;
mod dtype;
mod effective;
mod error;
mod fields;
mod group;
mod json;
mod keys;
mod level;
mod members;
mod multiscales;
mod ome;
mod outline;
mod print;
mod root;
mod rules;
mod specs;
mod token;
mod version;

pub use array::{ArrayDoc, ChunkKeyEncoding};
pub use codec::{Blosc, CodecKind, CodecSpec, Sharding};
pub use data_type::{DataType, DataTypeKind, Fill, FillValue};
pub use dtype::{Dtype, DtypeKind};
pub use effective::{bins_per_chunk, columns};
pub use error::MetadataError;
pub use group::GroupDoc;
pub use json::Limits;
pub use keys::KeyList;
pub use level::LevelDoc;
pub use multiscales::{Axis, Dataset, Multiscale, Transformation};
pub use ome::{Ome, OmeNode};
pub use print::print;
pub use root::{Root, ZarrVectors};
pub use rules::{MetadataFinding, MetadataRule, path_segment, validate, validate_attribute_name};
pub use specs::{AttributeSpec, AttributeSpecs};
pub use token::{
    Capability, CellEncoding, CrossChunkStrategy, CrossLevelStorage, GeometryType, LinkStore,
    LinksConvention, ManifestLayout, ObjectIndexConvention, Refinement, ShardLayout, Token,
    Vocabulary,
};
pub use version::{LayoutFamily, Version};

/// A JSON object whose keys keep their order.
pub type Object = serde_json::Map<alloc::string::String, serde_json::Value>;

/// A node of a store, of either kind.
///
/// ```
/// use zvf_metadata::Node;
///
/// let node = Node::parse(br#"{"zarr_format": 3, "node_type": "group"}"#).unwrap();
/// assert!(matches!(node, Node::Group(_)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A group.
    Group(GroupDoc),
    /// An array.
    Array(alloc::boxed::Box<ArrayDoc>),
}

impl Node {
    /// Reads the document of a node of either kind, within [`Limits::ARRAY`].
    ///
    /// # Errors
    ///
    /// As [`ArrayDoc::parse`] when `node_type` is `array`, else as [`GroupDoc::parse`].
    pub fn parse(text: &[u8]) -> Result<Self, MetadataError> {
        let json::Parsed { value, keys, .. } = json::parse(text, &Limits::ARRAY, true)?;
        let array = value.get("node_type").and_then(serde_json::Value::as_str) == Some("array");
        let mut fields = fields::Fields::from_value(&error::At::Document, value)?;
        if array {
            return Ok(Self::Array(ArrayDoc::read(fields, keys)?.into()));
        }
        if let Some(keys) = keys {
            fields.restore(&keys);
        }
        Ok(Self::Group(GroupDoc::read(fields)?))
    }
}

#[cfg(test)]
mod tests;
