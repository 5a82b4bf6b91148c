//! Stores of writers: clean, or with their known true findings.

use super::{report, summarize};
use zvf_validate::Checks;

/// The findings of stores that are not fully clean, and why they are true.
#[rustfmt::skip]
const TRUE: [(&str, &[&str]); 17] = [
    // Links between points, written by the low-level interface.
    ("lk_append", &["warning G4 0/links/0"]),
    ("lk_w1_self", &["warning S14 1/links/-1"]),
    ("lk_w2_directed", &["warning G4 0/links/0"]),
    ("lk_w2_duplicate", &["warning G4 0/links/0"]),
    ("lk_w3_dup_directed", &["warning G4 0/links/0"]),
    ("lk_w4_undirected", &["warning G4 0/links/0"]),
    // The links of lines name fragments instead of rows.
    ("ln2_f64", &["warning G7 0/links/0 -3.-1"]),
    ("ln3_basic", &["warning G7 0/links/0 0.0.1"]),
    // Streams with an order of their own, whose links name rows in another one.
    ("ms3_draco", &["warning C30 0/links/0"]),
    // Vectors that are declared as single values.
    ("ms3_tri", &["warning C22 0/vertex_attributes/normal"]),
    ("sl3_vector_attr", &["warning C22 0/vertex_attributes/dir"]),
    // Edited: counts are stale, and rows were added without values of their attribute.
    ("pc3_edited_fragments", &["warning M21 zarr.json", "warning C8 0/zarr.json"]),
    ("pc3_edits", &[
        "error C22 0/vertex_attributes/w 1.1.1",
        "warning C8 0/zarr.json",
        "warning C25 0/object_index/manifests row 12",
    ]),
    // Values were given for some chunks only.
    ("pc3_fragment_attrs", &[
        "warning C22 0/fragment_attributes/box 0.0.1",
        "warning C22 0/fragment_attributes/box 0.1.0",
        "warning C22 0/fragment_attributes/box 1.0.0",
        "warning C22 0/fragment_attributes/box 1.1.1",
    ]),
    // No data was written yet.
    ("pc3_empty_store", &["warning C1 0/vertices"]),
    ("pc3_zero_points", &["warning C1 0/vertices"]),
    ("warm_store", &["warning M6 zarr.json", "warning C1 0/vertices"]),
];

#[tokio::test]
async fn sound_stores_have_only_true_findings() {
    for id in archives::ids() {
        let report = report(&id, &Checks::default()).await;
        let found: Vec<String> = report.findings.iter().map(summarize).collect();
        let expected =
            TRUE.iter().find(|(known_id, _)| *known_id == id).map_or(&[][..], |(_, found)| found);
        assert_eq!(found, expected, "{id}: {:#?}", report.findings);
        assert!(report.complete && report.checked.levels > 0, "{id}");
    }
}
