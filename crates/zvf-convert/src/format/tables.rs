//! The entries of formats of tables, points and features: names, magic, reader, writer and capabilities of each.

use zvf_model::Kind;

use super::WriteFn::{Pieces, Whole};
use super::capabilities::{
    Attributes, Capabilities, IdSupport, POSITIONS_ONLY, TABLE, UnitSupport,
};
use super::{Spec, recognizes_nothing};
#[cfg(feature = "arrow")]
use crate::arrow::Form;
use crate::{read, write};

pub(super) const NPY: Spec = Spec {
    token: "npy",
    name: "npy",
    extensions: &["npy"],
    recognizes: |start| start.bytes.starts_with(b"\x93NUMPY"),
    read: read::npy::open,
    write: Some(Pieces(write::npy::open)),
    capabilities: Capabilities { streams_out: false, ..TABLE },
};

pub(super) const NPZ: Spec = Spec {
    token: "npz",
    name: "npz",
    extensions: &["npz"],
    recognizes: |start| start.bytes.starts_with(b"PK\x03\x04"),
    read: read::npz::open,
    write: Some(Whole(write::npz::encode)),
    capabilities: Capabilities { streams_in: false, streams_out: false, elements: true, ..TABLE },
};

pub(super) const CSV: Spec = Spec {
    token: "csv",
    name: "CSV",
    extensions: &["csv"],
    recognizes: recognizes_nothing,
    read: |bytes, options| read::csv::open(bytes, options, b','),
    write: Some(Pieces(|target, _| write::csv::open(target, b','))),
    capabilities: TABLE,
};

pub(super) const TSV: Spec = Spec {
    token: "tsv",
    name: "TSV",
    extensions: &["tsv"],
    recognizes: recognizes_nothing,
    read: |bytes, options| read::csv::open(bytes, options, b'\t'),
    write: Some(Pieces(|target, _| write::csv::open(target, b'\t'))),
    capabilities: TABLE,
};

const LAS_POINTS: Capabilities = Capabilities {
    kinds: &[Kind::PointCloud],
    axes: (1, 3),
    positions: Attributes::Numbers,
    vertex_attributes: Attributes::Numbers,
    ids: IdSupport::Bits(64),
    units: UnitSupport::Any,
    streams_in: false,
    ..POSITIONS_ONLY
};

const LAS_MAGIC: &[u8] = b"LASF";

pub(super) const LAS: Spec = Spec {
    token: "las",
    name: "LAS",
    extensions: &["las"],
    recognizes: |start| start.bytes.starts_with(LAS_MAGIC),
    read: read::las::open,
    write: Some(Pieces(write::las::open)),
    capabilities: LAS_POINTS,
};

pub(super) const LAZ: Spec = Spec {
    token: "laz",
    name: "LAZ",
    extensions: &["laz"],
    recognizes: |start| {
        start.bytes.starts_with(LAS_MAGIC)
            && start.bytes.get(104).is_some_and(|format| format & 0x80 != 0)
    },
    read: read::las::open,
    write: Some(Pieces(write::las::open_compressed)),
    capabilities: LAS_POINTS,
};

pub(super) const COPC: Spec = Spec {
    token: "copc",
    name: "COPC",
    extensions: &["copc.laz"],
    recognizes: |start| {
        start.bytes.starts_with(LAS_MAGIC) && start.bytes.get(377..382) == Some(b"copc\0")
    },
    read: read::las::copc::open,
    write: Some(Pieces(write::las::open_octree)),
    capabilities: Capabilities { ranges: true, ..LAS_POINTS },
};

