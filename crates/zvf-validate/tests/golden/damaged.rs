//! Faults that no archive has: each is one change of a sound store.

pub(crate) use archives::edit_document as edit;
use serde_json::{Value, json};
use zvf_validate::Checks;

use super::{report_of, summarize};

pub(crate) type Files = Vec<(String, Vec<u8>)>;

pub(crate) fn remove(files: &mut Files, start: &str) {
    let before = files.len();
    files.retain(|(name, _)| !name.starts_with(start));
    assert!(files.len() < before, "{start}");
}

pub(crate) fn level(document: &mut Value) -> &mut Value {
    &mut document["attributes"]["zarr_vectors_level"]
}

fn list_segments(document: &mut Value, names: &[&str]) {
    let attributes = &mut document["attributes"];
    let rows = attributes["num_physical_records"].clone();
    attributes["zvf.segments"] = json!({"names": names, "num_physical_records": rows});
}

fn root(document: &mut Value) -> &mut Value {
    &mut document["attributes"]["zarr_vectors"]
}

#[tokio::test]
async fn partial_files_of_zarr_vectors_are_named() {
    let mut files = archives::files("pc3_basic");
    for name in ["zarr.json", "0/zarr.json", "0/vertices/c/0/0/0"] {
        files.push((format!("{name}.{}.partial", "0a".repeat(16)), vec![0; 20]));
    }
    let report = report_of(&files, &Checks::default()).await;
    let found = report.findings.iter().filter(|finding| finding.found.contains("zvf clean"));
    assert_eq!(found.count(), 3, "{:#?}", report.findings);
}

type Row = (&'static str, fn(&mut Files), &'static str);

