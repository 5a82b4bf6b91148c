//! Stores with repairable faults: the plan lists them, applying it repairs them, and nothing is
//! invented.

use std::fs;
use std::sync::Arc;

use archives::faults::{Fault, FaultStore};
use archives::{Unpacked, edit_document as edit};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use serde_json::json;
use zvf_format::Class;
use zvf_repair::{Plan, apply_local, apply_remote, plan};
use zvf_store::{OpenOptions, Store};
use zvf_validate::{Checks, Observer, validate};

type Files = Vec<(String, Vec<u8>)>;

async fn open(unpacked: &Unpacked) -> Store {
    Store::open(unpacked.path().to_str().unwrap(), OpenOptions::default()).await.unwrap()
}

/// Returns the violated rules.
async fn violated_rules(unpacked: &Unpacked) -> Vec<&'static str> {
    let report = validate(&open(unpacked).await, &Checks::default(), &Observer::default()).await;
    report.unwrap().findings.iter().map(|finding| finding.rule.id).collect()
}

async fn make_plan(unpacked: &Unpacked) -> Plan {
    plan(&open(unpacked).await, "brain.zarrvectors", false).await.unwrap()
}

type Row = (&'static str, fn(&mut Files), &'static str);

/// A store, a function that damages it, and the rule that it violates until the repair.
#[rustfmt::skip]
const REPAIRABLE: [Row; 18] = [
    ("pc3_basic", |f| edit(f, "0/zarr.json", |d| d["attributes"]["zarr_vectors_level"]["vertex_count"] = json!(7)), "C8"),
    ("pc3_basic", |f| edit(f, "0/zarr.json", |d| d["attributes"]["zarr_vectors_level"]["arrays_present"] = json!(["vertices", "links"])), "M22"),
    ("pc3_basic", |f| edit(f, "zarr.json", |d| drop(d["attributes"].as_object_mut().unwrap().remove("ome"))), "S10"),
    ("pc3_basic", |f| edit(f, "0/vertices/zarr.json", |d| drop(d["attributes"]["nonempty_chunks"].as_array_mut().unwrap().pop())), "C28"),
    ("pc3_sharded", |f| edit(f, "0/vertices/zarr.json", |d| drop(d["attributes"]["nonempty_chunks"].as_array_mut().unwrap().pop())), "C28"),
    ("pc3_basic", |f| edit(f, "0/vertices/zarr.json", |d| d["attributes"]["nonempty_chunks"].as_array_mut().unwrap().reverse()), "M18"),
    ("pc3_basic", |f| edit(f, "zarr.json", |d| d["attributes"]["zarr_vectors"]["shard_shape"] = json!(3)), "M23"),
    ("gr3_links", |f| edit(f, "0/zarr.json", |d| d["attributes"]["zarr_vectors_level"]["fragment_link_groups"] = json!(true)), "G10"),
    ("pc3_objects", |f| edit(f, "0/zarr.json", |d| d["attributes"]["zarr_vectors_level"]["zvf.absent"] = json!(["groups", "links"])), "M24"),
    ("gr3_links", |f| edit(f, "0/links/0/zarr.json", |d| {
        let rows = d["attributes"]["num_physical_records"].clone();
        d["attributes"]["zvf.segments"] = json!({"names": ["0.0.0"], "num_physical_records": rows});
    }), "M24"),
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
async fn derivable_metadata_is_repaired() {
    for (id, damage, rule) in REPAIRABLE {
        let mut files = archives::files(id);
        damage(&mut files);
        let unpacked = Unpacked::from_files(&files);
        assert!(violated_rules(&unpacked).await.contains(&rule), "{id} {rule}");
        let (first_plan, mut rounds) = (make_plan(&unpacked).await, 0);
        assert!(
            first_plan.changes.iter().any(|change| change.rules.contains(&rule)),
            "{id}: {first_plan:?}"
        );
        loop {
            let plan = make_plan(&unpacked).await;
            if plan.is_empty() {
                break;
            }
            rounds += 1;
            assert!(rounds < 4, "{id}: {plan:?}");
            let backup = apply_local(unpacked.path(), &plan).unwrap();
            if let Some(backup) = backup {
                fs::remove_dir_all(backup.parent().unwrap()).unwrap();
            }
        }
        let rules = violated_rules(&unpacked).await;
        assert!(!rules.contains(&rule), "{id} {rule}: {rules:?}");
        assert!(!rules.contains(&"S16"), "{id}: {rules:?}");
    }
}

#[tokio::test]
async fn an_additional_kind_is_repaired_in_its_own_group() {
    let mut files = archives::files_with_extra_kind("sl3_streamlines", "graph", "gr3_links", 100);
    files.retain(|(path, _)| !path.starts_with("0/graph/link_fragments/"));
    let unpacked = Unpacked::from_files(&files);
    assert_eq!(violated_rules(&unpacked).await, ["C41"]);
    let plan = make_plan(&unpacked).await;
    let is_inside = |path: &str| path.starts_with("0/graph/link_fragments/");
    assert!(!plan.is_empty() && plan.changes.iter().all(|change| is_inside(&change.path)));
    if let Some(backup) = apply_local(unpacked.path(), &plan).unwrap() {
        fs::remove_dir_all(backup.parent().unwrap()).unwrap();
    }
    assert_eq!(violated_rules(&unpacked).await, [""; 0]);

    let files = archives::files_with_extra_kind("pc3_basic", "graph", "broken/lv_tile_lie", 0);
    let plan = make_plan(&Unpacked::from_files(&files)).await;
    let tiles = plan.changes.iter().filter(|change| change.rules.contains(&"C5"));
    assert_eq!(tiles.map(|change| &*change.path).collect::<Vec<_>>(), ["0/graph/zarr.json"]);
}

#[tokio::test]
async fn replaced_files_are_kept_next_to_the_store() {
    let mut files = archives::files("pc3_basic");
    edit(&mut files, "0/zarr.json", |d| {
        d["attributes"]["zarr_vectors_level"]["vertex_count"] = json!(7)
    });
    let unpacked = Unpacked::from_files(&files);
    let original = fs::read(unpacked.path().join("0/zarr.json")).unwrap();
    let plan = make_plan(&unpacked).await;
    let messages: Vec<_> =
        plan.changes.iter().map(|change| (change.path.as_str(), &change.words[..])).collect();
    assert_eq!(messages, [("0/zarr.json", &["vertex_count becomes 240, was 7".to_owned()][..])]);
    let backup = apply_local(unpacked.path(), &plan).unwrap().unwrap();
    assert!(backup.ends_with("repair-1") && !backup.starts_with(unpacked.path()));
    assert_eq!(fs::read(backup.join("0/zarr.json")).unwrap(), original);
    // The plan is for the old state: it cannot be applied twice.
    let error = apply_local(unpacked.path(), &plan).unwrap_err();
    assert_eq!((error.class(), error.key()), (Class::Conflict, Some("0/zarr.json")), "{error}");
    fs::remove_dir_all(backup.parent().unwrap()).unwrap();
}

#[tokio::test]
async fn uncertain_faults_are_not_repaired() {
    for id in [
        "broken/vx_missing_cell",
        "broken/md_grid_too_small",
        "broken/fi_range_past_end",
        "broken/mf_truncated",
    ] {
        let unpacked = Unpacked::new(id);
        let plan = make_plan(&unpacked).await;
        assert!(plan.is_empty() && !plan.left.is_empty(), "{id}: {:?}", plan.changes);
    }
    // The stated number of objects is the only trace of lost manifests.
    let mut files = archives::files("pc3_objects");
    files.retain(|(name, _)| name != "0/object_index/manifests/c/0");
    let plan = make_plan(&Unpacked::from_files(&files)).await;
    assert!(plan.is_empty() && !plan.left.is_empty(), "{:?}", plan.changes);
}

/// Returns `pc3_basic` with a wrong count, behind a backend that can fail.
async fn faulty_store() -> (Arc<FaultStore>, Vec<u8>) {
    let mut files = archives::files("pc3_basic");
    edit(&mut files, "0/zarr.json", |d| {
        d["attributes"]["zarr_vectors_level"]["vertex_count"] = json!(7)
    });
    let store = Arc::new(FaultStore::new());
    for (path, bytes) in &files {
        store.insert(&format!("data/brain/{path}"), bytes).await;
    }
    let original = files.into_iter().find(|(path, _)| path == "0/zarr.json").unwrap().1;
    (store, original)
}

async fn opened(store: &Arc<FaultStore>) -> Store {
    let backend: Arc<dyn ObjectStore> = store.clone();
    Store::from_object_store(backend, &PREFIX.into(), OpenOptions::default()).await.unwrap()
}

/// Returns the object at `path`, or `None` if there is none.
async fn object(store: &FaultStore, path: &str) -> Option<Vec<u8>> {
    match store.get(&path.into()).await {
        Ok(got) => Some(got.bytes().await.unwrap().to_vec()),
        Err(object_store::Error::NotFound { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

async fn apply(store: &Arc<FaultStore>, plan: &Plan) -> zvf_error::Result<Option<Path>> {
    let options = OpenOptions::default();
    apply_remote(store.clone(), &PREFIX.into(), &BACKUP.into(), &options, plan).await
}

async fn is_repaired(store: &Arc<FaultStore>) -> bool {
    let report = validate(&opened(store).await, &Checks::default(), &Observer::default()).await;
    !report.unwrap().findings.iter().any(|finding| finding.rule.id == "C8")
}

#[tokio::test]
async fn a_backend_replaces_conditionally() {
    let (store, original) = faulty_store().await;
    let plan = plan(&opened(&store).await, "brain", false).await.unwrap();
    let backup = apply(&store, &plan).await.unwrap().unwrap();
    assert_eq!(backup.as_ref(), "data/brain.zvf/repair-1");
    assert_eq!(object(&store, "data/brain.zvf/repair-1/0/zarr.json").await.unwrap(), original);
    let text = object(&store, "data/brain.zvf/repair-1/plan.txt").await.unwrap();
    assert_eq!(text, b"replace 0/zarr.json (C8)\n  vertex_count becomes 240, was 7\n");
    assert!(is_repaired(&store).await);
    // The plan is for the old state: it cannot be applied twice.
    let error = apply(&store, &plan).await.unwrap_err();
    assert_eq!((error.class(), error.key()), (Class::Conflict, Some("0/zarr.json")), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_begins_meanwhile_ends_the_repair() {
    let (store, original) = faulty_store().await;
    let plan = plan(&opened(&store).await, "brain", false).await.unwrap();
    store.forget();
    // After the list of the log, and before the first read of an object.
    store.plan(2, Fault::Delay(std::time::Duration::from_secs(2)));
    let repair = apply(&store, &plan);
    let edit = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        store.insert("data/brain.zvf/log/00000000000000000001", b"{}").await;
    };
    let (repaired, ()) = tokio::join!(repair, edit);
    assert_eq!(repaired.unwrap_err().class(), Class::InvalidArgument);
    assert_eq!(object(&store, "data/brain/0/zarr.json").await.unwrap(), original);
}

#[tokio::test]
async fn a_backend_that_ignores_conditions_is_refused() {
    for fault in [Fault::Unconditional, Fault::NotSupported] {
        let (store, original) = faulty_store().await;
        let plan = plan(&opened(&store).await, "brain", false).await.unwrap();
        store.always(Some(fault));
        let error = apply(&store, &plan).await.unwrap_err();
        assert_eq!(error.class(), Class::Unsupported, "{error}");
        store.always(None);
        assert_eq!(object(&store, "data/brain/0/zarr.json").await.unwrap(), original);
    }
}

/// After any fault of a request the object is the old or the new one, and a reported success is
/// correct.
#[tokio::test(start_paused = true)]
async fn failed_requests_leave_the_old_or_the_new_object() {
    let faults = [
        Fault::Status(503),
        Fault::Reset,
        Fault::AnswerLost,
        Fault::Unconditional,
        Fault::NotSupported,
        Fault::ShortBody(9),
        Fault::Changed(b"{}".as_slice().into()),
    ];
    let mut successes = 0;
    for fault in faults {
        for nth in 0..7 {
            let context = format!("{fault:?} at {nth}");
            let (store, original) = faulty_store().await;
            let plan = plan(&opened(&store).await, "brain", false).await.unwrap();
            let repaired = plan.changes[0].after.to_vec();
            store.forget();
            store.plan(nth, fault.clone());
            let applied = apply(&store, &plan).await;
            store.forget();
            let actual = object(&store, "data/brain/0/zarr.json").await.unwrap();
            match applied {
                Ok(backup) => {
                    successes += 1;
                    assert_eq!(actual, repaired, "{context}");
                    let copy = format!("{}/0/zarr.json", backup.unwrap());
                    // A copy that another writer replaces cannot be protected here.
                    if !matches!(fault, Fault::Changed(_)) {
                        assert_eq!(object(&store, &copy).await.unwrap(), original, "{context}");
                    }
                }
                Err(error) => {
                    let is_foreign = actual == b"{}";
                    assert!(actual == original || is_foreign, "{context}: {error}");
                    assert!(!is_foreign || matches!(fault, Fault::Changed(_)), "{context}");
                }
            }
        }
    }
    assert!(successes > 20, "{successes}");
}

#[tokio::test]
async fn missing_objects_are_created_only_if_still_absent() {
    let files = archives::files("broken/lk_fragments_missing");
    let store = Arc::new(FaultStore::new());
    for (path, bytes) in &files {
        store.insert(&format!("data/brain/{path}"), bytes).await;
    }
    let plan = plan(&opened(&store).await, "brain", false).await.unwrap();
    assert!(plan.changes.iter().any(|change| change.before.is_none()));
    store.insert("data/brain/0/link_fragments/zarr.json", b"{}").await;
    let error = apply(&store, &plan).await.unwrap_err();
    assert_eq!(error.class(), Class::Conflict, "{error}");
    store.delete(&"data/brain/0/link_fragments/zarr.json".into()).await.unwrap();
    apply(&store, &plan).await.unwrap();
    let report = validate(&opened(&store).await, &Checks::default(), &Observer::default()).await;
    assert!(!report.unwrap().findings.iter().any(|finding| finding.rule.id == "C41"));
}

const PREFIX: &str = "data/brain";
const BACKUP: &str = "data/brain.zvf";
