//! The documents of a store: its root, and one for each level.

use serde_json::{Value, json};
use zvf_metadata::{LevelDoc, Root, bins_per_chunk};
use zvf_store::{LevelNode, Store};

use crate::report::Facts;

/// Compares the root document.
pub(super) fn check_root(mut facts: Facts<'_>, store: &Store) {
    facts.each(&[], |name, _| root_fact(store.root(), store, name));
}

fn root_fact(root: &Root, store: &Store, name: &str) -> Option<Value> {
    let block = &root.zarr_vectors;
    Some(match name {
        "zv_version" => json!(store.version().to_string()),
        "sid_ndim" => json!(block.chunk_shape.len()),
        "axes" => root.axes().iter().map(axis_to_json).collect(),
        "chunk_shape" => json!(block.chunk_shape),
        "bounds" => json!(block.bounds),
        "geometry_types" => block.geometry_types.iter().map(|token| token.as_str()).collect(),
        "crs" => json!(block.crs),
        "links_convention" => json!(block.links_convention().as_str()),
        "object_index_convention" => {
            json!(block.object_index_convention.as_ref().map_or("standard", |token| token.as_str()))
        }
        "cross_chunk_strategy" => json!(block.cross_chunk_strategy().as_str()),
        "cross_level_depth" => json!(block.cross_level_depth()),
        "cross_level_storage" => json!(block.cross_level_storage().as_str()),
        "reduction_factor" => json!(block.reduction_factor()),
        "base_bin_shape" => json!(block.base_bin_shape),
        "bins_per_chunk" => json!(bins_per_chunk(&block.chunk_shape, block.base_bin_shape()).ok()),
        "format_capabilities" => {
            block.format_capabilities.iter().map(|token| token.as_str()).collect()
        }
        "attribute_specs" => json!(block.attribute_specs),
        _ => return None,
    })
}

fn axis_to_json(axis: &zvf_metadata::Axis) -> Value {
    let mut fact = json!({"name": axis.name, "type": axis.kind});
    if let Some(unit) = &axis.unit {
        fact["unit"] = json!(unit);
    }
    fact
}

/// Compares the document of one level.
pub(super) fn check_level(facts: &mut Facts<'_>, store: &Store, node: &LevelNode) {
    let (root, meta, number) = (store.root(), node.meta(), node.number().to_string());
    facts.of("meta").each(&[], |name, _| {
        derived_fact(root, meta, &number, name).or_else(|| meta_fact(meta, name))
    });
    let dataset = root.multiscale().and_then(|multiscale| multiscale.dataset(&number));
    facts.known([
        ("effective_chunk_shape", json!(meta.effective_chunk_shape(root))),
        ("effective_bin_shape", json!(meta.effective_bin_shape(root, &number))),
        ("scale", json!(dataset.and_then(|dataset| dataset.scale()))),
        ("translation", json!(dataset.and_then(|dataset| dataset.translation()))),
    ]);
}

/// Returns facts that the corpus lists for a coarser level as if they were stored, though they are
/// derived.
fn derived_fact(root: &Root, meta: &LevelDoc, number: &str, name: &str) -> Option<Value> {
    let bins = meta.effective_bin_shape(root, number).filter(|_| meta.level > 0)?;
    let base = root.zarr_vectors.base_bin_shape();
    match name {
        "bin_shape" => Some(json!(bins)),
        "bin_ratio" if meta.bin_ratio.is_none() => {
            Some(bins.iter().zip(base).map(|(bin, base)| json!(bin / base)).collect())
        }
        _ => None,
    }
}

fn meta_fact(meta: &LevelDoc, name: &str) -> Option<Value> {
    Some(match name {
        "level" => json!(meta.level),
        "vertex_count" => json!(meta.vertex_count),
        "arrays_present" => json!(meta.arrays_present),
        "bin_shape" => json!(meta.bin_shape),
        "bin_ratio" => json!(meta.bin_ratio),
        "chunk_shape" => json!(meta.chunk_shape),
        "object_sparsity" => json!(meta.object_sparsity),
        "coarsening_method" => json!(meta.coarsening_method),
        "parent_level" => json!(meta.parent_level),
        "chunk_dims" => json!(meta.chunk_dims),
        "chunk_attribute_name" => json!(meta.chunk_attribute_name),
        "chunk_attribute_values" => json!(meta.chunk_attribute_values),
        "preserves_object_ids" => json!(meta.preserves_object_ids),
        "inherited_num_objects" => json!(meta.inherited_num_objects),
        "shared_fragments" => json!(meta.shared_fragments),
        "fragments_tile" => json!(meta.fragments_tile),
        _ => return None,
    })
}
