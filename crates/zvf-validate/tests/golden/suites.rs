//! Stores of the test suites of other writers: the rules that each breaks, and no others.

use std::collections::BTreeSet;

use super::{report, report_of};
use zvf_validate::{Checks, Report};

/// The verdicts on each store, by severity and rule, without duplicates.
#[rustfmt::skip]
const VERDICTS: [(&str, &[&str]); 32] = [
    // The type and the cells of a column are missing, and its reader reports the default.
    ("attr_no_cells",         &["error C22"]),
    ("nodtype",               &["warning C22", "warning M20"]),
    ("nodtype06",             &["warning M20", "warning M22"]),
    // Labels of padded bytes are text; a directed family has its ends in either order.
    ("bytes_label",           &["warning C8"]),
    ("skel_ingest",           &["warning C8", "warning M21"]),
    ("skel_small",            &["warning C8", "warning M21"]),
    // Found, although the reference does not report it.
    ("c27",                   &["error C27", "warning C25", "warning C8"]),
    ("g2_second_kind",        &["error G2", "warning C1", "warning C8"]),
    ("dangling",              &["error C18"]),
    ("graph_branches",        &["error C14", "error C19", "error G2"]),
    ("frag_without_vertices", &["error C35", "error G2", "warning C1"]),
    ("overlap",               &["error G2", "warning C8"]),
    // Faces between chunks whose rows nobody knows.
    ("draco_faces",           &["warning C30"]),
    ("leading_axis",          &[]),
    // Points whose bin reaches out of the chunk: boxes of zvf find them, those of others miss them.
    ("tools_pyramid_bins",    &["error C34", "warning C8", "warning G4"]),
    ("tools_pyramid_default", &["error C34", "warning C8", "warning G4"]),
    // Points that queries of boxes miss.
    ("coarse_misplaced",      &["error C34", "warning C8", "warning G4"]),
    ("memstore_misplaced",    &["error C34"]),
    // An empty index of fragments, a cell of zero length, bins larger than chunks: no faults.
    ("c35",                   &["warning C8", "warning M21"]),
    ("c28_familyA",           &[]),
    ("m8",                    &[]),
    // Bins declared only by the scale of a level, which do not divide chunks; points that boxes
    // miss.
    ("scale_bins",            &["error C34", "warning C8", "warning G4"]),
    // Trees that meet in bins.
    ("coarse_trees",          &["warning P6"]),
    // The other levels have no fault.
    ("level_removed",         &["warning C17", "warning M16"]),
    // Empty families between chunks, and counts that include only links between chunks.
    ("mesh06",                &[]),
    ("mesh06_refused",        &[]),
    ("mesh07",                &[]),
    ("quad07",                &[]),
    ("info_links06",          &[]),
    ("parametric06",          &["warning C1"]),
    // A leading axis without an attribute.
    ("rechunk_group",         &["warning C25", "warning C8"]),
    ("rechunk_group06",       &["warning C25", "warning C8"]),
];

fn verdicts(report: &Report) -> BTreeSet<String> {
    report.findings.iter().map(|f| format!("{} {}", f.severity, f.rule.id)).collect()
}

#[tokio::test]
async fn stores_of_other_writers_have_exactly_these_verdicts() {
    let mut mismatches = Vec::new();
    for (name, expected) in VERDICTS {
        let report = report(&format!("suites/{name}"), &Checks::default()).await;
        let expected: BTreeSet<String> = expected.iter().map(|text| text.to_string()).collect();
        if verdicts(&report) != expected {
            mismatches.push(format!("{name}: {:#?}", report.findings));
        }
    }
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
}

/// The files of a store, with the text `from` in one of them replaced.
fn replaced(id: &str, path: &str, from: &str, to: &str) -> Vec<(String, Vec<u8>)> {
    let mut files = archives::files(id);
    let (_, bytes) = files.iter_mut().find(|(name, _)| name == path).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(text.contains(from), "{from} in {text}");
    *bytes = text.replacen(from, to, 1).into_bytes();
    files
}

async fn errors(files: &[(String, Vec<u8>)]) -> Vec<String> {
    let report = report_of(files, &Checks::default()).await;
    let errors = report.findings.iter().filter(|f| f.severity == zvf_validate::Severity::Error);
    errors.map(super::summarize).collect()
}

#[tokio::test]
async fn a_level_without_attributes_is_an_error() {
    let mut files = archives::files("pc3_basic");
    files.retain(|(path, _)| path != "0/zarr.json");
    let group = br#"{"zarr_format": 3, "node_type": "group"}"#;
    files.push(("0/zarr.json".to_owned(), group.to_vec()));
    assert_eq!(errors(&files).await, ["error S7 0/zarr.json"]);
}

/// A level that was removed is still in `multiscales`; one that is a node of `ome` as well was
/// lost.
#[tokio::test]
async fn links_to_a_lost_level_are_an_error() {
    let (from, to) = ("\"nodes\": [", "\"nodes\": [{\"type\": \"zv:level\", \"name\": \"1\"}, ");
    let found = errors(&replaced("suites/level_removed", "zarr.json", from, to)).await;
    assert!(found.contains(&"error C17 0/links/+1".to_owned()), "{found:#?}");
}

#[tokio::test]
async fn chunks_under_other_names_are_an_error() {
    let id = "suites/memstore_misplaced";
    let path = "0/vertices/zarr.json";
    let dotted = replaced(id, path, r#""name": "default""#, r#""name": "v2""#);
    let found = errors(&dotted).await;
    assert!(found.contains(&"error S20 0/vertices".to_owned()), "{found:#?}");
    // The document declares the default names, and the files have other names.
    let mut files = archives::files(id);
    for (path, _) in &mut files {
        if let Some(chunk) = path.strip_prefix("0/vertices/c/") {
            *path = format!("0/vertices/{}", chunk.replace('/', "."));
        }
    }
    let found = errors(&files).await;
    assert!(found.contains(&"error S20 0/vertices/0.0.0".to_owned()), "{found:#?}");
}

#[tokio::test]
async fn counts_of_parametric_objects_are_compared() {
    let id = "broken/_base_parametric";
    let path = "parametric/objects/zarr.json";
    let files = archives::files(id);
    let (_, bytes) = files.iter().find(|(name, _)| name == path).unwrap();
    let doc: serde_json::Value = serde_json::from_slice(bytes).unwrap();
    let mut changed_doc = doc;
    changed_doc["attributes"]["num_objects"] = 77.into();
    let mut files = files;
    files.retain(|(name, _)| name != path);
    files.push((path.to_owned(), changed_doc.to_string().into_bytes()));
    assert_eq!(errors(&files).await, ["error C43 parametric/objects"]);
}
