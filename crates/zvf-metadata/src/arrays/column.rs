//! Attributes of the arrays with one row per vertex or per fragment, and their categories.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;
use zvf_format::num;

use serde_json::Value;

use super::super::dtype::Dtype;
use super::super::error::MetadataError;
use super::super::members::{Document, Members};
use super::super::token::{CellEncoding, Token};
use super::vertices::written_origin;
use super::{Object, dtype};

/// Attributes of `vertex_attributes/<n>` and `fragment_attributes/<n>`.
///
/// ```
/// use zvf_metadata::{Dtype, arrays::{ArrayAttributes as _, Column}};
///
/// let color = Column::new("attribute", "color", Dtype::FLOAT32, 3, vec![0, 0]);
/// assert_eq!(color.declared_columns(), Some(3));
/// assert_eq!(color.channel_names.as_ref().unwrap()[2], "ch2");
/// assert_eq!(Column::parse(color.to_attributes()), Ok(color));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// The chunk of cell 0; absent for chunk 0.
    pub chunk_grid_origin: Option<Vec<i64>>,
    /// The tag: `attribute` or `fragment_attribute`.
    pub zv_array: Option<String>,
    /// The name of the attribute.
    pub name: Option<String>,
    /// The element type; with categories, that of the codes.
    pub dtype: Option<String>,
    /// The names of the columns, if rows have several.
    pub channel_names: Option<Vec<String>>,
    /// The shape of a row: empty for one value.
    pub row_shape: Option<Vec<u64>>,
    /// The encoding of cells, if stated.
    pub encoding: Option<Token<CellEncoding>>,
    /// The categories that the codes refer to.
    pub dictionary: Option<Dictionary>,
    /// Whether the values were declared to be categories.
    pub declared_categorical: Option<bool>,
    /// The unit of the values.
    pub unit: Option<String>,
    /// The description of the attribute.
    pub description: Option<String>,
    /// Unknown keys, which are kept.
    pub extras: Object,
}

impl Column {
    /// Describes rows of `columns` values of this type, on a grid that starts at `origin`.
    pub fn new(tag: &str, name: &str, dtype: Dtype, columns: u32, origin: Vec<i64>) -> Self {
        let several = columns != 1;
        let names = || (0..columns).map(|i| alloc::format!("ch{i}")).collect();
        Self {
            chunk_grid_origin: written_origin(origin),
            zv_array: Some(tag.to_owned()),
            name: Some(name.to_owned()),
            dtype: Some(dtype.into()),
            channel_names: several.then(names),
            row_shape: Some(several.then(|| columns.into()).into_iter().collect()),
            ..Self::default()
        }
    }

    /// Returns the element type; `float32` if absent, as writers that omit it mean.
    ///
    /// # Errors
    ///
    /// When the text names no element type.
    pub fn dtype(&self) -> Result<Dtype, MetadataError> {
        dtype(self.dtype.as_deref(), Some(Dtype::FLOAT32))
    }

    /// Returns the number of columns that the attributes declare: the number of names, or else the
    /// product of the row's shape, or else 1. `None` if the product does not fit in `u64`.
    ///
    /// Some writers declare 1 although rows have more columns; [`columns`](super::super::columns)
    /// gives the actual number.
    pub fn declared_columns(&self) -> Option<u64> {
        match (&self.channel_names, &self.row_shape) {
            (Some(names), _) if !names.is_empty() => Some(num::to_u64(names.len())),
            (_, Some(shape)) => num::checked_product(shape),
            (_, None) => Some(1),
        }
    }
}

impl Document for Column {
    fn members(&mut self, m: &mut Members<'_>) {
        m.option("chunk_grid_origin", &mut self.chunk_grid_origin);
        m.tag(&mut self.zv_array);
        m.option("name", &mut self.name);
        m.option("dtype", &mut self.dtype);
        m.option("channel_names", &mut self.channel_names);
        m.option("row_shape", &mut self.row_shape);
        m.option("encoding", &mut self.encoding);
        if m.reads() && self.encoding == Some(Token::Known(CellEncoding::Dictionary)) {
            self.dictionary = Some(Dictionary::default());
        }
        if let Some(dictionary) = &mut self.dictionary {
            m.required("categories", &mut dictionary.categories);
            m.or_default("ordered", &mut dictionary.ordered);
            m.option("_FillValue", &mut dictionary.missing);
        }
        m.option("declared_categorical", &mut self.declared_categorical);
        m.option("unit", &mut self.unit);
        m.option("description", &mut self.description);
        m.extras(&mut self.extras);
    }
}

/// The categories of a column whose values are codes.
///
/// ```
/// use zvf_metadata::arrays::{ArrayAttributes as _, Column};
///
/// let attributes = serde_json::json!({"dtype": "int8", "encoding": "dictionary",
///     "categories": ["axon", "soma"], "_FillValue": -1});
/// let column = Column::parse(attributes.as_object().unwrap().clone()).unwrap();
/// assert_eq!(column.dictionary.unwrap().missing, Some(-1));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dictionary {
    /// The category of each code.
    pub categories: Vec<Value>,
    /// Whether their order has a meaning.
    pub ordered: bool,
    /// The code of a missing value (`_FillValue`).
    pub missing: Option<i64>,
}
