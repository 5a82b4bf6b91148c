//! Tasks in any order, repeated and interrupted, give the store that one process writes.

mod remote;

use std::collections::BTreeMap;
use std::fs;

use archives::tree;
use proptest::prelude::*;
use zvf_format::Class;
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Axis, Dtype};
use zvf_model::{Batch, Column, Elements, Field, Kind, ObjectId, Parts};

use super::*;
use crate::Writer;

/// Returns vertices on a zigzag through the chunks, each with a number and a text.
fn batch(kind: Kind, first: usize, count: usize) -> Batch {
    let at = |n: usize| ((n * 7 % 50) as f32) - 10.0;
    let positions = (first..first + count).flat_map(|n| [at(n), at(n / 3)]);
    let positions: Vec<u8> = positions.flat_map(f32::to_le_bytes).collect();
    let numbers: Vec<u8> = (first..first + count).flat_map(|n| (n as u32).to_le_bytes()).collect();
    let texts = (first..first + count).map(|n| b'a' + (n * 5 % 7) as u8);
    let texts: Vec<u8> = texts.flat_map(|c| u32::from(c).to_le_bytes()).collect();
    let column = |dtype: &str, bytes: Vec<u8>| {
        Column::new(dtype.parse::<Dtype>().unwrap(), 1, bytes.into()).unwrap()
    };
    let batch = Batch::new(kind, Column::new(Dtype::FLOAT32, 2, positions.into()).unwrap())
        .with_field(Field::new("n", column("uint32", numbers)))
        .unwrap()
        .with_field(Field::new("text", column("<U1", texts)))
        .unwrap();
    if kind == Kind::Polyline {
        // The object continues in the next batch.
        let objects = vec![ObjectId(first as i64 / 40), ObjectId((first + count) as i64 / 40)];
        let middle = if objects[0] == objects[1] { count } else { count / 2 };
        return batch.with_parts(Parts::new(vec![0, middle, count], objects).unwrap()).unwrap();
    }
    if kind == Kind::Skeleton {
        let edges = (1..count).flat_map(|n| [n, n - 1 - n % 2 * (n / 2)]).collect();
        return batch.with_elements(Elements::new(2, edges).unwrap()).unwrap();
    }
    batch
}

/// Edges or faces between vertices of all batches.
fn elements(kind: Kind, vertices: usize) -> Option<(Column, Field)> {
    let width = match kind {
        Kind::Graph => 2,
        Kind::Mesh => 3,
        _ => return None,
    };
    let ends = (0..vertices * width).map(|n| (n * 31 % vertices) as u64);
    let ends: Vec<u8> = ends.flat_map(u64::to_le_bytes).collect();
    let weights: Vec<u8> = (0..vertices).flat_map(|n| (n as i16).to_le_bytes()).collect();
    let weights = Column::new("int16".parse::<Dtype>().unwrap(), 1, weights.into()).unwrap();
    let ends = Column::new("uint64".parse::<Dtype>().unwrap(), width as u32, ends.into()).unwrap();
    Some((ends, Field::new("weight", weights)))
}

fn schema(kind: Kind, sharded: bool) -> Schema {
    let chunk = ChunkShape::new(&[10.0, 10.0]).unwrap();
    let schema = Schema::new(kind, Axis::spatial(2).unwrap(), chunk).unwrap();
    if sharded { schema.with_shard_shape(&[2, 2]).unwrap() } else { schema }
}

fn options() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.build.sync = false;
    options
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

const SIZES: [usize; 3] = [40, 31, 57];

/// Writes the store in one process.
async fn build_in_one_process(address: &str, kind: Kind, sharded: bool) {
    let mut writer = Writer::create(address, schema(kind, sharded), options()).await.unwrap();
    let mut first = 0;
    for count in SIZES {
        writer.push(&batch(kind, first, count)).unwrap();
        first += count;
    }
    if let Some((ends, weight)) = elements(kind, first) {
        writer.push_elements(&ends, &[weight]).unwrap();
    }
    writer.object_fields(&[ObjectId(1), ObjectId(900)], &[label()]).unwrap();
    writer.finish().await.unwrap();
}

