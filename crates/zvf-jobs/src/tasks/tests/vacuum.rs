//! A vacuum by tasks: repeated, concurrent, killed, of a store with foreign commits.

use std::collections::BTreeMap;

use zvf_edit::{is_vacuumed, vacuum};
use zvf_publish::CommitGate;

use super::*;

/// The files of a store.
type Tree = BTreeMap<String, Vec<u8>>;

impl TaskFixture {
    /// Creates a store in many chunks, half of which have waste.
    fn with_waste(id: &str) -> Self {
        Self::from_files(&archives::files_with_waste(id))
    }

    fn tree(&self) -> Tree {
        archives::tree(&self.path())
    }

    async fn plan_vacuum(&self, shares: usize) -> Plan {
        Plan::vacuum((&self.address, &OpenOptions::default()), false, shares).await.unwrap()
    }
}

async fn run(tasks: &Tasks, number: usize) -> Result<TaskOutcome, Error> {
    tasks.run_vacuum(number, &OpenOptions::default()).await
}

async fn run_all(tasks: &Tasks) {
    for number in 0..tasks.plan().lines().len() {
        assert_eq!(run(tasks, number).await.unwrap(), TaskOutcome::Done);
    }
}

async fn finish(tasks: &Tasks) -> Result<Option<Json>, Error> {
    tasks.finish_vacuum(&OpenOptions::default(), &CommitGate::default()).await
}

