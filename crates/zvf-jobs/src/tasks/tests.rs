//! Plans, tasks and records: repeated, concurrent, killed, of a changed store.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tempfile::TempDir;
use zvf_edit::{CommitOptions, Editor};
use zvf_validate::{Checks, Observer, Report, validate};

use super::*;

mod convert;
mod pyramid;
mod vacuum;

/// A store of lines with links and objects, in its own folder.
struct TaskFixture {
    dir: TempDir,
    address: String,
}

impl TaskFixture {
    fn new() -> Self {
        let from = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-model/testdata/bridge.zarrvectors");
        let dir = TempDir::new().unwrap();
        let to = dir.path().join("bridge.zarrvectors");
        archives::copy(Path::new(from), &to).unwrap();
        Self { address: to.to_str().unwrap().to_owned(), dir }
    }

    fn from_files(files: &[(String, Vec<u8>)]) -> Self {
        let dir = TempDir::new().unwrap();
        let to = dir.path().join("store.zarrvectors");
        archives::write(&to, files);
        Self { address: to.to_str().unwrap().to_owned(), dir }
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(&self.address)
    }

    /// Moves one vertex by a foreign commit.
    fn edit(&self) {
        let place = zvf_edit::Place::from(&self.path());
        let mut editor = Editor::open(place, Path::new("."), CommitOptions::default()).unwrap();
        let line = r#"{"op": "vertex.move", "vertices": {"object": 3}, "by": [1.0, 0.0, 0.0]}"#;
        editor.line(1, line).unwrap();
        editor.finish().unwrap();
    }

    /// Returns the first file of each run that wrote any.
    fn outputs(&self) -> Vec<PathBuf> {
        let runs = fs::read_dir(self.dir.path().join("work/runs")).unwrap();
        let files = runs.map(|run| run.unwrap().path().join("000000"));
        files.filter(|file| file.exists()).collect()
    }

    async fn open(&self) -> Store {
        Store::open(&self.address, OpenOptions::default()).await.unwrap()
    }

    fn folder(&self) -> WorkFolder {
        let path = self.dir.path().join("work");
        WorkFolder::open(path.to_str().unwrap(), &OpenOptions::default()).unwrap()
    }

    async fn plan(&self, shares: usize) -> Plan {
        let (store, open) = (self.open().await, OpenOptions::default());
        let place = (&store, self.address.as_str(), &open);
        Plan::validate(place, &Checks::default(), false, shares).await.unwrap()
    }

    async fn run(&self, tasks: &Tasks, number: usize) -> Result<TaskOutcome, Error> {
        let (store, open) = (self.open().await, OpenOptions::default());
        tasks.run_validate(number, (&store, &open), &Observer::default()).await
    }

    async fn run_all(&self, tasks: &Tasks) {
        for number in 0..tasks.plan().lines().len() {
            assert_eq!(self.run(tasks, number).await.unwrap(), TaskOutcome::Done);
        }
    }

    async fn finish(&self, tasks: &Tasks) -> Result<Report, Error> {
        let (store, open) = (self.open().await, OpenOptions::default());
        tasks.finish_validate((&store, &open), &Observer::default()).await
    }

    async fn validate_all(&self) -> Report {
        validate(&self.open().await, &Checks::default(), &Observer::default()).await.unwrap()
    }
}

/// Returns the options for opening what is on a server.
fn open_options(s3: &archives::s3::S3) -> OpenOptions {
    let set = |open: OpenOptions, (name, value)| open.with_storage_option(name, value);
    s3.options().into_iter().fold(OpenOptions::default(), set)
}

/// Asserts that one of two concurrent runs of a task counts.
fn assert_done_by_one(runs: (Result<TaskOutcome, Error>, Result<TaskOutcome, Error>)) {
    let outcomes = [runs.0.unwrap(), runs.1.unwrap()];
    let is_found = |outcome| outcomes.contains(&outcome);
    assert!(is_found(TaskOutcome::Done) && is_found(TaskOutcome::AlreadyDone), "{outcomes:?}");
}

