//! Properties: the types that the formats have for values of attributes.
//!
//! 64-bit numbers and half precision become `float32`, because the formats have no other types.

use std::ops::Range;

use zvf_metadata::{Dtype, DtypeKind};

/// Returns the stored type of a value, and its size in bytes.
#[must_use]
pub const fn stored_type(dtype: Dtype) -> (&'static str, usize) {
    match (dtype.kind, dtype.size) {
        (DtypeKind::Bool, _) | (DtypeKind::UInt, 1) => ("uint8", 1),
        (DtypeKind::UInt, 2) => ("uint16", 2),
        (DtypeKind::UInt, 4) => ("uint32", 4),
        (DtypeKind::Int, 1) => ("int8", 1),
        (DtypeKind::Int, 2) => ("int16", 2),
        (DtypeKind::Int, 4) => ("int32", 4),
        _ => ("float32", 4),
    }
}

/// A property of annotations: one or more values of an attribute.
#[derive(Clone, Debug)]
pub struct PropertyValues {
    /// The name of the attribute, with the number of the value if there are several properties.
    pub name: String,
    /// The index of the attribute.
    pub attribute: usize,
    /// Its values.
    pub values: Range<usize>,
    /// The type of the property.
    pub kind: &'static str,
    /// The size of one value in bytes.
    pub size: usize,
}

impl PropertyValues {
    /// Returns the properties of an attribute of rows of `width` values. A colour is one property.
    pub fn divide(
        name: &str,
        attribute: usize,
        dtype: Dtype,
        width: usize,
    ) -> impl Iterator<Item = Self> {
        let (kind, size) = stored_type(dtype);
        let (kind, step) = match (kind, width) {
            ("uint8", 3) => ("rgb", 3),
            ("uint8", 4) => ("rgba", 4),
            _ => (kind, 1),
        };
        (0..width).step_by(step).map(move |at| {
            let name = if step == width { name.to_owned() } else { format!("{name}_{at}") };
            Self { name, attribute, values: at..at + step, kind, size }
        })
    }
}
