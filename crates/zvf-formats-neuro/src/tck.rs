//! Streamlines of `MRtrix`.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{
    Attributes, CHAINS, Capabilities, IdSupport, POSITIONS_ONLY, Spec, UnitSupport, WriteFn,
};

/// Streamlines of `MRtrix`.
pub const TCK: Spec = Spec {
    token: "tck",
    name: "TCK",
    extensions: &["tck"],
    recognizes: |start| start.bytes.starts_with(b"mrtrix tracks"),
    read: read::open,
    write: Some(WriteFn::Pieces(write::open)),
    capabilities: Capabilities {
        kinds: CHAINS,
        axes: (3, 3),
        positions: Attributes::Types(&["float32"]),
        ids: IdSupport::Order,
        units: UnitSupport::Fixed("millimeter"),
        options: &[("tck.f64", "true for positions of 64 bits")],
        ..POSITIONS_ONLY
    },
};
