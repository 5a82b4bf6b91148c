//! The codecs of an array document, parsed as far as a reader needs.
//!
//! ```text
//! name               configuration
//! bytes              endian: little | big; may be absent for items of one byte
//! vlen-bytes
//! transpose          order
//! zstd               level, checksum
//! gzip               level
//! blosc              cname, clevel, shuffle, typesize, blocksize
//! crc32c
//! sharding_indexed   chunk_shape, codecs, index_codecs, index_location: start | end
//! ```
//!
//! A codec keeps the value it was parsed from and is printed as that value; so unknown settings are
//! kept too.
//!
//! Not here: decoding, and whether the chain is valid for the array.

use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::data_type::split_configuration;
use super::error::{At, MetadataError};
use super::fields::{Fields, Put};
use super::members::Member;
use zvf_format::Class;

/// One codec of a chain.
///
/// ```
/// use zvf_metadata::{CodecSpec, CodecKind};
///
/// let codec = CodecSpec::zstd(3, true);
/// assert_eq!(codec.name(), "zstd");
/// assert_eq!(codec.kind(), &CodecKind::Zstd { level: 3, checksum: true });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodecSpec {
    name: String,
    kind: CodecKind,
    spelled: Value,
}

/// The kind of a codec.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodecKind {
    /// Items to bytes.
    Bytes {
        /// Whether the most significant byte comes first, for items of several bytes.
        big_endian: Option<bool>,
    },
    /// Variable-length items to bytes.
    VlenBytes,
    /// A permutation of the axes.
    Transpose {
        /// For each stored axis, the axis of the array.
        order: Vec<u64>,
    },
    /// Zstandard.
    Zstd {
        /// Compression level.
        level: i64,
        /// Whether frames carry a checksum.
        checksum: bool,
    },
    /// Gzip.
    Gzip {
        /// Compression level.
        level: i64,
    },
    /// A Blosc chunk.
    Blosc(Blosc),
    /// A CRC32C after the bytes.
    Crc32c,
    /// Many chunks in one object.
    Sharding(Box<Sharding>),
    /// An unknown codec.
    Unknown,
}

/// The settings of Blosc that the document states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blosc {
    /// The compressor.
    pub cname: Option<String>,
    /// Compression level.
    pub clevel: Option<i64>,
    /// The filter: `noshuffle`, `shuffle` or `bitshuffle`.
    pub shuffle: Option<String>,
    /// Item size in bytes.
    pub typesize: Option<u64>,
    /// Block size in bytes; 0 lets the compressor choose.
    pub blocksize: Option<u64>,
}

/// The settings of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharding {
    /// Items of an inner chunk, per axis.
    pub chunk_shape: Vec<u64>,
    /// The chain of the inner chunks.
    pub codecs: Vec<CodecSpec>,
    /// The chain of the index.
    pub index_codecs: Vec<CodecSpec>,
    /// Whether the index comes first.
    pub index_at_start: bool,
}

impl CodecSpec {
    /// Creates the codec for items of several bytes, little-endian.
    pub fn bytes() -> Self {
        let put = Put::new().put("endian", "little");
        Self::new("bytes", CodecKind::Bytes { big_endian: Some(false) }, Some(put))
    }

    /// Creates the codec for items of one byte.
    pub fn single_bytes() -> Self {
        Self::new("bytes", CodecKind::Bytes { big_endian: None }, None)
    }

    /// Creates the codec for variable-length items.
    pub fn vlen_bytes() -> Self {
        Self::new("vlen-bytes", CodecKind::VlenBytes, Some(Put::new()))
    }

    /// Creates the Zstandard codec.
    pub fn zstd(level: i64, checksum: bool) -> Self {
        let put = Put::new().put("level", level).put("checksum", checksum);
        Self::new("zstd", CodecKind::Zstd { level, checksum }, Some(put))
    }

    /// Creates the gzip codec.
    pub fn gzip(level: i64) -> Self {
        Self::new("gzip", CodecKind::Gzip { level }, Some(Put::new().put("level", level)))
    }

    /// Creates the Blosc codec.
    pub fn blosc(blosc: Blosc) -> Self {
        let put = Put::new()
            .put_some("typesize", blosc.typesize)
            .put_some("cname", blosc.cname.as_deref());
        let put =
            put.put_some("clevel", blosc.clevel).put_some("shuffle", blosc.shuffle.as_deref());
        let put = put.put_some("blocksize", blosc.blocksize);
        Self::new("blosc", CodecKind::Blosc(blosc), Some(put))
    }

