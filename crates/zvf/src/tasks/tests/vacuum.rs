//! A vacuum by tasks: repeated, at the same time, killed, of a store that somebody committed to.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value as Json, json};
use zvf_edit::{CommitOptions, Editor, Place, is_vacuumed, vacuum};
use zvf_publish::CommitGate;

use super::*;

/// What a store is, file by file.
type Tree = BTreeMap<String, Vec<u8>>;

impl Own {
    /// A store in many chunks, half of which have waste.
    fn wasted(id: &str) -> Self {
        Self::of_files(&archives::files_with_waste(id))
    }

    fn of_files(files: &[(String, Vec<u8>)]) -> Self {
        let dir = TempDir::new().unwrap();
        let to = dir.path().join("store.zarrvectors");
        archives::write(&to, files);
        Self { address: to.to_str().unwrap().to_owned(), dir }
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(&self.address)
    }

    fn tree(&self) -> Tree {
        archives::tree(&self.path())
    }

    async fn plan_vacuum(&self, shares: usize) -> Plan {
        Plan::vacuum((&self.address, &OpenOptions::default()), false, shares).await.unwrap()
    }

    /// One vertex moved by a commit of somebody else.
    fn edit(&self) {
        let options = CommitOptions::default();
        let place = Place::from(&self.path());
        let mut editor = Editor::open(place, Path::new("."), options).unwrap();
        let line = json!({"op": "vertex.move", "vertices": {"object": 3}, "by": [1.0, 0.0, 0.0]});
        editor.line(1, &line.to_string()).unwrap();
        editor.finish().unwrap();
    }
}

async fn run(tasks: &Tasks, number: usize) -> Result<Ran, Error> {
    tasks.run_vacuum(number, &OpenOptions::default()).await
}

async fn run_all(tasks: &Tasks) {
    for number in 0..tasks.plan().lines().len() {
        assert_eq!(run(tasks, number).await.unwrap(), Ran::Now);
    }
}

async fn finish(tasks: &Tasks) -> Result<Option<Json>, Error> {
    tasks.finish_vacuum(&OpenOptions::default(), &CommitGate::default()).await
}

