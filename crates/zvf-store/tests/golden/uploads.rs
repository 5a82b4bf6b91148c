//! Stores built on an object store that fails: whole, or not there, and the answer says which.

use std::sync::Arc;

use fault_store::{Fault, FaultStore};
use object_store::ObjectStore;
use zvf_format::Class;
use zvf_format::key::ChunkKey;
use zvf_metadata::{Axis, Dataset, Root, ZarrVectors};
use zvf_store::{
    Build, BuildOptions, Caching, CellPlan, Notice, OpenOptions, RowPlan, Store, StoreError,
};

fn root() -> Root {
    let block = ZarrVectors::new(vec![1.0, 1.0], [vec![0.0; 2], vec![1.0; 2]]);
    let mut root = Root::new(block, Axis::spatial(2).unwrap());
    root.multiscales[0].datasets.push(Dataset::new("0", vec![1.0; 2], vec![0.5; 2]));
    root
}

/// Builds a store of two cells and two rows; the notices come back with the outcome.
async fn build(backend: &Arc<FaultStore>) -> Result<Vec<Notice>, StoreError> {
    let store: Arc<dyn ObjectStore> = backend.clone();
    let build = Build::in_object_store(store, "s", BuildOptions::default()).await?;
    let level = zvf_metadata::GroupDoc::parse(
        br#"{"zarr_format": 3, "node_type": "group", "attributes": {"zarr_vectors_level": {"level": 0, "vertex_count": 2, "arrays_present": []}}}"#,
    );
    build.group("0", &level?).await?;
    let cells = build.cells("0/vertices", CellPlan::new(vec![0], vec![1]))?;
    cells.put(&ChunkKey::parse("0")?, b"zero".as_slice().into())?;
    cells.put(&ChunkKey::parse("1")?, b"one".as_slice().into())?;
    cells.finish(|_| ()).await?;
    let mut rows = build.rows("0/groups", RowPlan::default())?;
    rows.push(b"row")?;
    rows.finish(|_| ()).await?;
    let handle = build.clone();
    build.publish(&root()).await?;
    Ok(handle.notices())
}

/// The store, when it is there; whole then.
async fn check(backend: &Arc<FaultStore>) -> bool {
    backend.forget();
    backend.always(None);
    let store: Arc<dyn ObjectStore> = backend.clone();
    let store = match Store::from_object_store(store, &"s".into(), OpenOptions::default()).await {
        Err(error) if error.class() == Class::NotFound => return false,
        store => store.unwrap(),
    };
    let level = store.level(0).await.unwrap();
    let cells = level.required_cells("vertices").await.unwrap();
    for (key, payload) in [("0", "zero"), ("1", "one")] {
        let found = cells.read(&ChunkKey::parse(key).unwrap(), Caching::Once).await.unwrap();
        assert_eq!(found.unwrap(), payload);
    }
    assert_eq!(level.rows("groups").await.unwrap().unwrap().rows(&[0]).await.unwrap(), ["row"]);
    true
}

#[tokio::test(start_paused = true)]
async fn every_fault_at_every_operation() {
    let count = {
        let backend = Arc::new(FaultStore::new());
        assert_eq!(build(&backend).await.unwrap(), []);
        let asked = backend.asked();
        assert_eq!(asked.last().unwrap().path, "s/zarr.json", "the root goes last");
        assert!(check(&backend).await);
        asked.len()
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
    ];
    let mut outcomes = [0; 3];
    for nth in 0..count {
        for fault in &faults {
            let backend = Arc::new(FaultStore::new());
            backend.plan(nth, fault.clone());
            let built = build(&backend).await;
            // What was given up is removed in the background.
            tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
            let there = check(&backend).await;
            let told = format!("operation {nth}, {fault:?}: {built:?}");
            match built {
                Ok(_) => assert!(there, "{told}"),
                Err(error) if error.class() == Class::CommitUnknown => outcomes[2] += 1,
                Err(_) => assert!(!there, "{told}"),
            }
            outcomes[usize::from(!there)] += 1;
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
async fn without_conditional_puts_the_store_is_looked_for() {
    // The last operation asks for the same again, the one before it creates.
    let last = {
        let backend = Arc::new(FaultStore::new());
        build(&backend).await.unwrap();
        backend.asked().len() - 1
    };
    let backend = Arc::new(FaultStore::new());
    backend.plan(last - 1, Fault::NotSupported);
    assert_eq!(build(&backend).await.unwrap(), [Notice::NoConditionalPut]);
    assert!(check(&backend).await);

    let backend = Arc::new(FaultStore::new());
    backend.always(Some(Fault::Unconditional));
    assert_eq!(build(&backend).await.unwrap(), [Notice::NoConditionalPut]);
    assert!(check(&backend).await);
    let store: Arc<dyn ObjectStore> = backend.clone();
    let late = Build::in_object_store(store, "s2", BuildOptions::default()).await.unwrap();
    let store: Arc<dyn ObjectStore> = backend.clone();
    let first = Build::in_object_store(store, "s2", BuildOptions::default()).await.unwrap();
    first.publish(&root()).await.unwrap();
    assert_eq!(late.publish(&root()).await.unwrap_err().class(), Class::AlreadyExists);
}

#[tokio::test(start_paused = true)]
async fn whoever_is_first_wins() {
    let backend = Arc::new(FaultStore::new());
    let store: Arc<dyn ObjectStore> = backend.clone();
    let late = Build::in_object_store(store, "s", BuildOptions::default()).await.unwrap();
    build(&backend).await.unwrap();
    let error = late.publish(&root()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "AlreadyExists in zarr.json, store: expected none yet, found \"another one\"",
    );
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    assert!(check(&backend).await, "the loser removes nothing of the winner");
}

#[tokio::test(start_paused = true)]
async fn what_is_given_up_is_removed() {
    for abandon in [true, false] {
        let backend = Arc::new(FaultStore::new());
        let store: Arc<dyn ObjectStore> = backend.clone();
        let build = Build::in_object_store(store, "s", BuildOptions::default()).await.unwrap();
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
        let left: Vec<_> = futures_util::StreamExt::collect(backend.list(None)).await;
        assert!(left.is_empty(), "{left:?}");
    }
}