    /// Creates the codec that appends a CRC32C.
    pub fn crc32c() -> Self {
        Self::new("crc32c", CodecKind::Crc32c, None)
    }

    /// Creates the codec for shards of inner chunks with this shape and chain; the index is at the
    /// end and has a checksum.
    pub fn sharding(chunk_shape: Vec<u64>, codecs: Vec<Self>) -> Self {
        let index_codecs: Vec<_> = [Self::bytes(), Self::crc32c()].into();
        let put = Put::new()
            .put("chunk_shape", chunk_shape.clone())
            .put("codecs", codecs.to_value())
            .put("index_codecs", index_codecs.to_value())
            .put("index_location", "end");
        let sharding = Sharding { chunk_shape, codecs, index_codecs, index_at_start: false };
        Self::new("sharding_indexed", CodecKind::Sharding(Box::new(sharding)), Some(put))
    }

    /// Returns the name, also for an unknown codec.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the kind.
    pub const fn kind(&self) -> &CodecKind {
        &self.kind
    }

    /// Returns the value in the document.
    pub const fn value(&self) -> &Value {
        &self.spelled
    }

    /// Parses a codec from its value.
    ///
    /// # Errors
    ///
    /// When it has no name, or settings that are invalid for the codec.
    pub fn parse(value: Value) -> Result<Self, MetadataError> {
        Self::read(&At::Document, value)
    }

    fn new(name: &str, kind: CodecKind, configuration: Option<Put>) -> Self {
        let put = Put::new().put("name", name).put_some("configuration", configuration);
        Self { name: name.to_owned(), kind, spelled: put.into() }
    }
}

impl Member for CodecSpec {
    fn read(at: &At<'_>, value: Value) -> Result<Self, MetadataError> {
        let spelled = value.clone();
        let (name, configuration) = split_configuration(at, value)?;
        let at = at.key("configuration");
        let kind = kind(&name, Fields::new(&at, configuration))?;
        Ok(Self { name, kind, spelled })
    }

    fn to_value(&self) -> Value {
        self.spelled.clone()
    }
}

fn kind(name: &str, mut fields: Fields<'_>) -> Result<CodecKind, MetadataError> {
    Ok(match name {
        "bytes" => CodecKind::Bytes { big_endian: fields.take("endian", endian)? },
        "vlen-bytes" => CodecKind::VlenBytes,
        "transpose" => CodecKind::Transpose { order: fields.require("order", Vec::<u64>::read)? },
        "zstd" => CodecKind::Zstd {
            level: fields.take("level", i64::read)?.unwrap_or(0), // 0 lets the compressor choose
            checksum: fields.take("checksum", bool::read)?.unwrap_or(false),
        },
        "gzip" => CodecKind::Gzip { level: fields.take("level", i64::read)?.unwrap_or(GZIP_LEVEL) },
        "blosc" => CodecKind::Blosc(Blosc {
            cname: fields.take("cname", String::read)?,
            clevel: fields.take("clevel", i64::read)?,
            shuffle: fields.take("shuffle", String::read)?,
            typesize: fields.take("typesize", u64::read)?,
            blocksize: fields.take("blocksize", u64::read)?,
        }),
        "crc32c" => CodecKind::Crc32c,
        "sharding_indexed" => CodecKind::Sharding(Box::new(Sharding {
            chunk_shape: fields.require("chunk_shape", positive_counts)?,
            codecs: fields.require("codecs", Vec::read)?,
            index_codecs: fields.require("index_codecs", Vec::read)?,
            index_at_start: fields.take("index_location", location)?.unwrap_or(false),
        })),
        _ => CodecKind::Unknown,
    })
}

/// Reads a list of whole numbers above 0.
pub(super) fn positive_counts(at: &At<'_>, value: Value) -> Result<Vec<u64>, MetadataError> {
    let counts = Vec::<u64>::read(at, value)?;
    match counts.iter().position(|&n| n == 0) {
        Some(i) => Err(MetadataError::rule(Class::BadShape, &at.item(i), "at least 1", 0_u8)),
        None => Ok(counts),
    }
}

fn endian(at: &At<'_>, value: Value) -> Result<bool, MetadataError> {
    parse_choice(at, value, "little", "big", "little or big")
}

fn location(at: &At<'_>, value: Value) -> Result<bool, MetadataError> {
    parse_choice(at, value, "end", "start", "start or end")
}

fn parse_choice(
    at: &At<'_>,
    value: Value,
    no: &str,
    yes: &str,
    rule: &'static str,
) -> Result<bool, MetadataError> {
    let word = String::read(at, value)?;
    if word == yes || word == no {
        return Ok(word == yes);
    }
    Err(MetadataError::rule(Class::BadTag, at, rule, "another word").with_quote(&word))
}

