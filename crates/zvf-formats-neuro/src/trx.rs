//! Streamlines with groups: TRX, as a zip or a folder.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{Attributes, Capabilities, GroupSupport, Spec, Start, WriteFn};

use crate::STREAMLINES;
use crate::image::find_missing_image;

/// Streamlines with groups: a zip, or a folder.
pub const TRX: Spec = Spec {
    token: "trx",
    name: "TRX",
    extensions: &["trx"],
    recognizes: is_zip,
    read: read::open,
    write: Some(WriteFn::Pieces(write::open_zip)),
    capabilities: Capabilities {
        positions: Attributes::Types(&["float16", "float64", "float32"]),
        vertex_attributes: Attributes::Numbers,
        object_attributes: Attributes::Numbers,
        groups: GroupSupport::Attributes,
        check: |header| Ok(find_missing_image(header, "TRX")),
        streams_in: false,
        streams_out: false,
        ..STREAMLINES
    },
};

/// The same as a folder.
pub const TRX_FOLDER: Spec = Spec {
    token: "trx-folder",
    extensions: &[],
    recognizes: |start| start.has_member("header.json"),
    write: Some(WriteFn::Pieces(write::open_folder)),
    capabilities: Capabilities { is_folder: true, marker: "header.json", ..TRX.capabilities },
    ..TRX
};

/// Returns whether a zip is TRX and not npz, by the name of its first member or its extension.
fn is_zip(start: &Start<'_>) -> bool {
    let first = start.bytes.get(30..).unwrap_or_default();
    let has_extension = start
        .path
        .and_then(|path| path.extension())
        .is_some_and(|end| end.to_str().is_some_and(|end| end.eq_ignore_ascii_case("trx")));
    start.bytes.starts_with(b"PK\x03\x04") && (has_extension || first.starts_with(b"header.json"))
}
