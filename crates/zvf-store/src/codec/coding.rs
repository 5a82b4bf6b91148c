//! The codec list of an array document, as the steps that a reader must take.
//!
//! Not here: the spelling of codecs (`zvf_metadata`).

use std::sync::Arc;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_metadata::{ArrayDoc, CodecKind, CodecSpec, Sharding};

use super::{Chain, Step};

/// The encoding of an array.
pub(crate) struct Coding {
    pub(crate) packing: Packing,
    pub(crate) chain: Arc<Chain>,
    pub(crate) index: Option<IndexCoding>,
}

/// The step from items to bytes.
#[derive(PartialEq)]
pub(crate) enum Packing {
    /// Items of any length, framed.
    Vlen,
    /// Items of one size.
    Items {
        /// Whether items are stored with the most significant byte first.
        big_endian: bool,
        /// For each stored axis, the axis of the array; `None` if they are the same.
        order: Option<Box<[usize]>>,
    },
}

/// The encoding of the index of a shard.
#[derive(Clone, Copy)]
pub(crate) struct IndexCoding {
    pub(crate) at_start: bool,
    pub(crate) checksum: bool,
}

impl Coding {
    /// Returns the coding of the array of `doc`.
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`], with the name of the first codec that is unknown or in a position
    /// where this layer cannot undo it.
    pub(crate) fn from_doc(doc: &ArrayDoc) -> Result<Self> {
        let (codecs, index) = match doc.sharding() {
            None => (&doc.codecs, None),
            Some(sharding) => (&sharding.codecs, Some(index_coding(sharding)?)),
        };
        let mut codecs = codecs.iter();
        let mut order = None;
        let packing = loop {
            let Some(codec) = codecs.next() else {
                return Err(Error::unsupported("codec from items to bytes", "none"));
            };
            if let (CodecKind::Transpose { order: axes }, None) = (codec.kind(), &order) {
                order = Some(permutation(axes, doc.rank())?);
            } else if let CodecKind::Bytes { big_endian } = codec.kind() {
                break Packing::Items { big_endian: big_endian.unwrap_or(false), order };
            } else if matches!(codec.kind(), CodecKind::VlenBytes) && order.is_none() {
                break Packing::Vlen;
            } else {
                return Err(misplaced_codec_error(codec));
            }
        };
        let steps: Result<Vec<Step>> = codecs.map(step).collect();
        Ok(Self { packing, chain: Arc::new(Chain::new(steps?)), index })
    }
}

pub(super) fn step(codec: &CodecSpec) -> Result<Step> {
    let kind = codec.kind();
    if matches!(kind, CodecKind::Blosc(_)) {
        Ok(Step::Blosc)
    } else if matches!(kind, CodecKind::Crc32c) {
        Ok(Step::Crc32c)
    } else if matches!(kind, CodecKind::Gzip { .. }) {
        Ok(Step::Gzip)
    } else if matches!(kind, CodecKind::Zstd { .. }) {
        Ok(Step::Zstd)
    } else {
        unknown_codec(codec)
    }
}

/// Returns a codec beyond the common ones.
#[cfg(feature = "more-codecs")]
fn unknown_codec(codec: &CodecSpec) -> Result<Step> {
    super::more::More::from_spec(codec)
        .map(|more| Step::More(Box::new(more)))
        .ok_or_else(|| misplaced_codec_error(codec))
}

/// Returns `None`: codecs beyond the common ones need the feature `more-codecs`.
#[cfg(not(feature = "more-codecs"))]
fn unknown_codec(codec: &CodecSpec) -> Result<Step> {
    Err(misplaced_codec_error(codec))
}

fn index_coding(sharding: &Sharding) -> Result<IndexCoding> {
    let plain = |codec: &CodecSpec| {
        matches!(codec.kind(), CodecKind::Bytes { big_endian: None | Some(false) })
    };
    let checksum = match sharding.index_codecs.as_slice() {
        [bytes] if plain(bytes) => false,
        [bytes, sum] if plain(bytes) && matches!(sum.kind(), CodecKind::Crc32c) => true,
        other => {
            let odd = other.iter().find(|codec| !plain(codec));
            let name = odd.map_or("none", CodecSpec::name);
            return Err(Error::unsupported("codec of a shard index", name));
        }
    };
    Ok(IndexCoding { at_start: sharding.index_at_start, checksum })
}

/// Returns the axes of `order`, each of `rank` exactly once; `None` if the order changes nothing.
fn permutation(order: &[u64], rank: usize) -> Result<Box<[usize]>> {
    // A number that does not fit is not an axis.
    let axes: Box<[usize]> = order.iter().map(|&axis| saturating_usize(axis)).collect();
    let mut sorted = axes.to_vec();
    sorted.sort_unstable();
    if sorted.iter().copied().eq(0..rank) {
        return Ok(axes);
    }
    Err(Error::new(Class::BadShape, "order of transpose", "each axis once", to_u64(order.len())))
}

fn misplaced_codec_error(codec: &CodecSpec) -> Error {
    Error::unsupported("codec", codec.name())
}
