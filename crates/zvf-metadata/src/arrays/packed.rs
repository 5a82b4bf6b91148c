//! Attributes of the shards of 0.6 and 0.7: the location of each small array in the packed one.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::super::error::{At, MetadataError};
use super::super::fields::Fields;
use super::super::members::{Document, Member as _, Members, entries};
use super::Object;
use zvf_format::Class;

/// Attributes of the array `__shard_<id>`.
///
/// ```
/// use zvf_metadata::arrays::{ArrayAttributes as _, PackedShard};
///
/// let attributes = serde_json::json!({"shard_index": {"0.0.0": [0, 24], "0.0.1": [24, 12]}});
/// let shard = PackedShard::parse(attributes.as_object().unwrap().clone()).unwrap();
/// assert_eq!(shard.find("0.0.1").unwrap().nbytes, 12);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PackedShard {
    /// The arrays, in the order of the document.
    pub entries: Vec<PackedEntry>,
    /// Unknown keys, which are kept.
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
    /// Finds the array with this key.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<&PackedEntry> {
        self.entries.iter().find(|entry| entry.key == key)
    }
}

impl Document for PackedShard {
    fn members(&mut self, m: &mut Members<'_>) {
        let read = |f: &mut Fields<'_>, key| f.require(key, |at, v| entries(at, v, entry));
        m.member("shard_index", &mut self.entries, read, |entries| {
            let spans = entries.iter();
            let spans = spans.map(|e| (e.key.clone(), [e.offset, e.nbytes].to_vec().into()));
            Some(Value::Object(spans.collect()))
        });
        m.extras(&mut self.extras);
    }
}

fn entry(at: &At<'_>, key: String, value: Value) -> Result<PackedEntry, MetadataError> {
    let at = at.name(&key);
    match Vec::<u64>::read(&at, value)?.as_slice() {
        &[offset, nbytes] => Ok(PackedEntry { key, offset, nbytes }),
        other => {
            let rule = "an offset and a length";
            Err(MetadataError::rule(Class::BadShape, &at, rule, other.len()))
        }
    }
}
