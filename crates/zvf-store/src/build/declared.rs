//! Declares written attributes in the root document.
//!
//! Plain HTTP has no listing: a reader finds an attribute only if the root names it. So every
//! published store declares all its attributes:
//!
//! ```text
//! vertex    LEVEL/[KIND/]vertex_attributes/NAME
//! object    LEVEL/[KIND/]object_attributes/NAME
//! link      LEVEL/[KIND/]link_attributes/NAME/...
//! ```
//!
//! Existing declarations in the root stay. Attributes of fragments and groups have no scope in the
//! format.

use std::sync::Mutex;
use zvf_format::num::checked_product;

use serde_json::Value;
use zvf_metadata::{ArrayDoc, AttributeSpec, AttributeSpecs, Dtype, Object, Root};

use crate::key::Key;
use crate::sync::lock;

/// The attributes of a build, in the order in which they were written.
#[derive(Debug, Default)]
pub(super) struct Declared(Mutex<Vec<(&'static str, String, AttributeSpec)>>);

impl Declared {
    /// Records the array at `key` if it is an attribute.
    pub(super) fn remember(&self, key: &Key, doc: &ArrayDoc) {
        let (Some((scope, name)), Some(spec)) = (attribute(key), spec(&doc.attributes)) else {
            return;
        };
        let mut declared = lock(&self.0);
        if !declared.iter().any(|(other, text, _)| *other == scope && text == name) {
            declared.push((scope, name.to_owned(), spec));
        }
    }

    /// Adds missing declarations to `root`. Declarations that cannot be read stay as they are.
    pub(super) fn add_to(&self, root: &Root) -> Root {
        let mut root = root.clone();
        let declared = lock(&self.0);
        let block = &mut root.zarr_vectors;
        let mut specs = match block.attribute_specs() {
            None => AttributeSpecs::default(),
            Some(Ok(specs)) => specs,
            Some(Err(_)) => return root,
        };
        for (scope, name, spec) in declared.iter() {
            if specs.find(scope, name).is_some() {
                continue;
            }
            match specs.scopes.iter_mut().find(|(other, _)| other == scope) {
                Some((_, names)) => names.push((name.clone(), spec.clone())),
                None => {
                    let scope_specs = vec![(name.clone(), spec.clone())];
                    specs.scopes.push(((*scope).to_owned(), scope_specs));
                }
            }
        }
        if !specs.scopes.is_empty() {
            block.attribute_specs = Some(specs.to_value());
        }
        root
    }
}

/// Returns the scope and the name of the attribute at `key`.
fn attribute(key: &Key) -> Option<(&'static str, &str)> {
    let mut segments = key.segments().skip_while(|segment| scope(segment).is_none());
    Some((scope(segments.next()?)?, segments.next()?))
}

fn scope(segment: &str) -> Option<&'static str> {
    match segment {
        "vertex_attributes" => Some("vertex"),
        "object_attributes" => Some("object"),
        "link_attributes" => Some("link"),
        _ => None,
    }
}

/// Returns the declaration of an attribute from the attributes of its array; `None` if its type is
/// not stated.
fn spec(attributes: &Object) -> Option<AttributeSpec> {
    let text = |key: &str| attributes.get(key).and_then(Value::as_str);
    let dtype = text("dtype").filter(|dtype| dtype.parse::<Dtype>().is_ok())?;
    // Without a shape, a row has one value; if the stated shape is invalid, nothing is declared.
    let lengths = |key: &str| -> Option<Vec<u64>> {
        let Some(lengths) = attributes.get(key) else { return Some(Vec::new()) };
        lengths.as_array()?.iter().map(Value::as_u64).collect()
    };
    // Arrays of cells state the shape of a row; for arrays of rows, it is the shape of the array.
    let row = match attributes.contains_key("row_shape") {
        true => lengths("row_shape")?,
        false => lengths("shape")?.get(1..).unwrap_or_default().to_vec(),
    };
    let declared = attributes.get("declared_categorical").and_then(Value::as_bool) == Some(true);
    Some(AttributeSpec {
        channels: checked_product(&row)?,
        categorical: declared || attributes.contains_key("categories"),
        unit: text("unit").map(str::to_owned),
        description: text("description").map(str::to_owned),
        ..AttributeSpec::new(dtype)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zvf_metadata::{Axis, DataType, ZarrVectors};

    use super::*;

    fn root(specs: Option<Value>) -> Root {
        let mut block = ZarrVectors::new(vec![1.0], [vec![0.0], vec![1.0]]);
        block.attribute_specs = specs;
        Root::new(block, Axis::spatial(1).unwrap_or_default())
    }

    fn declared_in(arrays: &[(&str, Value)]) -> Declared {
        let declared = Declared::default();
        for (path, attributes) in arrays {
            let mut doc = ArrayDoc::new(vec![1], vec![1], DataType::variable_length_bytes());
            doc.attributes = attributes.as_object().unwrap().clone();
            declared.remember(&Key::root().join(path).unwrap(), &doc);
        }
        declared
    }

    #[test]
    fn every_attribute_is_declared_once() {
        let declared = declared_in(&[
            ("0/vertices", json!({"zv_array": "vertices", "dtype": "float32"})),
            (
                "0/vertex_attributes/mass",
                json!({"dtype": "float32", "row_shape": [], "unit": "kg"}),
            ),
            ("0/vertex_attributes/rgb", json!({"dtype": "uint8", "row_shape": [3]})),
            (
                "0/mesh/vertex_attributes/class",
                json!({"dtype": "int8", "categories": ["a"], "description": "what"}),
            ),
            ("0/object_attributes/size", json!({"dtype": "int64", "shape": [7]})),
            ("0/object_attributes/box", json!({"dtype": "float64", "shape": [7, 6]})),
            ("0/link_attributes/kind/0/+1", json!({"dtype": "uint8", "row_shape": []})),
            ("0/link_attributes/kind/0", json!({"dtype": "uint8", "row_shape": []})),
            ("0/fragment_attributes/speed", json!({"dtype": "uint8"})),
            ("0/vertex_attributes/odd", json!({"dtype": "complex"})),
            ("0/vertex_attributes/none", json!({})),
            (
                "0/vertex_attributes/huge",
                json!({"dtype": "int8", "row_shape": [1_u64 << 40, 1_u64 << 40]}),
            ),
            ("0/vertex_attributes/words", json!({"dtype": "int8", "row_shape": ["3"]})),
            ("1/vertex_attributes/mass", json!({"dtype": "float64"})),
            (
                "1/vertex_attributes/count",
                json!({"dtype": "uint64", "declared_categorical": false}),
            ),
        ]);
        let expected = json!({
            "vertex": {
                "mass": {"dtype": "float32", "unit": "kg"},
                "rgb": {"dtype": "uint8", "channels": 3},
                "class": {"dtype": "int8", "categorical": true, "description": "what"},
                "count": {"dtype": "uint64"},
            },
            "object": {"size": {"dtype": "int64"}, "box": {"dtype": "float64", "channels": 6}},
            "link": {"kind": {"dtype": "uint8"}},
        });
        assert_eq!(declared.add_to(&root(None)).zarr_vectors.attribute_specs, Some(expected));
    }

    #[test]
    fn declarations_of_the_root_are_kept() {
        let declared = declared_in(&[
            ("0/vertex_attributes/mass", json!({"dtype": "float32"})),
            ("0/vertex_attributes/age", json!({"dtype": "int8"})),
        ]);
        let specs = json!({"vertex": {"mass": {"dtype": "float32", "unit": "g"}}, "object": {}});
        let kept_and_added = json!({
            "vertex": {"mass": {"dtype": "float32", "unit": "g"}, "age": {"dtype": "int8"}},
            "object": {},
        });
        for (specs, expected) in [
            (Some(specs), Some(kept_and_added)),
            (Some(json!([])), Some(json!([]))), // nothing that can be read
        ] {
            assert_eq!(declared.add_to(&root(specs)).zarr_vectors.attribute_specs, expected);
        }
        assert_eq!(Declared::default().add_to(&root(None)).zarr_vectors.attribute_specs, None);
    }
}
