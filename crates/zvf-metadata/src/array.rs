//! The document of a Zarr array: its grid, its items, its codecs and its attributes.
//!
//! ```text
//! {"shape": [3, 1], "data_type": "variable_length_bytes",
//!  "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 1]}},
//!  "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
//!  "fill_value": "", "codecs": […], "attributes": {…},
//!  "zarr_format": 3, "node_type": "array", "storage_transformers": []}
//! ```
//!
//! A shape is only a claim: the document of an array of 2^120 items is valid. Products are checked,
//! and they never size an allocation.
//!
//! Not here: the meaning of the attributes (`arrays`), and the place of a chunk in the store.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::Object;
use super::codec::{CodecKind, CodecSpec, Sharding, positive_counts};
use super::data_type::{DataType, FillValue, join_configuration, split_configuration};
use super::error::{At, MetadataError};
use super::fields::{Fields, Put};
use super::group::node;
use super::json::{self, Limits};
use super::keys::KeyList;
use super::members::Member as _;
use super::print::{print, print_with};
use zvf_format::{Class, Expected, num};

/// An array document.
///
/// ```
/// use zvf_metadata::{ArrayDoc, CodecSpec, DataType, FillValue};
///
/// let mut array = ArrayDoc::new(vec![3, 1], vec![1, 1], DataType::variable_length_bytes());
/// array.codecs.push(CodecSpec::vlen_bytes());
/// array.nonempty_chunks = Some(["0.0"].into_iter().collect());
/// assert_eq!((array.rank(), array.items(), array.fill_value.clone()), (2, Some(3), FillValue::empty()));
/// assert_eq!(ArrayDoc::parse(array.print().as_bytes()).unwrap(), array);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayDoc {
    /// Items per axis.
    pub shape: Vec<u64>,
    /// The type of an item.
    pub data_type: DataType,
    /// Items per axis of one stored chunk or shard; as long as `shape`, no extent 0.
    pub chunk_shape: Vec<u64>,
    /// The encoding of chunk keys.
    pub chunk_key_encoding: ChunkKeyEncoding,
    /// The value of items that are not stored.
    pub fill_value: FillValue,
    /// The codecs; the first one is applied to the items.
    pub codecs: Vec<CodecSpec>,
    /// The presence list, if the attributes have one.
    pub nonempty_chunks: Option<KeyList>,
    /// The other attributes.
    pub attributes: Object,
    /// Other keys of the document.
    pub extras: Object,
}

/// The encoding of chunk keys.
///
/// ```
/// use zvf_metadata::ChunkKeyEncoding;
///
/// assert!(ChunkKeyEncoding::Default.is_usual() && !ChunkKeyEncoding::DefaultDots.is_usual());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChunkKeyEncoding {
    /// `c/0/1`: the only encoding used in stores of this format.
    Default,
    /// `c.0.1`.
    DefaultDots,
    /// `0.1`.
    V2Dots,
    /// `0/1`.
    V2Slashes,
}

impl ChunkKeyEncoding {
    /// Returns whether this is the encoding used in stores of this format.
    #[must_use]
    pub const fn is_usual(self) -> bool {
        matches!(self, Self::Default)
    }

    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Default => ("default", "/"),
            Self::DefaultDots => ("default", "."),
            Self::V2Dots => ("v2", "."),
            Self::V2Slashes => ("v2", "/"),
        }
    }

    fn read(at: &At<'_>, value: Value) -> Result<Self, MetadataError> {
        let (name, configuration) = split_configuration(at, value)?;
        let inner = at.key("configuration");
        let mut fields = Fields::new(&inner, configuration);
        let separator = fields.take("separator", String::read)?;
        let separator = separator.as_deref().unwrap_or(if name == "v2" { "." } else { "/" });
        let all = [Self::Default, Self::DefaultDots, Self::V2Dots, Self::V2Slashes];
        let found = all.into_iter().find(|one| one.words() == (name.as_str(), separator));
        found.ok_or_else(|| {
            let rule = "default or v2, with / or .";
            MetadataError::rule(Class::Unsupported, at, rule, "another encoding").with_quote(&name)
        })
    }

    fn to_value(self) -> Value {
        let (name, separator) = self.words();
        join_configuration(name, Put::new().put("separator", separator))
    }
}

impl ArrayDoc {
    /// Creates an array of bytes without codecs or attributes, with an empty fill value.
    ///
    /// Numeric arrays need their own `fill_value`.
    pub fn new(shape: Vec<u64>, chunk_shape: Vec<u64>, data_type: DataType) -> Self {
        Self {
            shape,
            data_type,
            chunk_shape,
            chunk_key_encoding: ChunkKeyEncoding::Default,
            fill_value: FillValue::empty(),
            codecs: Vec::new(),
            nonempty_chunks: None,
            attributes: Object::new(),
            extras: Object::new(),
        }
    }

    /// Reads an array document within [`Limits::ARRAY`].
    ///
    /// # Errors
    ///
    /// When `text` is not JSON, too large, or not a Zarr 3 array document; when a required key is
    /// missing, has a value of another type, or contradicts another key.
    pub fn parse(text: &[u8]) -> Result<Self, MetadataError> {
        Self::parse_within(text, &Limits::ARRAY)
    }

    /// Reads an array document within the given limits.
    ///
    /// # Errors
    ///
    /// As [`ArrayDoc::parse`].
    pub fn parse_within(text: &[u8], limits: &Limits) -> Result<Self, MetadataError> {
        let parsed = json::parse(text, limits, true)?;
        Self::read(Fields::from_value(&At::Document, parsed.value)?, parsed.keys)
    }