/// Returns a report without the fields that differ between commits.
fn report_of(mut report: Json) -> Json {
    report["store"] = Json::Null;
    report["commits"][0]["txid"] = Json::Null;
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_and_one_process_leave_the_same_store() {
    for id in ["sl3_streamlines", "pc3_objects", "gr3_links"] {
        let (fixture, single) = (TaskFixture::with_waste(id), TaskFixture::with_waste(id));
        let (before, report) = (fixture.tree(), vacuum(&single.path(), false).unwrap());
        assert_eq!(report["changed"], true, "{id}");
        assert_ne!(single.tree(), before, "{id}");
        let tasks = fixture.plan_vacuum(3).await.create(&fixture.folder()).await.unwrap();
        let lines = tasks.plan().lines();
        assert!(lines.len() > 1, "{id}: {lines:?}");
        assert!(lines.iter().all(|line| line.stage == "chunks"), "{id}: {lines:?}");
        assert!(lines[0].what.contains(" chunks of "), "{id}: {lines:?}");
        assert_eq!(finish(&tasks).await.unwrap_err().class(), Class::Unavailable, "{id}");
        run_all(&tasks).await;
        assert_eq!(fixture.tree(), before, "{id}: a task changed the store");
        let task_report = finish(&tasks).await.unwrap().unwrap();
        assert_eq!(report_of(task_report), report_of(report), "{id}");
        assert_eq!(fixture.tree(), single.tree(), "{id}");
        assert_eq!(finish(&tasks).await.unwrap(), None, "{id}: it had been done");
        assert_eq!(fixture.tree(), single.tree(), "{id}");
        tasks.remove().await.unwrap();
        assert!(!fixture.dir.path().join("work").exists(), "{id}: nothing else is left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_and_last_steps_can_be_repeated_concurrently() {
    let (fixture, single) =
        (TaskFixture::with_waste("sl3_streamlines"), TaskFixture::with_waste("sl3_streamlines"));
    vacuum(&single.path(), false).unwrap();
    let folder = fixture.folder();
    let tasks = fixture.plan_vacuum(2).await.create(&folder).await.unwrap();
    // The leftovers of a killed run.
    let mut killed = record::Writer::new(&folder);
    killed.write(&vec![b'x'; 5 << 20].into()).await.unwrap();
    drop(killed);
    assert_done_by_one(tokio::join!(run(&tasks, 0), run(&tasks, 0)));
    assert_eq!(run(&tasks, 0).await.unwrap(), TaskOutcome::AlreadyDone);
    let reopened = fixture.plan_vacuum(2).await.create(&folder).await.unwrap();
    assert_eq!(reopened.list_done().await.unwrap(), [true, false], "finished tasks stay finished");
    assert_eq!(run(&tasks, 1).await.unwrap(), TaskOutcome::Done);
    let (first, second) = tokio::join!(finish(&tasks), finish(&reopened));
    let reports = [first.unwrap(), second.unwrap()];
    assert_eq!(reports.iter().flatten().count(), 1, "one commits: {reports:?}");
    assert_eq!(fixture.tree(), single.tree());
}

#[tokio::test(flavor = "multi_thread")]
async fn output_of_tasks_is_compared_with_records() {
    let fixture = TaskFixture::with_waste("sl3_streamlines");
    let before = fixture.tree();
    let tasks = fixture.plan_vacuum(2).await.create(&fixture.folder()).await.unwrap();
    run_all(&tasks).await;
    let files = fixture.outputs();
    assert_eq!(files.len(), 2);
    fs::write(&files[0], "{}\n").unwrap();
    assert_eq!(finish(&tasks).await.unwrap_err().class(), Class::Checksum);
    assert_eq!(fixture.tree(), before);
    let outcomes = [run(&tasks, 0).await.unwrap(), run(&tasks, 1).await.unwrap()];
    assert_eq!(outcomes.iter().filter(|ran| **ran == TaskOutcome::Done).count(), 1, "{outcomes:?}");
    assert_eq!(finish(&tasks).await.unwrap().unwrap()["head"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_last_step_killed_after_the_commit_is_repeated() {
    let fixture = TaskFixture::with_waste("sl3_streamlines");
    let tasks = fixture.plan_vacuum(2).await.create(&fixture.folder()).await.unwrap();
    run_all(&tasks).await;
    finish(&tasks).await.unwrap().unwrap();
    // The state before the last record of that step.
    fs::remove_file(fixture.dir.path().join("work/done/finished")).unwrap();
    let finished_tree = fixture.tree();
    assert_eq!(finish(&tasks).await.unwrap(), None);
    fixture.edit();
    assert_eq!(finish(&tasks).await.unwrap(), None, "later commits change nothing about that");
    assert_ne!(fixture.tree(), finished_tree);
    // Another plan of the same store is another vacuum.
    let other_folder = WorkFolder::open("memory:///work", &OpenOptions::default()).unwrap();
    let other_plan = fixture.plan_vacuum(2).await.create(&other_folder).await.unwrap();
    run_all(&other_plan).await;
    assert_eq!(finish(&other_plan).await.unwrap().unwrap()["changed"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_after_the_plan_is_a_conflict_and_nothing_is_lost() {
    for has_journal in [false, true] {
        let fixture = TaskFixture::with_waste("sl3_streamlines");
        if has_journal {
            fixture.edit();
        }
        let tasks = fixture.plan_vacuum(2).await.create(&fixture.folder()).await.unwrap();
        assert_eq!(run(&tasks, 0).await.unwrap(), TaskOutcome::Done);
        fixture.edit();
        let edited = fixture.tree();
        let error = run(&tasks, 1).await.unwrap_err();
        assert_eq!(error.class(), Class::Conflict, "{error}");
        assert_eq!(tasks.list_done().await.unwrap(), [true, false]);
        assert_eq!(fixture.tree(), edited);

        let folder = WorkFolder::open("memory:///work", &OpenOptions::default()).unwrap();
        let tasks = fixture.plan_vacuum(2).await.create(&folder).await.unwrap();
        run_all(&tasks).await;
        fixture.edit();
        let edited = fixture.tree();
        let error = finish(&tasks).await.unwrap_err();
        assert_eq!(error.class(), Class::Conflict, "{error}");
        assert!(error.to_string().contains(" changed after "), "{error}");
        assert_eq!(fixture.tree(), edited);
        let head = if has_journal { 2 } else { 1 };
        assert!(!is_vacuumed(&fixture.path(), (head, &tasks.digest)).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_without_waste_is_reported() {
    let fixture = TaskFixture::from_files(&archives::files("pc3_objects"));
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
    let fixture = TaskFixture::from_files(&archives::files("pc3_objects"));
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
    let missing_path = fixture.dir.path().join("nothing.zarrvectors");
    let missing = (missing_path.to_str().unwrap(), &OpenOptions::default());
    let plan = Plan::vacuum(missing, false, 1).await;
    assert_eq!(plan.unwrap_err().class(), Class::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_on_s3_equals_a_local_store() {
    let (local, s3) =
        (TaskFixture::with_waste("sl3_streamlines"), archives::s3::S3::start().unwrap());
    s3.put("data/a.zarrvectors", &archives::files_with_waste("sl3_streamlines"));
    let before = s3.tree("data/a.zarrvectors");
    vacuum(&local.path(), false).unwrap();
    let open = open_options(&s3);
    let address = "s3://bucket/data/a.zarrvectors";
    for single_writer in [false, true] {
        s3.remove("data");
        s3.put("data/a.zarrvectors", &archives::files_with_waste("sl3_streamlines"));
        let folder = WorkFolder::open("s3://bucket/data/work", &open).unwrap();
        let plan = Plan::vacuum((address, &open), single_writer, 3).await.unwrap();
        let tasks = plan.create(&folder).await.unwrap();
        for number in 0..tasks.plan().lines().len() {
            assert_eq!(tasks.run_vacuum(number, &open).await.unwrap(), TaskOutcome::Done);
            assert_eq!(tasks.run_vacuum(number, &open).await.unwrap(), TaskOutcome::AlreadyDone);
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
        assert_eq!(s3.tree("data/a.zarrvectors"), local.tree());
        assert_eq!(finish().await.unwrap(), None);
        tasks.remove().await.unwrap();
        assert!(s3.tree("data/work").is_empty());
    }
}
