//! The capabilities of formats of features.

use zvf_model::Kind;

use super::capabilities::{Attributes, Capabilities, IdSupport, POSITIONS_ONLY, UnitSupport};
use crate::write;

/// Features: one row per point or line, with attributes as columns.
pub(crate) const FEATURES: Capabilities = Capabilities {
    kinds: &[Kind::PointCloud, Kind::Polyline, Kind::Streamline, Kind::Line],
    axes: (2, 3),
    positions: Attributes::Types(&["float32", "float64"]),
    vertex_attributes: Attributes::All,
    object_attributes: Attributes::All,
    ids: IdSupport::Bits(64),
    units: UnitSupport::Any,
    streams_in: false,
    refusal: write::features::refuse,
    ..POSITIONS_ONLY
};
