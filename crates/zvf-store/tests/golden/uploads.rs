//! Stores built on a failing object store are complete or absent, and the result states which.

use std::sync::Arc;

use archives::faults::{Fault, FaultStore};
use object_store::ObjectStore;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::key::ChunkKey;
use zvf_metadata::{Axis, Dataset, Root, ZarrVectors};
use zvf_store::{Build, BuildOptions, Caching, CellPlan, Notice, OpenOptions, RowPlan, Store};

pub(crate) fn root() -> Root {
    let block = ZarrVectors::new(vec![1.0, 1.0], [vec![0.0; 2], vec![1.0; 2]]);
    let mut root = Root::new(block, Axis::spatial(2).unwrap());
    root.multiscales[0].datasets.push(Dataset::new("0", vec![1.0; 2], vec![0.5; 2]));
    root
}

/// Puts a level of two cells and a row, which states the presence of these arrays.
async fn put_all(build: &Build, present: &[&str]) -> Result<()> {
    let level = serde_json::json!({"zarr_format": 3, "node_type": "group", "attributes":
        {"zarr_vectors_level": {"level": 0, "vertex_count": 2, "arrays_present": present}}});
    let level = zvf_metadata::GroupDoc::parse(level.to_string().as_bytes())?;
    build.group("0", &level).await?;
    let cells = build.cells("0/vertices", CellPlan::new(vec![0], vec![1]))?;
    cells.put(&"0".parse::<ChunkKey>()?, b"zero".as_slice().into())?;
    cells.put(&"1".parse::<ChunkKey>()?, b"one".as_slice().into())?;
    cells.finish(|_| ()).await?;
    let mut rows = build.rows("0/groups", RowPlan::default())?;
    rows.push(b"row")?;
    rows.finish(|_| ()).await.map(drop)
}

/// Builds a store of two cells and a row; returns the notices or the error.
async fn build(backend: &Arc<FaultStore>) -> Result<Vec<Notice>> {
    let build = begin(backend).await?;
    put_all(&build, &[]).await?;
    let handle = build.clone();
    build.publish(&root()).await?;
    Ok(handle.notices())
}

/// Returns whether the store exists, and checks that it is complete.
async fn check(backend: &Arc<FaultStore>) -> bool {
    backend.forget();
    backend.always(None);
    let store =
        match Store::from_object_store(dynamic(backend), &"s".into(), OpenOptions::default()).await
        {
            Err(error) if error.class() == Class::NotFound => return false,
            store => store.unwrap(),
        };
    let level = store.level(0).await.unwrap();
    let cells = level.required_cells("vertices").await.unwrap();
    for (key, payload) in [("0", "zero"), ("1", "one")] {
        let found = cells.read(&key.parse::<ChunkKey>().unwrap(), Caching::Once).await.unwrap();
        assert_eq!(found.unwrap(), payload);
    }
    assert_eq!(level.rows("groups").await.unwrap().unwrap().rows(&[0]).await.unwrap(), ["row"]);
    true
}

