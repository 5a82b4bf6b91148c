//! Stores of rare features, derived from stores of the archive: sound, and with one fault each.

use std::collections::BTreeMap;

use archives::{Files, put_array};
use serde_json::{Value, json};
use zvf_format::link::FlatLinks;
use zvf_format::manifest::{BlockFragments, Manifest};
use zvf_store::{OpenOptions, Store};
use zvf_validate::{Options, Severity};

use super::{report_of, summarize};

fn edit(files: &mut Files, path: &str, change: impl FnOnce(&mut Value)) {
    archives::edit_document(files, path, |doc| change(&mut doc["attributes"]));
}

fn announce(files: &mut Files, token: &str) {
    edit(files, "zarr.json", |all| {
        let tokens = &mut all["zarr_vectors"]["format_capabilities"];
        tokens.as_array_mut().unwrap().push(token.into());
    });
}

fn remove(files: &mut Files, folder: &str) {
    files.retain(|(path, _)| !path.starts_with(&format!("{folder}/")));
}

/// Returns the bytes of the object at `path`.
fn bytes<'a>(files: &'a mut Files, path: &str) -> &'a mut Vec<u8> {
    &mut files.iter_mut().find(|(at, _)| at == path).expect(path).1
}

fn int64(numbers: impl IntoIterator<Item = i64>) -> Vec<u8> {
    numbers.into_iter().flat_map(i64::to_le_bytes).collect()
}

/// Returns the findings in short form.
async fn find_faults(files: &Files) -> Vec<String> {
    let report = report_of(files, &Options::default()).await;
    report.findings.iter().map(summarize).collect()
}

/// Returns `pc3_objects` with a dense index: spans from the last object to the first, and before each an unused reference.
async fn dense() -> Files {
    let mut files = archives::files("pc3_objects");
    let memory = archives::in_memory(&files).await;
    let store = Store::from_object_store(memory, &"".into(), OpenOptions::default()).await.unwrap();
    let rows = store.level(0).await.unwrap().rows("object_index").await.unwrap().unwrap();
    let blobs = rows.range(0..rows.count().await.unwrap()).await.unwrap();
    let (mut spans, mut blocks) = (Vec::new(), Vec::new());
    for blob in blobs.iter().rev() {
        blocks.extend([0, 0, 0, 999]);
        let start = i64::try_from(blocks.len() / 4).unwrap();
        for block in Manifest::parse(blob, 3).unwrap().blocks() {
            let fragments: Vec<u64> = match &block.fragments {
                BlockFragments::Single(fragment) => vec![*fragment],
                fragments => fragments.into_iter().collect(),
            };
            for fragment in fragments {
                blocks.extend(block.chunk.iter().map(|c| c.get()));
                blocks.push(i64::try_from(fragment).unwrap());
            }
        }
        spans.push([start, i64::try_from(blocks.len() / 4).unwrap() - start]);
    }
    spans.reverse();
    remove(&mut files, "0/object_index/manifests");
    let (n, m) = (spans.len(), blocks.len() / 4);
    put_array(&mut files, "0/object_index/manifest_spans", "int64", &[n, 2], int64(spans.concat()));
    put_array(&mut files, "0/object_index/manifest_blocks", "int64", &[m, 4], int64(blocks));
    edit(&mut files, "0/object_index/zarr.json", |all| all["layout"] = json!("dense_manifests_v1"));
    announce(&mut files, "dense_manifests");
    files
}

