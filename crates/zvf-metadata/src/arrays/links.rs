//! Attributes of link families, of their segments, and of the attributes of links.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::dtype::Dtype;
use super::super::error::MetadataError;
use super::super::fields::{Fields, Put, count, counts, flag, int, ints, list, text};
use super::super::token::{LinkStore, Token};
use super::vertices::written_origin;
use super::{Object, dtype, split_tag};

/// Attributes of the group `links/<delta>`, and of `cross_chunk_links/<delta>` before 0.9.
///
/// ```
/// use zvf_metadata::{LinkStore, arrays::LinksFamily};
///
/// let family = LinksFamily::new(0, 2, false, LinkStore::Canonical);
/// assert_eq!(LinksFamily::parse(family.to_attributes()), Ok(family));
/// // `directed` and `store` exist nowhere else.
/// assert!(LinksFamily::parse(serde_json::Map::new()).is_err());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LinksFamily {
    /// The tag: `links_family` or `cross_chunk_links`.
    pub zv_array: Option<String>,
    /// Number of levels up from the first endpoint to the others.
    pub level_delta: i64,
    /// Number of endpoints per record.
    pub link_width: u64,
    /// Whether the order of endpoints has a meaning.
    pub directed: bool,
    /// How often a record is stored.
    pub store: Token<LinkStore>,
    /// Number of components of a chunk key.
    pub sid_ndim: Option<u64>,
    /// Number of records, each counted once.
    pub num_links: Option<u64>,
    /// Number of rows.
    pub num_physical_records: Option<u64>,
    /// The layout of cross-chunk links, in development versions of 0.8.
    pub layout: Option<String>,
    /// Keys this crate does not know.
    pub extras: Object,
}

impl LinksFamily {
    /// Describes a family without records.
    #[must_use]
    pub fn new(level_delta: i64, link_width: u64, directed: bool, store: LinkStore) -> Self {
        Self {
            zv_array: Some("links_family".to_owned()),
            level_delta,
            link_width,
            directed,
            store: store.into(),
            sid_ndim: None,
            num_links: None,
            num_physical_records: None,
            layout: None,
            extras: Object::new(),
        }
    }

    /// Parses the attributes of `links/<delta>`.
    ///
    /// # Errors
    ///
    /// When one of the first four keys is missing, or any key has a value of another type.
    pub fn parse(attributes: Object) -> Result<Self, MetadataError> {
        let (mut fields, zv_array) = split_tag(attributes)?;
        let directed = fields.require("directed", flag)?;
        let store = fields.require("store", Token::read)?;
        Self::read(fields, zv_array, directed, store)
    }

    /// Parses the attributes of `cross_chunk_links/<delta>`. By default the links are undirected
    /// and stored once.
    ///
    /// # Errors
    ///
    /// When the level delta or the width is missing, or any key has a value of another type.
    pub fn parse_cross_chunk(attributes: Object) -> Result<Self, MetadataError> {
        let (mut fields, zv_array) = split_tag(attributes)?;
        let directed = fields.take("directed", flag)?.unwrap_or(false);
        let store = fields.take("store", Token::read)?;
        let store = store.unwrap_or(Token::Known(LinkStore::Canonical));
        Self::read(fields, zv_array, directed, store)
    }

    fn read(
        mut fields: Fields<'_>,
        zv_array: Option<String>,
        directed: bool,
        store: Token<LinkStore>,
    ) -> Result<Self, MetadataError> {
        Ok(Self {
            zv_array,
            level_delta: fields.require("level_delta", int)?,
            link_width: fields.require("link_width", count)?,
            directed,
            store,
            sid_ndim: fields.take("sid_ndim", count)?,
            num_links: fields.take("num_links", count)?,
            num_physical_records: fields.take("num_physical_records", count)?,
            layout: fields.take("layout", text)?,
            extras: fields.into_remaining(),
        })
    }

