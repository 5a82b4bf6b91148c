//! Attributes of the arrays of vertex rows, and of those of fragment indexes.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::dtype::Dtype;
use super::super::error::MetadataError;
use super::super::members::{Document, Members};
use super::super::token::{CellEncoding, Token};
use super::{Object, dtype};

/// Attributes of `vertices`, and of `vertices_<geom>` in composite stores.
///
/// ```
/// use zvf_metadata::{Dtype, arrays::{ArrayAttributes as _, Vertices}};
///
/// let vertices = Vertices::new(Dtype::FLOAT32, vec![-1, 0]);
/// assert_eq!(vertices.dtype(), Ok(Dtype::FLOAT32));
/// assert_eq!(Vertices::parse(vertices.to_attributes()), Ok(vertices));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vertices {
    /// The chunk of cell 0; absent for chunk 0.
    pub chunk_grid_origin: Option<Vec<i64>>,
    /// The tag.
    pub zv_array: Option<String>,
    /// The element type.
    pub dtype: Option<String>,
    /// The encoding of cells.
    pub encoding: Option<Token<CellEncoding>>,
    /// Number of axes, in composite stores.
    pub ndim: Option<i64>,
    /// Number of rows, in composite stores.
    pub vertex_count: Option<i64>,
    /// Unknown keys, which are kept.
    pub extras: Object,
}

impl Vertices {
    /// Describes rows of this type on a grid that starts at `origin`.
    pub fn new(dtype: Dtype, origin: Vec<i64>) -> Self {
        Self {
            chunk_grid_origin: written_origin(origin),
            zv_array: Some("vertices".to_owned()),
            dtype: Some(dtype.into()),
            encoding: Some(CellEncoding::Raw.into()),
            ..Self::default()
        }
    }

    /// Returns the element type; `float32` if absent.
    ///
    /// # Errors
    ///
    /// When the text names no element type.
    pub fn dtype(&self) -> Result<Dtype, MetadataError> {
        dtype(self.dtype.as_deref(), Some(Dtype::FLOAT32))
    }
}

impl Document for Vertices {
    fn members(&mut self, m: &mut Members<'_>) {
        m.option("chunk_grid_origin", &mut self.chunk_grid_origin);
        m.tag(&mut self.zv_array);
        m.option("dtype", &mut self.dtype);
        m.option("encoding", &mut self.encoding);
        m.option("ndim", &mut self.ndim);
        m.option("vertex_count", &mut self.vertex_count);
        m.extras(&mut self.extras);
    }
}

/// Attributes of `vertex_fragments` and `link_fragments`.
///
/// ```
/// use zvf_metadata::arrays::{ArrayAttributes as _, FragmentsAttrs};
///
/// let fragments = FragmentsAttrs::new("vertex_fragments", vec![0, 0]);
/// assert_eq!(fragments.chunk_grid_origin, None);
/// assert_eq!(FragmentsAttrs::parse(fragments.to_attributes()), Ok(fragments));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FragmentsAttrs {
    /// The chunk of cell 0; absent for chunk 0.
    pub chunk_grid_origin: Option<Vec<i64>>,
    /// The tag.
    pub zv_array: Option<String>,
    /// The encoding of cells; old writers omit it.
    pub encoding: Option<Token<CellEncoding>>,
    /// Unknown keys, which are kept.
    pub extras: Object,
}

impl FragmentsAttrs {
    /// Describes fragment indexes under the name `array`, on a grid that starts at `origin`.
    pub fn new(array: &str, origin: Vec<i64>) -> Self {
        Self {
            chunk_grid_origin: written_origin(origin),
            zv_array: Some(array.to_owned()),
            encoding: Some(CellEncoding::FragmentIndexV1.into()),
            extras: Object::new(),
        }
    }
}

impl Document for FragmentsAttrs {
    fn members(&mut self, m: &mut Members<'_>) {
        m.option("chunk_grid_origin", &mut self.chunk_grid_origin);
        m.tag(&mut self.zv_array);
        m.option("encoding", &mut self.encoding);
        m.extras(&mut self.extras);
    }
}

/// Returns an origin as it is written: omitted if zero.
pub(super) fn written_origin(origin: Vec<i64>) -> Option<Vec<i64>> {
    if origin.iter().all(|&n| n == 0) { None } else { Some(origin) }
}