/// Features: one row per point or line, with attributes as columns.
const FEATURES: Capabilities = Capabilities {
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

pub(super) const FLATGEOBUF: Spec = Spec {
    token: "flatgeobuf",
    name: "FlatGeobuf",
    extensions: &["fgb"],
    recognizes: |start| start.bytes.starts_with(b"fgb") && start.bytes.get(4..7) == Some(b"fgb"),
    read: read::flatgeobuf::open,
    write: Some(Pieces(write::flatgeobuf::open)),
    capabilities: Capabilities { ranges: true, ..FEATURES },
};

const TEXT_POINTS: Capabilities = Capabilities {
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
    read: read::text_points::open,
    write: Some(Pieces(write::text_points::open)),
    capabilities: Capabilities { refusal: write::text_points::refuse, ..TEXT_POINTS },
};

pub(super) const PTS: Spec = Spec {
    token: "pts",
    name: "PTS",
    extensions: &["pts"],
    recognizes: recognizes_nothing,
    read: read::text_points::open_pts,
    write: Some(Pieces(write::text_points::open_pts)),
    capabilities: Capabilities {
        streams_out: false,
        refusal: write::text_points::refuse_pts,
        ..TEXT_POINTS
    },
};

pub(super) const GEOJSON: Spec = Spec {
    token: "geojson",
    name: "GeoJSON",
    extensions: &["geojson"],
    recognizes: recognizes_nothing,
    read: read::geojson::open,
    write: Some(Pieces(write::geojson::open)),
    capabilities: FEATURES,
};

pub(super) const GEOJSON_LINES: Spec = Spec {
    token: "geojsonl",
    name: "GeoJSON lines",
    extensions: &["geojsonl", "geojsons", "geojsonseq"],
    recognizes: recognizes_nothing,
    read: read::geojson::open,
    write: Some(Pieces(write::geojson::open_lines)),
    capabilities: FEATURES,
};

#[cfg(feature = "h5ad")]
pub(super) const H5AD: Spec = Spec {
    token: "h5ad",
    name: "h5ad",
    extensions: &["h5ad"],
    recognizes: |start| {
        start.bytes.starts_with(b"\x89HDF\r\n\x1a\n")
            && start.path.is_none_or(|path| path.extension().is_none_or(|end| end == "h5ad"))
    },
    read: read::h5ad::open,
    write: Some(Whole(write::h5ad::encode)),
    capabilities: Capabilities {
        kinds: &[Kind::PointCloud],
        vertex_attributes: Attributes::All,
        axes: (1, 8),
        streams_in: false,
        streams_out: false,
        ..POSITIONS_ONLY
    },
};

pub(super) const JSONL: Spec = Spec {
    token: "jsonl",
    name: "JSON lines",
    extensions: &["jsonl", "ndjson", "json"],
    recognizes: recognizes_nothing,
    read: read::jsonl::open,
    write: Some(Pieces(write::jsonl::open)),
    capabilities: Capabilities { elements: true, element_attributes: Attributes::All, ..TABLE },
};

#[cfg(feature = "arrow")]
pub(super) const ARROW: Spec = Spec {
    token: "arrow",
    name: "Arrow",
    extensions: &["arrow", "feather", "ipc"],
    recognizes: |start| start.bytes.starts_with(b"ARROW1"),
    read: |bytes, options| read::arrow::open(bytes, options, Form::File),
    write: Some(Pieces(|target, options| write::arrow::open(target, options, Form::File))),
    capabilities: Capabilities { streams_in: false, ..TABLE },
};

#[cfg(feature = "arrow")]
pub(super) const ARROWS: Spec = Spec {
    token: "arrows",
    name: "Arrow stream",
    extensions: &["arrows"],
    recognizes: recognizes_nothing,
    read: |bytes, options| read::arrow::open(bytes, options, Form::Stream),
    write: Some(Pieces(|target, options| write::arrow::open(target, options, Form::Stream))),
    capabilities: Capabilities { streams_in: false, ..TABLE },
};

#[cfg(feature = "arrow")]
pub(super) const PARQUET: Spec = Spec {
    token: "parquet",
    name: "Parquet",
    extensions: &["parquet"],
    recognizes: |start| start.bytes.starts_with(b"PAR1"),
    read: |bytes, options| read::arrow::open(bytes, options, Form::Parquet),
    write: Some(Pieces(|target, options| write::arrow::open(target, options, Form::Parquet))),
    capabilities: Capabilities { streams_in: false, ..TABLE },
};

#[cfg(feature = "arrow")]
pub(super) const GEOPARQUET: Spec = Spec {
    token: "geoparquet",
    name: "GeoParquet",
    extensions: &["geoparquet", "geo.parquet"],
    recognizes: recognizes_nothing,
    read: |bytes, options| read::arrow::open(bytes, options, Form::Parquet),
    write: Some(Pieces(|target, options| write::geoparquet::open(target, options, Form::Parquet))),
    capabilities: FEATURES,
};

#[cfg(feature = "arrow")]
pub(super) const GEOARROW: Spec = Spec {
    token: "geoarrow",
    name: "GeoArrow",
    extensions: &["geoarrow", "geo.arrow"],
    recognizes: recognizes_nothing,
    read: |bytes, options| read::arrow::open(bytes, options, Form::File),
    write: Some(Pieces(|target, options| write::geoparquet::open(target, options, Form::File))),
    capabilities: FEATURES,
};