/// A report without what no two commits share.
fn report_of(mut report: Json) -> Json {
    report["store"] = Json::Null;
    report["commits"][0]["txid"] = Json::Null;
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_leave_what_one_process_leaves() {
    for id in ["sl3_streamlines", "pc3_objects", "gr3_links"] {
        let (fixture, whole) = (Own::wasted(id), Own::wasted(id));
        let (before, report) = (fixture.tree(), vacuum(&whole.path(), false).unwrap());
        assert_eq!(report["changed"], true, "{id}");
        assert_ne!(whole.tree(), before, "{id}");
        let tasks = fixture.plan_vacuum(3).await.create(&fixture.folder()).await.unwrap();
        let lines = tasks.plan().lines();
        assert!(lines.len() > 1, "{id}: {lines:?}");
        assert!(lines.iter().all(|line| line.stage == "chunks"), "{id}: {lines:?}");
        assert!(lines[0].what.contains(" chunks of "), "{id}: {lines:?}");
        assert_eq!(finish(&tasks).await.unwrap_err().class(), Class::Unavailable, "{id}");
        run_all(&tasks).await;
        assert_eq!(fixture.tree(), before, "{id}: a task changed the store");
        let done = finish(&tasks).await.unwrap().unwrap();
        assert_eq!(report_of(done), report_of(report), "{id}");
        assert_eq!(fixture.tree(), whole.tree(), "{id}");
        assert_eq!(finish(&tasks).await.unwrap(), None, "{id}: it had been done");
        assert_eq!(fixture.tree(), whole.tree(), "{id}");
        tasks.remove().await.unwrap();
        assert!(!fixture.dir.path().join("work").exists(), "{id}: nothing else is left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_and_last_steps_are_repeated_and_run_twice_at_once() {
    let (fixture, whole) = (Own::wasted("sl3_streamlines"), Own::wasted("sl3_streamlines"));
    vacuum(&whole.path(), false).unwrap();
    let folder = fixture.folder();
    let tasks = fixture.plan_vacuum(2).await.create(&folder).await.unwrap();
    // What a run that was killed leaves.
    let mut killed = record::Writer::new(&folder);
    killed.write(&vec![b'x'; 5 << 20].into()).await.unwrap();
    drop(killed);
    let (first, second) = tokio::join!(run(&tasks, 0), run(&tasks, 0));
    let ran = [first.unwrap(), second.unwrap()];
    assert!(ran.contains(&Ran::Now) && ran.contains(&Ran::Before), "{ran:?}");
    assert_eq!(run(&tasks, 0).await.unwrap(), Ran::Before);
    let again = fixture.plan_vacuum(2).await.create(&folder).await.unwrap();
    assert_eq!(again.done().await.unwrap(), [true, false], "what is done stays done");
    assert_eq!(run(&tasks, 1).await.unwrap(), Ran::Now);
    let (first, second) = tokio::join!(finish(&tasks), finish(&again));
    let reports = [first.unwrap(), second.unwrap()];
    assert_eq!(reports.iter().flatten().count(), 1, "one commits: {reports:?}");
    assert_eq!(fixture.tree(), whole.tree());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_task_wrote_is_compared_with_its_record() {
    let fixture = Own::wasted("sl3_streamlines");
    let before = fixture.tree();
    let tasks = fixture.plan_vacuum(2).await.create(&fixture.folder()).await.unwrap();
    run_all(&tasks).await;
    let runs = fixture.dir.path().join("work/runs");
    let files = fs::read_dir(&runs).unwrap().map(|run| run.unwrap().path().join("000000"));
    let files: Vec<_> = files.filter(|file| file.exists()).collect();
    assert_eq!(files.len(), 2);
    fs::write(&files[0], "{}\n").unwrap();
    assert_eq!(finish(&tasks).await.unwrap_err().class(), Class::Checksum);
    assert_eq!(fixture.tree(), before);
    let ran = [run(&tasks, 0).await.unwrap(), run(&tasks, 1).await.unwrap()];
    assert_eq!(ran.iter().filter(|ran| **ran == Ran::Now).count(), 1, "{ran:?}");
    assert_eq!(finish(&tasks).await.unwrap().unwrap()["head"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_last_step_that_was_killed_after_the_commit_is_repeated() {
    let fixture = Own::wasted("sl3_streamlines");
    let tasks = fixture.plan_vacuum(2).await.create(&fixture.folder()).await.unwrap();
    run_all(&tasks).await;
    finish(&tasks).await.unwrap().unwrap();
    // As it was before the last word of that step.
    fs::remove_file(fixture.dir.path().join("work/done/finished")).unwrap();
    let done = fixture.tree();
    assert_eq!(finish(&tasks).await.unwrap(), None);
    fixture.edit();
    assert_eq!(finish(&tasks).await.unwrap(), None, "later commits change nothing about that");
    assert_ne!(fixture.tree(), done);
    // Another plan of the same store is another vacuum.
    let other_folder = WorkFolder::open("memory:///work", &OpenOptions::default()).unwrap();
    let other_plan = fixture.plan_vacuum(2).await.create(&other_folder).await.unwrap();
    run_all(&other_plan).await;
    assert_eq!(finish(&other_plan).await.unwrap().unwrap()["changed"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_after_the_plan_is_a_conflict_and_nothing_is_lost() {
    for has_journal in [false, true] {
        let fixture = Own::wasted("sl3_streamlines");
        if has_journal {
            fixture.edit();
        }
        let tasks = fixture.plan_vacuum(2).await.create(&fixture.folder()).await.unwrap();
        assert_eq!(run(&tasks, 0).await.unwrap(), Ran::Now);
        fixture.edit();
        let edited = fixture.tree();
        let late = run(&tasks, 1).await.unwrap_err();
        assert_eq!(late.class(), Class::Conflict, "{late}");
        assert_eq!(tasks.done().await.unwrap(), [true, false]);
        assert_eq!(fixture.tree(), edited);

        let folder = WorkFolder::open("memory:///work", &OpenOptions::default()).unwrap();
        let tasks = fixture.plan_vacuum(2).await.create(&folder).await.unwrap();
        run_all(&tasks).await;
        fixture.edit();
        let edited = fixture.tree();
        let late = finish(&tasks).await.unwrap_err();
        assert_eq!(late.class(), Class::Conflict, "{late}");
        assert!(late.to_string().contains("it changed since"), "{late}");
        assert_eq!(fixture.tree(), edited);
        let head = if has_journal { 2 } else { 1 };
        assert!(!is_vacuumed(&fixture.path(), (head, &tasks.digest)).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_there_is_nothing_to_do_that_is_said() {
    let fixture = Own::of_files(&archives::files("pc3_objects"));
    let before = fixture.tree();
    let tasks = fixture.plan_vacuum(2).await.create(&fixture.folder()).await.unwrap();
    run_all(&tasks).await;
    for _ in 0..2 {
        let report = finish(&tasks).await.unwrap().unwrap();
        assert_eq!((&report["changed"], &report["head"]), (&false.into(), &0.into()));
    }
    assert_eq!(fixture.tree(), before);
    fs::write(fixture.path().join("0/notes.txt"), "x").unwrap();
    assert_eq!(finish(&tasks).await.unwrap(), None, "it came to its end before that");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_other_work_is_refused() {
    let fixture = Own::of_files(&archives::files("pc3_objects"));
    let tasks = fixture.plan(1).await.create(&fixture.folder()).await.unwrap();
    for error in [run(&tasks, 0).await.unwrap_err(), finish(&tasks).await.unwrap_err()] {
        assert_eq!(error.class(), Class::InvalidArgument, "{error}");
    }
    let folder = WorkFolder::open("memory:///work", &OpenOptions::default()).unwrap();
    let tasks = fixture.plan_vacuum(1).await.create(&folder).await.unwrap();
    assert_eq!(fixture.run(&tasks, 0).await.unwrap_err().class(), Class::InvalidArgument);
    assert_eq!(fixture.finish(&tasks).await.unwrap_err().class(), Class::InvalidArgument);
    let none = run(&tasks, 1).await.unwrap_err();
    assert_eq!(none.class(), Class::InvalidArgument, "{none}");
    let gate = CommitGate::default();
    assert!(gate.stop());
    run_all(&tasks).await;
    let stopped = tasks.finish_vacuum(&OpenOptions::default(), &gate).await.unwrap_err();
    assert_eq!(stopped.class(), Class::Cancelled, "{stopped}");
    let nowhere = fixture.dir.path().join("nothing.zarrvectors");
    let nowhere = (nowhere.to_str().unwrap(), &OpenOptions::default());
    let nowhere = Plan::vacuum(nowhere, false, 1).await;
    assert_eq!(nowhere.unwrap_err().class(), Class::NotFound);
}

#[cfg(feature = "s3")]
#[tokio::test(flavor = "multi_thread")]
async fn a_store_behind_s3_becomes_what_one_in_a_folder_becomes() {
    let (whole, s3) = (Own::wasted("sl3_streamlines"), archives::s3::S3::start().unwrap());
    s3.put("data/a.zarrvectors", &archives::files_with_waste("sl3_streamlines"));
    let before = s3.tree("data/a.zarrvectors");
    vacuum(&whole.path(), false).unwrap();
    let mut open = OpenOptions::default();
    for (name, value) in s3.options() {
        open = open.with_storage_option(name, value);
    }
    let address = "s3://bucket/data/a.zarrvectors";
    for single_writer in [false, true] {
        s3.remove("data");
        s3.put("data/a.zarrvectors", &archives::files_with_waste("sl3_streamlines"));
        let folder = WorkFolder::open("s3://bucket/data/work", &open).unwrap();
        let plan = Plan::vacuum((address, &open), single_writer, 3).await.unwrap();
        let tasks = plan.create(&folder).await.unwrap();
        for number in 0..tasks.plan().lines().len() {
            assert_eq!(tasks.run_vacuum(number, &open).await.unwrap(), Ran::Now);
            assert_eq!(tasks.run_vacuum(number, &open).await.unwrap(), Ran::Before);
        }
        assert_eq!(s3.tree("data/a.zarrvectors"), before);
        let gate = CommitGate::default();
        let finish = || tasks.finish_vacuum(&open, &gate);
        let reports = match single_writer {
            true => [finish().await, finish().await],
            false => <[_; 2]>::from(tokio::join!(finish(), finish())),
        };
        let reports = reports.map(Result::unwrap);
        assert_eq!(reports.iter().flatten().count(), 1, "one commits: {reports:?}");
        assert_eq!(s3.tree("data/a.zarrvectors"), whole.tree());
        assert_eq!(finish().await.unwrap(), None);
        tasks.remove().await.unwrap();
        assert!(s3.tree("data/work").is_empty());
    }
}
