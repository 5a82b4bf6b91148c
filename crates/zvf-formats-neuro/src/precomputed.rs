//! Annotations, skeletons and meshes of Neuroglancer.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{
    Attributes, Capabilities, GroupSupport, IdSupport, POSITIONS_ONLY, Spec, UnitSupport, WriteFn,
    cannot_hold,
};
use zvf_model::Kind;

/// Annotations, skeletons and meshes of Neuroglancer.
pub const PRECOMPUTED: Spec = Spec {
    token: "precomputed",
    name: "precomputed",
    extensions: &["precomputed"],
    recognizes: |start| start.has_member("info"),
    read: read::open,
    write: Some(WriteFn::Levels(write::open)),
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
        levels: true,
        options: &[
            ("precomputed.lods", "how many levels of a store a mesh has, from level 0 on"),
            ("precomputed.mesh", "multilod or legacy; legacy unless shards are asked for"),
            ("precomputed.minishard_bits", "bits of the hash for minishards, 6 unless given"),
            (
                "precomputed.shard_bits",
                "bits of the hash for shards, 0 to 16: objects go into shards",
            ),
        ],
        refusal: |header, scope, _| {
            let has_place = matches!(header.kind, Kind::PointCloud | Kind::Graph | Kind::Skeleton);
            (scope == "vertex" && !has_place).then_some("only points and skeletons have some")
        },
        check: |header| match header.axes.len() {
            axes @ 4.. if !header.kind.is_chain() && header.kind != Kind::PointCloud => {
                let what = format!("a {} in {axes} axes", header.kind);
                Err(cannot_hold("precomputed", what, "choose three columns of positions"))
            }
            _ => Ok(None),
        },
        ..POSITIONS_ONLY
    },
};

const PRECOMPUTED_TYPES: Attributes =
    Attributes::Types(&["int8", "uint8", "int16", "uint16", "int32", "uint32", "float32"]);
