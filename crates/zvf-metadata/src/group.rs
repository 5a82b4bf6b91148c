//! The document of a Zarr group: three keys, and any keys that a tool added.
//!
//! `consolidated_metadata`, which generic tools add, is kept in `extras` and never read: the
//! documents of the nodes decide. A writer that changes a node should remove it from there.
//!
//! Not here: the meaning of the attributes.

use alloc::string::String;

use serde_json::Value;

use super::Object;
use super::error::{At, MetadataError};
use super::fields::{Fields, Put};
use super::json::{self, Limits};
use super::members::Member as _;
use super::print::print;
use zvf_format::{Class, Expected};

/// A group document.
///
/// ```
/// use zvf_metadata::GroupDoc;
///
/// let text = r#"{"zarr_format": 3, "node_type": "group", "attributes": {"num_groups": 2}}"#;
/// let group = GroupDoc::parse(text.as_bytes()).unwrap();
/// assert_eq!(group.attributes["num_groups"], 2);
/// assert_eq!(group.print(), text);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupDoc {
    /// The attributes.
    pub attributes: Object,
    /// Other keys of the document.
    pub extras: Object,
}

impl GroupDoc {
    /// Creates a group with the given attributes.
    pub fn new(attributes: Object) -> Self {
        Self { attributes, extras: Object::new() }
    }

    /// Reads a group document within [`Limits::GROUP`].
    ///
    /// # Errors
    ///
    /// When `text` is not JSON, too large, or not a Zarr 3 group document.
    pub fn parse(text: &[u8]) -> Result<Self, MetadataError> {
        Self::parse_within(text, &Limits::GROUP)
    }

    /// Reads a group document within the given limits.
    ///
    /// # Errors
    ///
    /// As [`GroupDoc::parse`].
    pub fn parse_within(text: &[u8], limits: &Limits) -> Result<Self, MetadataError> {
        let parsed = json::parse(text, limits, false).map_err(MetadataError::strip_attributes)?;
        Self::read(Fields::from_value(&At::Document, parsed.value)?)
    }

    /// Prints the document.
    pub fn print(&self) -> String {
        let put = Put::new().put("zarr_format", 3).put("node_type", "group");
        print(&Value::Object(
            put.put("attributes", self.attributes.clone()).with_extras(&self.extras),
        ))
    }

    pub(super) fn read(mut fields: Fields<'_>) -> Result<Self, MetadataError> {
        node(&mut fields, "group")?;
        Ok(Self {
            attributes: fields.take("attributes", Object::read)?.unwrap_or_default(),
            extras: fields.into_remaining(),
        })
    }
}

/// Checks the two keys that every node document has.
pub(super) fn node(fields: &mut Fields<'_>, kind: &'static str) -> Result<(), MetadataError> {
    fields.require("zarr_format", |at, value| match u64::read(at, value)? {
        3 => Ok(()),
        other => {
            Err(MetadataError::new(Class::UnsupportedVersion, at, Expected::Exactly(3), other))
        }
    })?;
    fields.require("node_type", |at, value| {
        let found = String::read(at, value)?;
        if found == kind {
            return Ok(());
        }
        Err(MetadataError::rule(Class::BadTag, at, kind, "another node").with_quote(&found))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fault;

    #[test]
    fn a_document_that_is_no_group_is_refused() {
        for (text, message) in [
            ("[]", "BadTag, document: an object, found a list of 0"),
            ("{}", "BadTag, zarr_format: a value, found nothing"),
            (r#"{"zarr_format": 2}"#, "UnsupportedVersion, zarr_format: 3, found 2"),
            (r#"{"zarr_format": 3}"#, "BadTag, node_type: a value, found nothing"),
            (
                r#"{"zarr_format": 3, "node_type": "array"}"#,
                "BadTag, node_type: group, found \"array\"",
            ),
            (
                r#"{"zarr_format": 3, "node_type": "group", "attributes": []}"#,
                "BadTag, attributes: an object, found a list of 0",
            ),
        ] {
            assert_eq!(fault(&GroupDoc::parse(text.as_bytes()).unwrap_err()), message);
        }
    }

    #[test]
    fn foreign_attributes_are_kept_separately() {
        let text = r#"{"zarr_format": 3, "node_type": "group", "consolidated_metadata": {"kind": "inline"}}"#;
        let group = GroupDoc::parse(text.as_bytes()).unwrap();
        assert!(group.attributes.is_empty());
        assert_eq!(group.extras["consolidated_metadata"]["kind"], "inline");
        assert_eq!(GroupDoc::parse(group.print().as_bytes()).unwrap(), group);
    }
}
