//! The block `attribute_specs`: attributes that the root declares, by scope and name.
//!
//! A declared attribute need not have an array.
//!
//! Not here: whether scopes and types are known; that is rule M17.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::Object;
use super::error::{BLOCK, MetadataError};
use super::members::{Document, Member, Members, entries};

/// The declarations, in the order of the document.
///
/// ```
/// use zvf_metadata::AttributeSpecs;
///
/// let value = serde_json::json!({"vertex": {"color": {"dtype": "uint8", "channels": 3}}});
/// let specs = AttributeSpecs::parse(value.clone()).unwrap();
/// assert_eq!(specs.find("vertex", "color").unwrap().channels, 3);
/// assert_eq!(specs.to_value(), value);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttributeSpecs {
    /// Each scope (`vertex`, `object`, `link`) with its attributes.
    pub scopes: Vec<(String, Vec<(String, AttributeSpec)>)>,
}

impl AttributeSpecs {
    /// Parses the value of the key `attribute_specs`.
    ///
    /// # Errors
    ///
    /// When a scope or a declaration is not an object, or a key of a declaration has a value of
    /// another type.
    pub fn parse(value: Value) -> Result<Self, MetadataError> {
        let at = BLOCK.key("attribute_specs");
        let scopes = entries(&at, value, |at, scope, value| {
            let names = entries(&at.name(&scope), value, |at, name, value| {
                let spec = AttributeSpec::read(&at.name(&name), value)?;
                Ok((name, spec))
            })?;
            Ok((scope, names))
        });
        Ok(Self { scopes: scopes? })
    }

    /// Finds the declaration of `name` in `scope`.
    pub fn find(&self, scope: &str, name: &str) -> Option<&AttributeSpec> {
        let (_, names) = self.scopes.iter().find(|(s, _)| s == scope)?;
        names.iter().find(|(n, _)| n == name).map(|(_, spec)| spec)
    }

    /// Returns the value of the key `attribute_specs`.
    pub fn to_value(&self) -> Value {
        let scopes = self.scopes.iter().map(|(scope, names)| {
            let names = names.iter().map(|(name, spec)| (name.clone(), spec.to_value()));
            (scope.clone(), Value::Object(names.collect()))
        });
        Value::Object(scopes.collect())
    }
}

/// One declared attribute.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttributeSpec {
    /// The element type, as a name of [`Dtype`](super::Dtype).
    pub dtype: String,
    /// Number of columns.
    pub channels: u64,
    /// Whether the values are codes of categories.
    pub categorical: bool,
    /// The unit of the values.
    pub unit: Option<String>,
    /// The description of the attribute.
    pub description: Option<String>,
    /// Unknown keys, which are kept.
    pub extras: Object,
}

impl AttributeSpec {
    /// Describes one column of this type.
    pub fn new(dtype: &str) -> Self {
        Self { dtype: dtype.to_owned(), channels: 1, ..Self::default() }
    }
}

impl Document for AttributeSpec {
    fn members(&mut self, m: &mut Members<'_>) {
        m.required("dtype", &mut self.dtype);
        m.unless(1, "channels", &mut self.channels);
        m.unless(false, "categorical", &mut self.categorical);
        m.option("unit", &mut self.unit);
        m.option("description", &mut self.description);
        m.extras(&mut self.extras);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::fault;

    #[test]
    fn declarations_round_trip() {
        let value = json!({
            "vertex": {
                "label": {"dtype": "int32", "categorical": true},
                "intensity": {"dtype": "float32", "unit": "microvolt", "description": "peak", "k": 1},
            },
            "object": {},
        });
        let specs = AttributeSpecs::parse(value.clone()).unwrap();
        assert_eq!(specs.to_value(), value);
        assert_eq!(specs.find("vertex", "label").unwrap().channels, 1);
        let spec = AttributeSpec { categorical: true, ..AttributeSpec::new("int32") };
        assert_eq!(specs.find("vertex", "label"), Some(&spec));
        assert_eq!(specs.find("link", "label"), None);
    }

    #[test]
    fn faults_name_scope_and_attribute() {
        for (value, message) in [
            (
                json!({"vertex": 1}),
                "BadTag, zarr_vectors.attribute_specs.vertex: an object, found 1",
            ),
            (
                json!({"vertex": {"a b": {}}}),
                "BadTag, zarr_vectors.attribute_specs.vertex.\"a b\".dtype: a value, found nothing",
            ),
        ] {
            assert_eq!(fault(&AttributeSpecs::parse(value).unwrap_err()), message);
        }
    }
}
