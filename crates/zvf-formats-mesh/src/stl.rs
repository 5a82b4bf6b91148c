//! Triangles of STL.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{Attributes, Capabilities, IdSupport, POSITIONS_ONLY, Spec, Start, WriteFn};
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
    let count = start.bytes.get(80..84).and_then(|count| count.try_into().ok());
    let length = count.map(|count| 84 + u64::from(u32::from_le_bytes(count)) * 50);
    let head = start.bytes.get(..start.bytes.len().min(1024)).unwrap_or(start.bytes);
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let is_text = head.trim_start().starts_with("solid")
        && !head.contains('\0')
        && (head.contains("facet") || head.contains("endsolid"));
    is_text || (length.is_some() && length == start.len)
}
