//! Lines of numbers in the table of formats.

use super::{Attributes, Capabilities, POSITIONS_ONLY, Spec, recognizes_nothing};
use crate::{read, write};

const POINTS: Capabilities = Capabilities {
    kinds: read::text_points::KINDS,
    positions: Attributes::Numbers,
    vertex_attributes: Attributes::Numbers,
    streams_in: false,
    ..POSITIONS_ONLY
};

pub(super) const XYZ: Spec = Spec {
    token: "xyz",
    name: "XYZ",
    extensions: &["xyz", "asc"],
    recognizes: recognizes_nothing,
    read: Some(read::text_points::open),
    write: Some(write::text_points::open),
    capabilities: Capabilities { refusal: write::text_points::refuse, ..POINTS },
};

pub(super) const PTS: Spec = Spec {
    token: "pts",
    name: "PTS",
    extensions: &["pts"],
    recognizes: recognizes_nothing,
    read: Some(read::text_points::open_pts),
    write: Some(write::text_points::open_pts),
    capabilities: Capabilities {
        streams_out: false,
        refusal: write::text_points::refuse_pts,
        ..POINTS
    },
};
