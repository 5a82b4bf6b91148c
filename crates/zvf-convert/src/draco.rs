//! Decoder of Draco streams to columns, for files, glTF and cells.
//!
//! The codec is [`zvf_draco`].

use zvf_error::Result;
use zvf_metadata::Dtype;
use zvf_model::Column;

use crate::dtypes::{BOOL, FLOAT64, INT8, INT16, INT32, UINT8, UINT16, UINT32, UINT64};

pub(crate) use zvf_draco::{Component, DracoError, Limits, Meaning};

/// The contents of a stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) faces: Option<Vec<[u32; 3]>>,
    pub(crate) attributes: Vec<StreamAttribute>,
    pub(crate) keeps_order: bool,
}

/// An attribute of all points.
#[derive(Debug)]
pub(crate) struct StreamAttribute {
    pub(crate) id: u32,
    pub(crate) meaning: Meaning,
    pub(crate) values: Column,
}

/// Decodes a stream.
pub(crate) fn decode(bytes: &[u8], limits: &Limits) -> Result<Stream, DracoError> {
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
