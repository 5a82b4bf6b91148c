//! Attributes of the arrays with one row per vertex or per fragment, and their categories.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::super::dtype::Dtype;
use super::super::error::{At, MetadataError};
use super::super::fields::{Fields, Put, any_value, counts, flag, int, ints, list, text, texts};
use super::super::token::{CellEncoding, Token};
use super::vertices::written_origin;
use super::{Object, dtype, split_tag};

/// Attributes of `vertex_attributes/<n>` and `fragment_attributes/<n>`.
///
/// ```
/// use zvf_metadata::{Dtype, arrays::Column};
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
    /// Keys this crate does not know.
    pub extras: Object,
}

impl Column {
    /// Describes rows of `columns` values of this type, on a grid that starts at `origin`.
    #[must_use]
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

    /// Parses attributes.
    ///
    /// # Errors
    ///
    /// When a key has a value of another type, or declared categories are missing.
    pub fn parse(attributes: Object) -> Result<Self, MetadataError> {
        let (mut fields, zv_array) = split_tag(attributes)?;
        let encoding: Option<Token<_>> = fields.take("encoding", Token::read)?;
        let coded = encoding == Some(Token::Known(CellEncoding::Dictionary));
        Ok(Self {
            chunk_grid_origin: fields.take("chunk_grid_origin", ints)?,
            zv_array,
            name: fields.take("name", text)?,
            dtype: fields.take("dtype", text)?,
            channel_names: fields.take("channel_names", texts)?,
            row_shape: fields.take("row_shape", counts)?,
            dictionary: if coded { Some(Dictionary::read(&mut fields)?) } else { None },
            encoding,
            declared_categorical: fields.take("declared_categorical", flag)?,
            unit: fields.take("unit", text)?,
            description: fields.take("description", text)?,
            extras: fields.into_remaining(),
        })
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
    #[must_use]
    pub fn declared_columns(&self) -> Option<u64> {
        match (&self.channel_names, &self.row_shape) {
            (Some(names), _) if !names.is_empty() => Some(zvf_format::num::to_u64(names.len())),
            (_, Some(shape)) => shape.iter().try_fold(1_u64, |all, &n| all.checked_mul(n)),
            (_, None) => Some(1),
        }
    }

    /// Returns the attributes.
    #[must_use]
    pub fn to_attributes(&self) -> Object {
        let put = Put::new()
            .put_some("chunk_grid_origin", self.chunk_grid_origin.clone())
            .put_some("zv_array", self.zv_array.as_deref())
            .put_some("name", self.name.as_deref())
            .put_some("dtype", self.dtype.as_deref())
            .put_some("channel_names", self.channel_names.clone())
            .put_some("row_shape", self.row_shape.clone())
            .put_some("encoding", self.encoding.clone());
        let put = match &self.dictionary {
            Some(dictionary) => dictionary.put(put),
            None => put,
        };
        put.put_some("declared_categorical", self.declared_categorical)
            .put_some("unit", self.unit.as_deref())
            .put_some("description", self.description.as_deref())
            .with_extras(&self.extras)
    }
}

/// The categories of a column whose values are codes.
///
/// ```
/// use zvf_metadata::arrays::Column;
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

impl Dictionary {
    fn read(fields: &mut Fields<'_>) -> Result<Self, MetadataError> {
        Ok(Self {
            categories: fields
                .require("categories", |at: &At<'_>, value| list(at, value, any_value))?,
            ordered: fields.take("ordered", flag)?.unwrap_or(false),
            missing: fields.take("_FillValue", int)?,
        })
    }

    fn put(&self, put: Put) -> Put {
        let put = put.put("categories", self.categories.clone()).put("ordered", self.ordered);
        put.put_some("_FillValue", self.missing)
    }
}
