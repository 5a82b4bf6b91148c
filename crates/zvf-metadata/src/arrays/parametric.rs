//! Attributes below `parametric`: shapes given by the coefficients of an equation.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use serde_json::Value;

use super::super::error::{At, MetadataError};
use super::super::fields::{Fields, Put, count, object, text, texts};
use super::{Object, split_tag};
use zvf_format::Class;

/// Attributes of the group `parametric`.
///
/// ```
/// use zvf_metadata::arrays::ParametricTypes;
///
/// let attributes = serde_json::json!({"parametric_types":
///     {"2": {"name": "sphere", "coefficients": ["cx", "cy", "cz", "r"]}}});
/// let types = ParametricTypes::parse(attributes.as_object().unwrap().clone()).unwrap();
/// assert_eq!(types.find(2).unwrap().coefficients.len(), 4);
/// assert_eq!(types.find(9), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParametricTypes {
    /// The types, in the order of the document.
    pub types: Vec<ParametricType>,
    /// Keys this crate does not know.
    pub extras: Object,
}

/// One type of shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParametricType {
    /// The number that rows of `parametric/objects` start with.
    pub id: i64,
    /// The name of the type.
    pub name: String,
    /// The names of its coefficients, in order.
    pub coefficients: Vec<String>,
    /// Keys this crate does not know.
    pub extras: Object,
}

impl ParametricTypes {
    /// Parses attributes.
    ///
    /// # Errors
    ///
    /// When a type has no name or coefficients, or its key is not a number.
    pub fn parse(attributes: Object) -> Result<Self, MetadataError> {
        let mut fields = Fields::new(&At::Document, attributes);
        let types = fields.take("parametric_types", |at, value| {
            object(at, value)?.into_iter().map(|(key, value)| parse_type(at, &key, value)).collect()
        })?;
        Ok(Self { types: types.unwrap_or_default(), extras: fields.into_remaining() })
    }

    /// Finds the type with this number.
    #[must_use]
    pub fn find(&self, id: i64) -> Option<&ParametricType> {
        self.types.iter().find(|one| one.id == id)
    }

    /// Returns the attributes.
    #[must_use]
    pub fn to_attributes(&self) -> Object {
        let types = self.types.iter().map(|one| {
            let put = Put::new().put("name", one.name.as_str());
            let put = put.put("coefficients", one.coefficients.clone());
            (one.id.to_string(), put.with_extras(&one.extras).into())
        });
        Put::new().put("parametric_types", Value::Object(types.collect())).with_extras(&self.extras)
    }
}

/// Attributes of `parametric/objects`, `parametric/names` and `parametric/groups`.
///
/// ```
/// use zvf_metadata::arrays::ParametricArray;
///
/// let names = ParametricArray { num_objects: Some(4), ..ParametricArray::default() };
/// assert_eq!(ParametricArray::parse(names.to_attributes()), Ok(names));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParametricArray {
    /// The tag: `parametric_objects` or `parametric_names`.
    pub zv_array: Option<String>,
    /// Number of rows, for objects and names.
    pub num_objects: Option<u64>,
    /// Number of columns, for objects: the number of the type and the coefficients.
    pub max_row_length: Option<u64>,
    /// The element type, for objects.
    pub dtype: Option<String>,
    /// Number of rows, for groups.
    pub num_groups: Option<u64>,
    /// Keys this crate does not know.
    pub extras: Object,
}

impl ParametricArray {
    /// Parses attributes.
    ///
    /// # Errors
    ///
    /// When a key has a value of another type.
    pub fn parse(attributes: Object) -> Result<Self, MetadataError> {
        let (mut fields, zv_array) = split_tag(attributes)?;
        Ok(Self {
            zv_array,
            num_objects: fields.take("num_objects", count)?,
            max_row_length: fields.take("max_row_length", count)?,
            dtype: fields.take("dtype", text)?,
            num_groups: fields.take("num_groups", count)?,
            extras: fields.into_remaining(),
        })
    }

    /// Returns the attributes.
    #[must_use]
    pub fn to_attributes(&self) -> Object {
        Put::new()
            .put_some("zv_array", self.zv_array.as_deref())
            .put_some("num_objects", self.num_objects)
            .put_some("max_row_length", self.max_row_length)
            .put_some("dtype", self.dtype.as_deref())
            .put_some("num_groups", self.num_groups)
            .with_extras(&self.extras)
    }
}

fn parse_type(at: &At<'_>, key: &str, value: Value) -> Result<ParametricType, MetadataError> {
    let at = at.name(key);
    let id = key.parse().ok().filter(|id: &i64| id.to_string() == key);
    let Some(id) = id else {
        let error = MetadataError::rule(Class::BadTag, &at, "the number of a type", "another key");
        return Err(error.with_quote(key));
    };
    let mut fields = Fields::from_value(&at, value)?;
    Ok(ParametricType {
        id,
        name: fields.require("name", text)?,
        coefficients: fields.require("coefficients", texts)?,
        extras: fields.into_remaining(),
    })
}