    /// Returns the attributes.
    #[must_use]
    pub fn to_attributes(&self) -> Object {
        Put::new()
            .put_some("zv_array", self.zv_array.as_deref())
            .put("level_delta", self.level_delta)
            .put("link_width", self.link_width)
            .put("directed", self.directed)
            .put("store", self.store.clone())
            .put_some("sid_ndim", self.sid_ndim)
            .put_some("num_links", self.num_links)
            .put_some("num_physical_records", self.num_physical_records)
            .put_some("layout", self.layout.as_deref())
            .with_extras(&self.extras)
    }
}

/// Attributes of the array `links/<delta>/<offsets>`, and of the group `links/<delta>` before 0.9.
///
/// ```
/// use zvf_metadata::{Dtype, arrays::LinkSegment};
///
/// let segment = LinkSegment::new(vec![vec![0, 1]], true, 2, 0, vec![0, 0]);
/// assert_eq!(segment.dtype(), Ok(Dtype::INT64));
/// assert_eq!(LinkSegment::parse(segment.to_attributes()), Ok(segment));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkSegment {
    /// The chunk of cell 0; absent for chunk 0.
    pub chunk_grid_origin: Option<Vec<i64>>,
    /// The tag: `links`.
    pub zv_array: Option<String>,
    /// The element type of a row.
    pub dtype: Option<String>,
    /// Chunks from the first endpoint to each of the others.
    pub offsets: Option<Vec<Vec<i64>>>,
    /// Whether rows start with the code of a permutation.
    pub has_perm: Option<bool>,
    /// Number of endpoints per record.
    pub link_width: Option<u64>,
    /// Number of levels up from the first endpoint to the others.
    pub level_delta: Option<i64>,
    /// Keys this crate does not know.
    pub extras: Object,
}

impl LinkSegment {
    /// Describes rows of `int64` on a grid that starts at `origin`.
    #[must_use]
    pub fn new(
        offsets: Vec<Vec<i64>>,
        has_perm: bool,
        link_width: u64,
        level_delta: i64,
        origin: Vec<i64>,
    ) -> Self {
        Self {
            chunk_grid_origin: written_origin(origin),
            zv_array: Some("links".to_owned()),
            dtype: Some(Dtype::INT64.into()),
            offsets: Some(offsets),
            has_perm: Some(has_perm),
            link_width: Some(link_width),
            level_delta: Some(level_delta),
            extras: Object::new(),
        }
    }

    /// Parses attributes.
    ///
    /// # Errors
    ///
    /// When a key has a value of another type.
    pub fn parse(attributes: Object) -> Result<Self, MetadataError> {
        let (mut fields, zv_array) = split_tag(attributes)?;
        Ok(Self {
            chunk_grid_origin: fields.take("chunk_grid_origin", ints)?,
            zv_array,
            dtype: fields.take("dtype", text)?,
            offsets: fields.take("offsets", |at, value| list(at, value, ints))?,
            has_perm: fields.take("has_perm", flag)?,
            link_width: fields.take("link_width", count)?,
            level_delta: fields.take("level_delta", int)?,
            extras: fields.into_remaining(),
        })
    }

    /// Returns the element type of a row; `int64` if absent.
    ///
    /// # Errors
    ///
    /// When the text names no element type.
    pub fn dtype(&self) -> Result<Dtype, MetadataError> {
        dtype(self.dtype.as_deref(), Some(Dtype::INT64))
    }

    /// Returns the attributes.
    #[must_use]
    pub fn to_attributes(&self) -> Object {
        Put::new()
            .put_some("chunk_grid_origin", self.chunk_grid_origin.clone())
            .put_some("zv_array", self.zv_array.as_deref())
            .put_some("dtype", self.dtype.as_deref())
            .put_some("offsets", self.offsets.clone())
            .put_some("has_perm", self.has_perm)
            .put_some("link_width", self.link_width)
            .put_some("level_delta", self.level_delta)
            .with_extras(&self.extras)
    }
}

