//! Arrow and Parquet files in the table of formats.
#![cfg(feature = "arrow")]

use super::{FEATURES, Spec, TABLE};
use crate::format::Capabilities;
use crate::{read, write};

pub(super) const SPEC: Spec = Spec {
    token: "arrow",
    name: "Arrow",
    extensions: &["arrow", "feather", "ipc"],
    recognizes: |start| start.bytes.starts_with(b"ARROW1"),
    read: Some(read::arrow::open),
    write: Some(write::arrow::open),
    capabilities: Capabilities { streams_in: false, ..TABLE },
};

pub(super) const STREAM: Spec = Spec {
    token: "arrows",
    name: "Arrow stream",
    extensions: &["arrows"],
    recognizes: super::recognizes_nothing,
    read: Some(read::arrow::open_stream),
    write: Some(write::arrow::open_stream),
    capabilities: Capabilities { streams_in: false, ..TABLE },
};

pub(super) const PARQUET: Spec = Spec {
    token: "parquet",
    name: "Parquet",
    extensions: &["parquet"],
    recognizes: |start| start.bytes.starts_with(b"PAR1"),
    read: Some(read::arrow::open_parquet),
    write: Some(write::arrow::open_parquet),
    capabilities: Capabilities { streams_in: false, ..TABLE },
};

pub(super) const GEOPARQUET: Spec = Spec {
    token: "geoparquet",
    name: "GeoParquet",
    extensions: &["geoparquet", "geo.parquet"],
    recognizes: super::recognizes_nothing,
    read: Some(read::arrow::open_parquet),
    write: Some(write::geoparquet::open_parquet),
    capabilities: FEATURES,
};

pub(super) const GEOARROW: Spec = Spec {
    token: "geoarrow",
    name: "GeoArrow",
    extensions: &["geoarrow", "geo.arrow"],
    recognizes: super::recognizes_nothing,
    read: Some(read::arrow::open),
    write: Some(write::geoparquet::open_arrow),
    capabilities: FEATURES,
};
