//! Tasks whose store is on an object store, also on one that fails.

use std::collections::BTreeMap;

use archives::faults::{Fault, FaultStore};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::ObjectStoreExt as _;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Axis, Dtype};
use zvf_model::{Batch, Column, Kind};

use super::super::*;
use super::options;
use crate::Writer;

const SIZES: [usize; 2] = [30, 25];

fn batch(first: usize, count: usize) -> Batch {
    let at = |n: usize| (n * 7 % 30) as f32;
    let positions = (first..first + count).flat_map(|n| [at(n), at(n / 3)]);
    let positions: Vec<u8> = positions.flat_map(f32::to_le_bytes).collect();
    Batch::new(Kind::Graph, Column::new(Dtype::FLOAT32, 2, positions.into()).unwrap())
}

fn edges() -> Column {
    let vertices = SIZES.iter().sum::<usize>() as u64;
    let ends = (0..vertices * 2).map(|n| n * 31 % vertices).flat_map(u64::to_le_bytes);
    let ends: Vec<u8> = ends.collect();
    Column::new("uint64".parse::<Dtype>().unwrap(), 2, ends.into()).unwrap()
}

fn schema() -> Schema {
    let chunk = ChunkShape::new(&[20.0, 20.0]).unwrap();
    Schema::new(Kind::Graph, Axis::spatial(2).unwrap(), chunk).unwrap()
}

fn plan(folder: &Path) {
    let mut slices: Vec<SlicePlan> =
        SIZES.map(|n| SlicePlan { vertices: n as u64, ..SlicePlan::default() }).into();
    slices[1].elements = SIZES.iter().sum::<usize>() as u64;
    TaskPlan::new(&schema(), slices, 2, "input".into()).create(folder).unwrap();
}

fn open(backend: &Arc<FaultStore>, folder: &Path) -> Result<WriteTasks> {
    let store: Arc<dyn ObjectStore> = backend.clone();
    WriteTasks::in_object_store(store, "a.zv", folder, schema(), options())
}

/// Runs every task and the last step, as a restarted process does.
async fn attempt(backend: &Arc<FaultStore>, folder: &Path) -> Result<Option<Report>> {
    let tasks = open(backend, folder)?;
    run_all(&tasks).await?;
    tasks.finish().await
}

/// Runs every task without the last step.
async fn run_all(tasks: &WriteTasks) -> Result<()> {
    for task in tasks.all() {
        if task.stage != Phase::Route {
            tasks.run(task).await?;
        } else if !tasks.is_done(task) {
            let slice = task.number as usize;
            let mut router = tasks.router(task.number)?;
            router.writer().push(&batch(SIZES[..slice].iter().sum(), SIZES[slice]))?;
            if slice == 1 {
                router.writer().push_elements(&edges(), &[])?;
            }
            tasks.route(router)?;
        }
    }
    Ok(())
}

/// Returns all objects of the backend.
async fn objects(backend: &FaultStore) -> BTreeMap<String, Bytes> {
    backend.always(None);
    backend.forget();
    let metas: Vec<_> = backend.list(None).try_collect().await.unwrap();
    let read = futures_util::stream::iter(metas).then(|meta| async move {
        let bytes = backend.get(&meta.location).await.unwrap().bytes().await.unwrap();
        (meta.location.to_string(), bytes)
    });
    read.collect().await
}

/// Returns the objects that one process writes without faults.
async fn build_in_one_process() -> BTreeMap<String, Bytes> {
    let backend = Arc::new(FaultStore::new());
    let store: Arc<dyn ObjectStore> = backend.clone();
    let mut writer = Writer::in_object_store(store, "a.zv", schema(), options()).await.unwrap();
    writer.push(&batch(0, SIZES[0])).unwrap();
    writer.push(&batch(SIZES[0], SIZES[1])).unwrap();
    writer.push_elements(&edges(), &[]).unwrap();
    writer.finish().await.unwrap();
    objects(&backend).await
}

fn is_claim(path: &str) -> bool {
    path.starts_with("a.zv/.tmp-build/")
}