/// Attributes of `link_attributes/<n>/<delta>`, of the segments below it, and of
/// `cross_chunk_link_attributes/<n>/<delta>`.
///
/// ```
/// use zvf_metadata::{Dtype, arrays::LinkAttribute};
///
/// let kind = LinkAttribute::segment("kind", Dtype::INT64, vec![], 0, vec![3], vec![0]);
/// assert_eq!(kind.declared_columns(), Some(3));
/// assert_eq!(LinkAttribute::parse(kind.to_attributes()), Ok(kind));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkAttribute {
    /// The chunk of cell 0; absent for chunk 0.
    pub chunk_grid_origin: Option<Vec<i64>>,
    /// The tag: `link_attribute_family` or `link_attribute`.
    pub zv_array: Option<String>,
    /// The name of the attribute.
    pub name: Option<String>,
    /// The element type.
    pub dtype: Option<String>,
    /// Chunks from the first endpoint to each of the others.
    pub offsets: Option<Vec<Vec<i64>>>,
    /// Number of levels up from the first endpoint to the others.
    pub level_delta: Option<i64>,
    /// Number of records, each counted once.
    pub num_links: Option<u64>,
    /// The shape of a row; absent for rows of one value.
    pub row_shape: Option<Vec<u64>>,
    /// Number of rows, and of columns if there are several, before 0.9.
    pub shape: Option<Vec<u64>>,
    /// Keys this crate does not know.
    pub extras: Object,
}

impl LinkAttribute {
    /// Describes the group of an attribute for one level delta.
    #[must_use]
    pub fn family(name: &str, level_delta: i64, num_links: Option<u64>) -> Self {
        Self {
            zv_array: Some("link_attribute_family".to_owned()),
            name: Some(name.to_owned()),
            level_delta: Some(level_delta),
            num_links,
            ..Self::default()
        }
    }

    /// Describes the array of a segment.
    #[must_use]
    pub fn segment(
        name: &str,
        dtype: Dtype,
        offsets: Vec<Vec<i64>>,
        level_delta: i64,
        row_shape: Vec<u64>,
        origin: Vec<i64>,
    ) -> Self {
        Self {
            chunk_grid_origin: written_origin(origin),
            zv_array: Some("link_attribute".to_owned()),
            name: Some(name.to_owned()),
            dtype: Some(dtype.into()),
            offsets: Some(offsets),
            level_delta: Some(level_delta),
            row_shape: Some(row_shape),
            ..Self::default()
        }
    }

    /// Parses attributes.
    ///
    /// # Errors
    ///
    /// When a key has a value of another type.
    pub fn parse(attributes: Object) -> Result<Self, MetadataError> {
        let (mut fields, zv_array) = split_tag(attributes)?;
        Ok(Self {
            chunk_grid_origin: fields.take("chunk_grid_origin", ints)?,
            zv_array,
            name: fields.take("name", text)?,
            dtype: fields.take("dtype", text)?,
            offsets: fields.take("offsets", |at, value| list(at, value, ints))?,
            level_delta: fields.take("level_delta", int)?,
            num_links: fields.take("num_links", count)?,
            row_shape: fields.take("row_shape", counts)?,
            shape: fields.take("shape", counts)?,
            extras: fields.into_remaining(),
        })
    }

    /// Returns the element type; `float32` if absent, as for other attributes.
    ///
    /// # Errors
    ///
    /// When the text names no element type.
    pub fn dtype(&self) -> Result<Dtype, MetadataError> {
        dtype(self.dtype.as_deref(), Some(Dtype::FLOAT32))
    }

    /// Returns the number of values per row; `None` if it does not fit in `u64`.
    #[must_use]
    pub fn declared_columns(&self) -> Option<u64> {
        let old = self.shape.as_deref().and_then(|shape| shape.get(1..));
        let shape = self.row_shape.as_deref().or(old).unwrap_or_default();
        shape.iter().try_fold(1_u64, |all, &n| all.checked_mul(n))
    }

    /// Returns the attributes.
    #[must_use]
    pub fn to_attributes(&self) -> Object {
        Put::new()
            .put_some("chunk_grid_origin", self.chunk_grid_origin.clone())
            .put_some("zv_array", self.zv_array.as_deref())
            .put_some("name", self.name.as_deref())
            .put_some("dtype", self.dtype.as_deref())
            .put_some("offsets", self.offsets.clone())
            .put_some("level_delta", self.level_delta)
            .put_some("num_links", self.num_links)
            .put_some("row_shape", self.row_shape.clone())
            .put_some("shape", self.shape.clone())
            .with_extras(&self.extras)
    }
}
