//! Versions in icechunk repositories as tables: by branch, tag and snapshot.
#![cfg(feature = "icechunk")]

use std::path::Path;

use assert_cmd::Command;
use tempfile::TempDir;
use zvf::OpenOptions;
use zvf::store::{CommitNote, Store, Versions};

fn run(folder: &Path, args: &[&str]) -> Result<Vec<String>, (Option<i32>, String)> {
    let mut command = Command::cargo_bin("zvf-sql").unwrap();
    let output = command.current_dir(folder).args(args).args(["--format", "csv"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()),
        false => Err((output.status.code(), stderr)),
    }
}

/// Returns the single number of a statement.
fn number(folder: &Path, statement: &str) -> i64 {
    let lines = run(folder, &[statement]).unwrap_or_else(|fault| panic!("{statement}: {fault:?}"));
    lines.last().unwrap().parse().unwrap()
}

/// Creates a repository with three points; returns its address and the id of its snapshot.
async fn repository(folder: &Path) -> (String, String) {
    let copy = "COPY (SELECT column1 AS x, column2 AS y, column3 AS mass FROM (VALUES (1.0, 1.0, 4), \
                (2.0, 1.0, 5), (9.0, 9.0, 6))) TO 'points.zarrvectors' OPTIONS ('chunk_shape' '5,5')";
    run(folder, &[copy]).unwrap();
    let path = folder.join("points.zarrvectors").display().to_string();
    let store = Store::open(&path, OpenOptions::default()).await.unwrap();
    let address = format!("icechunk+file://{}", folder.join("repository").display());
    let options = OpenOptions { versions: Some(zvf_icechunk::hook()), ..OpenOptions::default() };
    let versions = Store::versions(&address, &options).unwrap().unwrap();
    let note = CommitNote { message: "three points".to_owned(), ..CommitNote::default() };
    let objects = store.nodes().stream_objects().await.unwrap();
    let snapshot = versions.create(objects, note).await.unwrap();
    let storage = icechunk::new_local_filesystem_storage(&folder.join("repository")).await.unwrap();
    let native = icechunk::Repository::open(storage).execute().await.unwrap();
    let id = snapshot.as_str().try_into().unwrap();
    native.create_tag("v1", &id).await.unwrap();
    native.create_branch("review", &id).await.unwrap();
    (address, snapshot)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_are_tables_and_rows_are_committed_to_a_branch() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let (address, first) = repository(path).await;
    let [branch, review, tag, snapshot] =
        ["branch=main", "branch=review", "tag=v1", &format!("snapshot={first}")]
            .map(|query| format!("{address}?{query}"));
    for table in [&address, &branch, &review, &tag, &snapshot] {
        assert_eq!(number(path, &format!("SELECT count(*) FROM '{table}'")), 3, "{table}");
        assert_eq!(number(path, &format!("SELECT sum(mass) FROM zvf('{table}') WHERE x < 5")), 9);
        let external = format!(
            "CREATE EXTERNAL TABLE t STORED AS ZVF LOCATION '{table}'; SELECT max(mass) FROM t"
        );
        assert_eq!(number(path, &external), 6, "{table}");
    }

    // One statement is one commit; the snapshot does not change.
    let insert = "INSERT INTO p (x, y, mass) VALUES (3, 3, 10), (4, 4, 11)";
    let table = format!("p={branch}");
    let statements = format!("{insert}; SELECT count(*) FROM p");
    let lines = run(path, &["--table", &table, &statements]).unwrap();
    assert_eq!(lines.last().unwrap(), "5");
    assert_eq!(number(path, &format!("SELECT count(*) FROM '{address}'")), 5);
    let added = "SELECT sum(mass) FROM (SELECT mass FROM p EXCEPT SELECT mass FROM was)";
    for version in [&review, &tag, &snapshot] {
        let old_table = format!("was={version}");
        let lines = run(path, &["--table", &table, "--table", &old_table, added]).unwrap();
        assert_eq!(lines.last().unwrap(), "21", "{version}");
    }
    let options = OpenOptions { versions: Some(zvf_icechunk::hook()), ..OpenOptions::default() };
    let versions = Store::versions(&address, &options).unwrap().unwrap();
    let latest = versions.latest_version().await.unwrap();
    assert_eq!(
        versions.history(&latest).await.unwrap().len(),
        2 + root_commits(&*versions, &first).await
    );
}

/// Returns the number of versions before the first one of a store: repositories begin with an empty version.
async fn root_commits(versions: &dyn Versions, first: &str) -> usize {
    versions.history(first).await.unwrap().len() - 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refuses_unknown_versions() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let (address, first) = repository(path).await;
    for (query, code, expected) in [
        ("?tag=v2", 4, "expected a tag of the repository, found \"v2\"; it has v1"),
        ("?branch=x", 4, "expected a branch of the repository, found \"x\"; it has main"),
        ("?nonsense=1", 2, "nonsense"),
    ] {
        let statement = format!("SELECT count(*) FROM '{address}{query}'");
        let (actual, line) = run(path, &[&statement]).unwrap_err();
        assert!(actual == Some(code) && line.contains(expected), "{query}: {actual:?} {line}");
    }
    // Snapshots and tags are immutable.
    for query in [format!("snapshot={first}"), "tag=v1".to_owned()] {
        let table = format!("p={address}?{query}");
        let insert = "INSERT INTO p (x, y, mass) VALUES (3, 3, 10)";
        let (code, line) = run(path, &["--table", &table, insert]).unwrap_err();
        assert!(code == Some(2) && line.contains("never changes"), "{code:?} {line}");
    }
    assert_eq!(number(path, &format!("SELECT count(*) FROM '{address}'")), 3);
}