type Row = (fn(&mut Files), &'static str);

const SPANS: &str = "0/object_index/manifest_spans/c/0/0";
const BLOCKS: &str = "0/object_index/manifest_blocks/c/0/0";

#[tokio::test]
async fn object_indexes_of_numbers() {
    let sound_files = dense().await;
    assert_eq!(find_faults(&sound_files).await, [""; 0]);
    let faults: [Row; 11] = [
        (
            |f| bytes(f, SPANS)[..8].copy_from_slice(&(-1_i64).to_le_bytes()),
            "error C9 0/object_index/manifest_spans row 0",
        ),
        (
            |f| bytes(f, SPANS)[24..32].copy_from_slice(&(1_i64 << 40).to_le_bytes()),
            "error C9 0/object_index/manifest_spans row 1",
        ),
        (
            |f| bytes(f, SPANS)[16..24].copy_from_slice(&0_i64.to_le_bytes()),
            "error C9 0/object_index/manifest_spans row 1", // the unused reference
        ),
        (
            |f| bytes(f, SPANS)[8..16].copy_from_slice(&0_i64.to_le_bytes()),
            "error C24 0/object_index",
        ),
        (
            |f| {
                let blocks = bytes(f, BLOCKS);
                let last = blocks.len() - 8;
                blocks[last..].copy_from_slice(&(-7_i64).to_le_bytes());
            },
            "error C9 0/object_index/manifest_spans row 0",
        ),
        (
            |f| {
                let blocks = bytes(f, BLOCKS);
                let last = blocks.len() - 32;
                blocks[last..last + 8].copy_from_slice(&50_i64.to_le_bytes());
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
            |f| {
                edit(f, "0/object_index/zarr.json", |all| {
                    all["layout"] = json!("vlen_manifests_v2");
                });
            },
            "warning C24 0/object_index",
        ),
        (
            |f| {
                edit(f, "zarr.json", |all| {
                    all["zarr_vectors"]["format_capabilities"] = json!(["fragment_index"]);
                });
            },
            "warning M21 zarr.json",
        ),
    ];
    for (damage, expected) in faults {
        let mut files = sound_files.clone();
        damage(&mut files);
        let found = find_faults(&files).await;
        assert!(found.iter().any(|found| found == expected), "{expected}: {found:#?}");
    }
}

#[tokio::test]
async fn a_declared_layout_that_is_absent_is_reported() {
    let mut files = archives::files("pc3_objects");
    edit(&mut files, "0/object_index/zarr.json", |all| all["layout"] = json!("dense_manifests_v1"));
    assert_eq!(find_faults(&files).await, ["warning C24 0/object_index"]);
}

/// Returns `v070_gr3` with its links across chunks stored by the chunks that they touch: slots,
/// then rows.
fn partitioned() -> Files {
    let mut files = archives::files("v070_gr3");
    let family = "0/cross_chunk_links/0";
    let data = bytes(&mut files, &format!("{family}/data/c/0")).clone();
    let mut links_by_chunks: BTreeMap<Vec<Vec<i64>>, Vec<u8>> = BTreeMap::new();
    for record in FlatLinks::parse(&data, 2, 3).unwrap().records() {
        let ends: Vec<_> = record.endpoints().collect();
        let mut chunks: Vec<Vec<i64>> =
            ends.iter().map(|(chunk, _)| chunk.components().to_vec()).collect();
        chunks.sort();
        chunks.dedup();
        let slot = |chunk: &[i64]| chunks.iter().position(|candidate| candidate == chunk).unwrap();
        let mut bytes: Vec<u8> =
            ends.iter().map(|(chunk, _)| u8::try_from(slot(chunk.components())).unwrap()).collect();
        bytes.extend(int64(ends.iter().map(|(_, row)| i64::try_from(*row).unwrap())));
        links_by_chunks.entry(chunks.clone()).or_default().extend(bytes);
    }
    remove(&mut files, &format!("{family}/data"));
    for (chunks, bytes) in links_by_chunks {
        let name = |chunk: &Vec<i64>| {
            let parts: Vec<String> = chunk.iter().map(ToString::to_string).collect();
            parts.join(".")
        };
        let names: Vec<String> = chunks.iter().map(name).collect();
        let path = format!("{family}/{}/data", names.join("/"));
        put_array(&mut files, &path, "uint8", &[bytes.len()], bytes);
    }
    edit(&mut files, &format!("{family}/zarr.json"), |all| all["layout"] = json!("partitioned_v1"));
    announce(&mut files, "partitioned_cross_chunk_links");
    files
}

#[tokio::test]
async fn partitioned_cross_chunk_links_are_checked() {
    let sound_files = partitioned();
    let base = find_faults(&archives::files("v070_gr3")).await;
    assert_eq!(find_faults(&sound_files).await, base);
    let checked = report_of(&sound_files, &Options::default()).await.checked;
    assert_eq!(
        checked.links,
        report_of(&archives::files("v070_gr3"), &Options::default()).await.checked.links
    );
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
            "error C36 0/cross_chunk_links/0/",
        ),
        (
            |f| {
                let leaf = leaf(f);
                bytes(f, &leaf)[2..10].copy_from_slice(&9999_i64.to_le_bytes());
            },
            "error C18 0/cross_chunk_links/0/",
        ),
        (
            |f| {
                let leaf = leaf(f);
                let path = leaf.strip_suffix("/c/0").unwrap().to_owned();
                put_array(f, &path, "uint8", &[19], vec![0; 19]);
            },
            "error C36 0/cross_chunk_links/0/",
        ),
        (
            |f| {
                let path = "0/cross_chunk_links/0/9.9.9/9.9.10/data";
                let mut record = vec![0, 1];
                record.extend(int64([0, 0]));
                put_array(f, path, "uint8", &[18], record);
            },
            "error C16 0/cross_chunk_links/0/9.9.9/9.9.10/data",
        ),
        (
            |f| put_array(f, "0/cross_chunk_links/0/1.0.0/0.0.0/data", "uint8", &[18], vec![0; 18]),
            "error C37 0/cross_chunk_links/0/1.0.0/0.0.0",
        ),
        (
            |f| edit(f, "0/cross_chunk_links/0/zarr.json", |all| all["num_links"] = json!(3)),
            "error C19 0/cross_chunk_links/0",
        ),
        (
            |f| {
                edit(f, "zarr.json", |all| {
                    all["zarr_vectors"]["format_capabilities"] = json!([]);
                })
            },
            "warning M21 zarr.json",
        ),
        (
            |f| {
                edit(f, "0/cross_chunk_links/0/zarr.json", |all| {
                    all["layout"] = json!("sharded_v1")
                })
            },
            "error S17 0/cross_chunk_links/0",
        ),
    ];
    for (damage, expected) in faults {
        let mut files = sound_files.clone();
        damage(&mut files);
        let found = find_faults(&files).await;
        assert!(found.iter().any(|found| found.starts_with(expected)), "{expected}: {found:#?}");
    }
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
    let report = report_of(&with_claim("gr3_links"), &Options::default()).await;
    let rules: Vec<&str> = report.findings.iter().map(|finding| finding.rule.id).collect();
    assert!(rules.contains(&"G10"), "{rules:?}");
    assert!(report.count(Severity::Error) > 0);
    let mut none = with_claim("gr2_f64");
    remove(&mut none, "0/link_fragments");
    let none = find_faults(&none).await;
    assert!(none.contains(&"error G10 0/link_fragments".to_owned()), "{none:#?}");
}