/// The gzip level if none is stated.
const GZIP_LEVEL: i64 = 5;

#[cfg(test)]
mod tests {
    use std::vec;

    use serde_json::json;

    use super::*;
    use crate::tests::fault;

    fn read(value: Value) -> Result<CodecSpec, MetadataError> {
        CodecSpec::parse(value)
    }

    #[test]
    fn each_codec_round_trips() {
        let blosc = Blosc {
            cname: Some("zstd".to_owned()),
            clevel: Some(5),
            shuffle: Some("bitshuffle".to_owned()),
            typesize: Some(4),
            blocksize: Some(0),
        };
        let shards = json!({"name": "sharding_indexed", "configuration": {
            "chunk_shape": [1, 1],
            "codecs": [{"name": "vlen-bytes", "configuration": {}}],
            "index_codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            "index_location": "end"}});
        for (spec, value) in [
            (CodecSpec::bytes(), json!({"name": "bytes", "configuration": {"endian": "little"}})),
            (CodecSpec::single_bytes(), json!({"name": "bytes"})),
            (CodecSpec::vlen_bytes(), json!({"name": "vlen-bytes", "configuration": {}})),
            (
                CodecSpec::zstd(0, false),
                json!({"name": "zstd", "configuration": {"level": 0, "checksum": false}}),
            ),
            (CodecSpec::gzip(6), json!({"name": "gzip", "configuration": {"level": 6}})),
            (
                CodecSpec::blosc(blosc),
                json!({"name": "blosc", "configuration": {"typesize": 4, "cname": "zstd",
                    "clevel": 5, "shuffle": "bitshuffle", "blocksize": 0}}),
            ),
            (CodecSpec::crc32c(), json!({"name": "crc32c"})),
            (CodecSpec::sharding(vec![1, 1], vec![CodecSpec::vlen_bytes()]), shards),
        ] {
            assert_eq!(spec.value(), &value);
            assert_eq!(read(value).unwrap(), spec);
        }
    }

    #[test]
    fn spellings_are_kept() {
        for (value, name, kind) in [
            (json!("crc32c"), "crc32c", CodecKind::Crc32c),
            (
                json!({"name": "bytes", "configuration": {"endian": "big", "more": 1}}),
                "bytes",
                CodecKind::Bytes { big_endian: Some(true) },
            ),
            (
                json!({"name": "transpose", "configuration": {"order": [1, 0]}}),
                "transpose",
                CodecKind::Transpose { order: vec![1, 0] },
            ),
            (json!({"name": "zstd"}), "zstd", CodecKind::Zstd { level: 0, checksum: false }),
            (json!({"name": "rot13", "configuration": {"by": 13}}), "rot13", CodecKind::Unknown),
        ] {
            let codec = read(value.clone()).unwrap();
            assert_eq!((codec.name(), codec.kind(), codec.value()), (name, &kind, &value));
        }
        let start = json!({"name": "sharding_indexed", "configuration": {"chunk_shape": [2],
            "codecs": ["bytes"], "index_codecs": ["bytes"], "index_location": "start"}});
        let CodecKind::Sharding(start) = read(start).unwrap().kind else { panic!("not a shard") };
        assert!(start.index_at_start);
    }

    #[test]
    fn faults_are_reported() {
        for (value, message) in [
            (json!(1), "BadTag, document: an object, found 1"),
            (
                json!({"name": "bytes", "configuration": {"endian": "middle"}}),
                "BadTag, configuration.endian: little or big, found \"middle\"",
            ),
            (json!({"name": "transpose"}), "BadTag, configuration.order: a value, found nothing"),
            (
                json!({"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 0]}}),
                "BadShape, configuration.chunk_shape[1]: at least 1, found 0",
            ),
            (
                json!({"name": "sharding_indexed", "configuration": {"chunk_shape": [1],
                    "codecs": [{"name": "zstd", "configuration": {"level": "x"}}]}}),
                "BadTag, configuration.codecs[0].configuration.level: a whole number of 64 bits, \
                 found \"x\"",
            ),
            (
                json!({"name": "sharding_indexed", "configuration": {"chunk_shape": [1],
                    "codecs": [], "index_codecs": [], "index_location": "middle"}}),
                "BadTag, configuration.index_location: start or end, found \"middle\"",
            ),
        ] {
            assert_eq!(fault(&read(value).unwrap_err()), message);
        }
    }
}
