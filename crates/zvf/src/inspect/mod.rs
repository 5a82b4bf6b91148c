//! What a store holds, for people: a summary, its arrays, one cell decoded.
//!
//! ```text
//! Summary    versions, axes, levels, attributes, counts, sizes      Summary::of
//! Arrays     every array with its chunks and bytes                  Arrays::of
//! CellView   one chunk of one level: fragments, rows, values        CellView::of
//! ```
//!
//! All of it can be serialised, and says what could not be found out. Programs that read data want
//! [`LevelReader`](crate::LevelReader) and queries; this looks at everything once.

mod arrays;
mod cell;
mod levels;
mod summary;

pub use arrays::{ArrayEntry, Arrays};
pub use cell::{CellFragment, CellRow, CellView};
pub use levels::{AttributeSummary, LevelSummary, LinkSummary};
pub use summary::{AxisSummary, Stored, Summary};

use zvf_format::metadata::{ArrayDoc, Codec, CodecKind, DataType, DataTypeKind};

/// The chain of an array in words: what decodes first comes last. The step that only turns items into
/// bytes is left out.
fn codec_words(doc: &ArrayDoc) -> Vec<String> {
    let chain = doc.sharding().map_or(doc.codecs.as_slice(), |sharding| &sharding.codecs);
    chain.iter().filter_map(codec_word).collect()
}

fn codec_word(codec: &Codec) -> Option<String> {
    match codec.kind() {
        CodecKind::Bytes { big_endian: Some(true) } => Some("big-endian".to_owned()),
        CodecKind::Bytes { .. } | CodecKind::VlenBytes => None,
        CodecKind::Blosc(blosc) => {
            let inner = blosc.cname.as_deref().unwrap_or("?");
            Some(format!("blosc({inner})"))
        }
        _ => Some(codec.name().to_owned()),
    }
}

/// Chunks of one shard, per axis, where the array is sharded.
fn shard_shape(doc: &ArrayDoc) -> Option<Vec<u64>> {
    let inner = &doc.sharding()?.chunk_shape;
    let axes = doc.chunk_shape.iter().zip(inner);
    Some(axes.map(|(outer, inner)| outer.checked_div(*inner).unwrap_or(0)).collect())
}

/// The type of an item in a word.
fn type_word(data_type: &DataType) -> String {
    match data_type.kind() {
        DataTypeKind::VariableLengthBytes => "bytes".to_owned(),
        DataTypeKind::Fixed(dtype) => dtype.to_string(),
        DataTypeKind::Other(name) => name.clone(),
    }
}
