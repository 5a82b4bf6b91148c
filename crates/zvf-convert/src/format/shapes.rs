//! The entries of formats of lines, trees and meshes: names, magic, reader, writer and capabilities of each.

use zvf_model::Kind;

use super::WriteFn::{Levels, Pieces, Whole};
use super::capabilities::{
    ALL_KINDS, Attributes, CHAINS, Capabilities, GroupSupport, IdSupport, POSITIONS_ONLY,
    UnitSupport,
};
use super::{Spec, Start, begins_with_element, recognizes_nothing};
use crate::{read, write};

pub(super) const TCK: Spec = Spec {
    token: "tck",
    name: "TCK",
    extensions: &["tck"],
    recognizes: |start| start.bytes.starts_with(b"mrtrix tracks"),
    read: read::tck::open,
    write: Some(Pieces(write::tck::open)),
    capabilities: Capabilities {
        kinds: CHAINS,
        axes: (3, 3),
        positions: Attributes::Types(&["float32"]),
        ids: IdSupport::Order,
        units: UnitSupport::Fixed("millimeter"),
        ..POSITIONS_ONLY
    },
};

pub(super) const TRX: Spec = Spec {
    token: "trx",
    name: "TRX",
    extensions: &["trx"],
    recognizes: is_zip,
    read: read::trx::open,
    write: Some(Pieces(write::trx::open)),
    capabilities: TRX_CAPABILITIES,
};

