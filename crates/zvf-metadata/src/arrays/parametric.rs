//! Attributes below `parametric`: shapes given by the coefficients of an equation.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use serde_json::Value;

use super::super::error::{At, MetadataError};
use super::super::fields::Fields;
use super::super::members::{Document, Member as _, Members, entries};
use super::Object;
use zvf_format::Class;

/// Attributes of the group `parametric`.
///
/// ```
/// use zvf_metadata::arrays::{ArrayAttributes as _, ParametricTypes};
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
    /// Unknown keys, which are kept.
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
    /// Unknown keys, which are kept.
    pub extras: Object,
}

impl ParametricTypes {
    /// Finds the type with this number.
    pub fn find(&self, id: i64) -> Option<&ParametricType> {
        self.types.iter().find(|one| one.id == id)
    }
}

impl Document for ParametricType {
    fn members(&mut self, m: &mut Members<'_>) {
        m.required("name", &mut self.name);
        m.required("coefficients", &mut self.coefficients);
        m.extras(&mut self.extras);
    }
}

impl Document for ParametricTypes {
    fn members(&mut self, m: &mut Members<'_>) {
        let read = |f: &mut Fields<'_>, key| {
            let types = f.take(key, |at, value| entries(at, value, parse_type))?;
            Ok(types.unwrap_or_default())
        };
        m.member("parametric_types", &mut self.types, read, |types| {
            let types = types.iter().map(|one| (one.id.to_string(), one.to_value()));
            Some(Value::Object(types.collect()))
        });
        m.extras(&mut self.extras);
    }
}

/// Attributes of `parametric/objects`, `parametric/names` and `parametric/groups`.
///
/// ```
/// use zvf_metadata::arrays::{ArrayAttributes as _, ParametricArray};
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
    /// Unknown keys, which are kept.
    pub extras: Object,
}

impl Document for ParametricArray {
    fn members(&mut self, m: &mut Members<'_>) {
        m.tag(&mut self.zv_array);
        m.option("num_objects", &mut self.num_objects);
        m.option("max_row_length", &mut self.max_row_length);
        m.option("dtype", &mut self.dtype);
        m.option("num_groups", &mut self.num_groups);
        m.extras(&mut self.extras);
    }
}

fn parse_type(at: &At<'_>, key: String, value: Value) -> Result<ParametricType, MetadataError> {
    let at = at.name(&key);
    let id = key.parse().ok().filter(|id: &i64| id.to_string() == key);
    let Some(id) = id else {
        let error = MetadataError::rule(Class::BadTag, &at, "the number of a type", "another key");
        return Err(error.with_quote(&key));
    };
    Ok(ParametricType { id, ..ParametricType::read(&at, value)? })
}
