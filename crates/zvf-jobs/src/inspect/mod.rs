//! The contents of a store in readable form: a summary, its arrays, a decoded cell.
//!
//! ```text
//! Summary    versions, axes, levels, attributes, counts, sizes      Summary::read
//! Arrays     every array with its chunks and bytes                  Arrays::list
//! ObjectView an object as its index has it                        ObjectView::read_ids
//! GroupView  a group of objects                                   GroupView::read
//! AttributeStats  smallest, largest and mean value of each attribute   AttributeStats::list
//! CellView   one chunk of one level: fragments, rows, values        CellView::read
//! ```
//!
//! All of it can be serialized, and states what could not be determined. Programs that read data
//! should use [`LevelReader`] and queries; this examines everything once.

mod arrays;
mod cell;
mod groups;
mod json;
mod levels;
mod objects;
mod stats;
mod summary;

pub use arrays::{ArrayEntry, Arrays};
pub use cell::{CellFragment, CellLinks, CellRow, CellView};
pub use groups::GroupView;
pub use levels::{AttributeSummary, LevelSummary, LinkSummary};
pub use objects::{ObjectView, advise};
pub use stats::AttributeStats;
pub use summary::{AxisSummary, StoreSummary};

use serde::Serialize;
use zvf_format::key::ChunkKey;
use zvf_format::num::f64_from_i64;
use zvf_format::{Class, Expected};
use zvf_metadata::{ArrayDoc, CodecKind, CodecSpec, DataType, DataTypeKind};
use zvf_model::LevelReader;

use crate::Error;

/// Counts of stored objects.
///
/// ```
/// let stored = zvf_jobs::inspect::StoredTotals::default();
/// assert_eq!((stored.objects, stored.bytes), (0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StoredTotals {
    /// Number of objects or files.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl StoredTotals {
    /// Adds an object of `bytes`, as stated by the backend.
    fn add(&mut self, bytes: u64) -> Result<(), Error> {
        let sum = self.bytes.checked_add(bytes);
        self.bytes = sum.ok_or_else(|| overflow_error("bytes of all objects"))?;
        self.objects += 1;
        Ok(())
    }
}

/// Returns the codec chain of an array as text, in the order of encoding. The step from items to
/// bytes is left out.
fn codec_words(doc: &ArrayDoc) -> Vec<String> {
    let chain = doc.sharding().map_or(doc.codecs.as_slice(), |sharding| &sharding.codecs);
    chain.iter().filter_map(codec_word).collect()
}

fn codec_word(codec: &CodecSpec) -> Option<String> {
    let kind = codec.kind();
    if let CodecKind::Blosc(blosc) = kind {
        let inner = blosc.cname.as_deref().unwrap_or("?");
        return Some(format!("blosc({inner})"));
    }
    if matches!(kind, CodecKind::Bytes { big_endian: Some(true) }) {
        return Some("big-endian".to_owned());
    }
    let plain = matches!(kind, CodecKind::Bytes { .. } | CodecKind::VlenBytes);
    (!plain).then(|| codec.name().to_owned())
}

/// Returns the chunks per shard on each axis, if the array is sharded.
fn shard_shape(doc: &ArrayDoc) -> Option<Vec<u64>> {
    let inner = &doc.sharding()?.chunk_shape;
    let axes = doc.chunk_shape.iter().zip(inner);
    // The parsed document guarantees that the inner sizes are not 0 and divide the outer ones.
    Some(axes.map(|(outer, inner)| outer / inner).collect())
}

/// Returns the type of an item as text.
fn type_word(data_type: &DataType) -> String {
    match data_type.kind() {
        DataTypeKind::VariableLengthBytes => "bytes".to_owned(),
        DataTypeKind::Fixed(dtype) => dtype.to_string(),
        DataTypeKind::PaddedBytes(size) => format!("|S{size}"),
        DataTypeKind::Other(name) => name.clone(),
    }
}

/// Returns the error for a sum above 64 bits.
fn overflow_error(what: &'static str) -> Error {
    Error::new(Class::Overflow, what, Expected::AtMost(u64::MAX.into()), "more")
}

/// Returns the box of a chunk; `None` if its key has no spatial location.
fn chunk_bounds(level: &LevelReader, key: &ChunkKey) -> Option<[Vec<f64>; 2]> {
    let shape = level.node().meta().effective_chunk_shape(level.store().root());
    let corner = key.spatial(shape.len())?;
    let at = |step: i64| {
        let axes = corner.iter().zip(shape);
        // The largest number and its successor are the same float.
        axes.map(|(n, size)| f64_from_i64(n.saturating_add(step)) * size).collect()
    };
    Some([at(0), at(1)])
}

#[cfg(test)]
mod tests {
    use zvf_format::Class;

    use super::*;

    #[test]
    fn bytes_that_leave_64_bits_are_refused() {
        let mut stored = StoredTotals::default();
        stored.add(u64::MAX - 1).unwrap();
        stored.add(1).unwrap();
        let error = stored.add(1).unwrap_err();
        assert_eq!((error.class(), stored.objects, stored.bytes), (Class::Overflow, 2, u64::MAX));
    }
}
