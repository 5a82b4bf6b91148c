//! Stores with one fault each: it is found under its rule and at its location.

use std::collections::BTreeSet;

use super::{report, summarize};
use zvf_validate::{Finding, Options, Severity};

/// The finding that each fault must cause.
#[rustfmt::skip]
const FOUND: [(&str, &str); 91] = [
    ("ar_fragments_missing", "error S6 0/vertex_fragments"),
    ("ar_vertices_missing", "error S5 0/vertices"),
    ("ar_zarr_format_2", "error S1 zarr.json"),
    ("attr_channels_mismatch", "error C22 0/vertex_attributes/color 0.0.0"),
    ("attr_code_out_of_range", "error C32 0/vertex_attributes/cell_type 0.0.0"),
    ("attr_short_cell", "error C22 0/vertex_attributes/label 0.0.0"),
    ("ba_values_short", "error C27 0/zarr.json"),
    ("codec_unknown", "error S17 0/vertices"),
    ("crc_mismatch", "error C33 0/vertices/c/0/0/0 0.0.0"),
    ("fi_bad_magic", "error C2 0/vertex_fragments 0.0.0"),
    ("fi_csr_first_nonzero", "error C21 0/vertex_fragments 0.0.0"),
    ("fi_csr_not_monotone", "error C21 0/vertex_fragments 0.0.0"),
    ("fi_flags_set", "error C2 0/vertex_fragments 0.0.0"),
    ("fi_huge_f", "error C2 0/vertex_fragments 0.0.0"),
    ("fi_huge_t", "error C2 0/vertex_fragments 0.0.0"),
    ("fi_index_negative", "error C21 0/vertex_fragments 0.0.0"),
    ("fi_index_out_of_range", "error C21 0/vertex_fragments 0.0.0"),
    ("fi_padding_bits", "warning C21 0/vertex_fragments -2.0.0"),
    ("fi_popcount_header", "error C21 0/vertex_fragments 0.0.0"),
    ("fi_popcount_high_bitmap", "error C21 0/vertex_fragments 0.0.0"),
    ("fi_r_gt_f", "error C21 0/vertex_fragments 0.0.0"),
    ("fi_range_negative_start", "error C21 0/vertex_fragments -2.0.0"),
    ("fi_range_overflow", "error C21 0/vertex_fragments -2.0.0"),
    ("fi_range_past_end", "error C21 0/vertex_fragments -2.0.0"),
    ("fi_trailing_bytes", "warning C21 0/vertex_fragments 0.0.0"),
    ("fi_truncated_header", "error C2 0/vertex_fragments 0.0.0"),
    ("fi_truncated_indices", "error C2 0/vertex_fragments 0.0.0"),
    ("fi_truncated_table", "error C2 0/vertex_fragments 0.0.0"),
    ("fi_version_2", "error C2 0/vertex_fragments 0.0.0"),
    ("gr_partial_id", "error C38 0/groups row 0"),
    ("gr_range_absurd", "warning C26 0/groups row 0"),
    ("js_array_invalid", "error S18 0/vertices/zarr.json"),
    ("js_deep_nesting", "error S1 zarr.json"),
    ("js_root_invalid", "error S1 zarr.json"),
    ("lk_fragments_missing", "warning C41 0/link_fragments"),
    ("lk_has_perm_false", "error C37 0/links/0/+1.+1.+1"),
    ("lk_num_physical_wrong", "error C14 0/links/0"),
    ("lk_offsets_attr_mismatch", "error C37 0/links/0/+1.+1.+1"),
    ("lk_perm_out_of_range", "error C19 0/links/0/+1.+1.+1 0.0.0"),
    ("lk_ragged_k_huge", "error C36 0/links/0/+1.+1.+1 0.0.0"),
    ("lk_ragged_offset_bad", "error C36 0/links/0/+1.+1.+1 0.0.0"),
    ("lk_segment_arity", "error C11 0/links/0/0.+1"),
    ("lk_segment_garbage", "error C11 0/links/0/0.0.x"),
    ("lk_segment_negative", "error C12 0/links/0/-1.0.0"),
    ("lk_vi_out_of_range", "error C18 0/links/0/0.0.0 0.0.0"),
    ("lv_bin_ratio_zero", "error M11 1/zarr.json"),
    ("lv_chunk_not_multiple", "error M8 1/zarr.json"),
    ("lv_count_wrong", "error C8 0/zarr.json"),
    ("lv_parent_cycle", "error M15 1/zarr.json"),
    ("lv_sparsity_zero", "error M12 1/zarr.json"),
    ("lv_tile_lie", "error C5 0/vertex_fragments 0.0.0"),
    ("md_axes_missing", "error M1 zarr.json"),
    ("md_bin_not_dividing", "error M7 zarr.json"),
    ("md_bounds_inverted", "error M4 zarr.json"),
    ("md_bounds_nan", "error M4 zarr.json"),
    ("md_chunk_nan", "error M3 zarr.json"),
    ("md_chunk_tiny", "error M7 zarr.json"),
    ("md_chunk_zero", "error M3 zarr.json"),
    ("md_dtype_unknown", "error M20 0/vertices"),
    ("md_dtype_wide", "error C3 0/vertices 0.1.0"),
    ("md_geometry_unknown", "error M14 zarr.json"),
    ("md_grid_absurd", ""),
    ("md_grid_too_small", "error M18 0/vertices"),
    ("md_keys_huge", "error M18 0/vertices"),
    ("md_keys_traversal", "error M18 0/vertices"),
    ("md_no_zv_block", "error S2 zarr.json"),
    ("md_origin_arity", "error M18 0/vertices"),
    ("md_version_future", "warning S11 zarr.json"),
    ("md_version_old", "error S12 0/vertices"),
    ("mf_bad_mode", "error C9 0/object_index/manifests row 0"),
    ("mf_dangling_chunk", "error C9 0/object_index/manifests row 0"),
    ("mf_fragment_out_of_range", "error C9 0/object_index/manifests row 0"),
    ("mf_huge_block_count", "error C9 0/object_index/manifests row 0"),
    ("mf_range_2_62", "error C9 0/object_index/manifests row 1"),
    ("mf_truncated", "error C9 0/object_index/manifests row 1"),
    ("nan_vertex", "warning C4 0/vertices 0.0.0"),
    ("oi_ids_not_sorted", "error C24 0/object_index/object_ids row 1"),
    ("oi_layout_unknown", "error S17 0/object_index"),
    ("oi_num_objects_wrong", "error C24 0/object_index"),
    ("pm_unknown_type", "warning C39 parametric/objects row 0"),
    ("shard_index_crc", "error C33 0/vertices/c/0/0/0 0.0.0"),
    ("shard_offset_past_end", "error C2 0/vertices/c/0/0/0 0.0.0"),
    ("vlen_count_two", "error C2 0/vertices/c/0/0/0 0.0.0"),
    ("vlen_length_past_end", "error C2 0/vertices/c/0/0/0 0.0.0"),
    ("vx_extra_rows", "error C5 0/vertex_fragments -2.0.0"),
    ("vx_missing_cell", "error C28 0/vertices 0.0.0"),
    ("vx_no_presence", "warning C28 0/vertices"),
    ("vx_partial_row", "error C3 0/vertices 0.0.0"),
    ("zstd_bomb_512m", "error C2 0/vertices/c/0/0/0 0.0.0"),
    ("zstd_corrupt_frame", "error C34 0/vertices 0.0.0"),
    ("zstd_not_a_frame", "error C2 0/vertices/c/0/0/0 0.0.0"),
];

