//! Attributes as properties: their names, stored types and values.
//!
//! 64-bit numbers and half precision become `float32`, because the formats have no other types;
//! text is omitted. Properties of annotations are ordered by width, 4, 2, 1 bytes, because readers
//! disagree on whether the order in `info` is the order in a record.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use zvf_error::Result;
use zvf_format::num::{nearest_f32, saturating_floor_i64, to_u64, usize_from_u32};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{AttributeReader, Categories, Column, LevelReader, Value};

use super::error::{check_size, unsupported_error};

/// The description of an attribute.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) width: usize,
    pub(crate) categories: Option<Categories>,
}

impl Attribute {
    /// Describes the attributes of the vertices of a level.
    pub(crate) async fn of_vertices(level: &LevelReader) -> Result<Vec<Self>> {
        let describe = |found: AttributeReader| Self {
            name: found.name().to_owned(),
            dtype: found.dtype(),
            width: usize_from_u32(found.width()),
            categories: found.categories().cloned(),
        };
        Ok(level.vertex_attributes().await?.into_iter().map(describe).collect())
    }

    /// Returns the stored type of a value, and its size in bytes.
    pub(crate) fn stored_type(&self) -> (&'static str, usize) {
        match (self.dtype.kind, self.dtype.size) {
            (DtypeKind::Bool, _) | (DtypeKind::UInt, 1) => ("uint8", 1),
            (DtypeKind::UInt, 2) => ("uint16", 2),
            (DtypeKind::UInt, 4) => ("uint32", 4),
            (DtypeKind::Int, 1) => ("int8", 1),
            (DtypeKind::Int, 2) => ("int16", 2),
            (DtypeKind::Int, 4) => ("int32", 4),
            _ => ("float32", 4),
        }
    }

    /// Returns whether it can be a property.
    pub(crate) fn is_number(&self) -> bool {
        self.dtype.kind != DtypeKind::Text
    }

    /// Appends a value in its stored type; a missing integer is 0, because there is no other
    /// representation.
    ///
    /// # Errors
    ///
    /// When a coarser level, which may have another type, holds a number that does not fit.
    pub(crate) fn push(
        &self,
        column: &Column,
        row: usize,
        at: usize,
        to: &mut Vec<u8>,
    ) -> Result<()> {
        let (kind, size) = self.stored_type();
        if kind == "float32" {
            to.extend(nearest_f32(column.float(row, at).unwrap_or(f64::NAN)).to_le_bytes());
            return Ok(());
        }
        let value = column.value(row, at);
        let number = match value {
            Value::Bool(flag) => Some(i64::from(flag)),
            Value::Int(n) => Some(n),
            Value::UInt(n) => i64::try_from(n).ok(),
            // A coarser level may hold means. A clamped value is out of the range below, and NaN is
            // a missing value.
            Value::Float(x) => Some(saturating_floor_i64(x.round())),
            Value::Null | Value::Text(_) => Some(0),
        };
        let bits = 8 * size;
        let range = match kind.starts_with('u') {
            true => 0..1_i64 << bits,
            false => -(1_i64 << (bits - 1))..1_i64 << (bits - 1),
        };
        let Some(number) = number.filter(|number| range.contains(number)) else {
            let what = format!("{} is {value}, which is no {kind}", self.name);
            return Err(unsupported_error(what));
        };
        to.extend(number.to_le_bytes().iter().take(size));
        Ok(())
    }
}

/// Checks the number of properties of attributes, one for each value of a row: documents may state
/// any number.
pub(crate) fn check_properties<'a>(
    attributes: impl IntoIterator<Item = &'a Attribute>,
) -> Result<()> {
    let found: u64 = attributes.into_iter().map(|attribute| to_u64(attribute.width)).sum();
    check_size("a list of properties", found, MAX_PROPERTIES)
}

/// A property of annotations: one or more values of an attribute.
#[derive(Debug)]
pub(crate) struct Property {
    /// The index of its attribute.
    pub(crate) attribute: usize,
    values: std::ops::Range<usize>,
    size: usize,
    json: Json,
}

impl Property {
    /// Returns the properties of attributes, the widest first.
    ///
    /// # Errors
    ///
    /// When there are too many.
    pub(crate) fn list(attributes: &[Attribute]) -> Result<Vec<Self>> {
        check_properties(attributes)?;
        let (mut all, mut names) = (Vec::new(), BTreeSet::new());
        let numeric = attributes.iter().enumerate().filter(|(_, attribute)| attribute.is_number());
        for (number, attribute) in numeric {
            let (kind, size) = attribute.stored_type();
            // A colour is one property.
            let (kind, step) = match (kind, attribute.width) {
                ("uint8", 3) => ("rgb", 3),
                ("uint8", 4) => ("rgba", 4),
                _ => (kind, 1),
            };
            for at in (0..attribute.width).step_by(step) {
                all.push(Self::new(attribute, number, at..at + step, (kind, size), &mut names));
            }
        }
        all.sort_by_key(|property| std::cmp::Reverse(property.size));
        Ok(all)
    }

