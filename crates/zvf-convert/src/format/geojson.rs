//! `GeoJSON` in the table of formats.

use super::{FEATURES, Spec, recognizes_nothing};
use crate::{read, write};

pub(super) const SPEC: Spec = Spec {
    token: "geojson",
    name: "GeoJSON",
    extensions: &["geojson"],
    recognizes: recognizes_nothing,
    read: Some(read::geojson::open),
    write: Some(write::geojson::open),
    capabilities: FEATURES,
};

pub(super) const LINES: Spec = Spec {
    token: "geojsonl",
    name: "GeoJSON lines",
    extensions: &["geojsonl", "geojsons", "geojsonseq"],
    recognizes: recognizes_nothing,
    read: Some(read::geojson::open),
    write: Some(write::geojson::open_lines),
    capabilities: FEATURES,
};
