//! `GeoJSON`, as one collection or one feature a line.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{Capabilities, FEATURES, Spec, WriteFn, recognizes_nothing};

/// A collection of features.
pub const GEOJSON: Spec = Spec {
    token: "geojson",
    name: "GeoJSON",
    extensions: &["geojson"],
    recognizes: recognizes_nothing,
    read: read::open,
    write: Some(WriteFn::Pieces(|file| write::open(file, false))),
    capabilities: Capabilities {
        finite: true,
        options: &[("geojson.crs", "the coordinate reference system, where the input states none")],
        ..FEATURES
    },
};

/// A feature a line.
pub const GEOJSON_LINES: Spec = Spec {
    token: "geojsonl",
    name: "GeoJSON lines",
    extensions: &["geojsonl", "geojsons", "geojsonseq"],
    write: Some(WriteFn::Pieces(|file| write::open(file, true))),
    ..GEOJSON
};
