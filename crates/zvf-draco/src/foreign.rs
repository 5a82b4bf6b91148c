//! The other methods, by the decoder of the draco-oxide project: bounded before, and kept from panicking out.
//!
//! What is bounded is every count in front of the symbols. The tables of symbols further on are that decoder's own:
//! one that claims more symbols than the machine has memory for ends the process, which no caller can prevent. Builds
//! that take bytes from strangers leave the feature out, and read the sequential method alone.

use std::panic::{AssertUnwindSafe, catch_unwind};

use draco_oxide_core::attribute::{Attribute as Foreign, AttributeType, ComponentDataType};
use draco_oxide_decoder::{Err as Fault, Geometry as Decoded};
use zvf_format::Class;

use crate::bytes::Cursor;
use crate::{Attribute, Component, DracoError, Geometry, Header, Limits, Meaning};

pub(crate) fn decode(
    bytes: &[u8],
    header: &Header,
    limits: Limits,
) -> Result<Geometry, DracoError> {
    if !header.has_metadata {
        check_counts(bytes, header, limits)?;
    }
    let decoded = catch_unwind(AssertUnwindSafe(|| draco_oxide_decoder::decode(bytes)));
    let decoded = match decoded {
        Ok(decoded) => decoded.map_err(|fault| from_fault(&fault))?,
        Err(_panic) => {
            let expected = "a stream that can be decoded";
            return Err(DracoError::new(
                Class::Codec,
                HEADER_BYTES,
                expected,
                "one that is damaged",
            ));
        }
    };
    // What is taken out of a decoded mesh is checked by it, with panics.
    let converted = catch_unwind(AssertUnwindSafe(|| convert(&decoded)));
    converted.unwrap_or_else(|_panic| {
        let expected = "attributes of all points";
        Err(DracoError::new(Class::Codec, HEADER_BYTES, expected, "other ones"))
    })
}

/// Compares the counts that stand behind the header with the limits.
fn check_counts(bytes: &[u8], header: &Header, limits: Limits) -> Result<(), DracoError> {
    let mut cursor = Cursor::new(bytes);
    cursor.take(HEADER_BYTES, "the header")?;
    let start = cursor.at();
    if !header.is_mesh {
        let points = cursor.word("points")?;
        return limits.check(usize::try_from(points).unwrap_or(usize::MAX), 0, start);
    }
    if header.method == 1 {
        cursor.byte("the traversal")?;
        let points = cursor.count("points")?;
        let faces = cursor.count("faces")?;
        limits.check(points, faces, start)?;
        return check_symbols(&mut cursor, faces);
    }
    let faces = cursor.count("faces")?;
    let points = cursor.count("points")?;
    limits.check(points, faces, start)
}

/// Compares the symbols of the edgebreaker with the faces and the bytes there are.
fn check_symbols(cursor: &mut Cursor<'_>, faces: usize) -> Result<(), DracoError> {
    cursor.byte("the count of attributes")?;
    let symbols = cursor.count("symbols")?;
    let divided = cursor.count("divided symbols")?;
    let splits = cursor.count("splits")?;
    // A split takes two bytes or more.
    if symbols > faces || divided > symbols || splits > cursor.rest().len() {
        let expected = format!("symbols of {faces} faces");
        let found = format!("{symbols} symbols, {divided} divided, {splits} splits");
        return Err(cursor.bad(Class::Codec, expected, found));
    }
    Ok(())
}

fn from_fault(fault: &Fault) -> DracoError {
    let class = match fault {
        Fault::Reader(_) => Class::Truncated,
        Fault::UnsupportedVersion(..) => Class::UnsupportedVersion,
        Fault::Unimplemented => Class::Unsupported,
        _ => Class::Codec,
    };
    let expected = "a stream that can be decoded";
    DracoError::new(class, HEADER_BYTES, expected, fault.to_string())
}

fn convert(decoded: &Decoded) -> Result<Geometry, DracoError> {
    let (attributes, faces) = match decoded {
        Decoded::Mesh(mesh) => {
            let index = |point: &draco_oxide_core::types::PointIdx| {
                u32::try_from(usize::from(*point)).unwrap_or(u32::MAX)
            };
            let face = |face: &[_; 3]| [index(&face[0]), index(&face[1]), index(&face[2])];
            (mesh.get_attributes(), Some(mesh.get_faces().iter().map(face).collect()))
        }
        Decoded::PointCloud(cloud) => (cloud.attributes(), None),
        _ => {
            let expected = "a mesh or points";
            return Err(DracoError::new(Class::Unsupported, 7, expected, "another geometry"));
        }
    };
    let points = attributes.iter().map(Foreign::len).max().unwrap_or(0);
    let attributes: Vec<Attribute> =
        attributes.iter().map(|one| attribute(one, points)).collect::<Result<_, _>>()?;
    Ok(Geometry { points, faces, attributes, keeps_order: false })
}

fn attribute(one: &Foreign, points: usize) -> Result<Attribute, DracoError> {
    let component = match one.get_component_type() {
        ComponentDataType::I8 => Component::Int8,
        ComponentDataType::U8 => Component::UInt8,
        ComponentDataType::I16 => Component::Int16,
        ComponentDataType::U16 => Component::UInt16,
        ComponentDataType::I32 => Component::Int32,
        ComponentDataType::U32 => Component::UInt32,
        ComponentDataType::I64 => Component::Int64,
        ComponentDataType::U64 => Component::UInt64,
        ComponentDataType::F32 => Component::Float32,
        ComponentDataType::F64 => Component::Float64,
        _ => {
            let found = "another type";
            return Err(DracoError::new(Class::Unsupported, 0, "a type of numbers", found));
        }
    };
    let meaning = match one.get_attribute_type() {
        AttributeType::Position => Meaning::Position,
        AttributeType::Normal => Meaning::Normal,
        AttributeType::Color => Meaning::Color,
        AttributeType::TextureCoordinate => Meaning::TextureCoordinate,
        _ => Meaning::Generic,
    };
    let width = one.get_num_components();
    let row = width * component.size();
    let data = one.get_data_as_bytes();
    let mut values = Vec::with_capacity(points.saturating_mul(row));
    for point in 0..points {
        let value = usize::from(one.get_unique_val_idx(point.into()));
        let bytes = data.get(value * row..(value + 1) * row);
        let Some(bytes) = bytes else {
            let expected = format!("{points} values of {row} bytes");
            let found = format!("{} bytes", data.len());
            return Err(DracoError::new(Class::CountMismatch, 0, expected, found));
        };
        values.extend_from_slice(bytes);
    }
    let id = u32::try_from(one.get_id().as_usize()).unwrap_or(u32::MAX);
    let width = u32::try_from(width).unwrap_or(u32::MAX);
    Ok(Attribute { id, meaning, component, width, values })
}

const HEADER_BYTES: usize = 11;