#[tokio::test]
async fn every_fault_is_found_at_its_location() {
    let faults = archives::json("broken/FAULTS.json");
    let faults = faults["faults"].as_array().unwrap();
    assert_eq!(faults.len(), FOUND.len());
    let mut missed = Vec::new();
    for fault in faults {
        let id = fault["id"].as_str().unwrap();
        let (_, expected) = FOUND.iter().find(|(fault_id, _)| *fault_id == id).unwrap();
        let report = report(&format!("broken/{id}"), &Options::default()).await;
        let found: Vec<String> = report.findings.iter().map(summarize).collect();
        // A fault that must be refused is an error.
        let has_no_error = fault["want"] == "error" && report.count(Severity::Error) == 0;
        if has_no_error || !expected.is_empty() && !found.iter().any(|found| found == expected) {
            missed.push(format!("{id}: {found:#?}"));
        }
        let base = fault["base"].as_str().unwrap();
        let base = super::report(&format!("broken/_base_{base}"), &Options::default()).await;
        let base: Vec<String> = base.findings.iter().map(verdict).collect();
        let extra: BTreeSet<String> = report
            .findings
            .iter()
            .filter(|finding| summarize(finding) != *expected)
            .map(verdict)
            .filter(|verdict| !base.contains(verdict))
            .collect();
        let allowed =
            EXTRA.iter().find(|(fault_id, _)| *fault_id == id).map_or(&[][..], |(_, e)| e);
        if extra.iter().map(String::as_str).ne(allowed.iter().copied()) {
            missed.push(format!("    (\"{id}\", &{:?}),", extra));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

fn verdict(finding: &Finding) -> String {
    format!("{} {}", finding.severity, finding.rule.id)
}

/// The consequences of a fault in addition to the finding that names it: other verdicts, sorted.
/// There are no others.
#[rustfmt::skip]
const EXTRA: [(&str, &[&str]); 12] = [
    ("ar_vertices_missing",   &["warning M22"]),
    ("lk_segment_negative",   &["error C37"]),
    ("lv_chunk_not_multiple", &["error C34", "error P9"]),
    ("lv_sparsity_zero",      &["error P5"]),
    ("md_bounds_inverted",    &["warning C31"]),
    ("md_dtype_wide",         &["error C21", "error C22", "error C3", "error C34", "warning C22", "warning C31"]),
    ("md_grid_too_small",     &["error C22", "error C35", "error C8", "warning S16"]),
    ("oi_num_objects_wrong",  &["warning C23"]),
    // The same fault in other cells.
    ("shard_index_crc",       &["error C33"]),
    ("shard_offset_past_end", &["error C2"]),
    ("vx_extra_rows",         &["error C22", "error C34", "warning C31", "warning C8"]),
    ("zstd_corrupt_frame",    &["warning C31"]),
];

/// Findings of the original stores are not caused by the fault.
#[tokio::test]
async fn the_originals_of_broken_stores_are_sound() {
    for name in [
        "by_attr",
        "crc",
        "fragments",
        "graph",
        "manifests",
        "objects",
        "objects_h",
        "parametric",
        "points",
        "points_h",
        "pyramid",
        "sharded",
        "zstd",
    ] {
        let report = report(&format!("broken/_base_{name}"), &Options::default()).await;
        assert_eq!(report.count(Severity::Error), 0, "{name}: {:#?}", report.findings);
    }
}
