//! Plans, tasks that are done again, and builds that go on.

use std::fs;
use std::ops::ControlFlow;

use super::*;
use crate::create::create;
use crate::{OpenOptions, Query};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("zvf-ingest-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn address(&self, name: &str) -> String {
        self.at(name).to_str().unwrap().to_owned()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// A quarter of so little memory is less than a piece: each piece is a slice.
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

fn go_on(_: Stage, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[tokio::test]
async fn what_was_stopped_goes_on_and_what_changed_begins_anew() {
    let folder = Folder::new("resumed");
    let (file, address) = (points(&folder, "a.csv", 0..450), folder.address("a.zarrvectors"));
    let recipe = recipe();
    let layout = Layout::scan(&file, &recipe, &mut go_on).unwrap();
    assert_eq!((layout.slices.len(), layout.slices[4].vertices), (5, 50));
    let mut calls = 0;
    let stop = &mut |stage, _| {
        calls += usize::from(stage == Stage::Read);
        if calls > 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let error = create(&file, &address, &layout, &recipe, stop).await.unwrap_err();
    assert_eq!(error.class(), zvf_format::Class::Cancelled);
    assert_eq!(folder.names(), [".a.zarrvectors.zvf-ingest", "a.csv"]);
    let report = create(&file, &address, &layout, &recipe, &mut go_on).await.unwrap();
    assert_eq!(report.notices, [Notice::Resumed { done: 3, of: 7 }]);
    assert_eq!(
        (report.vertices, folder.names()),
        (450, vec!["a.csv".into(), "a.zarrvectors".into()])
    );
    let reader = crate::open(&address, OpenOptions::default()).await.unwrap();
    assert_eq!(reader.run(&Query::all()).await.unwrap().batch.len(), 450);

    let mut again = recipe.clone();
    again.write.build.replace = true;
    let stop = &mut |stage, _| match stage {
        Stage::Write => ControlFlow::Break(()),
        Stage::Look | Stage::Read => ControlFlow::Continue(()),
    };
    create(&file, &address, &layout, &again, stop).await.unwrap_err();
    again.per_chunk = 100;
    let layout = Layout::scan(&file, &again, &mut go_on).unwrap();
    let report = create(&file, &address, &layout, &again, &mut go_on).await.unwrap();
    assert_eq!(report.notices, [Notice::Cleaned]);
    assert_eq!(folder.names(), ["a.csv", "a.zarrvectors"]);
    let taken = create(&file, &address, &layout, &recipe, &mut go_on).await.unwrap_err();
    assert_eq!(taken.class(), zvf_format::Class::AlreadyExists);
    assert_eq!(folder.names(), ["a.csv", "a.zarrvectors"]);
    let other_address = folder.address("b.zarrvectors");
    let report = create(&file, &other_address, &layout, &recipe, &mut go_on).await.unwrap();
    assert_eq!(report.notices, [], "there was no earlier run");
}

#[tokio::test]
async fn several_files_are_one_store() {
    let folder = Folder::new("several");
    let files = [points(&folder, "a.csv", 0..250), points(&folder, "b.csv", 250..450)];
    let (address, work) = (folder.address("a.zarrvectors"), folder.at("work"));
    let recipe = recipe();
    let planned =
        Planned::make(&files, &address, &work, &recipe, Some(2), &mut go_on).await.unwrap();
    assert_eq!((planned.fresh, planned.plan.slices.len()), (true, 5));
    let planned =
        Planned::make(&files, &address, &work, &recipe, Some(2), &mut go_on).await.unwrap();
    assert!(!planned.fresh);
    let elsewhere = Ingest::open("memory:///a", &work, recipe.write.clone()).unwrap_err();
    assert_eq!(
        elsewhere.to_string(),
        "InvalidArgument, the store: expected the one that was planned, found \"a store in a folder\""
    );
    let other_plan = Planned::make(&files, &address, &work, &recipe, Some(3), &mut go_on).await;
    assert!(other_plan.unwrap_err().to_string().contains("expected no other plan"));
    let ingest = Ingest::open(&address, &work, recipe.write.clone()).unwrap();
    let mut tasks = ingest.tasks().all();
    tasks[..5].reverse();
    for task in tasks {
        assert!(ingest.run(task, &mut go_on).await.unwrap());
        assert!(!ingest.run(task, &mut go_on).await.unwrap());
    }
    assert_eq!(ingest.finish().await.unwrap().unwrap().vertices, 450);

    let single_file = points(&folder, "one.csv", 0..450);
    let whole = Recipe { write: WriteOptions::default(), ..recipe };
    let layout = Layout::scan(&single_file, &whole, &mut go_on).unwrap();
    assert_eq!(layout.slices.len(), 1);
    let at_once = folder.address("b.zarrvectors");
    create(&single_file, &at_once, &layout, &whole, &mut go_on).await.unwrap();
    let [mut found, mut expected] = [address, at_once].map(|store| {
        let cells = PathBuf::from(store).join("0/vertices/c/0");
        let cells = fs::read_dir(cells).unwrap().map(|e| fs::read(e.unwrap().path()).unwrap());
        cells.collect::<Vec<_>>()
    });
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

/// A slice that ends where a file does is followed by one that begins with the next file.
#[tokio::test]
async fn files_that_end_where_slices_do_lose_nothing() {
    let folder = Folder::new("ends");
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
        let layout = Layout::of_all(&files, &recipe, &mut go_on).unwrap();
        assert!(layout.slices.len() > 2, "each piece is a slice");
        let made = crate::create::create_all(&files, &address, &layout, &recipe, &mut go_on).await;
        assert_eq!(made.unwrap().vertices, rows[2] as u64, "{rows:?}");
        let reader = crate::open(&address, OpenOptions::default()).await.unwrap();
        let batch = reader.run(&Query::all()).await.unwrap().batch;
        let column = &batch.field("n").unwrap().column;
        let mut found: Vec<f64> =
            (0..batch.len()).map(|row| column.float(row, 0).unwrap()).collect();
        found.sort_by(f64::total_cmp);
        assert_eq!(found, (0..rows[2]).map(|n| n as f64).collect::<Vec<f64>>(), "{rows:?}");
    }
}

/// Copies a folder and all that is in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// All files below a folder, with what is in them.
fn files_below(at: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut found, mut folders) = (Vec::new(), vec![at.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.strip_prefix(at).unwrap().to_owned(), fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// What a process leaves that is killed right after it published, before it has removed anything; then the
/// store goes, or the old one comes back, and the same command runs again.
#[tokio::test]
async fn progress_of_a_store_that_is_gone_is_discarded() {
    let folder = Folder::new("gone");
    let (file, old) = (points(&folder, "a.csv", 0..450), folder.at("old.csv"));
    let rows: String = (0..300).map(|n| format!("{},{},{n},7\n", n % 30, n / 30)).collect();
    fs::write(&old, format!("x,y,n,only_of_the_old\n{rows}")).unwrap();
    let mut recipe = recipe();
    recipe.write.build.replace = true;
    let layout = Layout::scan(&file, &recipe, &mut go_on).unwrap();
    let old_layout = Layout::scan(&old, &recipe, &mut go_on).unwrap();
    let address = folder.address("a.zarrvectors");
    create(&file, &address, &layout, &recipe, &mut go_on).await.unwrap();
    let expected = files_below(Path::new(&address));
    fs::remove_dir_all(&address).unwrap();
    for (name, cells_gone) in [("removed", false), ("restored", false), ("restored", true)] {
        let (store, work) = (folder.at("a.zarrvectors"), crate::ingest::folder(&address).unwrap());
        create(&old, &address, &old_layout, &recipe, &mut go_on).await.unwrap();
        let backup = folder.at("backup");
        copy(&store, &backup);
        // All tasks are done; what follows is what `finish` does, but for the removal of the folder.
        Planned::make(std::slice::from_ref(&file), &address, &work, &recipe, Some(2), &mut go_on)
            .await
            .unwrap();
        let ingest = Ingest::open(&address, &work, recipe.write.clone()).unwrap();
        for task in ingest.tasks().all() {
            ingest.run(task, &mut go_on).await.unwrap();
        }
        let saved = folder.at("kept");
        for name in ["plan.json", "tasks", "done"] {
            fs::create_dir_all(&saved).unwrap();
            match fs::metadata(work.join(name)).unwrap().is_dir() {
                true => copy(&work.join(name), &saved.join(name)),
                false => drop(fs::copy(work.join(name), saved.join(name)).unwrap()),
            }
        }
        ingest.finish().await.unwrap();
        copy(&saved, &work);
        copy(&backup, &work.join("store")); // the two changed places
        fs::write(work.join("store.id"), "1 0000000000000000").unwrap();
        fs::remove_dir_all(&store).unwrap();
        if name == "restored" {
            copy(&backup, &store);
        }
        if cells_gone {
            fs::remove_dir_all(work.join("tasks")).unwrap();
        }
        let report = create(&file, &address, &layout, &recipe, &mut go_on).await.unwrap();
        assert_eq!(report.notices, [Notice::Cleaned], "{name}");
        assert_eq!(files_below(&store), expected, "{name}");
        for gone in [&backup, &saved, &store] {
            fs::remove_dir_all(gone).unwrap();
        }
    }
}

#[tokio::test]
async fn input_that_is_not_what_was_planned_is_refused() {
    let folder = Folder::new("changed");
    let file = points(&folder, "a.csv", 0..450);
    let (address, work) = (folder.address("a.zarrvectors"), folder.at("work"));
    let recipe = recipe();
    let files = std::slice::from_ref(&file);
    Planned::make(files, &address, &work, &recipe, None, &mut go_on).await.unwrap();
    points(&folder, "a.csv", 0..451);
    let ingest = Ingest::open(&address, &work, recipe.write.clone()).unwrap();
    let error = ingest.run(ingest.tasks().all()[0], &mut go_on).await.unwrap_err();
    assert_eq!(error.class(), zvf_format::Class::FileChanged);
    fs::write(folder.at("b.csv"), "x,y\n1,2\n").unwrap();
    let files = [file, folder.at("b.csv")];
    let error = Layout::of_all(&files, &recipe, &mut go_on).unwrap_err();
    let [a, b] = [folder.at("a.csv"), folder.at("b.csv")].map(|file| file.display().to_string());
    assert_eq!(
        error.to_string(),
        format!(
            "InvalidArgument, the input: expected column \"n\" of int64 as in {a}, found 0 columns in {b}; \
             state the types of columns that were guessed"
        )
    );
    fs::write(folder.at("b.csv"), "x,y,n\n1,2,0.5\n").unwrap();
    let error = Layout::of_all(&files, &recipe, &mut go_on).unwrap_err().to_string();
    assert!(
        error.contains(&format!("\"n\" of int64 as in {a}, found column \"n\" of float64 in {b}")),
        "{error}"
    );
    fs::write(folder.at("b.csv"), "x,y,n\n1,2,3\n4,five,6\n").unwrap();
    let error = Layout::of_all(&files, &recipe, &mut go_on).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("{b}: Encoding in CSV, line 3, column \"y\": expected float64, found \"five\"")
    );
    assert!(Layout::of_all(&[], &recipe, &mut go_on).is_err());
}

#[tokio::test]
async fn of_several_slices_that_fail_the_first_is_told() {
    let folder = Folder::new("faults");
    let (file, address) = (points(&folder, "a.csv", 0..900), folder.address("a.zarrvectors"));
    let (recipe, work) = (recipe(), folder.at("work"));
    let layout = Layout::scan(&file, &recipe, &mut go_on).unwrap();
    let files = std::slice::from_ref(&file);
    let mut plan = plan(files, &address, &layout, &recipe, None).unwrap();
    for slice in [2, 3, 7] {
        plan.slices[slice].vertices += 1;
    }
    begin(&address, &work, &plan, &recipe).await.unwrap();
    let ingest = Ingest::open(&address, &work, recipe.write.clone()).unwrap();
    for _ in 0..10 {
        let error = ingest.run_all(&mut go_on).await.unwrap_err().to_string();
        assert!(error.contains("route 2: expected 101 vertices"), "{error}");
    }
    let done = |number| ingest.tasks().is_done(Task { stage: TaskStage::Route, number });
    assert!(done(0) && done(1) && !done(2) && !done(3));
}

/// Positions of two axes of a byte each, as NumPy writes them.
fn positions(folder: &Folder, name: &str, rows: usize) -> PathBuf {
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({rows}, 2), }}\n");
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    let rows: Vec<u8> = (0..rows).flat_map(|n| [(n * 7 % 90) as u8, (n / 20) as u8]).collect();
    let file = [b"\x93NUMPY\x01\0", &length[..], header.as_bytes(), &rows].concat();
    fs::write(folder.at(name), file).unwrap();
    folder.at(name)
}

#[tokio::test]
async fn slices_in_the_middle_of_a_file_are_routed_alone_or_together() {
    let folder = Folder::new("middle");
    let (file, whole) = (positions(&folder, "a.npy", 950), folder.address("whole"));
    let recipe = recipe();
    let at_once = Recipe { write: WriteOptions::default(), ..recipe.clone() };
    let layout = Layout::scan(&file, &at_once, &mut go_on).unwrap();
    assert_eq!(layout.slices.len(), 1);
    create(&file, &whole, &layout, &at_once, &mut go_on).await.unwrap();
    let cells = |store: &str| files_below(&Path::new(store).join("0/vertices/c"));
    let expected = cells(&whole);
    for (name, together) in [("alone", 1), ("together", 4)] {
        let (address, work) = (folder.address(name), folder.at("work"));
        let files = std::slice::from_ref(&file);
        Planned::make(files, &address, &work, &recipe, Some(2), &mut go_on).await.unwrap();
        let ingest = Ingest::open(&address, &work, recipe.write.clone()).unwrap();
        let (mut routes, other_tasks): (Vec<Task>, Vec<Task>) =
            ingest.tasks().all().into_iter().partition(|task| task.stage == TaskStage::Route);
        assert_eq!(routes.len(), 10);
        assert!(ingest.route(&other_tasks, &mut go_on).await.is_err(), "these read no input");
        routes.reverse();
        for tasks in routes.chunks(together) {
            assert_eq!(ingest.route(tasks, &mut go_on).await.unwrap(), vec![true; tasks.len()]);
        }
        assert_eq!(ingest.route(&routes, &mut go_on).await.unwrap(), [false; 10]);
        for task in other_tasks {
            ingest.run(task, &mut go_on).await.unwrap();
        }
        assert_eq!(ingest.finish().await.unwrap().unwrap().vertices, 950);
        let found = cells(&address);
        assert_eq!(found, expected, "{name}");
    }
}
