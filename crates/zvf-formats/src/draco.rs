//! Decoder of Draco streams to columns, for files, glTF and cells.
//!
//! The codec is [`zvf_draco`].

use zvf_error::Result;
use zvf_metadata::Dtype;
use zvf_model::Column;

use crate::dtypes::{BOOL, FLOAT64, INT8, INT16, INT32, UINT8, UINT16, UINT32, UINT64};

pub use zvf_draco::{Caps, Component, DracoError, Meaning};

/// The contents of a stream.
#[derive(Debug)]
pub struct Stream {
    /// The corners of faces; `None` for points.
    pub faces: Option<Vec<[u32; 3]>>,
    /// The attributes of points, positions among them.
    pub attributes: Vec<StreamAttribute>,
    /// Whether points come in the order in which they were written.
    pub keeps_order: bool,
}

/// An attribute of all points.
#[derive(Debug)]
pub struct StreamAttribute {
    /// The number that metadata name it by.
    pub id: u32,
    /// What it means.
    pub meaning: Meaning,
    /// A row for each point.
    pub values: Column,
}

/// Decodes a stream.
pub fn decode(bytes: &[u8], limits: &Caps) -> Result<Stream, DracoError> {
    let geometry = zvf_draco::decode(bytes, limits)?;
    let attributes = geometry.attributes.into_iter().map(|attribute| {
        let dtype = dtype_of(attribute.component);
        let values = Column::new(dtype, attribute.width, attribute.values.into());
        let values = values.map_err(|error| DracoError {
            class: zvf_format::Class::BadShape,
            byte: 0,
            expected: "rows of values".to_owned(),
            found: error.to_string(),
        })?;
        Ok(StreamAttribute { id: attribute.id, meaning: attribute.meaning, values })
    });
    let attributes = attributes.collect::<Result<_, DracoError>>()?;
    Ok(Stream { faces: geometry.faces, attributes, keeps_order: geometry.keeps_order })
}

const fn dtype_of(component: Component) -> Dtype {
    match component {
        Component::Int8 => INT8,
        Component::UInt8 => UINT8,
        Component::Int16 => INT16,
        Component::UInt16 => UINT16,
        Component::Int32 => INT32,
        Component::UInt32 => UINT32,
        Component::Int64 => Dtype::INT64,
        Component::UInt64 => UINT64,
        Component::Float32 => Dtype::FLOAT32,
        Component::Float64 => FLOAT64,
        Component::Bool => BOOL,
    }
}
