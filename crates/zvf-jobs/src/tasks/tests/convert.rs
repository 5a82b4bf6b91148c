//! A conversion in parts: killed, repeated, concurrent, of a changed store or changed files.

use zvf_convert::Format;
use zvf_convert::write::{self, FormatOptions, Target};
use zvf_model::Kind;
use zvf_query::{Query, Reader};

use super::*;
use crate::export::Export;
use crate::tasks::{ConvertPart, ConvertTarget};

impl TaskFixture {
    /// Creates a store of points in two chunks.
    fn with_points() -> Self {
        let fixture = Self::new();
        let root = Path::new(&fixture.address).join("zarr.json");
        let text = fs::read_to_string(&root).unwrap();
        fs::write(root, text.replace("\"graph\"", "\"point_cloud\"")).unwrap();
        fixture
    }

    fn output(&self) -> String {
        self.dir.path().join("parts").to_str().unwrap().to_owned()
    }

    async fn plan_parts(&self, kind: Kind, shares: usize, by_objects: bool) -> Result<Plan, Error> {
        let (reader, open) = (Reader::new(self.open().await), OpenOptions::default());
        let target =
            ConvertTarget { output: self.output(), extension: "csv".into(), words: Vec::new() };
        let from = (&reader, self.address.as_str(), &open);
        Plan::convert_store(from, (&Query::all(), kind), target, (shares, by_objects)).await
    }

    /// Returns the answer as CSV.
    async fn csv(&self, part: Option<&ConvertPart>, kind: Kind) -> String {
        let reader = Reader::new(self.open().await);
        let mut query = Query::all();
        if let Some(part) = part {
            query = part.narrow(&reader, query, kind).await.unwrap();
        }
        let mut export = Export::open(&reader, query, Some(kind)).await.unwrap();
        let mut text = Vec::new();
        let target = Target::stream(&mut text);
        let mut writer = write::open(Format::Csv, target, &FormatOptions::default()).unwrap();
        writer.begin(&export.header).unwrap();
        while let Some(piece) = export.next().await.unwrap() {
            writer.write(piece).unwrap();
        }
        writer.finish().unwrap();
        String::from_utf8(text).unwrap()
    }

    async fn write_part(&self, tasks: &Tasks, number: usize, kind: Kind) -> Result<bool, Error> {
        let Some(run) = tasks.begin_part(number, None).await? else { return Ok(false) };
        let store = self.open().await;
        tasks.check_store(&store, &OpenOptions::default()).await?;
        let Job::Convert(job) = &tasks.plan().job else { panic!("another job") };
        fs::write(run.path(), self.csv(job.parts.get(number), kind).await).unwrap();
        tasks.finish_part(number, run).await
    }
}