    /// Returns the number of axes.
    pub const fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns the number of items, or `None` if it does not fit in `u64`.
    pub fn items(&self) -> Option<u64> {
        num::count_items(&self.shape)
    }

    /// Returns the number of bytes per decoded chunk, or `None` if items have no fixed size or the
    /// number does not fit in `u64`.
    pub fn chunk_bytes(&self) -> Option<u64> {
        num::count_items(&self.chunk_shape)?.checked_mul(self.data_type.item_size()?)
    }

    /// Returns the settings of the shards, if the array is sharded and no other codec wraps the
    /// shards.
    pub fn sharding(&self) -> Option<&Sharding> {
        let [codec] = self.codecs.as_slice() else { return None };
        if let CodecKind::Sharding(sharding) = codec.kind() { Some(sharding) } else { None }
    }

    /// Returns the items per axis of the unit of encoding: an inner chunk of a shard, or a chunk.
    pub fn inner_chunk_shape(&self) -> &[u64] {
        self.sharding().map_or(&self.chunk_shape, |sharding| &sharding.chunk_shape)
    }

    /// Prints the document.
    pub fn print(&self) -> String {
        let chunks = Put::new().put("chunk_shape", self.chunk_shape.clone());
        let put = Put::new()
            .put("shape", self.shape.clone())
            .put("data_type", self.data_type.to_value())
            .put("chunk_grid", join_configuration("regular", chunks))
            .put("chunk_key_encoding", self.chunk_key_encoding.to_value())
            .put("fill_value", self.fill_value.to_value())
            .put("codecs", self.codecs.to_value())
            .put("attributes", self.attributes.clone())
            .put("zarr_format", 3)
            .put("node_type", "array")
            .put("storage_transformers", Vec::<Value>::new());
        let whole = put.with_extras(&self.extras);
        match &self.nonempty_chunks {
            Some(presence) => print_with(&whole, presence),
            None => print(&Value::Object(whole)),
        }
    }

    pub(super) fn read(
        mut fields: Fields<'_>,
        nonempty_chunks: Option<KeyList>,
    ) -> Result<Self, MetadataError> {
        node(&mut fields, "array")?;
        let shape = fields.require("shape", Vec::<u64>::read)?;
        if shape.len() > MAX_RANK {
            let at = At::Document.key("shape");
            let expected = Expected::AtMost(num::to_u64(MAX_RANK).into());
            return Err(MetadataError::new(Class::LimitExceeded, &at, expected, shape.len()));
        }
        let data_type = fields.require("data_type", DataType::read)?;
        let fill_value =
            fields.require("fill_value", |at, v| FillValue::read(at, v, &data_type))?;
        fields.take("storage_transformers", check_transformers)?;
        let mut attributes = fields.take("attributes", Object::read)?.unwrap_or_default();
        if nonempty_chunks.is_some() {
            attributes.shift_remove("nonempty_chunks"); // the parser left null in its place
        }
        let encoding = fields.take("chunk_key_encoding", ChunkKeyEncoding::read)?;
        let array = Self {
            chunk_shape: fields.require("chunk_grid", |at, v| regular_grid(at, v, shape.len()))?,
            shape,
            data_type,
            chunk_key_encoding: encoding.unwrap_or(ChunkKeyEncoding::Default),
            fill_value,
            codecs: fields.require("codecs", Vec::read)?,
            nonempty_chunks,
            attributes,
            extras: fields.into_remaining(),
        };
        array.check_shards()?;
        Ok(array)
    }

    /// Checks that inner chunks have the rank of the array and divide the shard.
    fn check_shards(&self) -> Result<(), MetadataError> {
        let Some(Sharding { chunk_shape, .. }) = self.sharding() else { return Ok(()) };
        let codecs = At::Document.key("codecs");
        let codec = codecs.item(0);
        let at = codec.key("configuration");
        let at = at.key("chunk_shape");
        check_rank(&at, chunk_shape.len(), self.rank())?;
        for (i, (inner, shard)) in chunk_shape.iter().zip(&self.chunk_shape).enumerate() {
            if !shard.is_multiple_of(*inner) {
                let rule = "a divisor of the shard";
                return Err(MetadataError::rule(Class::BadShape, &at.item(i), rule, *inner));
            }
        }
        Ok(())
    }
}

fn regular_grid(at: &At<'_>, value: Value, rank: usize) -> Result<Vec<u64>, MetadataError> {
    let (name, configuration) = split_configuration(at, value)?;
    if name != "regular" {
        let error = MetadataError::rule(Class::Unsupported, at, "a regular grid", "another grid");
        return Err(error.with_quote(&name));
    }
    let at = at.key("configuration");
    let chunk_shape = Fields::new(&at, configuration).require("chunk_shape", positive_counts)?;
    check_rank(&at.key("chunk_shape"), chunk_shape.len(), rank)?;
    Ok(chunk_shape)
}

fn check_rank(at: &At<'_>, found: usize, rank: usize) -> Result<(), MetadataError> {
    if found == rank {
        return Ok(());
    }
    let expected = Expected::Exactly(num::to_u64(rank).into());
    Err(MetadataError::new(Class::BadShape, at, expected, found))
}

fn check_transformers(at: &At<'_>, value: Value) -> Result<(), MetadataError> {
    let found = Vec::<Value>::read(at, value)?.len();
    if found == 0 {
        return Ok(());
    }
    Err(MetadataError::new(Class::Unsupported, at, Expected::Exactly(0), found))
}

/// Above the largest rank in this format: eight axes in space and one of categories.
const MAX_RANK: usize = 32;

#[cfg(test)]
mod tests;