    fn new(
        attribute: &Attribute,
        number: usize,
        values: std::ops::Range<usize>,
        (kind, size): (&'static str, usize),
        names: &mut BTreeSet<String>,
    ) -> Self {
        let is_one = values.len() == attribute.width;
        let property_name = if is_one {
            attribute.name.clone()
        } else {
            format!("{}_{}", attribute.name, values.start)
        };
        let id = identifier(&property_name, names);
        let mut json = json!({"id": id, "type": kind, "description": property_name});
        if let Some(categories) = attribute.categories.as_ref().filter(|_| kind != "float32") {
            let labels: Vec<String> = categories.values().iter().map(Value::to_string).collect();
            json["enum_values"] = (0..labels.len()).collect::<Vec<_>>().into();
            json["enum_labels"] = labels.into();
        } else if attribute.dtype.kind == DtypeKind::Bool {
            json["enum_values"] = json!([0, 1]);
            json["enum_labels"] = json!(["false", "true"]);
        }
        Self { attribute: number, values, size, json }
    }

    /// Returns its description in `info`.
    pub(crate) fn describe(&self) -> Json {
        self.json.clone()
    }

    /// Appends the values in `row` of the attribute's column; zeros if there is no column.
    pub(crate) fn push(
        &self,
        attribute: &Attribute,
        column: Option<&Column>,
        row: usize,
        to: &mut Vec<u8>,
    ) -> Result<()> {
        for at in self.values.clone() {
            match column {
                Some(column) => attribute.push(column, row, at, to)?,
                None => to.extend(std::iter::repeat_n(0, self.size)),
            }
        }
        Ok(())
    }
}

/// Returns a valid name for viewers, `[a-z][a-zA-Z0-9_]*`, that is not in `names`.
fn identifier(name: &str, names: &mut BTreeSet<String>) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    let mut id: String = name.chars().map(safe).collect();
    match id.chars().next() {
        Some(first) if first.is_ascii_lowercase() => {}
        Some(first) if first.is_ascii_uppercase() => {
            id.replace_range(..1, &first.to_ascii_lowercase().to_string());
        }
        _ => id.insert(0, 'p'),
    }
    let (mut free, mut number) = (id.clone(), 1_u64);
    while !names.insert(free.clone()) {
        number += 1;
        free = format!("{id}_{number}");
    }
    free
}

/// The largest number of properties of a folder.
const MAX_PROPERTIES: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(name: &str, kind: DtypeKind, size: u64, width: usize) -> Attribute {
        let dtype = Dtype { kind, size, big_endian: false };
        Attribute { name: name.to_owned(), dtype, width, categories: None }
    }

    #[test]
    fn properties_are_sorted_by_width_with_valid_names() {
        let attributes = [
            attribute("RGB colour", DtypeKind::UInt, 1, 3),
            attribute("Mass", DtypeKind::Float, 8, 1),
            attribute("mass", DtypeKind::Int, 2, 1),
            attribute("9lives", DtypeKind::Bool, 1, 1),
            attribute("dir", DtypeKind::Float, 4, 2),
            attribute("label", DtypeKind::Text, 4, 1),
        ];
        let all = Property::list(&attributes).unwrap();
        let types: Vec<_> = all
            .iter()
            .map(|property| {
                let json = &property.json;
                (json["id"].as_str().unwrap(), json["type"].as_str().unwrap())
            })
            .collect();
        let expected = [
            ("mass", "float32"),
            ("dir_0", "float32"),
            ("dir_1", "float32"),
            ("mass_2", "int16"),
            ("rGB_colour", "rgb"),
            ("p9lives", "uint8"),
        ];
        assert_eq!(types, expected);
        assert_eq!(all[5].json["enum_labels"], json!(["false", "true"]));
        let wide = attribute("wide", DtypeKind::UInt, 1, 1 << 17);
        let error = Property::list(&[wide]).unwrap_err();
        assert_eq!(error.class(), zvf_format::Class::LimitExceeded);
    }

    #[test]
    fn values_have_the_bytes_of_their_type() {
        let property = attribute("n", DtypeKind::Int, 2, 1);
        let column = Column::new(property.dtype, 1, vec![0xfe, 0xff, 5, 0].into()).unwrap();
        let mut bytes = Vec::new();
        property.push(&column, 0, 0, &mut bytes).unwrap();
        property.push(&column, 1, 0, &mut bytes).unwrap();
        assert_eq!(bytes, [0xfe, 0xff, 5, 0]);
        let int64 = attribute("x", DtypeKind::Int, 8, 1);
        let column = Column::new(int64.dtype, 1, 3_i64.to_le_bytes().to_vec().into()).unwrap();
        let mut bytes = Vec::new();
        int64.push(&column, 0, 0, &mut bytes).unwrap();
        assert_eq!(bytes, 3.0_f32.to_le_bytes());
        // A coarser level with another type.
        let small = attribute("n", DtypeKind::UInt, 1, 1);
        let column = Column::new(int64.dtype, 1, 256_i64.to_le_bytes().to_vec().into()).unwrap();
        let refused = small.push(&column, 0, 0, &mut bytes);
        assert!(refused.unwrap_err().to_string().contains("n is 256"));
    }
}