#[rustfmt::skip]
const DAMAGE: [Row; 39] = [
    ("pc3_basic", |f| f.push(("0/notes.txt".into(), b"x".to_vec())), "warning S16 0/notes.txt"),
    ("pc3_basic", |f| f.push(("0/vertices/c/9/9/9".into(), vec![0; 20])), "warning S16 0/vertices/c/9/9/9"),
    ("pc3_basic", |f| f.push(("0/vertices/old".into(), vec![0; 20])), "warning S16 0/vertices/old"),
    ("pc3_basic", |f| edit(f, "zarr.json", |d| drop(d["attributes"].as_object_mut().unwrap().remove("ome"))), "warning S10 zarr.json"),
    ("pc3_basic", |f| remove(f, "0/"), "error S3 "),
    ("pc3_pyramid_explicit", |f| remove(f, "1/zarr.json"), "error S4 1"),
    ("pc3_pyramid_explicit", |f| edit(f, "1/zarr.json", |d| drop(level(d).as_object_mut().unwrap().remove("vertex_count"))), "error M13 1/zarr.json"),
    ("pc3_pyramid_explicit", |f| edit(f, "zarr.json", |d| root(d)["format_capabilities"] = json!([])), "warning S14 0/links/+1"),
    ("gr3_links", |f| remove(f, "0/link_attributes/zarr.json"), "warning S19 0/link_attributes"),
    ("gr3_links", |f| edit(f, "0/links/0/zarr.json", |d| d["attributes"]["num_links"] = json!(1)), "error C19 0/links/0"),
    ("gr3_links", |f| edit(f, "zarr.json", |d| root(d)["links_convention"] = json!("implicit_sequential")), "error G2 zarr.json"),
    ("lk_w2_duplicate", |f| edit(f, "0/links/0/zarr.json", |d| d["attributes"]["num_links"] = json!(3)), "error C19 0/links/0"),
    ("pc3_basic", |f| edit(f, "0/vertices/zarr.json", |d| {
        d["attributes"]["nonempty_chunks"].as_array_mut().unwrap().reverse();
    }), "error M18 0/vertices"),
    ("pc3_basic", |f| edit(f, "0/vertices/zarr.json", |d| {
        d["attributes"]["nonempty_chunks"].as_array_mut().unwrap().pop();
    }), "error C28 0/vertices"),
    ("pc3_sharded", |f| edit(f, "0/vertices/zarr.json", |d| {
        d["attributes"]["nonempty_chunks"].as_array_mut().unwrap().pop();
    }), "error C28 0/vertices"),
    ("pc3_basic", |f| edit(f, "zarr.json", |d| root(d)["bounds"] = json!([[0, 0, 0], [1, 1, 1]])), "warning C31 0/vertices"),
    ("pc3_objects", |f| edit(f, "0/object_index/zarr.json", |d| d["attributes"]["num_present"] = json!(1)), "error C24 0/object_index"),
    ("pc3_objects", |f| remove(f, "0/object_index/object_ids"), "error C24 0/object_index/object_ids"),
    ("pc3_objects", |f| remove(f, "0/object_index/manifests/c/0"), "error C24 0/object_index/manifests"),
    ("pc3_objects", |f| edit(f, "0/groups/zarr.json", |d| d["attributes"]["num_groups"] = json!(99)), "error C38 0/groups"),
    ("pc3_pyramid_explicit", |f| edit(f, "1/zarr.json", |d| level(d)["vertex_count"] = json!(-1)), "error M9 1/zarr.json"),
    ("pc3_basic", |f| edit(f, "0/zarr.json", |d| level(d)["arrays_present"] = json!(["vertices", "links"])), "warning M22 0/zarr.json"),
    ("pc3_objects", |f| edit(f, "0/zarr.json", |d| level(d)["zvf.absent"] = json!(["groups"])), "error M24 0/zarr.json"),
    ("gr3_links", |f| edit(f, "0/links/0/zarr.json", |d| list_segments(d, &["0.0.0"])), "error M24 0/links/0/zarr.json"),
    ("gr3_links", |f| edit(f, "0/links/0/zarr.json", |d| list_segments(d, &["0.0.0", "0.0.+7"])), "error M24 0/links/0/zarr.json"),
    ("pc2_bins", |f| edit(f, "zarr.json", |d| {
        let bins = root(d)["chunk_shape"].clone();
        root(d)["base_bin_shape"] = bins;
    }), ""),
    ("pc3_pyramid_explicit", |f| remove(f, "0/links/+1/zarr.json"), "error M20 0/links/+1"),
    ("pc3_pyramid_scaled", |f| remove(f, "1/"), "error P2 2"),
    ("ms3_tri", |f| edit(f, "0/links/0/zarr.json", |d| d["attributes"]["directed"] = json!(true)), "error C37 0/links/0/"),
    ("pc3_basic", |f| edit(f, "0/vertices/zarr.json", |d| d["attributes"]["encoding"] = json!("gzip9")), "error C30 0/vertices"),
    ("v070_pc3", |f| remove(f, "0/vertices/0.0.0/c"), ""),
    ("v070_gr3", |f| f.push(("0/vertices/oops/zarr.json".into(), b"{}".to_vec())), "warning S16 0/vertices/oops"),
    ("v070_gr3", |f| edit(f, "0/cross_chunk_links/0/zarr.json", |d| d["attributes"]["num_links"] = json!(1)), "error C19 0/cross_chunk_links/0"),
    ("composite", |f| edit(f, "0/geometry_index/zarr.json", |d| {
        for entry in d["attributes"].as_object_mut().unwrap().values_mut() {
            entry["vertex_count"] = json!(1);
        }
    }), "error C40 0/geometry_index"),
    ("gr3_links", |f| remove(f, "0/links/0/+1.0.0/zarr.json"), "error S18 0/links/0/+1.0.0"),
    ("pc3_objects", |f| remove(f, "0/object_index/zarr.json"), "error S18 0/object_index"),
    ("pc3_parametric_headers", |f| remove(f, "parametric/objects/zarr.json"), "warning S1"),
    ("sl3_streamlines", |f| remove(f, "0/links/0/+1.0.0/"), "warning G7 0/links/0"),
    ("sk3_trees", |f| edit(f, "0/links/0/zarr.json", |d| d["attributes"]["link_width"] = json!(3)), "error G6 0/links/0"),
];

#[tokio::test]
async fn damage_is_found_under_its_rule() {
    let mut missed = Vec::new();
    for (id, damage, expected) in DAMAGE {
        let mut files = archives::files(id);
        damage(&mut files);
        let report = report_of(&files, &Checks::default()).await;
        let found: Vec<String> = report.findings.iter().map(summarize).collect();
        if !expected.is_empty() && !found.iter().any(|found| found.starts_with(expected)) {
            missed.push(format!("{id}, {expected}: {found:#?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