#[tokio::test]
async fn tasks_have_the_report_of_one_validation() {
    let fixture = TaskFixture::new();
    // A finding, so that the reports are not empty.
    fs::write(Path::new(&fixture.address).join("0/notes.txt"), "x").unwrap();
    let remote = WorkFolder::open("memory:///work", &OpenOptions::default()).unwrap();
    for folder in [fixture.folder(), remote] {
        let tasks = fixture.plan(3).await.create(&folder).await.unwrap();
        let stages: Vec<_> = tasks.plan().lines().into_iter().map(|line| line.stage).collect();
        assert!(stages.contains(&"cells".into()) && stages.contains(&"objects".into()));
        fixture.run_all(&tasks).await;
        let report = fixture.finish(&tasks).await.unwrap();
        assert_eq!(report, fixture.validate_all().await);
        assert!(!report.findings.is_empty());
        assert_eq!(fixture.finish(&tasks).await.unwrap(), report, "finishing is repeated");
        tasks.remove().await.unwrap();
        assert_eq!(Tasks::open(&folder).await.unwrap_err().class(), Class::NotFound);
    }
    assert!(!fixture.dir.path().join("work").exists(), "nothing is left");
}

#[tokio::test]
async fn tasks_can_be_repeated_and_run_concurrently() {
    let fixture = TaskFixture::new();
    let folder = fixture.folder();
    let tasks = fixture.plan(2).await.create(&folder).await.unwrap();
    // The leftovers of a killed run.
    let mut killed = record::Writer::new(&folder);
    killed.push(&vec![b'x'; 5 << 20]).await.unwrap();
    drop(killed);
    assert_done_by_one(tokio::join!(fixture.run(&tasks, 0), fixture.run(&tasks, 0)));
    assert_eq!(fixture.run(&tasks, 0).await.unwrap(), TaskOutcome::AlreadyDone);
    assert_eq!(tasks.list_done().await.unwrap()[..2], [true, false]);
    // The same plan again keeps finished tasks.
    let reopened = fixture.plan(2).await.create(&folder).await.unwrap();
    assert_eq!(reopened.list_done().await.unwrap()[..2], [true, false]);
    for number in 1..reopened.plan().lines().len() {
        fixture.run(&reopened, number).await.unwrap();
    }
    assert_eq!(fixture.finish(&reopened).await.unwrap(), fixture.validate_all().await);
}

#[tokio::test]
async fn a_stopped_task_leaves_nothing() {
    let fixture = TaskFixture::new();
    let tasks = fixture.plan(1).await.create(&fixture.folder()).await.unwrap();
    let (store, open) = (fixture.open().await, OpenOptions::default());
    let observer = Observer::default();
    observer.cancel();
    let outcome = tasks.run_validate(0, (&store, &open), &observer).await.unwrap();
    assert_eq!((outcome, tasks.list_done().await.unwrap()[0]), (TaskOutcome::Stopped, false));
    let runs = fixture.dir.path().join("work/runs");
    assert!(fs::read_dir(runs).map_or(true, |mut runs| runs.next().is_none()));
}

#[tokio::test]
async fn tasks_need_earlier_stages() {
    let fixture = TaskFixture::new();
    let tasks = fixture.plan(1).await.create(&fixture.folder()).await.unwrap();
    let last = tasks.plan().lines().len() - 1;
    let error = fixture.run(&tasks, last).await.unwrap_err();
    assert_eq!(error.class(), Class::Unavailable);
    assert!(error.to_string().contains("not done: 0"), "{error}");
    let unfinished = fixture.finish(&tasks).await.unwrap_err();
    assert_eq!(unfinished.class(), Class::Unavailable);
    let none = fixture.run(&tasks, last + 1).await.unwrap_err();
    assert_eq!(none.class(), Class::InvalidArgument);
}