fn label() -> Field {
    let texts = ["one", "many"].map(|text| {
        let chars = text.chars().chain(std::iter::repeat('\0')).take(4);
        chars.flat_map(|c| u32::from(c).to_le_bytes()).collect::<Vec<u8>>()
    });
    let column = Column::new("<U4".parse::<Dtype>().unwrap(), 1, texts.concat().into()).unwrap();
    Field::new("label", column)
}

fn plan(kind: Kind, sharded: bool, shares: u32) -> TaskPlan {
    let mut slices: Vec<SlicePlan> = SIZES
        .iter()
        .map(|count| SlicePlan {
            vertices: *count as u64,
            elements: if kind == Kind::Skeleton { *count as u64 - 1 } else { 0 },
            trees: 1,
            ..SlicePlan::default()
        })
        .collect();
    if matches!(kind, Kind::Graph | Kind::Mesh) {
        slices[2].elements = SIZES.iter().sum::<usize>() as u64;
    }
    TaskPlan::new(&schema(kind, sharded), slices, shares, "input".into())
}

fn route(tasks: &WriteTasks, kind: Kind, slice: usize) {
    let mut router = tasks.router(slice as u32).unwrap();
    router.writer().push(&batch(kind, SIZES[..slice].iter().sum(), SIZES[slice])).unwrap();
    if slice == 2 {
        if let Some((ends, weight)) = elements(kind, SIZES.iter().sum()) {
            router.writer().push_elements(&ends, &[weight]).unwrap();
        }
        router.writer().object_fields(&[ObjectId(1), ObjectId(900)], &[label()]).unwrap();
    }
    tasks.route(router).unwrap();
}

