//! Attributes of the shards of 0.6 and 0.7: the location of each small array in the packed one.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::super::error::{At, MetadataError};
use super::super::fields::{Fields, Put, counts, object};
use super::Object;
use zvf_format::Class;

/// Attributes of the array `__shard_<id>`.
///
/// ```
/// use zvf_metadata::arrays::PackedShard;
///
/// let attributes = serde_json::json!({"shard_index": {"0.0.0": [0, 24], "0.0.1": [24, 12]}});
/// let shard = PackedShard::parse(attributes.as_object().unwrap().clone()).unwrap();
/// assert_eq!(shard.find("0.0.1").unwrap().nbytes, 12);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PackedShard {
    /// The arrays, in the order of the document.
    pub entries: Vec<PackedEntry>,
    /// Keys this crate does not know.
    pub extras: Object,
}

/// One array in a shard. The last one need not end where the shard ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedEntry {
    /// The key of the chunk.
    pub key: String,
    /// Bytes from the start of the shard.
    pub offset: u64,
    /// Number of bytes of the array.
    pub nbytes: u64,
}

impl PackedShard {
    /// Parses attributes.
    ///
    /// # Errors
    ///
    /// When the index is missing, or an entry is not an offset and a length.
    pub fn parse(attributes: Object) -> Result<Self, MetadataError> {
        let mut fields = Fields::new(&At::Document, attributes);
        let entries = fields.require("shard_index", |at, value| {
            object(at, value)?.into_iter().map(|(key, value)| entry(at, key, value)).collect()
        })?;
        Ok(Self { entries, extras: fields.into_remaining() })
    }

    /// Finds the array with this key.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<&PackedEntry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Returns the attributes.
    #[must_use]
    pub fn to_attributes(&self) -> Object {
        let entries = self.entries.iter();
        let spans = entries.map(|e| (e.key.clone(), [e.offset, e.nbytes].to_vec().into()));
        Put::new().put("shard_index", Value::Object(spans.collect())).with_extras(&self.extras)
    }
}

fn entry(at: &At<'_>, key: String, value: Value) -> Result<PackedEntry, MetadataError> {
    let at = at.name(&key);
    match counts(&at, value)?.as_slice() {
        &[offset, nbytes] => Ok(PackedEntry { key, offset, nbytes }),
        other => {
            let rule = "an offset and a length";
            Err(MetadataError::rule(Class::BadShape, &at, rule, other.len()))
        }
    }
}
