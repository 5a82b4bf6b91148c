//! Attributes of link families, of their segments, and of the attributes of links.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::super::dtype::Dtype;
use super::super::error::MetadataError;
use super::super::members::{Document, Members};
use super::super::token::{LinkStore, Token};
use super::vertices::written_origin;
use super::{ArrayAttributes as _, Object, dtype};

/// Attributes of the group `links/<delta>`, and of `cross_chunk_links/<delta>` before 0.9.
///
/// ```
/// use zvf_metadata::{LinkStore, arrays::{ArrayAttributes as _, LinksFamily}};
///
/// let family = LinksFamily::new(0, 2, false, LinkStore::Canonical);
/// assert_eq!(LinksFamily::parse(family.to_attributes()), Ok(family));
/// // `directed` and `store` exist nowhere else.
/// assert!(LinksFamily::parse(serde_json::Map::new()).is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinksFamily {
    /// The tag: `links_family` or `cross_chunk_links`.
    pub zv_array: Option<String>,
    /// Number of levels up from the first endpoint to the others.
    pub level_delta: i64,
    /// Number of endpoints per record.
    pub link_width: u64,
    /// Whether the order of endpoints has a meaning.
    pub directed: bool,
    /// The number of stored copies of a record.
    pub store: Token<LinkStore>,
    /// Number of components of a chunk key.
    pub sid_ndim: Option<u64>,
    /// Number of records, each counted once.
    pub num_links: Option<u64>,
    /// Number of rows.
    pub num_physical_records: Option<u64>,
    /// The layout of cross-chunk links, in development versions of 0.8.
    pub layout: Option<String>,
    /// Unknown keys, which are kept.
    pub extras: Object,
}

impl LinksFamily {
    /// Describes a family without records.
    pub fn new(level_delta: i64, link_width: u64, directed: bool, store: LinkStore) -> Self {
        Self {
            zv_array: Some("links_family".to_owned()),
            level_delta,
            link_width,
            directed,
            store: store.into(),
            ..Self::default()
        }
    }

    /// Parses the attributes of `cross_chunk_links/<delta>`. By default the links are undirected
    /// and stored once.
    ///
    /// # Errors
    ///
    /// When the level delta or the width is missing, or any key has a value of another type.
    pub fn parse_cross_chunk(mut attributes: Object) -> Result<Self, MetadataError> {
        let usual = [("directed", false.into()), ("store", "canonical".into())];
        for (key, value) in usual {
            if attributes.get(key).is_none_or(Value::is_null) {
                attributes.insert(key.to_owned(), value);
            }
        }
        Self::parse(attributes)
    }

    /// Returns the names of the segments that the document lists for readers that cannot list;
    /// `None` without a list, or if the number of rows has changed since it was written.
    pub fn segments(&self) -> Option<Vec<&str>> {
        let list = self.extras.get(Self::SEGMENTS)?;
        let rows = list.get("num_physical_records").and_then(Value::as_u64);
        let names = list.get("names")?.as_array()?.iter().map(Value::as_str).collect();
        if rows.is_some() && rows == self.num_physical_records { names } else { None }
    }

    /// Returns the list of these segments, with the number of rows that they have together.
    pub fn segment_list<'a>(names: impl IntoIterator<Item = &'a str>, rows: Option<u64>) -> Value {
        let mut list = Object::new();
        list.insert("names".to_owned(), Value::from_iter(names));
        list.insert("num_physical_records".to_owned(), rows.into());
        list.into()
    }

    /// The attribute that lists the segments.
    pub const SEGMENTS: &str = "zvf.segments";
}

impl Document for LinksFamily {
    fn members(&mut self, m: &mut Members<'_>) {
        m.tag(&mut self.zv_array);
        m.required("level_delta", &mut self.level_delta);
        m.required("link_width", &mut self.link_width);
        m.required("directed", &mut self.directed);
        m.required("store", &mut self.store);
        m.option("sid_ndim", &mut self.sid_ndim);
        m.option("num_links", &mut self.num_links);
        m.option("num_physical_records", &mut self.num_physical_records);
        m.option("layout", &mut self.layout);
        m.extras(&mut self.extras);
    }
}

