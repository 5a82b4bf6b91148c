//! Triangles of STL.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{
    Attributes, Capabilities, IdSupport, POSITIONS_ONLY, RecordNumbers, Spec, Start, WriteFn, cross,
};
use zvf_model::Kind;

/// Triangles of STL.
pub const STL: Spec = Spec {
    token: "stl",
    name: "STL",
    extensions: &["stl"],
    recognizes: is_stl,
    read: read::open,
    write: Some(WriteFn::Whole(write::encode)),
    capabilities: Capabilities {
        kinds: &[Kind::Mesh],
        axes: (3, 3),
        positions: Attributes::Types(&["float32"]),
        finite: true,
        elements: true,
        corners: 3,
        element_attributes: Attributes::Types(&["uint16"]),
        element_names: &["attribute_byte_count"],
        streams_out: false,
        ids: IdSupport::Order,
        ..POSITIONS_ONLY
    },
};

/// Returns whether it is STL: a binary file has the length that its count implies, and a text has facets.
fn is_stl(start: &Start<'_>) -> bool {
    let count = RecordNumbers::new(start.bytes).u32(80); // 0 in a shorter file
    let is_binary = start.bytes.len() >= 84 && start.len == Some(84 + u64::from(count) * 50);
    let head = start.bytes.get(..start.bytes.len().min(1024)).unwrap_or(start.bytes);
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let is_text = head.trim_start().starts_with("solid")
        && !head.contains('\0')
        && (head.contains("facet") || head.contains("endsolid"));
    is_text || is_binary
}

/// The normal of a triangle by the winding of its corners, as long as twice the area.
fn winding_normal(corners: [[f32; 3]; 3]) -> [f64; 3] {
    let [a, b, c] = corners.map(|corner| corner.map(f64::from));
    let [u, v] = [b, c].map(|end| [end[0] - a[0], end[1] - a[1], end[2] - a[2]]);
    cross(u, v)
}