#[tokio::test(start_paused = true)]
async fn faults_at_any_operation_leave_a_complete_store_or_none() {
    let count = {
        let backend = Arc::new(FaultStore::new());
        assert_eq!(build(&backend).await.unwrap(), []);
        let requests = backend.requests();
        let last = requests.iter().rfind(|request| request.what == "put").unwrap();
        assert_eq!(last.path, "s/zarr.json", "the root goes last");
        assert_eq!(requests.last().unwrap().path, "s/.tmp-build/claim", "the claim is given back");
        assert!(check(&backend).await);
        requests.len()
    };
    assert!(count > 6, "{count}");
    let faults = [
        Fault::Status(503),
        Fault::Status(429),
        Fault::Status(403),
        Fault::Status(409),
        Fault::Status(404),
        Fault::Reset,
        Fault::Silence,
        Fault::AnswerLost,
        Fault::AnswerLate,
        Fault::OldList(2),
    ];
    let mut outcomes = [0; 3];
    for operation in 0..count {
        for fault in &faults {
            let backend = Arc::new(FaultStore::new());
            backend.plan(operation, fault.clone());
            let built = build(&backend).await;
            // Abandoned objects are removed in the background.
            tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
            let exists = check(&backend).await;
            let context = format!("operation {operation}, {fault:?}: {built:?}");
            match built {
                Ok(_) => assert!(exists, "{context}"),
                Err(error) if error.class() == Class::CommitUnknown => outcomes[2] += 1,
                Err(_) => assert!(!exists, "{context}"),
            }
            outcomes[usize::from(!exists)] += 1;
        }
    }
    assert!(outcomes[0] > outcomes[1] && outcomes[1] > 0, "{outcomes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_ends_the_build() {
    for fault in [Fault::Status(503), Fault::Reset, Fault::Silence, Fault::Status(507)] {
        let backend = Arc::new(FaultStore::new());
        backend.always(Some(fault.clone()));
        let error = build(&backend).await.unwrap_err();
        let classes = [Class::Unavailable, Class::Timeout, Class::NoSpace];
        assert!(classes.contains(&error.class()), "{fault:?}: {error}");
        assert!(!check(&backend).await);
    }
}

#[tokio::test(start_paused = true)]
async fn without_conditional_puts_other_builds_are_searched() {
    for fault in [Fault::NotSupported, Fault::Unconditional] {
        let backend = Arc::new(FaultStore::new());
        // Only put requests are conditional.
        let root_requests = {
            assert_eq!(build(&backend).await.unwrap(), []);
            let sent = backend.requests();
            (0..sent.len()).filter(|n| sent[*n].path.ends_with("s/zarr.json")).collect::<Vec<_>>()
        };
        assert!(root_requests.len() > 2, "{root_requests:?}");
        let backend = Arc::new(FaultStore::new());
        backend.always(Some(Fault::Unconditional));
        if fault == Fault::NotSupported {
            backend.always(None);
            // The root document takes a look-up, a put and a second put.
            backend.plan(root_requests[root_requests.len() - 2], fault);
        }
        assert_eq!(build(&backend).await.unwrap(), [Notice::NoConditionalPut]);
        assert!(check(&backend).await);
        assert_eq!(claims(&backend).await, [""; 0]);
    }
}

fn dynamic(backend: &Arc<FaultStore>) -> Arc<dyn ObjectStore> {
    backend.clone()
}

async fn begin(backend: &Arc<FaultStore>) -> Result<Build> {
    Build::in_object_store(dynamic(backend), "s", BuildOptions::default()).await
}

/// Returns the names below the folder of claims.
async fn claims(backend: &FaultStore) -> Vec<String> {
    let names = names(backend).await;
    names.into_iter().filter(|name| name.starts_with("s/.tmp-build/")).collect()
}

async fn names(backend: &FaultStore) -> Vec<String> {
    let listed: Vec<_> = futures_util::StreamExt::collect(backend.list(None)).await;
    listed.into_iter().map(|meta| meta.unwrap().location.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_prefix_has_one_builder() {
    let backend = Arc::new(FaultStore::new());
    let first = begin(&backend).await.unwrap();
    first.group("0", &Default::default()).await.unwrap();
    first.flush().await.unwrap();
    let error = begin(&backend).await.unwrap_err();
    assert_eq!(error.class(), Class::Conflict);
    let text = error.to_string();
    assert!(
        text.starts_with(
            "Conflict in .tmp-build/claim, claim: expected a prefix that no other build has: wait \
             for it, or, if it is dead, for ten minutes, found \"build "
        ),
        "{text}"
    );
    // The claim is renewed for as long as the build lives.
    tokio::time::sleep(std::time::Duration::from_secs(3 * 3600)).await;
    assert_eq!(begin(&backend).await.unwrap_err().class(), Class::Conflict);
    assert_eq!(
        names(&backend).await,
        ["s/.tmp-build/claim", "s/0/zarr.json"],
        "the loser left nothing"
    );
    first.publish(&root()).await.unwrap();
    assert_eq!(begin(&backend).await.unwrap_err().class(), Class::AlreadyExists);
    assert_eq!(names(&backend).await, ["s/0/zarr.json", "s/zarr.json"]);
}

/// Leaves the state of a killed build that has sent one object.
async fn kill_build(backend: &Arc<FaultStore>, record: &[u8]) {
    backend.insert("s/.tmp-build/claim", record).await;
    backend.insert("s/0/vertices/c/1", b"a cell of the dead").await;
    backend.insert("s/0/elsewhere/zarr.json", b"{}").await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_build_is_taken_over() {
    let record = br#"{"build":"dead","beat":7,"lease_seconds":600}"#;
    for (record, lease) in [(record.as_slice(), 600), (b"what is this", 24 * 3600)] {
        let backend = Arc::new(FaultStore::new());
        kill_build(&backend, record).await;
        tokio::time::sleep(std::time::Duration::from_secs(lease - 1)).await;
        assert_eq!(begin(&backend).await.unwrap_err().class(), Class::Conflict, "{lease}");
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        build(&backend).await.unwrap();
        assert!(check(&backend).await);
        let names = names(&backend).await;
        assert!(!names.iter().any(|name| name.contains("elsewhere")), "{names:?}");
        assert_eq!(claims(&backend).await, [""; 0]);
    }
    // A foreign object under the prefix is not recorded, and is kept.
    let backend = Arc::new(FaultStore::new());
    kill_build(&backend, record).await;
    backend.insert("s/notes.txt", b"mine").await;
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    assert_eq!(begin(&backend).await.unwrap_err().class(), Class::AlreadyExists);
    assert_eq!(
        names(&backend).await,
        ["s/.tmp-build/claim", "s/0/elsewhere/zarr.json", "s/0/vertices/c/1", "s/notes.txt"],
    );
    // Without that object the next build takes over immediately.
    object_store::ObjectStoreExt::delete(&*backend, &"s/notes.txt".into()).await.unwrap();
    build(&backend).await.unwrap();
    assert!(check(&backend).await);
    assert_eq!(claims(&backend).await, [""; 0]);
}

/// A running build that another process considered dead.
#[tokio::test(start_paused = true)]
async fn a_build_that_was_taken_over_publishes_nothing() {
    for unconditional in [false, true] {
        let backend = Arc::new(FaultStore::new());
        backend.always(unconditional.then_some(Fault::Unconditional));
        let slow = begin(&backend).await.unwrap();
        slow.group("0", &Default::default()).await.unwrap();
        slow.flush().await.unwrap();
        // As if the machine of the build had been suspended.
        for name in claims(&backend).await {
            backend.insert(&name, br#"{"build":"dead","beat":7,"lease_seconds":0}"#).await;
        }
        let fast = begin(&backend).await.unwrap();
        fast.group("0", &Default::default()).await.unwrap();
        fast.flush().await.unwrap();
        assert_eq!(slow.publish(&root()).await.unwrap_err().class(), Class::Conflict);
        tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
        let names = names(&backend).await;
        assert!(names.contains(&"s/0/zarr.json".to_owned()), "not another's: {names:?}");
        fast.publish(&root()).await.unwrap();
        assert_eq!(claims(&backend).await, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn foreign_objects_are_found_before_the_root() {
    let backend = Arc::new(FaultStore::new());
    let build = begin(&backend).await.unwrap();
    backend.insert("s/0/vertices/c/9", b"another's").await;
    let error = build.publish(&root()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Conflict in 0/vertices/c/9, objects: expected nothing but what this build put there, \
         found another's",
    );
    let build = {
        let backend = Arc::new(FaultStore::new());
        let build = begin(&backend).await.unwrap();
        backend.insert("s/0/zarr.json", b"another's").await;
        build.group("0", &Default::default()).await.unwrap();
        build
    };
    let error = build.flush().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Conflict in 0/zarr.json, object: expected none, or the one of this build, \
         found \"one of another writer\"",
    );
}

#[tokio::test(start_paused = true)]
async fn concurrent_builders_are_distinguished() {
    for unconditional in [false, true] {
        for delay in [0, 1, 20, 400] {
            let backend = Arc::new(FaultStore::new());
            backend.always(unconditional.then_some(Fault::Unconditional));
            let tries = (0..8_u64).map(|n| {
                let backend = Arc::clone(&backend);
                tokio::spawn(async move {
                    tokio::time::sleep(std::time::Duration::from_millis(n * delay)).await;
                    build(&backend).await
                })
            });
            let mut won = 0;
            for tried in tries.collect::<Vec<_>>() {
                match tried.await.unwrap() {
                    Ok(_) => won += 1,
                    Err(error) => assert!(
                        [Class::Conflict, Class::AlreadyExists].contains(&error.class()),
                        "{error}"
                    ),
                }
            }
            assert_eq!(won, 1, "{unconditional} {delay}");
            tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
            assert!(check(&backend).await);
            assert_eq!(claims(&backend).await, [""; 0]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn abandoned_uploads_are_removed() {
    for abandon in [true, false] {
        let backend = Arc::new(FaultStore::new());
        let build = begin(&backend).await.unwrap();
        let cells = build.cells("0/vertices", CellPlan::new(vec![0], vec![9])).unwrap();
        for i in 0..10 {
            cells.put(&ChunkKey::new(&[i]).unwrap(), vec![1; 100].into()).unwrap();
        }
        drop(cells);
        if abandon {
            build.abandon().await.unwrap();
        } else {
            drop(build);
            tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        }
        assert_eq!(names(&backend).await, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_build_without_conditions_leaves_nothing() {
    let backend = Arc::new(FaultStore::new());
    backend.ignore_conditions(true);
    backend.plan(12, Fault::Status(403));
    build(&backend).await.unwrap_err();
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    assert_eq!(names(&backend).await, [""; 0]);
    build(&backend).await.unwrap();
    assert_eq!(claims(&backend).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn contradictions_between_documents_are_not_published() {
    for (present, levels, is_cell_lost, message) in [
        (&["vertices", "groups"][..], &["0"][..], false, None),
        (
            &["vertices", "links"],
            &["0"],
            false,
            Some("CountMismatch in 0, arrays_present: expected what is there, found \"links\""),
        ),
        (
            &["vertices"],
            &["0", "1"],
            false,
            Some(
                "CountMismatch in 1, levels of the root: expected a document for each, found \"none\"",
            ),
        ),
        (
            &["vertices"],
            &["0"],
            true,
            Some("Conflict, objects of this build below the prefix: expected 6, found 5"),
        ),
    ] {
        let backend = Arc::new(FaultStore::new());
        let build = begin(&backend).await.unwrap();
        put_all(&build, present).await.unwrap();
        build.flush().await.unwrap();
        if is_cell_lost {
            let path = object_store::path::Path::from("s/0/vertices/c/1");
            object_store::ObjectStoreExt::delete(&*backend, &path).await.unwrap();
        }
        let mut root = root();
        root.multiscales[0].datasets =
            levels.iter().map(|name| Dataset::new(name, vec![1.0; 2], vec![0.5; 2])).collect();
        let published = build.publish(&root).await.map_err(|error| error.to_string());
        assert_eq!(published.as_ref().err().map(String::as_str), message);
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        let is_published = names(&backend).await.contains(&"s/zarr.json".to_owned());
        assert_eq!(is_published, message.is_none(), "{message:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_published_store_is_not_joined_by_others() {
    for is_blind in [false, true] {
        let backend = Arc::new(FaultStore::new());
        backend.ignore_conditions(is_blind);
        build(&backend).await.unwrap();
        let before = backend.requests().len();
        let folder = tempfile::tempdir().unwrap();
        let options = BuildOptions::default();
        let joined =
            Build::join_object_store(dynamic(&backend), "s", folder.path(), &options).await;
        assert_eq!(joined.unwrap_err().class(), Class::AlreadyExists);
        let requests = backend.requests();
        let in_store = |path: &str| !path.contains("/.tmp-build/");
        assert!(requests[before..].iter().all(|sent| sent.what != "put" || !in_store(&sent.path)));
        assert_eq!(claims(&backend).await, Vec::<String>::new());
        assert!(check(&backend).await);
    }
}
