//! The documents of a store: its root, and one for each level.

use serde_json::{Value, json};
use zvf_metadata::{Axis, bins_per_chunk};
use zvf_store::{LevelNode, Store};

use crate::facts::exact;

/// Returns the facts of the root document.
pub(super) fn describe_root(store: &Store) -> Value {
    let (root, block) = (store.root(), &store.root().zarr_vectors);
    let axis = |axis: &Axis| match &axis.unit {
        Some(unit) => json!({"name": axis.name, "type": axis.kind, "unit": unit}),
        None => json!({"name": axis.name, "type": axis.kind}),
    };
    let kinds = block.geometry_types.iter().map(|token| token.as_str());
    let capabilities = block.format_capabilities.iter().map(|token| token.as_str());
    let objects = block.object_index_convention.as_ref();
    json!({
        "zv_version": store.version().to_string(),
        "sid_ndim": block.chunk_shape.len(),
        "axes": exact(root.axes().iter().map(axis).collect::<Vec<Value>>()),
        "chunk_shape": block.chunk_shape,
        "bounds": block.bounds,
        "geometry_types": kinds.collect::<Vec<_>>(),
        "crs": exact(json!(block.crs)),
        "links_convention": block.links_convention().as_str(),
        "object_index_convention": objects.map_or("standard", |token| token.as_str()),
        "cross_chunk_strategy": block.cross_chunk_strategy().as_str(),
        "cross_level_depth": block.cross_level_depth(),
        "cross_level_storage": block.cross_level_storage().as_str(),
        "reduction_factor": block.reduction_factor(),
        "base_bin_shape": block.base_bin_shape,
        "bins_per_chunk": bins_per_chunk(&block.chunk_shape, block.base_bin_shape()).ok(),
        "format_capabilities": capabilities.collect::<Vec<_>>(),
        "attribute_specs": exact(json!(block.attribute_specs)),
    })
}

/// Returns the facts of the document of one level. The corpus lists bins of a coarser level as if
/// they were stored, though they are derived.
pub(super) fn describe_level(store: &Store, node: &LevelNode) -> Value {
    let (root, meta, number) = (store.root(), node.meta(), node.number().to_string());
    let dataset = root.multiscale().and_then(|multiscale| multiscale.dataset(&number));
    let bins = meta.effective_bin_shape(root, &number);
    let coarse = bins.as_ref().filter(|_| meta.level > 0);
    let base = root.zarr_vectors.base_bin_shape();
    let ratio = coarse.map(|bins| bins.iter().zip(base).map(|(bin, base)| bin / base).collect());
    json!({
        "meta": {
            "level": meta.level,
            "vertex_count": meta.vertex_count,
            "arrays_present": meta.arrays_present,
            "bin_shape": coarse.or(meta.bin_shape.as_ref()),
            "bin_ratio": meta.bin_ratio.clone().or(ratio),
            "chunk_shape": meta.chunk_shape,
            "object_sparsity": meta.object_sparsity,
            "coarsening_method": meta.coarsening_method,
            "parent_level": meta.parent_level,
            "chunk_dims": meta.chunk_dims,
            "chunk_attribute_name": meta.chunk_attribute_name,
            "chunk_attribute_values": meta.chunk_attribute_values,
            "preserves_object_ids": meta.preserves_object_ids,
            "inherited_num_objects": meta.inherited_num_objects,
            "shared_fragments": meta.shared_fragments,
            "fragments_tile": meta.fragments_tile,
        },
        "effective_chunk_shape": meta.effective_chunk_shape(root),
        "effective_bin_shape": bins,
        "scale": dataset.and_then(|dataset| dataset.scale()),
        "translation": dataset.and_then(|dataset| dataset.translation()),
    })
}