/// Attributes of the array `links/<delta>/<offsets>`, and of the group `links/<delta>` before 0.9.
///
/// ```
/// use zvf_metadata::{Dtype, arrays::{ArrayAttributes as _, SegmentAttrs}};
///
/// let segment = SegmentAttrs::new(vec![vec![0, 1]], true, 2, 0, vec![0, 0]);
/// assert_eq!(segment.dtype(), Ok(Dtype::INT64));
/// assert_eq!(SegmentAttrs::parse(segment.to_attributes()), Ok(segment));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SegmentAttrs {
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
    /// Unknown keys, which are kept.
    pub extras: Object,
}

impl SegmentAttrs {
    /// Describes rows of `int64` on a grid that starts at `origin`.
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

    /// Returns the element type of a row; `int64` if absent.
    ///
    /// # Errors
    ///
    /// When the text names no element type.
    pub fn dtype(&self) -> Result<Dtype, MetadataError> {
        dtype(self.dtype.as_deref(), Some(Dtype::INT64))
    }
}

impl Document for SegmentAttrs {
    fn members(&mut self, m: &mut Members<'_>) {
        m.option("chunk_grid_origin", &mut self.chunk_grid_origin);
        m.tag(&mut self.zv_array);
        m.option("dtype", &mut self.dtype);
        m.option("offsets", &mut self.offsets);
        m.option("has_perm", &mut self.has_perm);
        m.option("link_width", &mut self.link_width);
        m.option("level_delta", &mut self.level_delta);
        m.extras(&mut self.extras);
    }
}

/// Attributes of `link_attributes/<n>/<delta>`, of the segments below it, and of
/// `cross_chunk_link_attributes/<n>/<delta>`.
///
/// ```
/// use zvf_metadata::{Dtype, arrays::{ArrayAttributes as _, LinkColumnAttrs}};
///
/// let kind = LinkColumnAttrs::segment("kind", Dtype::INT64, vec![], 0, vec![3], vec![0]);
/// assert_eq!(kind.declared_columns(), Some(3));
/// assert_eq!(LinkColumnAttrs::parse(kind.to_attributes()), Ok(kind));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkColumnAttrs {
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
    /// Unknown keys, which are kept.
    pub extras: Object,
}

impl LinkColumnAttrs {
    /// Describes the group of an attribute for one level delta.
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

    /// Returns the element type; `float32` if absent, as for other attributes.
    ///
    /// # Errors
    ///
    /// When the text names no element type.
    pub fn dtype(&self) -> Result<Dtype, MetadataError> {
        dtype(self.dtype.as_deref(), Some(Dtype::FLOAT32))
    }

    /// Returns the number of values per row; `None` if it does not fit in `u64`.
    pub fn declared_columns(&self) -> Option<u64> {
        let old = self.shape.as_deref().and_then(|shape| shape.get(1..));
        let shape = self.row_shape.as_deref().or(old).unwrap_or_default();
        zvf_format::num::checked_product(shape)
    }
}

impl Document for LinkColumnAttrs {
    fn members(&mut self, m: &mut Members<'_>) {
        m.option("chunk_grid_origin", &mut self.chunk_grid_origin);
        m.tag(&mut self.zv_array);
        m.option("name", &mut self.name);
        m.option("dtype", &mut self.dtype);
        m.option("offsets", &mut self.offsets);
        m.option("level_delta", &mut self.level_delta);
        m.option("num_links", &mut self.num_links);
        m.option("row_shape", &mut self.row_shape);
        m.option("shape", &mut self.shape);
        m.extras(&mut self.extras);
    }
}
