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
        Plan::pyramid((&self.address, &open), options, vec!["--levels=1".into()]).await
    }

    async fn make(&self, tasks: &Tasks, options: &LevelOptions) -> Result<Ran, Error> {
        tasks.run_level(0, &OpenOptions::default(), options, &BuildOptions::default()).await
    }

    async fn put(&self, tasks: &Tasks) -> Result<Option<usize>, Error> {
        let (open, build_options) = (OpenOptions::default(), BuildOptions::default());
        let added = tasks.finish_pyramid(&open, &one_level(), &build_options, |_event| {}).await?;
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
    let (first, second) =
        tokio::join!(fixture.make(&tasks, &options), fixture.make(&tasks, &options));
    let outcomes = [first.unwrap(), second.unwrap()];
    assert!(outcomes.contains(&Ran::Now) && outcomes.contains(&Ran::Before), "{outcomes:?}");
    assert_eq!(fixture.make(&tasks, &options).await.unwrap(), Ran::Before);
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
    let other_options = LevelOptions { seed: 7, ..one_level() };
    let error = fixture.make(&tasks, &other_options).await.unwrap_err();
    assert_eq!(error.class(), Class::InvalidArgument, "{error}");
    let remote = WorkFolder::open("memory:///work", &OpenOptions::default()).unwrap();
    let remote = fixture.plan_levels(&options).await.unwrap().create(&remote).await.unwrap_err();
    assert_eq!(remote.class(), Class::InvalidArgument, "{remote}");
    fs::write(Path::new(&fixture.address).join("0/notes.txt"), "x").unwrap();
    assert_eq!(fixture.make(&tasks, &options).await.unwrap_err().class(), Class::Conflict);
    assert_eq!(tasks.done().await.unwrap(), [false]);
    let adding = LevelOptions { additive: true, ..one_level() };
    assert_eq!(fixture.plan_levels(&adding).await.unwrap_err().class(), Class::Unsupported);
}
