//! Several kinds in one store: each is validated separately, and so are the parts that they share.

use serde_json::json;
use zvf_validate::Checks;

use super::damaged::{Files, edit, level, remove};
use super::{report_of, summarize};

/// Returns streamlines and a graph whose objects start at 100.
fn mixed() -> Files {
    archives::files_with_extra_kind("sl3_streamlines", "graph", "gr3_links", 100)
}

type Row = (fn(&mut Files), &'static [&'static str]);

#[rustfmt::skip]
const ROWS: [Row; 11] = [
    (|_| {}, &[]),
    (|f| *f = archives::files_with_extra_kind("sl3_streamlines", "graph", "gr3_links", 23), &["error C40 0/geometry_index"]),
    (|f| edit(f, "0/geometry_index/zarr.json", |d| d["attributes"]["graph"]["vertex_count"] = json!(1)), &["error C40 0/geometry_index"]),
    (|f| remove(f, "0/graph/zarr.json"), &["error C40 0/graph", "warning S19 0/graph"]),
    (|f| edit(f, "0/graph/zarr.json", |d| level(d)["links_convention"] = json!("implicit_sequential")), &["error G2 0/graph/zarr.json"]),
    (|f| edit(f, "0/graph/zarr.json", |d| level(d)["arrays_present"] = json!(["vertices", "objects"])), &["warning M22 0/graph/zarr.json"]),
    (|f| edit(f, "0/graph/zarr.json", |d| level(d)["vertex_count"] = json!(-1)), &["error M9 0/graph/zarr.json"]),
    (|f| edit(f, "0/graph/links/0/zarr.json", |d| d["attributes"]["num_links"] = json!(1)), &["error C19 0/graph/links/0"]),
    (|f| remove(f, "0/graph/vertex_fragments/"), &["error S6 0/graph/vertex_fragments"]),
    // Groups contain objects of all kinds.
    (|f| edit(f, "0/groups/zarr.json", |d| d["attributes"]["group_ranges"] = json!({"2": [100, 101]})), &[]),
    (|f| edit(f, "0/groups/zarr.json", |d| d["attributes"]["group_ranges"] = json!({"2": [100, 999]})), &["warning C26 0/groups row 2"]),
];

#[tokio::test]
async fn each_kind_and_shared_rules_are_checked() {
    let mut missed = Vec::new();
    for (n, (damage, expected)) in ROWS.into_iter().enumerate() {
        let mut files = mixed();
        damage(&mut files);
        let report = report_of(&files, &Checks::default()).await;
        let found: Vec<String> = report.findings.iter().map(summarize).collect();
        let all = expected.iter().all(|expected| found.iter().any(|found| found == expected));
        let has_unexpected = expected.is_empty() && !found.is_empty();
        if !all || has_unexpected {
            missed.push(format!("row {n}, {expected:?}: {found:?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[tokio::test]
async fn cells_and_objects_of_every_kind_are_counted() {
    let total = report_of(&mixed(), &Checks::default()).await.checked;
    let reports = [
        super::report("sl3_streamlines", &Checks::default()).await.checked,
        super::report("gr3_links", &Checks::default()).await.checked,
    ];
    let sum = |count: fn(&zvf_validate::CheckCounts) -> u64| reports.iter().map(count).sum::<u64>();
    assert_eq!(total.rows, sum(|checked| checked.rows));
    assert_eq!(total.links, sum(|checked| checked.links));
    assert_eq!(total.objects, sum(|checked| checked.objects));
    assert_eq!(total.levels, 1);
}
