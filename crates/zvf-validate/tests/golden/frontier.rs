//! Stores of rare features, derived from stores of the archive: sound, and with one fault each.

#[path = "../../../zvf-model/tests/golden/derived.rs"]
mod derived;

use archives::{Files, put_array};
use serde_json::json;
use zvf_validate::{Checks, Severity};

use self::derived::{announce, dense, edit, int64, partitioned, remove};
use super::{report_of, summarize};

/// Returns the bytes of the object at `path`.
fn bytes<'a>(files: &'a mut Files, path: &str) -> &'a mut Vec<u8> {
    &mut files.iter_mut().find(|(at, _)| at == path).expect(path).1
}

/// Returns the findings in short form.
async fn find_faults(files: &Files) -> Vec<String> {
    let report = report_of(files, &Checks::default()).await;
    report.findings.iter().map(summarize).collect()
}

type Row = (fn(&mut Files), &'static str);

/// Checks that each damage of sound files has its finding; `*` stands for any end of it.
async fn check_damage(sound_files: &Files, faults: &[Row]) {
    for (damage, expected) in faults {
        let mut files = sound_files.clone();
        damage(&mut files);
        let found = find_faults(&files).await;
        let is_expected = |found: &String| match expected.strip_suffix('*') {
            Some(start) => found.starts_with(start),
            None => found == expected,
        };
        assert!(found.iter().any(is_expected), "{expected}: {found:#?}");
    }
}

/// Overwrites the bytes of the object at `path` from `at` on by a number.
fn put_number(files: &mut Files, path: &str, at: usize, number: i64) {
    bytes(files, path)[at..at + 8].copy_from_slice(&number.to_le_bytes());
}

const INDEX: &str = "0/object_index/zarr.json";
const SPANS: &str = "0/object_index/manifest_spans/c/0/0";
const BLOCKS: &str = "0/object_index/manifest_blocks/c/0/0";

#[tokio::test]
async fn object_indexes_of_numbers() {
    let sound_files = dense().await;
    assert_eq!(find_faults(&sound_files).await, [""; 0]);
    let faults: [Row; 11] = [
        (|f| put_number(f, SPANS, 0, -1), "error C9 0/object_index/manifest_spans row 0"),
        (|f| put_number(f, SPANS, 24, 1 << 40), "error C9 0/object_index/manifest_spans row 1"),
        (
            |f| put_number(f, SPANS, 16, 0),
            "error C9 0/object_index/manifest_spans row 1", // the unused reference
        ),
        (|f| put_number(f, SPANS, 8, 0), "error C24 0/object_index"),
        (
            |f| {
                let end = bytes(f, BLOCKS).len();
                put_number(f, BLOCKS, end - 8, -7);
            },
            "error C9 0/object_index/manifest_spans row 0",
        ),
        (
            |f| {
                let end = bytes(f, BLOCKS).len();
                put_number(f, BLOCKS, end - 32, 50);
            },
            "error C9 0/object_index/manifest_spans row 0",
        ),
        (
            |f| remove(f, "0/object_index/manifest_blocks"),
            "error C24 0/object_index/manifest_blocks",
        ),
        (
            |f| put_array(f, "0/object_index/manifest_blocks", "int64", &[3, 3], int64(vec![0; 9])),
            "error C24 0/object_index/manifest_blocks",
        ),
        (
            |f| put_array(f, "0/object_index/manifest_spans", "int64", &[1, 2], int64([0, 0])),
            "error C24 0/object_index",
        ),
        (
            |f| edit(f, INDEX, |all| all["layout"] = json!("vlen_manifests_v2")),
            "warning C24 0/object_index",
        ),
        (
            |f| {
                edit(f, "zarr.json", |all| {
                    all["zarr_vectors"]["format_capabilities"] = json!(["fragment_index"])
                })
            },
            "warning M21 zarr.json",
        ),
    ];
    check_damage(&sound_files, &faults).await;
}

#[tokio::test]
async fn a_declared_layout_that_is_absent_is_reported() {
    let mut files = archives::files("pc3_objects");
    edit(&mut files, "0/object_index/zarr.json", |all| all["layout"] = json!("dense_manifests_v1"));
    assert_eq!(find_faults(&files).await, ["warning C24 0/object_index"]);
}

#[tokio::test]
async fn partitioned_cross_chunk_links_are_checked() {
    let sound_files = partitioned();
    let base = find_faults(&archives::files("v070_gr3")).await;
    assert_eq!(find_faults(&sound_files).await, base);
    let checked = report_of(&sound_files, &Checks::default()).await.checked;
    assert_eq!(
        checked.links,
        report_of(&archives::files("v070_gr3"), &Checks::default()).await.checked.links
    );
    let mut none = sound_files.clone();
    edit(&mut none, "0/cross_chunk_links/0/zarr.json", |all| all["num_links"] = json!(0));
    let none = find_faults(&none).await;
    assert!(!none.iter().any(|found| found.starts_with("error C36")), "{none:#?}");
    fn leaf(files: &Files) -> String {
        let is_leaf = |path: &&String| {
            path.starts_with("0/cross_chunk_links/0/") && path.ends_with("/data/c/0")
        };
        files.iter().map(|(path, _)| path).find(is_leaf).unwrap().clone()
    }
    let faults: [Row; 8] = [
        (
            |f| {
                let leaf = leaf(f);
                bytes(f, &leaf)[0] = 2;
            },
            "error C36 0/cross_chunk_links/0/*",
        ),
        (
            |f| {
                let leaf = leaf(f);
                put_number(f, &leaf, 2, 9999);
            },
            "error C18 0/cross_chunk_links/0/*",
        ),
        (
            |f| {
                let leaf = leaf(f);
                let path = leaf.strip_suffix("/c/0").unwrap().to_owned();
                put_array(f, &path, "uint8", &[19], vec![0; 19]);
            },
            "error C36 0/cross_chunk_links/0/*",
        ),
        (
            |f| {
                let path = "0/cross_chunk_links/0/9.9.9/9.9.10/data";
                let mut record = vec![0, 1];
                record.extend(int64([0, 0]));
                put_array(f, path, "uint8", &[18], record);
            },
            "error C16 0/cross_chunk_links/0/9.9.9/9.9.10/data*",
        ),
        (
            |f| put_array(f, "0/cross_chunk_links/0/1.0.0/0.0.0/data", "uint8", &[18], vec![0; 18]),
            "error C37 0/cross_chunk_links/0/1.0.0/0.0.0*",
        ),
        (
            |f| edit(f, "0/cross_chunk_links/0/zarr.json", |all| all["num_links"] = json!(3)),
            "error C19 0/cross_chunk_links/0*",
        ),
        (
            |f| edit(f, "zarr.json", |all| all["zarr_vectors"]["format_capabilities"] = json!([])),
            "warning M21 zarr.json*",
        ),
        (
            |f| {
                edit(f, "0/cross_chunk_links/0/zarr.json", |all| {
                    all["layout"] = json!("sharded_v1")
                })
            },
            "error S17 0/cross_chunk_links/0*",
        ),
    ];
    check_damage(&sound_files, &faults).await;
}

#[tokio::test]
async fn additive_levels_are_checked() {
    let add = |levels: &[u32]| {
        let mut files = archives::files("pc3_pyramid_sparsity");
        announce(&mut files, "additive_levels");
        edit(&mut files, "zarr.json", |all| {
            all["zarr_vectors"]["required_capabilities"] = json!(["additive_levels"]);
        });
        for level in levels {
            edit(&mut files, &format!("{level}/zarr.json"), |all| {
                all["zarr_vectors_level"]["refinement"] = json!("add");
            });
        }
        files
    };
    let base = find_faults(&add(&[])).await;
    assert!(!base.iter().any(|found| found.contains("P11")), "{base:#?}");
    // Every object of a coarse level is an object of the finer level, too.
    let faults_of_one = find_faults(&add(&[0])).await;
    assert!(
        faults_of_one.iter().any(|f| f.starts_with("error P11 0/object_index row ")),
        "{faults_of_one:#?}"
    );
    let faults_of_two = find_faults(&add(&[0, 1])).await;
    for level in ["0", "1"] {
        let expected = format!("error P11 {level}/object_index row ");
        assert!(
            faults_of_two.iter().any(|found| found.starts_with(&expected)),
            "{faults_of_two:#?}"
        );
    }
    let last = find_faults(&add(&[2])).await;
    assert!(last.iter().any(|found| found == "error M15 2/zarr.json"), "{last:#?}");
}

#[tokio::test]
async fn groups_of_links_follow_fragments() {
    let with_claim = |id| {
        let mut files = archives::files(id);
        announce(&mut files, "fragment_link_groups");
        edit(&mut files, "0/zarr.json", |all| {
            all["zarr_vectors_level"]["fragment_link_groups"] = json!(true);
        });
        files
    };
    // A single object: one fragment and one group per chunk, and every link is inside.
    let sound_files = with_claim("gr2_f64");
    assert_eq!(find_faults(&sound_files).await, find_faults(&archives::files("gr2_f64")).await);
    // Several objects, and one group for all their links.
    let report = report_of(&with_claim("gr3_links"), &Checks::default()).await;
    let rules: Vec<&str> = report.findings.iter().map(|finding| finding.rule.id).collect();
    assert!(rules.contains(&"G10"), "{rules:?}");
    assert!(report.count(Severity::Error) > 0);
    let mut none = with_claim("gr2_f64");
    remove(&mut none, "0/link_fragments");
    let none = find_faults(&none).await;
    assert!(none.contains(&"error G10 0/link_fragments".to_owned()), "{none:#?}");
}
