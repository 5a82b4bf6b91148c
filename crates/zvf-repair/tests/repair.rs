//! Stores with what can be mended: the plan says it, applying it makes them right, and nothing is invented.

use std::fs;

use archives::Unpacked;
use serde_json::{Value, json};
use zvf_repair::{Plan, RepairError, apply_local, apply_remote, plan};
use zvf_store::{OpenOptions, Store};
use zvf_validate::{Observer, Options, validate};

type Files = Vec<(String, Vec<u8>)>;

fn edit(files: &mut Files, path: &str, change: impl FnOnce(&mut Value)) {
    let (_, bytes) = files.iter_mut().find(|(name, _)| name == path).unwrap();
    let mut document: Value = serde_json::from_slice(bytes).unwrap();
    change(&mut document);
    *bytes = serde_json::to_vec(&document).unwrap();
}

async fn open(unpacked: &Unpacked) -> Store {
    Store::open(unpacked.path().to_str().unwrap(), OpenOptions::default()).await.unwrap()
}

/// The rules that are broken.
async fn broken(unpacked: &Unpacked) -> Vec<&'static str> {
    let report = validate(&open(unpacked).await, &Options::default(), &Observer::default()).await;
    report.unwrap().findings.iter().map(|finding| finding.rule.id).collect()
}

async fn planned(unpacked: &Unpacked) -> Plan {
    plan(&open(unpacked).await, "brain.zarrvectors").await.unwrap()
}

type Row = (&'static str, fn(&mut Files), &'static str);

/// A store, what is done to it, and the rule that it breaks then and no longer breaks in the end.
#[rustfmt::skip]
const MENDED: [Row; 14] = [
    ("pc3_basic", |f| edit(f, "0/zarr.json", |d| d["attributes"]["zarr_vectors_level"]["vertex_count"] = json!(7)), "C8"),
    ("pc3_basic", |f| edit(f, "0/zarr.json", |d| d["attributes"]["zarr_vectors_level"]["arrays_present"] = json!(["vertices", "links"])), "M22"),
    ("pc3_basic", |f| edit(f, "zarr.json", |d| drop(d["attributes"].as_object_mut().unwrap().remove("ome"))), "S10"),
    ("pc3_basic", |f| edit(f, "0/vertices/zarr.json", |d| drop(d["attributes"]["nonempty_chunks"].as_array_mut().unwrap().pop())), "C28"),
    ("pc3_sharded", |f| edit(f, "0/vertices/zarr.json", |d| drop(d["attributes"]["nonempty_chunks"].as_array_mut().unwrap().pop())), "C28"),
    ("pc3_basic", |f| edit(f, "0/vertices/zarr.json", |d| d["attributes"]["nonempty_chunks"].as_array_mut().unwrap().reverse()), "M18"),
    ("broken/vx_no_presence", |_| (), "C28"),
    ("broken/lv_tile_lie", |_| (), "C5"),
    ("broken/oi_ids_not_sorted", |_| (), "C24"),
    ("broken/lk_num_physical_wrong", |_| (), "C14"),
    ("broken/lk_fragments_missing", |_| (), "C41"),
    ("pc3_objects", |f| edit(f, "0/object_index/zarr.json", |d| d["attributes"]["num_present"] = json!(1)), "C24"),
    ("gr3_links", |f| edit(f, "0/links/0/zarr.json", |d| d["attributes"]["num_links"] = json!(1)), "C19"),
    ("pc3_pyramid_explicit", |f| edit(f, "zarr.json", |d| d["attributes"]["zarr_vectors"]["format_capabilities"] = json!([])), "S14"),
];

#[tokio::test]
async fn what_follows_is_mended() {
    for (id, damage, rule) in MENDED {
        let mut files = archives::files(id);
        damage(&mut files);
        let unpacked = Unpacked::of(&files);
        assert!(broken(&unpacked).await.contains(&rule), "{id} {rule}");
        let (first, mut rounds) = (planned(&unpacked).await, 0);
        assert!(first.changes.iter().any(|change| change.rules.contains(&rule)), "{id}: {first:?}");
        loop {
            let plan = planned(&unpacked).await;
            if plan.is_empty() {
                break;
            }
            rounds += 1;
            assert!(rounds < 4, "{id}: {plan:?}");
            let kept = apply_local(unpacked.path(), &plan).unwrap();
            if let Some(kept) = kept {
                fs::remove_dir_all(kept.parent().unwrap()).unwrap();
            }
        }
        let left = broken(&unpacked).await;
        assert!(!left.contains(&rule), "{id} {rule}: {left:?}");
        assert!(!left.contains(&"S16"), "{id}: {left:?}");
    }
}

#[tokio::test]
async fn what_is_replaced_is_kept_beside_the_store() {
    let mut files = archives::files("pc3_basic");
    edit(&mut files, "0/zarr.json", |d| {
        d["attributes"]["zarr_vectors_level"]["vertex_count"] = json!(7)
    });
    let unpacked = Unpacked::of(&files);
    let before = fs::read(unpacked.path().join("0/zarr.json")).unwrap();
    let plan = planned(&unpacked).await;
    let words: Vec<_> =
        plan.changes.iter().map(|change| (change.path.as_str(), &change.words[..])).collect();
    assert_eq!(words, [("0/zarr.json", &["vertex_count becomes 240, was 7".to_owned()][..])]);
    let kept = apply_local(unpacked.path(), &plan).unwrap().unwrap();
    assert!(kept.ends_with("repair-1") && !kept.starts_with(unpacked.path()));
    assert_eq!(fs::read(kept.join("0/zarr.json")).unwrap(), before);
    // The plan is of what was: a second time it does not fit.
    let again = apply_local(unpacked.path(), &plan).unwrap_err();
    assert!(matches!(again, RepairError::Changed { ref path } if path == "0/zarr.json"), "{again}");
    fs::remove_dir_all(kept.parent().unwrap()).unwrap();
}

#[tokio::test]
async fn nothing_is_invented() {
    for id in [
        "broken/vx_missing_cell",
        "broken/md_grid_too_small",
        "broken/fi_range_past_end",
        "broken/mf_truncated",
    ] {
        let unpacked = Unpacked::new(id);
        let plan = planned(&unpacked).await;
        assert!(plan.is_empty() && !plan.left.is_empty(), "{id}: {:?}", plan.changes);
    }
}

#[tokio::test]
async fn a_backend_replaces_conditionally() {
    let mut files = archives::files("pc3_basic");
    edit(&mut files, "0/zarr.json", |d| {
        d["attributes"]["zarr_vectors_level"]["vertex_count"] = json!(7)
    });
    let memory = archives::in_memory(&files).await;
    let root = object_store::path::Path::default();
    let open = || Store::from_object_store(memory.clone(), &root, OpenOptions::default());
    let plan = plan(&open().await.unwrap(), "x").await.unwrap();
    apply_remote(&*memory, &root, &"kept.zvf/repair-1".into(), &plan).await.unwrap();
    let report =
        validate(&open().await.unwrap(), &Options::default(), &Observer::default()).await.unwrap();
    assert!(!report.findings.iter().any(|finding| finding.rule.id == "C8"));
    let again =
        apply_remote(&*memory, &root, &"kept.zvf/repair-2".into(), &plan).await.unwrap_err();
    assert!(matches!(again, RepairError::Changed { .. }), "{again}");
}
