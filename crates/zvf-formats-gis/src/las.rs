//! Points of laser scanners: LAS, LAZ and COPC.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{
    Attributes, Capabilities, IdSupport, POSITIONS_ONLY, RecordNumbers, Spec, UnitSupport, WriteFn,
};
use zvf_model::Kind;

use crate::las::write::Variant;

/// Scale and offset of each axis.
#[derive(Clone, Copy)]
pub(crate) struct Grid {
    scales: [f64; 3],
    pub(crate) offsets: [f64; 3],
}

impl Grid {
    /// Returns the value of a stored number.
    pub(crate) fn scale(&self, axis: usize, raw: f64) -> f64 {
        raw * self.scales[axis] + self.offsets[axis]
    }

    /// Returns the position of a record.
    pub(crate) fn position(&self, record: &[u8]) -> [f64; 3] {
        let numbers = RecordNumbers::new(record);
        [0, 1, 2].map(|axis| self.scale(axis, f64::from(numbers.i32(axis * 4))))
    }
}

const LAS_MAGIC: &[u8] = b"LASF";

/// Points of laser scanners.
pub const LAS: Spec = Spec {
    token: "las",
    name: "LAS",
    extensions: &["las"],
    recognizes: |start| start.bytes.starts_with(LAS_MAGIC),
    read: read::open,
    write: Some(WriteFn::Pieces(|file| write::open(file, Variant::Plain))),
    capabilities: Capabilities {
        kinds: &[Kind::PointCloud],
        axes: (1, 3),
        positions: Attributes::Numbers,
        vertex_attributes: Attributes::Numbers,
        own_names: &["object"],
        ids: IdSupport::Bits(64),
        units: UnitSupport::Any,
        streams_in: false,
        options: &[
            ("las.point_format", "the point format, 0 to 10"),
            ("las.scale", "the distance of the grid of coordinates"),
            ("las.version", "1.2, 1.3 or 1.4"),
        ],
        ..POSITIONS_ONLY
    },
};

/// Points of laser scanners, compressed.
pub const LAZ: Spec = Spec {
    token: "laz",
    name: "LAZ",
    extensions: &["laz"],
    recognizes: |start| {
        start.bytes.starts_with(LAS_MAGIC)
            && start.bytes.get(104).is_some_and(|format| format & 0x80 != 0)
    },
    write: Some(WriteFn::Pieces(|file| write::open(file, Variant::Compressed))),
    ..LAS
};

/// Points of laser scanners in an octree.
pub const COPC: Spec = Spec {
    token: "copc",
    name: "COPC",
    extensions: &["copc.laz"],
    recognizes: |start| {
        start.bytes.starts_with(LAS_MAGIC) && start.bytes.get(377..382) == Some(b"copc\0")
    },
    read: read::copc::open,
    write: Some(WriteFn::Pieces(|file| write::open(file, Variant::Octree))),
    capabilities: Capabilities { ranges: true, ..LAS.capabilities },
};