#[tokio::test(start_paused = true)]
async fn builds_recover_from_any_fault() {
    let expected = build_in_one_process().await;
    let (count, release) = {
        let (backend, folder) = (Arc::new(FaultStore::new()), archives::scratch());
        plan(folder.path());
        assert_eq!(attempt(&backend, folder.path()).await.unwrap().unwrap().vertices, 55);
        let requests = backend.requests();
        let roots: Vec<usize> =
            (0..requests.len()).filter(|n| requests[*n].path == "a.zv/zarr.json").collect();
        // After it the claim is read and released.
        let last = requests.iter().rposition(|request| request.what == "put");
        assert_eq!(roots.last().copied(), last, "the root goes last: {roots:?}");
        let release = requests.len() - 3;
        let release_requests: Vec<&str> =
            requests[release..].iter().map(|request| request.what).collect();
        assert_eq!(release_requests, ["get", "delete", "delete"]);
        assert!(requests[release..].iter().all(|request| is_claim(&request.path)));
        assert!(!folder.path().exists());
        assert_eq!(objects(&backend).await, expected);
        (requests.len(), release)
    };
    let faults = [
        Fault::Status(503),
        Fault::Status(403),
        Fault::Status(409),
        Fault::Silence,
        Fault::AnswerLost,
        Fault::AnswerLate,
    ];
    let (mut retried, mut unknown) = (0, 0);
    for operation in 0..count {
        for fault in &faults {
            let (backend, folder) = (Arc::new(FaultStore::new()), archives::scratch());
            plan(folder.path());
            backend.plan(operation, fault.clone());
            let mut outcome = attempt(&backend, folder.path()).await;
            if let Err(error) = &outcome {
                retried += 1;
                unknown += usize::from(error.class() == Class::CommitUnknown);
                assert!(!folder.path().join("plan.json.tmp").exists());
                outcome = attempt(&backend, folder.path()).await;
            }
            assert!(outcome.is_ok(), "operation {operation}, {fault:?}: {outcome:?}");
            assert!(!folder.path().exists(), "operation {operation}, {fault:?}");
            let mut left = objects(&backend).await;
            // The store is published before its claims are released. If the backend refuses to release
            // them, they stay: no reader sees them, so the build has not failed.
            if operation >= release && matches!(fault, Fault::Status(403 | 409)) {
                left.retain(|path, _| !is_claim(path));
            }
            let names: Vec<&String> = left.keys().collect();
            assert!(left == expected, "operation {operation}, {fault:?}: {names:?}");
        }
    }
    assert!(retried > 0, "{retried} {unknown}");
}

#[tokio::test(start_paused = true)]
async fn the_next_process_finds_a_store_whose_answer_was_lost() {
    let expected = build_in_one_process().await;
    let (backend, folder) = (Arc::new(FaultStore::new()), archives::scratch());
    plan(folder.path());
    // Requests succeed up to the root document, and get no answer after it.
    let root_put = {
        let counted = Arc::new(FaultStore::new());
        let trial_folder = archives::scratch();
        plan(trial_folder.path());
        attempt(&counted, trial_folder.path()).await.unwrap();
        let requests = counted.requests();
        let is_root =
            |sent: &&archives::faults::Request| sent.what == "put" && sent.path == "a.zv/zarr.json";
        requests.iter().position(|sent| is_root(&sent)).unwrap()
    };
    backend.plan(root_put, Fault::AnswerLate);
    for offset in 1..60 {
        backend.plan(root_put + offset, Fault::Silence);
    }
    let error = attempt(&backend, folder.path()).await.unwrap_err();
    assert_eq!(error.class(), Class::CommitUnknown, "{error}");
    backend.forget();
    assert!(attempt(&backend, folder.path()).await.unwrap().is_none(), "it was there");
    assert!(!folder.path().exists());
    assert_eq!(objects(&backend).await, expected);
}

#[tokio::test]
async fn a_foreign_store_is_not_replaced() {
    let (backend, folder) = (Arc::new(FaultStore::new()), archives::scratch());
    plan(folder.path());
    backend.insert("a.zv/zarr.json", b"{}").await;
    let error = attempt(&backend, folder.path()).await.unwrap_err();
    assert_eq!(error.class(), Class::AlreadyExists, "{error}");
    // No cell is written among those of another writer.
    let stored_objects = objects(&backend).await;
    let cells = stored_objects.keys().filter(|path| !is_claim(path)).collect::<Vec<_>>();
    assert_eq!(cells, ["a.zv/zarr.json"]);
    assert_eq!(stored_objects["a.zv/zarr.json"], "{}");
    assert!(!folder.path().join("root.json").exists(), "nothing of ours is there");
}

#[tokio::test]
async fn a_missing_object_is_rewritten() {
    let expected = build_in_one_process().await;
    let (backend, folder) = (Arc::new(FaultStore::new()), archives::scratch());
    plan(folder.path());
    let tasks = open(&backend, folder.path()).unwrap();
    run_all(&tasks).await.unwrap();
    backend.delete(&"a.zv/0/vertices/c/1/0".into()).await.unwrap();
    let error = tasks.finish().await.unwrap_err().sentence();
    assert!(
        error.ends_with(
            ": expected all objects that it wrote; run it again, found none for \
             0/vertices, chunk 1.0"
        ),
        "{error}"
    );
    let (task, _) = error.split_once(':').unwrap();
    let pending: Vec<Task> = tasks.all().into_iter().filter(|task| !tasks.is_done(*task)).collect();
    assert_eq!(pending.iter().map(ToString::to_string).collect::<Vec<_>>(), [task]);
    assert!(tasks.run(pending[0]).await.unwrap());
    tasks.finish().await.unwrap().unwrap();
    assert_eq!(objects(&backend).await, expected);
}