async fn run_task(tasks: &WriteTasks, kind: Kind, task: Task) {
    match task.stage {
        Phase::Route => route(tasks, kind, task.number as usize),
        Phase::Cells | Phase::Join | Phase::Links => drop(tasks.run(task).await.unwrap()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_order_gives_the_same_bytes(
        kind in prop::sample::select(vec![
            Kind::PointCloud, Kind::Polyline, Kind::Graph, Kind::Mesh, Kind::Skeleton,
        ]),
        sharded: bool,
        shares in 1_u32..5,
        order in prop::collection::vec(any::<u64>(), 32),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("one")).unwrap();
        fs::create_dir(at("many")).unwrap();
        let (single, addr) = (at("one/a.zv"), at("many/a.zv"));
        let (single, addr) = (single.to_str().unwrap(), addr.to_str().unwrap());
        run(async {
            build_in_one_process(single, kind, sharded).await;
            let plan = plan(kind, sharded, shares);
            assert!(plan.create(&at("many/work")).unwrap());
            assert!(!plan.create(&at("many/work")).unwrap());
            let mut all = plan.tasks();
            // In any order within a stage, some tasks twice.
            let keys: BTreeMap<Task, u64> = all.iter().copied().zip(order.iter().copied()).collect();
            let repeated: Vec<Task> =
                all.iter().copied().filter(|task| keys[task].is_multiple_of(3)).collect();
            all.extend(repeated);
            all.sort_by_key(|task| (task.stage, keys[task]));
            for task in all {
                // Each task as its own process.
                let tasks =
                    WriteTasks::open(addr, &at("many/work"), schema(kind, sharded), options());
                let tasks = tasks.unwrap();
                run_task(&tasks, kind, task).await;
            }
            let tasks =
                WriteTasks::open(addr, &at("many/work"), schema(kind, sharded), options()).unwrap();
            let report = tasks.finish().await.unwrap().unwrap();
            assert_eq!(report.vertices, SIZES.iter().sum::<usize>() as u64);
        });
        let (single_tree, many_tree) = (tree(Path::new(single)), tree(Path::new(addr)));
        prop_assert_eq!(
            single_tree.keys().collect::<Vec<_>>(),
            many_tree.keys().collect::<Vec<_>>()
        );
        for (name, bytes) in &single_tree {
            prop_assert_eq!(bytes, &many_tree[name], "{}", name);
        }
        prop_assert_eq!(fs::read_dir(at("many")).unwrap().count(), 1);
    }
}

#[test]
fn missing_results_are_named_and_damaged_ones_are_redone() {
    let folder = tempfile::tempdir().unwrap();
    let (work, store) = (folder.path().join("work"), folder.path().join("a.zv"));
    let kind = Kind::Graph;
    plan(kind, false, 2).create(&work).unwrap();
    let open = || {
        WriteTasks::open(store.to_str().unwrap(), &work, schema(kind, false), options()).unwrap()
    };
    run(async {
        let tasks = open();
        let cells = Task { stage: Phase::Cells, number: 0 };
        route(&tasks, kind, 1);
        let error = tasks.run(cells).await.unwrap_err();
        assert_eq!(error.class(), Class::Unavailable, "it may be tried again");
        assert_eq!(
            error.sentence(),
            "cells: expected every route task to be done before, found 2 not done: route 0, route 2"
        );
        route(&tasks, kind, 0);
        route(&tasks, kind, 2);
        assert!(tasks.run(cells).await.unwrap());
        assert!(!tasks.run(cells).await.unwrap(), "it is done");
        fs::write(work.join("tasks/cells-0.places"), "x").unwrap();
        assert!(open().run(cells).await.unwrap(), "it is not whole");
        // Half a record counts as no record.
        let record = work.join("done/cells-0.json");
        let text = fs::read(&record).unwrap();
        fs::write(&record, &text[..text.len() / 2]).unwrap();
        assert!(open().run(cells).await.unwrap());
        let error = open().finish().await.unwrap_err();
        assert_eq!(error.class(), Class::Unavailable, "it may be tried again");
        assert_eq!(
            error.sentence(),
            "finish: expected every cells task to be done before, found 1 not done: cells 1"
        );
        for task in open().all().into_iter().filter(|task| task.stage != Phase::Route) {
            open().run(task).await.unwrap();
        }
        assert!(!store.exists());
        open().finish().await.unwrap().unwrap();
        assert!(store.join("zarr.json").exists() && !work.exists());
    });
}

#[test]
fn slices_must_follow_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let kind = Kind::PointCloud;
    plan(kind, false, 1).create(folder.path()).unwrap();
    let store = folder.path().join("a.zv");
    let store = store.to_str().unwrap();
    let tasks = WriteTasks::open(store, folder.path(), schema(kind, false), options()).unwrap();
    let mut router = tasks.router(1).unwrap();
    assert_eq!(router.writer().vertices(), 40);
    router.writer().push(&batch(kind, 40, 30)).unwrap();
    assert_eq!(
        tasks.route(router).unwrap_err().sentence(),
        "route 1: expected 31 vertices, as were planned, found 30"
    );
    assert_eq!(
        tasks.router(3).unwrap_err().sentence(),
        "route 3: expected one of 3 slices, found no such"
    );
    assert!(!tasks.is_done(Task { stage: Phase::Route, number: 1 }));
    let message = plan(kind, false, 2).create(folder.path()).unwrap_err().sentence();
    assert!(message.ends_with("found one for other input or other settings"), "{message}");
    assert_eq!(shorten_list(&["a".to_owned(), "b".to_owned()]), "a, b");
    assert_eq!(shorten_list(&vec!["a".to_owned(); 10]), "a, a, a, a, a, a, a, a and 2 more");
}

#[test]
fn tasks_run_together_and_finishing_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (kind, work) = (Kind::PointCloud, folder.path().join("work"));
    plan(kind, false, 1).create(&work).unwrap();
    let store = folder.path().join("a.zv");
    let tasks =
        WriteTasks::open(store.to_str().unwrap(), &work, schema(kind, false), options()).unwrap();
    let routers = [0, 1].map(|slice| tasks.router(slice).unwrap());
    let error = run(tasks.finish()).unwrap_err();
    assert_eq!(error.class(), Class::Unavailable, "it may be tried again");
    let error = error.sentence();
    assert!(error.ends_with(": expected no process that runs tasks, found one at work"), "{error}");
    drop(routers);
    let exclusive_lock = folder::lock_work(&work, true).unwrap();
    let cells = Task { stage: Phase::Cells, number: 0 };
    for error in [tasks.router(0).unwrap_err(), run(tasks.run(cells)).unwrap_err()] {
        let error = error.sentence();
        assert!(
            error.ends_with(": expected no process that finishes, found one at work"),
            "{error}"
        );
    }
    drop(exclusive_lock);
    let error = run(tasks.finish()).unwrap_err().sentence();
    assert!(error.starts_with("finish: expected every route task to be done before"), "{error}");
}
