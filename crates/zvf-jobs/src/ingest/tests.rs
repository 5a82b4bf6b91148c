//! Plans, repeated tasks, and resumed builds.

use std::fs;
use std::ops::ControlFlow;

use super::*;
use archives::{copy, tree};
use zvf_query::{Query, Reader};
use zvf_store::{OpenOptions, Store};

use crate::create::create;

struct Folder(tempfile::TempDir);

impl Folder {
    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn address(&self, name: &str) -> String {
        self.at(name).to_str().unwrap().to_owned()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Returns a recipe with so little memory that each piece is a slice: a quarter of it is less than
/// a piece.
fn recipe() -> Recipe {
    let mut recipe = Recipe { per_chunk: 50, ..Recipe::default() };
    recipe.read.batch_rows = 100;
    recipe.write.memory = 4000;
    recipe.write.build.sync = false;
    recipe
}

fn points(folder: &Folder, name: &str, rows: std::ops::Range<usize>) -> PathBuf {
    let rows: String = rows.map(|n| format!("{},{},{n}\n", n % 30, n / 30)).collect();
    fs::write(folder.at(name), format!("x,y,n\n{rows}")).unwrap();
    folder.at(name)
}

/// Returns the numbers of all points of a store, sorted.
async fn numbers(address: &str) -> Vec<usize> {
    let reader = Reader::new(Store::open(address, OpenOptions::default()).await.unwrap());
    let all = reader.run(&Query::all()).await.unwrap().batch;
    let column = &all.field("n").unwrap().column;
    let mut numbers: Vec<usize> =
        (0..all.len()).map(|row| column.float(row, 0).unwrap() as usize).collect();
    numbers.sort_unstable();
    numbers
}

/// Plans an ingest into two shares, and opens it.
async fn planned(files: &[PathBuf], address: &str, work: &Path, recipe: &Recipe) -> Ingest {
    PlannedIngest::create(files, address, work, recipe, Some(2), &mut proceed).await.unwrap();
    Ingest::open(address, work, recipe.write.clone()).unwrap()
}

fn proceed(_: CreateStage, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[tokio::test]
async fn stopped_builds_resume_and_changed_ones_restart() {
    let folder = Folder(archives::scratch());
    let (file, address) = (points(&folder, "a.csv", 0..450), folder.address("a.zarrvectors"));
    let recipe = recipe();
    let layout = StoreLayout::scan(&file, &recipe, &mut proceed).unwrap();
    assert_eq!((layout.slices.len(), layout.slices[4].vertices), (5, 50));
    let mut calls = 0;
    let stop = &mut |stage, _| {
        calls += usize::from(stage == CreateStage::Read);
        if calls > 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let error = create(&file, &address, &layout, &recipe, stop).await.unwrap_err();
    assert_eq!(error.class(), zvf_format::Class::Cancelled);
    assert_eq!(folder.names(), [".a.zarrvectors.zvf-ingest", "a.csv"]);
    let report = create(&file, &address, &layout, &recipe, &mut proceed).await.unwrap();
    assert_eq!(report.notices, [WriteNotice::Resumed { done: 3, total: 7 }]);
    assert_eq!(
        (report.vertices, folder.names()),
        (450, vec!["a.csv".into(), "a.zarrvectors".into()])
    );
    assert_eq!(numbers(&address).await.len(), 450);

    let mut changed_recipe = recipe.clone();
    changed_recipe.write.build.replace = true;
    let stop = &mut |stage, _| match stage {
        CreateStage::Write => ControlFlow::Break(()),
        CreateStage::Look | CreateStage::Read => ControlFlow::Continue(()),
    };
    create(&file, &address, &layout, &changed_recipe, stop).await.unwrap_err();
    changed_recipe.per_chunk = 100;
    let layout = StoreLayout::scan(&file, &changed_recipe, &mut proceed).unwrap();
    let report = create(&file, &address, &layout, &changed_recipe, &mut proceed).await.unwrap();
    assert_eq!(report.notices, [WriteNotice::Cleaned]);
    assert_eq!(folder.names(), ["a.csv", "a.zarrvectors"]);
    let error = create(&file, &address, &layout, &recipe, &mut proceed).await.unwrap_err();
    assert_eq!(error.class(), zvf_format::Class::AlreadyExists);
    assert_eq!(folder.names(), ["a.csv", "a.zarrvectors"]);
    let other_address = folder.address("b.zarrvectors");
    let report = create(&file, &other_address, &layout, &recipe, &mut proceed).await.unwrap();
    assert_eq!(report.notices, [], "there was no earlier run");
}

/// Its slice was read once; for the second time, the pieces of the next slice were taken as its own.
#[tokio::test]
async fn a_task_that_is_named_twice_is_done_once() {
    let folder = Folder(archives::scratch());
    let (file, address) = ([points(&folder, "a.csv", 0..450)], folder.address("a.zarrvectors"));
    let ingest = planned(&file, &address, &folder.at("work"), &recipe()).await;
    let routes = [1, 0, 1, 0].map(|number| Task { stage: TaskStage::Route, number });
    let ran = ingest.route(&routes, &mut proceed).await.unwrap();
    assert_eq!(ran, [true, true, false, false]);
    ingest.run_all(&mut proceed).await.unwrap();
    assert_eq!(numbers(&address).await, (0..450).collect::<Vec<_>>());
}

#[tokio::test]
async fn several_files_make_one_store() {
    let folder = Folder(archives::scratch());
    let files = [points(&folder, "a.csv", 0..250), points(&folder, "b.csv", 250..450)];
    let (address, work) = (folder.address("a.zarrvectors"), folder.at("work"));
    let recipe = recipe();
    let planned = PlannedIngest::create(&files, &address, &work, &recipe, Some(2), &mut proceed)
        .await
        .unwrap();
    assert_eq!((planned.fresh, planned.plan.slices.len()), (true, 5));
    let planned = PlannedIngest::create(&files, &address, &work, &recipe, Some(2), &mut proceed)
        .await
        .unwrap();
    assert!(!planned.fresh);
    let other_target = Ingest::open("memory:///a", &work, recipe.write.clone()).unwrap_err();
    assert_eq!(
        other_target.to_string(),
        "InvalidArgument, the store: expected the one that was planned, found \"a store in a folder\""
    );
    let other_plan =
        PlannedIngest::create(&files, &address, &work, &recipe, Some(3), &mut proceed).await;
    assert!(other_plan.unwrap_err().to_string().contains("expected no other plan"));
    let ingest = Ingest::open(&address, &work, recipe.write.clone()).unwrap();
    let mut tasks = ingest.tasks().all();
    tasks[..5].reverse();
    for task in tasks {
        assert!(ingest.run(task, &mut proceed).await.unwrap());
        assert!(!ingest.run(task, &mut proceed).await.unwrap());
    }
    assert_eq!(ingest.finish().await.unwrap().unwrap().vertices, 450);

    let single_file = points(&folder, "one.csv", 0..450);
    let unsliced = Recipe { write: WriteOptions::default(), ..recipe };
    let layout = StoreLayout::scan(&single_file, &unsliced, &mut proceed).unwrap();
    assert_eq!(layout.slices.len(), 1);
    let direct_address = folder.address("b.zarrvectors");
    create(&single_file, &direct_address, &layout, &unsliced, &mut proceed).await.unwrap();
    let [mut found, mut expected] = [address, direct_address].map(|store| {
        let cells = PathBuf::from(store).join("0/vertices/c/0");
        let cells = fs::read_dir(cells).unwrap().map(|e| fs::read(e.unwrap().path()).unwrap());
        cells.collect::<Vec<_>>()
    });
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

/// The slice after the last slice of a file starts with the next file.
#[tokio::test]
async fn files_that_end_with_a_slice_lose_nothing() {
    let folder = Folder(archives::scratch());
    for (number, rows) in
        [[0, 200, 450], [0, 250, 450], [0, 100, 300], [0, 1, 201]].iter().enumerate()
    {
        let files: Vec<PathBuf> = rows
            .windows(2)
            .zip(["a", "b"])
            .map(|(rows, name)| points(&folder, &format!("{name}-{number}.csv"), rows[0]..rows[1]))
            .collect();
        let address = folder.address(&format!("{number}.zarrvectors"));
        let recipe = recipe();
        let layout = StoreLayout::scan_all(&files, &recipe, &mut proceed).unwrap();
        assert!(layout.slices.len() > 2, "each piece is a slice");
        let created =
            crate::create::create_all(&files, &address, &layout, &recipe, &mut proceed).await;
        assert_eq!(created.unwrap().vertices, rows[2] as u64, "{rows:?}");
        assert_eq!(numbers(&address).await, (0..rows[2]).collect::<Vec<_>>(), "{rows:?}");
    }
}

/// Simulates a process that is killed right after it published, before it has removed anything; then
/// the store is deleted, or the old one is restored, and the same command runs again.
#[tokio::test]
async fn progress_of_a_deleted_store_is_discarded() {
    let folder = Folder(archives::scratch());
    let (file, old) = (points(&folder, "a.csv", 0..450), folder.at("old.csv"));
    let rows: String = (0..300).map(|n| format!("{},{},{n},7\n", n % 30, n / 30)).collect();
    fs::write(&old, format!("x,y,n,only_of_the_old\n{rows}")).unwrap();
    let mut recipe = recipe();
    recipe.write.build.replace = true;
    let layout = StoreLayout::scan(&file, &recipe, &mut proceed).unwrap();
    let old_layout = StoreLayout::scan(&old, &recipe, &mut proceed).unwrap();
    let address = folder.address("a.zarrvectors");
    create(&file, &address, &layout, &recipe, &mut proceed).await.unwrap();
    let expected = tree(Path::new(&address));
    fs::remove_dir_all(&address).unwrap();
    for (name, cells_gone) in [("removed", false), ("restored", false), ("restored", true)] {
        let (store, work) = (folder.at("a.zarrvectors"), crate::ingest::folder(&address).unwrap());
        create(&old, &address, &old_layout, &recipe, &mut proceed).await.unwrap();
        let backup = folder.at("backup");
        copy(&store, &backup).unwrap();
        // All tasks are done; the next steps are those of `finish`, without the removal of the
        // folder.
        let ingest = planned(std::slice::from_ref(&file), &address, &work, &recipe).await;
        for task in ingest.tasks().all() {
            ingest.run(task, &mut proceed).await.unwrap();
        }
        let saved = folder.at("kept");
        for name in ["plan.json", "tasks", "done"] {
            fs::create_dir_all(&saved).unwrap();
            match fs::metadata(work.join(name)).unwrap().is_dir() {
                true => copy(&work.join(name), &saved.join(name)).unwrap(),
                false => drop(fs::copy(work.join(name), saved.join(name)).unwrap()),
            }
        }
        ingest.finish().await.unwrap();
        copy(&saved, &work).unwrap();
        copy(&backup, &work.join("store")).unwrap(); // as after the exchange of the two
        fs::write(work.join("store.id"), "1 0000000000000000").unwrap();
        fs::remove_dir_all(&store).unwrap();
        if name == "restored" {
            copy(&backup, &store).unwrap();
        }
        if cells_gone {
            fs::remove_dir_all(work.join("tasks")).unwrap();
        }
        let report = create(&file, &address, &layout, &recipe, &mut proceed).await.unwrap();
        assert_eq!(report.notices, [WriteNotice::Cleaned], "{name}");
        assert_eq!(tree(&store), expected, "{name}");
        for folder_to_remove in [&backup, &saved, &store] {
            fs::remove_dir_all(folder_to_remove).unwrap();
        }
    }
}

#[tokio::test]
async fn changed_input_is_refused() {
    let folder = Folder(archives::scratch());
    let file = points(&folder, "a.csv", 0..450);
    let (address, work) = (folder.address("a.zarrvectors"), folder.at("work"));
    let recipe = recipe();
    let files = std::slice::from_ref(&file);
    PlannedIngest::create(files, &address, &work, &recipe, None, &mut proceed).await.unwrap();
    points(&folder, "a.csv", 0..451);
    let ingest = Ingest::open(&address, &work, recipe.write.clone()).unwrap();
    let error = ingest.run(ingest.tasks().all()[0], &mut proceed).await.unwrap_err();
    assert_eq!(error.class(), zvf_format::Class::FileChanged);
    fs::write(folder.at("b.csv"), "x,y\n1,2\n").unwrap();
    let files = [file, folder.at("b.csv")];
    let error = StoreLayout::scan_all(&files, &recipe, &mut proceed).unwrap_err();
    let [a, b] = [folder.at("a.csv"), folder.at("b.csv")].map(|file| file.display().to_string());
    assert_eq!(
        error.to_string(),
        format!(
            "InvalidArgument, the input: expected column \"n\" of int64 as in {a}, found 0 columns in {b}; \
             state the types of columns that were guessed"
        )
    );
    fs::write(folder.at("b.csv"), "x,y,n\n1,2,0.5\n").unwrap();
    let error = StoreLayout::scan_all(&files, &recipe, &mut proceed).unwrap_err().to_string();
    assert!(
        error.contains(&format!("\"n\" of int64 as in {a}, found column \"n\" of float64 in {b}")),
        "{error}"
    );
    fs::write(folder.at("b.csv"), "x,y,n\n1,2,3\n4,five,6\n").unwrap();
    let error = StoreLayout::scan_all(&files, &recipe, &mut proceed).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("Encoding in CSV, {b}: line 3, column \"y\": expected float64, found \"five\"")
    );
    assert!(StoreLayout::scan_all(&[], &recipe, &mut proceed).is_err());
}

#[tokio::test]
async fn the_first_of_several_faults_is_reported() {
    let folder = Folder(archives::scratch());
    let (file, address) = (points(&folder, "a.csv", 0..900), folder.address("a.zarrvectors"));
    let (recipe, work) = (recipe(), folder.at("work"));
    let layout = StoreLayout::scan(&file, &recipe, &mut proceed).unwrap();
    let files = std::slice::from_ref(&file);
    let mut plan = plan(files, &address, &layout, &recipe, None).unwrap();
    for slice in [2, 3, 7] {
        plan.slices[slice].vertices += 1;
    }
    begin(&address, &work, &plan, &recipe).await.unwrap();
    let ingest = Ingest::open(&address, &work, recipe.write.clone()).unwrap();
    for _ in 0..10 {
        let error = ingest.run_all(&mut proceed).await.unwrap_err().to_string();
        assert!(error.contains("route 2: expected 101 vertices"), "{error}");
    }
    let is_done = |number| ingest.tasks().is_done(Task { stage: TaskStage::Route, number });
    assert!(is_done(0) && is_done(1) && !is_done(2) && !is_done(3));
}

/// Writes positions of two axes of one byte each, as NumPy does.
fn positions(folder: &Folder, name: &str, rows: usize) -> PathBuf {
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({rows}, 2), }}\n");
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    let rows: Vec<u8> = (0..rows).flat_map(|n| [(n * 7 % 90) as u8, (n / 20) as u8]).collect();
    let file = [b"\x93NUMPY\x01\0", &length[..], header.as_bytes(), &rows].concat();
    fs::write(folder.at(name), file).unwrap();
    folder.at(name)
}

#[tokio::test]
async fn inner_slices_are_routed_alone_or_together() {
    let folder = Folder(archives::scratch());
    let (file, direct_address) = (positions(&folder, "a.npy", 950), folder.address("whole"));
    let recipe = recipe();
    let unsliced = Recipe { write: WriteOptions::default(), ..recipe.clone() };
    let layout = StoreLayout::scan(&file, &unsliced, &mut proceed).unwrap();
    assert_eq!(layout.slices.len(), 1);
    create(&file, &direct_address, &layout, &unsliced, &mut proceed).await.unwrap();
    let cells = |store: &str| tree(&Path::new(store).join("0/vertices/c"));
    let expected = cells(&direct_address);
    for (name, tasks_per_route) in [("alone", 1), ("together", 4)] {
        let (address, files) = (folder.address(name), std::slice::from_ref(&file));
        let ingest = planned(files, &address, &folder.at("work"), &recipe).await;
        let (mut routes, other_tasks): (Vec<Task>, Vec<Task>) =
            ingest.tasks().all().into_iter().partition(|task| task.stage == TaskStage::Route);
        assert_eq!(routes.len(), 10);
        assert!(ingest.route(&other_tasks, &mut proceed).await.is_err(), "these read no input");
        routes.reverse();
        for tasks in routes.chunks(tasks_per_route) {
            assert_eq!(ingest.route(tasks, &mut proceed).await.unwrap(), vec![true; tasks.len()]);
        }
        assert_eq!(ingest.route(&routes, &mut proceed).await.unwrap(), [false; 10]);
        for task in other_tasks {
            ingest.run(task, &mut proceed).await.unwrap();
        }
        assert_eq!(ingest.finish().await.unwrap().unwrap().vertices, 950);
        let found = cells(&address);
        assert_eq!(found, expected, "{name}");
    }
}
