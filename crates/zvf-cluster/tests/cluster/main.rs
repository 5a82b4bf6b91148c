//! Statements on executors that are processes of their own: answers are those of one process.
//!
//! That a count on two executors is the local one is what a leaf that Ballista cannot divide gets wrong, silently.

#[path = "../../../zvf-datafusion/tests/agreement/check.rs"]
mod check;
mod processes;
mod server;

use std::path::{Path, PathBuf};

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
use zvf_datafusion::OpenOptions;

use crate::processes::Cluster;
use crate::server::{Gate, serve};

/// A store of 300 000 points in 64 chunks, some tasks of a scan.
async fn points(folder: &Path) -> PathBuf {
    let path = folder.join("points.zarrvectors");
    let context = local();
    let made = format!(
        "COPY (SELECT CAST(value % 400 AS FLOAT) AS x, CAST(value / 400 % 400 AS FLOAT) AS y, \
         CAST(value % 7 AS FLOAT) AS z, CAST(value % 11 AS INT) AS w FROM generate_series(1, 300000)) \
         TO '{}' OPTIONS ('chunk_shape' '50,50,50')",
        path.display()
    );
    context.sql(&made).await.unwrap().collect().await.unwrap();
    path
}

fn local() -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(2);
    let context = SessionContext::new_with_config(config);
    zvf_datafusion::register(&context, OpenOptions::default());
    context
}

async fn remote(cluster: &Cluster) -> SessionContext {
    let context = zvf_cluster::connect(&cluster.url()).await.unwrap();
    zvf_datafusion::register(&context, OpenOptions::default());
    context
}

/// The answer as lines, in an order that does not depend on who was first.
async fn lines(context: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let batches = context.sql(sql).await?.collect().await?;
    let text = pretty_format_batches(&batches)?.to_string();
    let mut lines: Vec<String> =
        text.lines().filter(|line| !line.starts_with('+')).map(str::to_owned).collect();
    lines.sort();
    Ok(lines)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_executors_say_what_one_process_says() {
    let folder = tempfile::tempdir().unwrap();
    let points = points(folder.path()).await.display().to_string();
    let tracts = archives::kept(folder.path(), "sl3_streamlines").display().to_string();
    let mesh = archives::kept(folder.path(), "ms3_tri").display().to_string();
    let groups = archives::kept(folder.path(), "sl3_pyramid").display().to_string();
    let cluster = Cluster::start(2, 1);
    let (here, there) = (local(), remote(&cluster).await);
    let statements = [
        format!("SELECT count(*) FROM zvf('{points}')"),
        format!("SELECT count(*), sum(w), min(x), max(y) FROM zvf('{points}')"),
        format!("SELECT count(*) FROM zvf('{points}') WHERE x < 60 AND y BETWEEN 100 AND 200"),
        format!("SELECT count(*) FROM zvf('{points}') WHERE w = 3 AND chunk IN ('0.0.0', '1.1.0')"),
        format!("SELECT chunk, count(*), sum(w) FROM zvf('{points}') GROUP BY chunk"),
        format!("SELECT w, count(DISTINCT chunk) FROM zvf('{points}') GROUP BY w"),
        format!("SELECT count(*) FROM (SELECT * FROM zvf('{points}') LIMIT 77777)"),
        format!("SELECT x, y, w FROM zvf('{points}') WHERE z = 1 ORDER BY y, x, w LIMIT 20"),
        format!(
            "SELECT count(*) FROM zvf('{points}') WHERE w > (SELECT avg(w) FROM zvf('{points}'))"
        ),
        format!("SELECT count(*), sum(object) FROM zvf('{tracts}')"),
        format!(
            "SELECT o.object, o.fragments, count(*) FROM zvf('{tracts}') v JOIN zvf('{tracts}', 'objects') o \
             ON v.object = o.object GROUP BY o.object, o.fragments"
        ),
        format!("SELECT count(*) FROM zvf('{mesh}', 'links')"),
        format!("SELECT level, kind, vertices FROM zvf('{groups}', 'levels')"),
    ];
    for sql in &statements {
        let expected = lines(&here, sql).await.unwrap();
        let found = lines(&there, sql).await;
        let found = found.unwrap_or_else(|error| panic!("{sql}: {error}\n{}", cluster.logs()));
        assert_eq!(found, expected, "{sql}");
    }
    assert!(cluster.has_worked(0) && cluster.has_worked(1), "one of them has done it all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_of_each_kind_say_the_same() {
    let folder = archives::scratch();
    let cluster = Cluster::start(2, 4);
    // Each store is asked in a session of its own, beside the others.
    let mut asked = Vec::new();
    for id in [
        "pc3_objects",
        "ln3_basic",
        "pl2_negative",
        "sl3_streamlines",
        "gr3_links",
        "sk3_trees",
        "ms3_draco",
    ] {
        let path = archives::kept(folder.path(), id).display().to_string();
        let context = remote(&cluster).await;
        asked.push((id, tokio::spawn(async move { check::check(&path, &context).await })));
    }
    let (mut passed, mut failed) = (0, Vec::new());
    for (id, verdict) in asked {
        match verdict.await.unwrap() {
            Ok(verdict) => {
                passed += verdict.passed;
                failed.extend(verdict.failed.into_iter().map(|line| format!("{id}: {line}")));
            }
            Err(error) => failed.push(format!("{id}: {error}")),
        }
    }
    assert!(failed.is_empty(), "{}\n{}", failed.join("\n"), cluster.logs());
    assert!(passed > 100, "{passed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_that_is_killed_changes_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    points(folder.path()).await;
    // Some chunks pass: what the first executor made of them is lost with it.
    let gate = Gate::new(3);
    let url = format!("{}/points.zarrvectors", serve(folder.path().to_owned(), gate.clone()));
    let mut cluster = Cluster::start(1, 1);
    let there = remote(&cluster).await;
    let sql = format!("SELECT count(*), sum(x), sum(y) FROM zvf('{url}')");
    let asked = tokio::spawn({
        let sql = sql.clone();
        async move { lines(&there, &sql).await }
    });
    gate.wait_until_held();
    cluster.kill_executor(0);
    cluster.add_executor();
    gate.open();
    let expected = lines(&local(), &sql).await.unwrap();
    match asked.await.unwrap() {
        Ok(found) => assert_eq!(found, expected, "{}", cluster.logs()),
        // That is allowed, if it says what happened.
        Err(error) => assert!(error.to_string().to_lowercase().contains("executor"), "{error}"),
    }
    // And the cluster goes on.
    let there = remote(&cluster).await;
    assert_eq!(lines(&there, &sql).await.unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_asked_is_an_error() {
    let cluster = Cluster::start(1, 1);
    let there = remote(&cluster).await;
    let folder = tempfile::tempdir().unwrap();
    let points = points(folder.path()).await.display().to_string();
    let insert = format!("COPY (SELECT 1.0 AS x, 2.0 AS y) TO '{points}.zarrvectors'");
    let said = lines(&there, &insert).await.unwrap_err().to_string();
    assert!(!said.is_empty());
    // A store that is gone when the executors look.
    let table = format!("CREATE EXTERNAL TABLE p STORED AS ZVF LOCATION '{points}'");
    there.sql(&table).await.unwrap().collect().await.unwrap();
    std::fs::remove_dir_all(&points).unwrap();
    let said = lines(&there, "SELECT sum(x) FROM p").await.unwrap_err().to_string();
    assert!(said.contains("NotFound"), "{said}");
}