/// Returns the lines of all files of a folder, in the order of their names, without the first line
/// of each.
fn rows(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> = files.collect();
    files.sort();
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    texts.flat_map(|text| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn concatenated_parts_equal_one_conversion() {
    let kind = Kind::PointCloud;
    let remote = WorkFolder::open("memory:///work", &OpenOptions::default()).unwrap();
    for work in [None, Some(remote)] {
        let fixture = TaskFixture::with_points();
        let folder = work.unwrap_or_else(|| fixture.folder());
        let plan = fixture.plan_parts(kind, 9, false).await.unwrap();
        let tasks = plan.create(&folder).await.unwrap();
        let count = tasks.plan().lines().len();
        assert_eq!(count, 2, "as many as there are chunks");
        for number in 0..count {
            let parts = fixture.dir.path().join("parts");
            assert!(!parts.exists(), "nothing is to be seen before the end");
            // The leftovers of a killed run.
            std::mem::forget(tasks.begin_part(number, None).await.unwrap());
            let (first, second) = tokio::join!(
                fixture.write_part(&tasks, number, kind),
                fixture.write_part(&tasks, number, kind)
            );
            let mut is_counted = [first.unwrap(), second.unwrap()];
            is_counted.sort();
            assert_eq!(is_counted, [false, true], "one of two concurrent runs counts");
            assert!(!fixture.write_part(&tasks, number, kind).await.unwrap());
        }
        let plan = fixture.plan_parts(kind, 9, false).await.unwrap();
        let reopened = plan.create(&folder).await.unwrap();
        assert_eq!(
            reopened.list_done().await.unwrap(),
            [true, true],
            "finished tasks stay finished"
        );
        let expected = ["part-00000.csv", "part-00001.csv"];
        assert_eq!(tasks.finish_convert().await.unwrap(), expected);
        let parts = fixture.dir.path().join("parts");
        assert_eq!(names(&parts), expected);
        let single_csv = fixture.csv(None, kind).await;
        assert_eq!(rows(&parts), single_csv.lines().skip(1).collect::<Vec<_>>());
        assert_eq!(tasks.finish_convert().await.unwrap(), expected, "finishing is repeated");
        tasks.remove().await.unwrap();
        let left = names(fixture.dir.path());
        assert_eq!(left, ["bridge.zarrvectors", "parts"], "nothing else is left");
    }
}

#[tokio::test]
async fn linked_stores_are_divided_only_on_request() {
    let fixture = TaskFixture::new();
    let undivided = fixture.plan_parts(Kind::Graph, 9, false).await.unwrap();
    assert_eq!(undivided.lines().len(), 1);
    assert!(undivided.lines()[0].what.contains("not divided"), "{:?}", undivided.lines());
    let tasks = undivided.create(&fixture.folder()).await.unwrap();
    assert!(fixture.write_part(&tasks, 0, Kind::Graph).await.unwrap());
    tasks.finish_convert().await.unwrap();
    let text = fs::read_to_string(fixture.dir.path().join("parts/part-00000.csv")).unwrap();
    assert_eq!(text, fixture.csv(None, Kind::Graph).await);
    let error = fixture.plan_parts(Kind::Graph, 9, false).await.unwrap_err();
    assert_eq!(error.class(), Class::AlreadyExists, "the output exists");
}

#[tokio::test]
async fn a_changed_part_is_rewritten() {
    let (fixture, kind) = (TaskFixture::with_points(), Kind::PointCloud);
    let plan = fixture.plan_parts(kind, 2, false).await.unwrap();
    let tasks = plan.create(&fixture.folder()).await.unwrap();
    assert_eq!(tasks.finish_convert().await.unwrap_err().class(), Class::Unavailable);
    for number in 0..2 {
        fixture.write_part(&tasks, number, kind).await.unwrap();
    }
    let runs = fixture.dir.path().join(".parts.zvf-task/runs");
    let parts = fs::read_dir(&runs).unwrap().map(|run| run.unwrap().path().join("part-00001.csv"));
    let part = parts.into_iter().find(|part| part.exists()).unwrap();
    let mut text = fs::read(&part).unwrap();
    *text.iter_mut().rfind(|byte| byte.is_ascii_digit()).unwrap() ^= 1;
    fs::write(&part, text).unwrap();
    assert_eq!(tasks.finish_convert().await.unwrap_err().class(), Class::Checksum);
    assert_eq!(tasks.list_done().await.unwrap(), [true, false]);
    assert!(fixture.write_part(&tasks, 1, kind).await.unwrap());
    // A killed finish had moved one of them.
    let all = fixture.dir.path().join(".parts.zvf-task/all");
    fs::create_dir(&all).unwrap();
    let parts = fs::read_dir(&runs).unwrap().map(|run| run.unwrap().path().join("part-00000.csv"));
    let part = parts.into_iter().find(|part| part.exists()).unwrap();
    fs::rename(part, all.join("part-00000.csv")).unwrap();
    assert!(!fixture.write_part(&tasks, 0, kind).await.unwrap(), "it is there, in another place");
    fs::write(all.join("part-00000.csv"), "x").unwrap();
    assert_eq!(tasks.finish_convert().await.unwrap_err().class(), Class::Checksum);
    assert!(fixture.write_part(&tasks, 0, kind).await.unwrap());
    tasks.finish_convert().await.unwrap();
    let expected = fixture.csv(None, kind).await;
    assert_eq!(
        rows(&fixture.dir.path().join("parts")),
        expected.lines().skip(1).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_removed_plan_leaves_no_parts() {
    let (fixture, kind) = (TaskFixture::with_points(), Kind::PointCloud);
    let plan = fixture.plan_parts(kind, 2, false).await.unwrap();
    let tasks = plan.create(&fixture.folder()).await.unwrap();
    fixture.write_part(&tasks, 0, kind).await.unwrap();
    let none = tasks.begin_part(2, None).await.unwrap_err();
    assert_eq!(none.class(), Class::InvalidArgument);
    tasks.remove().await.unwrap();
    assert_eq!(names(fixture.dir.path()), ["bridge.zarrvectors"]);
}

#[tokio::test]
async fn a_changed_store_and_another_plan_are_refused() {
    let (fixture, kind) = (TaskFixture::with_points(), Kind::PointCloud);
    let folder = fixture.folder();
    let tasks = fixture.plan_parts(kind, 2, false).await.unwrap().create(&folder).await.unwrap();
    let error = fixture.run(&tasks, 0).await.unwrap_err();
    assert!(error.to_string().contains("convert"), "no validation: {error}");
    let other_plan = fixture.plan(1).await.create(&folder).await.unwrap_err();
    assert_eq!(other_plan.class(), Class::AlreadyExists);
    fs::write(Path::new(&fixture.address).join("0/notes.txt"), "x").unwrap();
    let changed = fixture.write_part(&tasks, 0, kind).await.unwrap_err();
    assert_eq!(changed.class(), Class::Conflict);
    assert_eq!(tasks.list_done().await.unwrap(), [false, false]);
    let runs = fixture.dir.path().join(".parts.zvf-task/runs");
    assert_eq!(names(&runs), Vec::<String>::new(), "what was begun goes");
}

#[tokio::test]
async fn each_file_is_a_part() {
    let fixture = TaskFixture::new();
    let at = |name: &str| fixture.dir.path().join(name);
    for name in ["a.csv", "b.csv"] {
        fs::write(at(name), "x,y\n1,2\n").unwrap();
    }
    let (open, folder) = (OpenOptions::default(), fixture.folder());
    let target = ConvertTarget {
        output: fixture.output(),
        extension: "jsonl".into(),
        words: vec!["--to=jsonl".into()],
    };
    let files = [at("a.csv"), at("b.csv")];
    let plan = Plan::convert_files(&files, target.clone(), &open).await.unwrap();
    let tasks = plan.create(&folder).await.unwrap();
    let run = tasks.begin_part(0, None).await.unwrap().unwrap();
    assert!(run.path().ends_with("a.jsonl"));
    fs::write(run.path(), "{}\n").unwrap();
    assert!(tasks.finish_part(0, run).await.unwrap());
    let run = tasks.begin_part(1, None).await.unwrap().unwrap();
    fs::write(run.path(), "{}\n").unwrap();
    fs::write(at("b.csv"), "x,y\n1,2\n3,4\n").unwrap();
    let changed = tasks.finish_part(1, run).await.unwrap_err();
    assert_eq!(changed.class(), Class::Conflict, "it changed while the part was written");
    assert_eq!(tasks.begin_part(1, None).await.unwrap_err().class(), Class::Conflict);
    let repeated = [at("a.csv"), at("a.csv")];
    let error = Plan::convert_files(&repeated, target, &open).await.unwrap_err();
    assert!(error.to_string().contains("two for a.jsonl"), "{error}");
}
