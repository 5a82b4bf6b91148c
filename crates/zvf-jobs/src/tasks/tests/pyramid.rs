//! Levels built by tasks: repeated, concurrent, with other settings, of a changed store.

use zvf_pyramid::Options as LevelOptions;
use zvf_store::BuildOptions;

use super::*;

fn one_level() -> LevelOptions {
    LevelOptions { levels: Some(1), size: Some(4.0), equal_levels: true, ..LevelOptions::default() }
}

impl TaskFixture {
    async fn plan_levels(&self, options: &LevelOptions) -> Result<Plan, Error> {
        let open = OpenOptions::default();
        Plan::pyramid((&self.address, &open), options.clone()).await
    }

    async fn make(&self, tasks: &Tasks) -> Result<TaskOutcome, Error> {
        tasks.run_level(0, &OpenOptions::default(), &BuildOptions::default()).await
    }

    async fn put(&self, tasks: &Tasks) -> Result<Option<usize>, Error> {
        let (open, build_options) = (OpenOptions::default(), BuildOptions::default());
        let added = tasks.finish_pyramid(&open, &build_options, |_event| {}).await?;
        Ok(added.map(|levels| levels.len()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_are_built_and_added_once() {
    let (fixture, options) = (TaskFixture::new(), one_level());
    let plan = fixture.plan_levels(&options).await.unwrap();
    let tasks = plan.create(&fixture.folder()).await.unwrap();
    assert_eq!(tasks.plan().lines()[0].stage, "level 1");
    assert_eq!(fixture.put(&tasks).await.unwrap_err().class(), Class::Unavailable);
    assert_done_by_one(tokio::join!(fixture.make(&tasks), fixture.make(&tasks)));
    assert_eq!(fixture.make(&tasks).await.unwrap(), TaskOutcome::AlreadyDone);
    assert_eq!(fixture.open().await.level_numbers(), [0], "the store is as it was");
    assert_eq!(fixture.put(&tasks).await.unwrap(), Some(1));
    assert_eq!(fixture.open().await.level_numbers(), [0, 1]);
    assert_eq!(fixture.put(&tasks).await.unwrap(), None, "it has them");
    fs::write(Path::new(&fixture.address).join("0/notes.txt"), "x").unwrap();
    fs::remove_dir_all(Path::new(&fixture.address).join("1/vertices/c")).unwrap();
    assert_eq!(fixture.put(&tasks).await.unwrap_err().class(), Class::Conflict, "not any more");
    tasks.remove().await.unwrap();
    let names = fs::read_dir(fixture.dir.path()).unwrap().count();
    assert_eq!(names, 1, "nothing else is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_plans_are_refused() {
    let (fixture, options) = (TaskFixture::new(), one_level());
    let plan = fixture.plan_levels(&options).await.unwrap();
    let tasks = plan.create(&fixture.folder()).await.unwrap();
    let path = fixture.folder().path().unwrap().join("plan.json");
    let planned = fs::read_to_string(&path).unwrap();
    fs::write(&path, planned.replace("\"seed\":", "\"sown\": 1, \"seed\":")).unwrap();
    let error = Tasks::open(&fixture.folder()).await.unwrap_err();
    assert!(error.to_string().contains("unknown field `sown`"), "{error}");
    assert!(error.to_string().ends_with("plan again in another folder"), "{error}");
    fs::write(&path, planned).unwrap();
    fs::write(Path::new(&fixture.address).join("0/notes.txt"), "x").unwrap();
    assert_eq!(fixture.make(&tasks).await.unwrap_err().class(), Class::Conflict);
    assert_eq!(tasks.list_done().await.unwrap(), [false]);
    let adding = LevelOptions { additive: true, ..one_level() };
    assert_eq!(fixture.plan_levels(&adding).await.unwrap_err().class(), Class::Unsupported);
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_of_a_store_with_a_journal_are_committed() {
    let fixture = TaskFixture::from_files(&archives::files("sl3_streamlines"));
    let (path, options) = (Path::new(&fixture.address), one_level());
    fixture.edit();
    let whole = fixture.dir.path().join("whole.zarrvectors");
    archives::copy(path, &whole).unwrap();
    let how = BuildOptions::default();
    zvf_pyramid::build(whole.to_str().unwrap(), &options, &how, |_| {}).await.unwrap();

    let remote = WorkFolder::open("memory:///levels", &OpenOptions::default()).unwrap();
    for folder in [fixture.folder(), remote] {
        let head = zvf_edit::head(path).unwrap().unwrap();
        let plan = fixture.plan_levels(&options).await.unwrap();
        let tasks = plan.create(&folder).await.unwrap();
        assert_eq!(fixture.make(&tasks).await.unwrap(), TaskOutcome::Done);
        assert_eq!(fixture.make(&tasks).await.unwrap(), TaskOutcome::AlreadyDone);
        assert_eq!(fixture.put(&tasks).await.unwrap(), Some(1));
        assert_eq!(
            archives::without_journal_mark(archives::tree(path)),
            archives::without_journal_mark(archives::tree(&whole))
        );
        assert_eq!(fixture.put(&tasks).await.unwrap(), None, "it has them");
        assert_eq!(zvf_edit::head(path).unwrap(), Some(head + 1));
        zvf_edit::undo(path, zvf_edit::Undo::Last(1), &Default::default()).unwrap();
        assert_eq!(fixture.open().await.level_numbers(), [0]);
        assert_eq!(fixture.put(&tasks).await.unwrap(), None, "it had them");
        tasks.remove().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_behind_s3_gets_the_levels_that_one_in_a_folder_gets() {
    use zvf_metadata::CrossLevelStorage;

    let (dir, s3) = (TempDir::new().unwrap(), archives::s3::S3::start().unwrap());
    let whole = dir.path().join("whole.zarrvectors");
    let files = archives::files("sl3_streamlines");
    archives::write(&whole, &files);
    s3.put("data/a.zarrvectors", &files);
    let open = open_options(&s3);
    let (address, how) = ("s3://bucket/data/a.zarrvectors", BuildOptions::default());
    let links = CrossLevelStorage::Explicit;
    let two = LevelOptions { levels: Some(2), links, depth: -1, ..one_level() };
    // The second time there are levels, links to them and a journal.
    for options in [two, one_level()] {
        zvf_pyramid::build(whole.to_str().unwrap(), &options, &how, |_| {}).await.unwrap();
        let before = s3.tree("data/a.zarrvectors");
        let folder = WorkFolder::open("s3://bucket/data/work", &open).unwrap();
        let plan = Plan::pyramid((address, &open), options.clone()).await.unwrap();
        let tasks = plan.create(&folder).await.unwrap();
        for number in 0..tasks.plan().lines().len() {
            let run = || tasks.run_level(number, &open, &how);
            assert_eq!(run().await.unwrap(), TaskOutcome::Done);
            assert_eq!(run().await.unwrap(), TaskOutcome::AlreadyDone);
        }
        assert_eq!(s3.tree("data/a.zarrvectors"), before, "the store is as it was");
        let finish = || tasks.finish_pyramid(&open, &how, |_event| {});
        let (first, second) = tokio::join!(finish(), finish());
        let made = [first.unwrap(), second.unwrap()];
        assert_eq!(made.iter().flatten().count(), 1, "one commits: {made:?}");
        assert_eq!(
            archives::without_journal_mark(s3.tree("data/a.zarrvectors")),
            archives::without_journal_mark(archives::tree(&whole))
        );
        assert_eq!(finish().await.unwrap(), None);
        tasks.remove().await.unwrap();
        assert!(s3.tree("data/work").is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_level_behind_s3_is_made_again() {
    let s3 = archives::s3::S3::start().unwrap();
    s3.put("a.zarrvectors", &archives::files("pc3_objects"));
    let open = open_options(&s3);
    let (options, how) = (one_level(), BuildOptions::default());
    let folder = WorkFolder::open("s3://bucket/work", &open).unwrap();
    let address = "s3://bucket/a.zarrvectors";
    let plan = Plan::pyramid((address, &open), options.clone()).await.unwrap();
    let tasks = plan.create(&folder).await.unwrap();
    let run = || tasks.run_level(0, &open, &how);
    let finish = || tasks.finish_pyramid(&open, &how, |_event| {});
    for is_lost in [false, true] {
        assert_eq!(run().await.unwrap(), TaskOutcome::Done);
        let record = &s3.tree("work")["done/0.json"];
        let record: serde_json::Value = serde_json::from_slice(record).unwrap();
        let name = record["run"].as_str().unwrap();
        if is_lost {
            s3.remove(&format!("work/{name}/1"));
        } else {
            s3.put("work", &[(format!("{name}/1/zarr.json"), b"{}".to_vec())]);
        }
        let error = finish().await.unwrap_err();
        assert_eq!(error.class(), Class::Checksum, "{error}");
        assert_eq!(
            finish().await.unwrap_err().class(),
            Class::Unavailable,
            "it is to be run again"
        );
    }
    assert_eq!(run().await.unwrap(), TaskOutcome::Done);
    assert_eq!(finish().await.unwrap().unwrap().len(), 1);
}