pub(super) const TRX_FOLDER: Spec = Spec {
    token: "trx-folder",
    name: "TRX",
    extensions: &[],
    recognizes: |start| start.has_member("header.json"),
    read: read::trx::open,
    write: Some(Pieces(write::trx::open_folder)),
    capabilities: Capabilities { is_folder: true, marker: "header.json", ..TRX_CAPABILITIES },
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

const TRX_CAPABILITIES: Capabilities = Capabilities {
    kinds: CHAINS,
    axes: (3, 3),
    positions: Attributes::Types(&["float16", "float64", "float32"]),
    vertex_attributes: Attributes::Numbers,
    object_attributes: Attributes::Numbers,
    ids: IdSupport::Order,
    groups: GroupSupport::Attributes,
    units: UnitSupport::Fixed("millimeter"),
    streams_in: false,
    streams_out: false,
    ..POSITIONS_ONLY
};

pub(super) const PRECOMPUTED: Spec = Spec {
    token: "precomputed",
    name: "precomputed",
    extensions: &["precomputed"],
    recognizes: |start| start.has_member("info"),
    read: read::precomputed::open,
    write: Some(Levels(write::precomputed::open)),
    capabilities: Capabilities {
        kinds: &[
            Kind::PointCloud,
            Kind::Line,
            Kind::Polyline,
            Kind::Graph,
            Kind::Skeleton,
            Kind::Mesh,
        ],
        axes: (1, 16),
        positions: Attributes::Types(&["float32"]),
        vertex_attributes: PRECOMPUTED_TYPES,
        object_attributes: PRECOMPUTED_TYPES,
        elements: true,
        corners: 3,
        ids: IdSupport::Bits(64),
        groups: GroupSupport::Members,
        units: UnitSupport::Fixed("nanometer"),
        streams_in: false,
        streams_out: false,
        is_folder: true,
        marker: "info",
        ..POSITIONS_ONLY
    },
};

const PRECOMPUTED_TYPES: Attributes =
    Attributes::Types(&["int8", "uint8", "int16", "uint16", "int32", "uint32", "float32"]);

pub(super) const PLY: Spec = Spec {
    token: "ply",
    name: "PLY",
    extensions: &["ply"],
    recognizes: |start| start.bytes.starts_with(b"ply\n") || start.bytes.starts_with(b"ply\r"),
    read: read::ply::open,
    write: Some(Pieces(write::ply::open)),
    capabilities: Capabilities {
        kinds: ALL_KINDS,
        axes: (1, 16),
        positions: PLY_TYPES,
        vertex_attributes: PLY_TYPES,
        elements: true,
        corners: 255,
        element_attributes: PLY_TYPES,
        ids: IdSupport::Bits(53),
        streams_out: false,
        ..POSITIONS_ONLY
    },
};

const PLY_TYPES: Attributes = Attributes::Types(&[
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "int64", "float64",
]);

pub(super) const TRK: Spec = Spec {
    token: "trk",
    name: "TRK",
    extensions: &["trk"],
    recognizes: |start| start.bytes.starts_with(b"TRACK\0"),
    read: read::trk::open,
    write: Some(Pieces(write::trk::open)),
    capabilities: Capabilities {
        kinds: CHAINS,
        axes: (3, 3),
        positions: Attributes::Types(&["float32"]),
        vertex_attributes: Attributes::Types(&["float32"]),
        object_attributes: Attributes::Types(&["float32"]),
        ids: IdSupport::Order,
        units: UnitSupport::Fixed("millimeter"),
        ..POSITIONS_ONLY
    },
};

pub(super) const DRACO: Spec = Spec {
    token: "draco",
    name: "Draco",
    extensions: &["drc"],
    recognizes: |start| start.bytes.starts_with(b"DRACO"),
    read: read::drc::open,
    write: Some(Whole(write::draco::encode)),
    capabilities: Capabilities {
        kinds: &[Kind::Mesh, Kind::PointCloud],
        axes: (3, 3),
        positions: Attributes::Types(&["float32"]),
        elements: true,
        corners: 3,
        streams_in: false,
        streams_out: false,
        ..POSITIONS_ONLY
    },
};

pub(super) const GLTF: Spec = Spec {
    token: "gltf",
    name: "glTF",
    extensions: &["gltf", "glb"],
    recognizes: |start| start.bytes.starts_with(b"glTF"),
    read: read::gltf::open,
    write: Some(Whole(write::glb::encode)),
    capabilities: Capabilities {
        kinds: &[Kind::Mesh, Kind::Graph, Kind::Skeleton, Kind::PointCloud],
        axes: (3, 3),
        positions: Attributes::Types(&["float32"]),
        vertex_attributes: Attributes::Types(&["uint8", "uint16", "int8", "int16", "float32"]),
        object_attributes: Attributes::All,
        elements: true,
        corners: 3,
        ids: IdSupport::Bits(53),
        units: UnitSupport::Fixed("meter"),
        streams_in: false,
        streams_out: false,
        ..POSITIONS_ONLY
    },
};

pub(super) const VTK: Spec = Spec {
    token: "vtk",
    name: "VTK",
    extensions: &["vtk"],
    recognizes: |start| start.bytes.starts_with(b"# vtk DataFile Version"),
    read: read::vtk::open,
    write: None,
    capabilities: POLY_DATA,
};

pub(super) const VTP: Spec = Spec {
    token: "vtp",
    name: "VTP",
    extensions: &["vtp"],
    recognizes: |start| begins_with_element(start.bytes, "VTKFile"),
    read: read::vtk::open_xml,
    write: Some(Whole(write::vtp::encode)),
    capabilities: POLY_DATA,
};

const POLY_DATA: Capabilities = Capabilities {
    kinds: ALL_KINDS,
    axes: (1, 3),
    vertex_attributes: Attributes::All,
    object_attributes: Attributes::All,
    elements: true,
    element_attributes: Attributes::All,
    ids: IdSupport::Bits(64),
    streams_in: false,
    streams_out: false,
    ..POSITIONS_ONLY
};

pub(super) const GIFTI: Spec = Spec {
    token: "gifti",
    name: "GIFTI",
    extensions: &["gii"],
    recognizes: |start| {
        begins_with_element(start.bytes, "GIFTI")
            || (start.is_folder && start.path.is_some_and(read::surface::has_gifti))
    },
    read: read::surface::gifti::open,
    write: Some(Whole(write::gifti::encode)),
    capabilities: SURFACES,
};

/// The capabilities of formats of brain surfaces.
const SURFACES: Capabilities = Capabilities {
    kinds: &[Kind::Mesh, Kind::PointCloud],
    axes: (1, 3),
    positions: Attributes::Types(&["int64", "float32"]),
    vertex_attributes: Attributes::Types(&["uint8", "int32", "float32"]),
    elements: true,
    corners: 3,
    ids: IdSupport::Order,
    units: UnitSupport::Fixed("millimeter"),
    streams_in: false,
    streams_out: false,
    is_folder: true,
    ..POSITIONS_ONLY
};

pub(super) const GRAPHML: Spec = Spec {
    token: "graphml",
    name: "GraphML",
    extensions: &["graphml"],
    recognizes: |start| begins_with_element(start.bytes, "graphml"),
    read: read::graph::graphml::open,
    write: Some(Whole(write::graphml::encode)),
    capabilities: GRAPH,
};

pub(super) const EDGES: Spec = Spec {
    token: "edgelist",
    name: "edge list",
    extensions: &["edgelist", "edges"],
    recognizes: |start| {
        let name = start.path.and_then(|path| path.file_name()?.to_str());
        name.is_some_and(|name| name.ends_with(".edges.csv"))
    },
    read: read::graph::edges::open,
    write: Some(Whole(write::edges::encode)),
    capabilities: Capabilities {
        positions: Attributes::None,
        vertex_attributes: Attributes::None,
        ids: IdSupport::None,
        ..GRAPH
    },
};

const GRAPH: Capabilities = Capabilities {
    kinds: &[Kind::Graph, Kind::Skeleton],
    axes: (1, 3),
    positions: Attributes::Types(&["float32", "float64"]),
    vertex_attributes: Attributes::All,
    elements: true,
    corners: 2,
    element_attributes: Attributes::All,
    ids: IdSupport::Bits(64),
    streams_in: false,
    streams_out: false,
    ..POSITIONS_ONLY
};

pub(super) const FREESURFER: Spec = Spec {
    token: "freesurfer",
    name: "FreeSurfer",
    extensions: &[
        "white",
        "pial",
        "inflated",
        "sphere",
        "orig",
        "smoothwm",
        "thickness",
        "curv",
        "sulc",
        "area",
        "volume",
        "annot",
        "label",
    ],
    recognizes: is_freesurfer,
    read: read::surface::freesurfer::open,
    write: Some(Whole(write::freesurfer::encode)),
    capabilities: Capabilities {
        vertex_attributes: Attributes::Types(&["float32"]),
        ids: IdSupport::Bits(31),
        groups: GroupSupport::Members,
        ..SURFACES
    },
};

fn is_freesurfer(start: &Start<'_>) -> bool {
    let name = start.path.and_then(|path| path.file_name()?.to_str()).unwrap_or_default();
    if start.is_folder {
        let names = ["lh.white", "rh.white", "lh.pial", "rh.pial"];
        return names.into_iter().any(|name| start.has_member(name));
    }
    let is_member = read::surface::freesurfer::is_member(name);
    start.bytes.starts_with(b"\xff\xff\xfe")
        || start.bytes.starts_with(b"#!ascii label")
        || (start.bytes.starts_with(b"\xff\xff\xff") && is_member)
}

pub(super) const STL: Spec = Spec {
    token: "stl",
    name: "STL",
    extensions: &["stl"],
    recognizes: is_stl,
    read: read::stl::open,
    write: Some(Whole(write::stl::encode)),
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

pub(super) const OBJ: Spec = Spec {
    token: "obj",
    name: "OBJ",
    extensions: &["obj"],
    recognizes: recognizes_nothing,
    read: read::obj::open,
    write: Some(Whole(write::obj::encode)),
    capabilities: Capabilities {
        kinds: ALL_KINDS,
        vertex_attributes: Attributes::Types(&["float32"]),
        vertex_names: &["color"],
        elements: true,
        ids: IdSupport::Bits(64),
        streams_out: false,
        ..POSITIONS_ONLY
    },
};

pub(super) const SWC: Spec = Spec {
    token: "swc",
    name: "SWC",
    extensions: &["swc"],
    recognizes: recognizes_nothing,
    read: read::swc::open,
    write: Some(Whole(write::swc::encode)),
    capabilities: Capabilities {
        kinds: &[Kind::Skeleton, Kind::Graph],
        axes: (3, 3),
        vertex_attributes: Attributes::Types(&["int32", "int64", "float32", "float64"]),
        vertex_names: &["radius", "type"],
        elements: true,
        ids: IdSupport::Order,
        units: UnitSupport::Fixed("micrometer"),
        streams_out: false,
        ..POSITIONS_ONLY
    },
};