#[tokio::test]
async fn a_store_that_changed_since_the_plan_is_refused() {
    let fixture = TaskFixture::new();
    let folder = fixture.folder();
    let tasks = fixture.plan(1).await.create(&folder).await.unwrap();
    fixture.run_all(&tasks).await;
    let cell = Path::new(&fixture.address).join("0/zarr.json");
    let text = fs::read_to_string(&cell).unwrap();
    fs::write(&cell, format!("{text}\n")).unwrap();
    assert_eq!(fixture.finish(&tasks).await.unwrap_err().class(), Class::Conflict);
    fs::remove_file(fixture.dir.path().join("work/done/0.json")).unwrap();
    assert_eq!(fixture.run(&tasks, 0).await.unwrap_err().class(), Class::Conflict);
    let changed = fixture.plan(1).await.create(&folder).await.unwrap_err();
    assert_eq!(changed.class(), Class::Conflict);
    fs::write(&cell, text).unwrap();
    assert_eq!(fixture.run(&tasks, 0).await.unwrap(), TaskOutcome::Done);
    assert_eq!(fixture.finish(&tasks).await.unwrap(), fixture.validate_all().await);
    let other_plan = fixture.plan(7).await.create(&folder).await.unwrap_err();
    assert_eq!(other_plan.class(), Class::AlreadyExists);
}

#[tokio::test]
async fn output_of_tasks_is_compared_with_records() {
    let fixture = TaskFixture::new();
    let tasks = fixture.plan(1).await.create(&fixture.folder()).await.unwrap();
    fixture.run_all(&tasks).await;
    let files = fixture.outputs();
    assert_eq!(files.len(), tasks.plan().lines().len());
    fs::write(&files[0], "{}\n").unwrap();
    assert_eq!(fixture.finish(&tasks).await.unwrap_err().class(), Class::Checksum);
    let mut repeated = 0;
    for number in 0..tasks.plan().lines().len() {
        repeated += usize::from(fixture.run(&tasks, number).await.unwrap() == TaskOutcome::Done);
    }
    assert_eq!(repeated, 1, "the task whose file was damaged, and no other");
    assert_eq!(fixture.finish(&tasks).await.unwrap(), fixture.validate_all().await);
}

#[tokio::test]
async fn plans_of_other_builds_are_refused() {
    let fixture = TaskFixture::new();
    let folder = fixture.folder();
    fixture.plan(1).await.create(&folder).await.unwrap();
    let path = fixture.dir.path().join("work/plan.json");
    let text = fs::read_to_string(&path).unwrap();
    let build = format!("\"zvf\": \"{}\"", env!("CARGO_PKG_VERSION"));
    for (own, other) in
        [(build.as_str(), "\"zvf\": \"99.0.0\""), ("\"version\": 1", "\"version\": 99")]
    {
        assert!(text.contains(own), "{text}");
        fs::write(&path, text.replace(own, other)).unwrap();
        let error = Tasks::open(&folder).await.unwrap_err();
        assert_eq!(error.class(), Class::InvalidArgument);
        assert!(error.to_string().contains("99"), "{error}");
    }
}

/// Returns copies of a document, each with a further member in one of its objects.
fn with_a_further_member(document: &Json) -> Vec<Json> {
    let mut copies = Vec::new();
    match document {
        Json::Object(members) => {
            let mut extended = members.clone();
            extended.insert("newer".to_owned(), 1.into());
            copies.push(extended.into());
            for (name, member) in members {
                let put = |copy| {
                    let mut members = members.clone();
                    members.insert(name.clone(), copy);
                    Json::from(members)
                };
                copies.extend(with_a_further_member(member).into_iter().map(put));
            }
        }
        Json::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let put = |copy| {
                    let mut items = items.clone();
                    items[at] = copy;
                    Json::from(items)
                };
                copies.extend(with_a_further_member(item).into_iter().map(put));
            }
        }
        _ => {}
    }
    copies
}

#[test]
fn plans_refuse_members_that_they_do_not_know() {
    for kind in ["convert", "pyramid", "vacuum", "validate"] {
        let dir = TempDir::new().unwrap();
        let archive = format!("../../testdata/journals/task_{kind}.tar.zst");
        archives::unpack(&Path::new(env!("CARGO_MANIFEST_DIR")).join(archive), dir.path());
        let text = fs::read(dir.path().join("plan/plan.json")).unwrap();
        let document: Json = serde_json::from_slice(&text).unwrap();
        let plan: Plan = serde_json::from_value(document.clone()).unwrap();
        assert_eq!(plan.job.name(), kind);
        for document in with_a_further_member(&document) {
            let read: Result<Plan, _> = serde_json::from_value(document.clone());
            assert!(read.is_err(), "{document}");
        }
    }
}
