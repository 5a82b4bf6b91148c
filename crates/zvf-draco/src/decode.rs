//! Decoding by `draco-core`, within the limits of a stream.

use draco_core::{
    DataType, DecodeLimits, DecoderBuffer, ErrorKind, GeometryAttributeType, Mesh, MeshDecoder,
    PointAttribute, PointIndex,
};
use zvf_format::Class;
use zvf_format::num::{to_u64, usize_from_u32};

use crate::{Attribute, BYTES_OF_A_POINT, Caps, Component, DracoError, Geometry, Header, Meaning};

/// Decodes a stream with a valid header.
pub(crate) fn decode_checked(
    bytes: &[u8],
    header: Header,
    limits: &Caps,
) -> Result<Geometry, DracoError> {
    let meant = bytes.len().saturating_mul(MAX_POINTS_OF_A_BYTE).saturating_add(MIN_POINTS);
    let (points, faces) = (limits.max_points.min(meant), limits.max_faces.min(meant));
    let within = DecodeLimits::permissive()
        .with_max_points(to_u64(points))
        .with_max_faces(to_u64(faces))
        .with_max_decoded_bytes(to_u64(points).saturating_mul(BYTES_OF_A_POINT));
    let mut buffer = DecoderBuffer::new(bytes).with_limits(within);
    let mut mesh = Mesh::new();
    let decoded = MeshDecoder::new().decode(&mut buffer, &mut mesh);
    let fault = |class, expected: String, found: String| {
        DracoError::new(class, buffer.position(), expected, found)
    };
    decoded.map_err(|error| {
        let is_large = error.kind() == ErrorKind::LimitExceeded;
        let limits = || format!("at most {points} points and {faces} faces");
        let expected = if is_large { limits() } else { "a valid stream".to_owned() };
        fault(class_of(error.kind()), expected, error.message().to_owned())
    })?;
    if mesh.num_points() > points {
        let expected = format!("at most {points} points");
        return Err(fault(Class::LimitExceeded, expected, mesh.num_points().to_string()));
    }
    let attributes = (0..mesh.num_attributes()).map(|number| {
        read_attribute(mesh.attribute(number), mesh.num_points()).ok_or_else(|| {
            fault(Class::Codec, "a value for each point".to_owned(), "others".to_owned())
        })
    });
    let attributes = attributes.collect::<Result<_, _>>()?;
    let corners = |face: &[PointIndex; 3]| face.map(|point| point.0);
    Ok(Geometry {
        points: mesh.num_points(),
        faces: header.is_mesh.then(|| mesh.faces().iter().map(corners).collect()),
        attributes,
        keeps_order: header.is_sequential,
    })
}

/// Copies the values of all points; `None` if there are not as many.
fn read_attribute(attribute: &PointAttribute, points: usize) -> Option<Attribute> {
    let component = component_of(attribute.data_type())?;
    let width = attribute.num_components();
    let stride = component.size().checked_mul(usize::from(width))?;
    let data = attribute.buffer().data();
    let values = if attribute.is_mapping_identity() {
        data.get(..points.checked_mul(stride)?)?.to_vec()
    } else {
        let mut values = Vec::with_capacity(points.checked_mul(stride)?);
        for point in 0..u32::try_from(points).ok()? {
            let row = usize_from_u32(attribute.mapped_index(PointIndex(point)).0);
            let start = row.checked_mul(stride)?;
            values.extend_from_slice(data.get(start..start.checked_add(stride)?)?);
        }
        values
    };
    let meaning = meaning_of(attribute.attribute_type())?;
    Some(Attribute { id: attribute.unique_id(), meaning, component, width: width.into(), values })
}

const fn component_of(kind: DataType) -> Option<Component> {
    Some(match kind {
        DataType::Int8 => Component::Int8,
        DataType::Uint8 => Component::UInt8,
        DataType::Int16 => Component::Int16,
        DataType::Uint16 => Component::UInt16,
        DataType::Int32 => Component::Int32,
        DataType::Uint32 => Component::UInt32,
        DataType::Int64 => Component::Int64,
        DataType::Uint64 => Component::UInt64,
        DataType::Float32 => Component::Float32,
        DataType::Float64 => Component::Float64,
        DataType::Bool => Component::Bool,
        DataType::Invalid => return None,
    })
}

const fn meaning_of(kind: GeometryAttributeType) -> Option<Meaning> {
    Some(match kind {
        GeometryAttributeType::Position => Meaning::Position,
        GeometryAttributeType::Normal => Meaning::Normal,
        GeometryAttributeType::Color => Meaning::Color,
        GeometryAttributeType::TexCoord => Meaning::TextureCoordinate,
        GeometryAttributeType::Generic => Meaning::Generic,
        GeometryAttributeType::Invalid => return None,
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "all others are faults of the stream")]
const fn class_of(kind: ErrorKind) -> Class {
    match kind {
        ErrorKind::LimitExceeded => Class::LimitExceeded,
        ErrorKind::Buffer => Class::Truncated,
        ErrorKind::UnsupportedFeature => Class::Unsupported,
        _ => Class::Codec,
    }
}

/// The largest number of points or faces per byte, reached by the best compression of regular meshes.
const MAX_POINTS_OF_A_BYTE: usize = 4096;
/// The number of points or faces that is always allowed.
const MIN_POINTS: usize = 1 << 16;
