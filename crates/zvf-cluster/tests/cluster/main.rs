//! Compares statements on executors in separate processes with those of one process.
//!
//! A leaf that Ballista cannot divide silently counts rows once for each executor; these tests detect that.

#[path = "../../../zvf-datafusion/tests/agreement/check.rs"]
mod check;
#[path = "../../torture/processes.rs"]
mod processes;
mod server;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes_with_extension_codec,
};
use zvf_datafusion::{OpenOptions, StoreHandle, TableName};

use crate::processes::{Cluster, TIMEOUT};
use crate::server::{Gate, serve};

/// Creates a store of 300 000 points in 64 chunks, which a scan divides into several tasks.
async fn points(folder: &Path) -> PathBuf {
    let path = folder.join("points.zarrvectors");
    let context = local();
    let copy = format!(
        "COPY (SELECT CAST(value % 400 AS FLOAT) AS x, CAST(value / 400 % 400 AS FLOAT) AS y, \
         CAST(value % 7 AS FLOAT) AS z, CAST(value % 11 AS INT) AS w, CASE value % 5 WHEN 0 THEN 'roof' \
         WHEN 1 THEN 'wall' ELSE 'road' END AS class FROM generate_series(1, 300000)) \
         TO '{}' OPTIONS ('chunk_shape' '50,50,50')",
        path.display()
    );
    context.sql(&copy).await.unwrap().collect().await.unwrap();
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

/// Returns the answer as sorted lines.
async fn lines(context: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let batches = context.sql(sql).await?.collect().await?;
    let text = pretty_format_batches(&batches)?.to_string();
    let mut lines: Vec<String> =
        text.lines().filter(|line| !line.starts_with('+')).map(str::to_owned).collect();
    lines.sort();
    Ok(lines)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_executors_answer_like_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let points = points(folder.path()).await.display().to_string();
    let tracts = archives::unpack_cached(folder.path(), "sl3_streamlines").display().to_string();
    let mesh = archives::unpack_cached(folder.path(), "ms3_tri").display().to_string();
    let groups = archives::unpack_cached(folder.path(), "sl3_pyramid").display().to_string();
    let cluster = Cluster::start(2, 1);
    let (single, remote) = (local(), remote(&cluster).await);
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
        let expected = lines(&single, sql).await.unwrap();
        let actual = lines(&remote, sql).await;
        let actual = actual.unwrap_or_else(|error| panic!("{sql}: {error}\n{}", cluster.logs()));
        assert_eq!(actual, expected, "{sql}");
    }
    assert!(cluster.has_worked(0) && cluster.has_worked(1), "one executor did all the work");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_of_each_kind_answer_sql_like_queries() {
    let folder = archives::scratch();
    let cluster = Cluster::start(2, 4);
    // Each store has its own session; all run concurrently.
    let mut checks = Vec::new();
    for id in [
        "pc3_objects",
        "ln3_basic",
        "pl2_negative",
        "sl3_streamlines",
        "gr3_links",
        "sk3_trees",
        "ms3_draco",
        // Other layouts: shards, links that are stored twice, several kinds, and older versions of the format.
        "pc3_sharded",
        "lk_w2_duplicate",
        "composite",
        "v060_gr3",
        "v070_sk3",
        "v080_ms3_triangles",
    ] {
        let path = archives::unpack_cached(folder.path(), id).display().to_string();
        let context = remote(&cluster).await;
        checks.push((id, tokio::spawn(async move { check::check(&path, &context).await })));
    }
    let (mut passed, mut failed) = (0, Vec::new());
    for (id, verdict) in checks {
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

/// Returns the statement for the number of rows of a table and the minimum and maximum of its columns.
async fn summary(context: &SessionContext, table: &str) -> Result<String> {
    let frame = context.sql(&format!("SELECT * FROM {table}")).await?;
    let mut columns = vec!["count(*)".to_owned()];
    for field in frame.schema().fields() {
        let name = format!("\"{}\"", field.name());
        if field.data_type().is_numeric() {
            columns.push(format!("min({name}), max({name}), count({name})"));
        } else if field.data_type().is_string() {
            columns.push(format!("min({name}), max({name})"));
        }
    }
    Ok(format!("SELECT {} FROM {table}", columns.join(", ")))
}

/// Returns the tables of the finest and the coarsest level of a store.
async fn tables(path: &str) -> Vec<String> {
    let store = StoreHandle::open(path, OpenOptions::default()).await.unwrap();
    let reader = store.reader();
    let numbers = reader.store().level_numbers();
    let mut levels: Vec<u32> =
        [numbers.first(), numbers.last()].into_iter().flatten().copied().collect();
    levels.dedup();
    let pairs =
        levels.iter().flat_map(|level| TableName::ALL.iter().map(move |table| (*table, level)));
    pairs
        .map(|(table, level)| format!("zvf('{path}', table => '{table}', level => {level})"))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_archived_store_answers_like_one_process() {
    let folder = archives::scratch();
    let cluster = Cluster::start(2, 4);
    let (mut compared, mut failed) = (0, Vec::new());
    let mut tasks = Vec::new();
    for ids in archives::ids().chunks(archives::ids().len().div_ceil(SESSIONS)) {
        let paths: Vec<String> = ids
            .iter()
            .map(|id| archives::unpack_cached(folder.path(), id).display().to_string())
            .collect();
        let (single, remote) = (local(), remote(&cluster).await);
        tasks.push(tokio::spawn(async move {
            let (mut compared, mut failed) = (0, Vec::new());
            for path in paths {
                for table in tables(&path).await {
                    // A table that a store does not have is an error in one process, too.
                    let Ok(sql) = summary(&single, &table).await else { continue };
                    let expected = lines(&single, &sql).await.map_err(|error| error.to_string());
                    let actual = lines(&remote, &sql).await.map_err(|error| error.to_string());
                    compared += 1;
                    let is_same = expected == actual || (expected.is_err() && actual.is_err());
                    if !is_same {
                        failed.push(format!("{sql}: {actual:?}, in one process {expected:?}"));
                    }
                }
            }
            (compared, failed)
        }));
    }
    for task in tasks {
        let (count, faults) = task.await.unwrap();
        compared += count;
        failed.extend(faults);
    }
    assert!(failed.is_empty(), "{}\n{}", failed.join("\n"), cluster.logs());
    assert!(compared > 4 * archives::ids().len(), "{compared}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_keep_the_number_of_pruned_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let points = points(folder.path()).await.display().to_string();
    let context = local();
    let sql = format!("SELECT count(x) FROM zvf('{points}') WHERE x < 60");
    let plan = context.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
    let pruned = |plan: &Arc<dyn ExecutionPlan>| {
        let text = DisplayableExecutionPlan::with_metrics(plan.as_ref()).indent(true).to_string();
        let (_, value) = text.split_once("cells_pruned=").unwrap_or_else(|| panic!("{text}"));
        value.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u64>().unwrap()
    };
    let codec = zvf_cluster::PhysicalCodec::default();
    let bytes = physical_plan_to_bytes_with_extension_codec(Arc::clone(&plan), &codec).unwrap();
    let task = context.task_ctx();
    let decoded = physical_plan_from_bytes_with_extension_codec(&bytes, &task, &codec).unwrap();
    for plan in [plan, decoded] {
        let batches = datafusion::physical_plan::collect(Arc::clone(&plan), Arc::clone(&task));
        assert_eq!(batches.await.unwrap().len(), 1);
        // Of 8 x 8 chunks, the first two columns are read.
        assert_eq!(pruned(&plan), 48);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_an_executor_changes_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    points(folder.path()).await;
    // Some chunks pass: the results of the first executor for them are lost with it.
    let gate = Gate::new(3);
    let url = format!("{}/points.zarrvectors", serve(folder.path().to_owned(), gate.clone()));
    let mut cluster = Cluster::start(1, 1);
    let context = remote(&cluster).await;
    let sql = format!("SELECT count(*), sum(x), sum(y) FROM zvf('{url}')");
    let answer = tokio::spawn({
        let sql = sql.clone();
        async move { lines(&context, &sql).await }
    });
    gate.wait_until_held();
    cluster.kill_executor(0);
    cluster.add_executor();
    gate.open();
    let expected = lines(&local(), &sql).await.unwrap();
    match answer.await.unwrap() {
        Ok(actual) => assert_eq!(actual, expected, "{}", cluster.logs()),
        // An error is allowed if it names the executor.
        Err(error) => assert!(error.to_string().to_lowercase().contains("executor"), "{error}"),
    }
    // The cluster still works.
    let context = remote(&cluster).await;
    assert_eq!(lines(&context, &sql).await.unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_passes_between_executors() {
    let folder = tempfile::tempdir().unwrap();
    let points = points(folder.path()).await.display().to_string();
    let points = format!("zvf('{points}')");
    let statements = [
        format!("SELECT class, count(*) FROM {points} GROUP BY class ORDER BY class"),
        format!("SELECT DISTINCT class FROM {points} ORDER BY class"),
        format!("SELECT class, x, y FROM {points} WHERE z = 1 ORDER BY class, y, x LIMIT 20"),
        format!(
            "SELECT a.class, count(*) FROM {points} a JOIN (SELECT class, max(w) AS w FROM {points} GROUP BY class) b \
             ON a.class = b.class AND a.w = b.w GROUP BY a.class ORDER BY a.class"
        ),
        format!(
            "SELECT class, x, row_number() OVER (PARTITION BY class ORDER BY y, x, z) AS k FROM {points} \
             WHERE x < 3 ORDER BY class, k LIMIT 30"
        ),
        format!(
            "SELECT class, y FROM {points} WHERE class IN ('roof') AND x < 1 ORDER BY y, class LIMIT 9"
        ),
    ];
    let single = local();
    for executors in [2, 3] {
        let cluster = Cluster::start(executors, 1);
        let remote = remote(&cluster).await;
        for sql in &statements {
            let expected = single.sql(sql).await.unwrap().collect().await.unwrap();
            let found = remote.sql(sql).await.unwrap().collect().await;
            let found = found.unwrap_or_else(|error| panic!("{sql}: {error}\n{}", cluster.logs()));
            let print = |batches| pretty_format_batches(batches).unwrap().to_string();
            assert_eq!(print(&found), print(&expected), "{executors} executors: {sql}");
            assert_eq!(found[0].schema().fields(), expected[0].schema().fields(), "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_of_several_stages_outlives_an_executor() {
    let folder = tempfile::tempdir().unwrap();
    let points = points(folder.path()).await.display().to_string();
    let sql = format!(
        "SELECT a.class, count(*), sum(a.w + b.w) FROM zvf('{points}') a JOIN zvf('{points}') b \
         ON a.x = b.y AND a.w = b.w AND b.x < 20 GROUP BY a.class ORDER BY a.class"
    );
    let expected = lines(&local(), &sql).await.unwrap();
    for pause in [200, 700, 1500] {
        let mut cluster = Cluster::start(3, 1);
        let (context, statement) = (remote(&cluster).await, sql.clone());
        let answer = tokio::spawn(async move { lines(&context, &statement).await });
        tokio::time::sleep(Duration::from_millis(pause)).await;
        cluster.kill_executor(1);
        let answer = tokio::time::timeout(2 * TIMEOUT, answer).await.expect("no silence").unwrap();
        let answer = answer.unwrap_or_else(|error| panic!("{pause}: {error}\n{}", cluster.logs()));
        assert_eq!(answer, expected, "{}", cluster.logs());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn impossible_statements_are_errors() {
    let cluster = Cluster::start(1, 1);
    let context = remote(&cluster).await;
    let folder = tempfile::tempdir().unwrap();
    let points = points(folder.path()).await.display().to_string();
    let divide = format!("SELECT 1 / (w - w) FROM zvf('{points}')");
    let error = lines(&context, &divide).await.unwrap_err().to_string();
    assert!(error.contains("Divide by zero") && !error.contains("zvf:"), "{error}");
    // The store is removed before the executors open it.
    let table = format!("CREATE EXTERNAL TABLE p STORED AS ZVF LOCATION '{points}'");
    context.sql(&table).await.unwrap().collect().await.unwrap();
    std::fs::remove_dir_all(&points).unwrap();
    let error = lines(&context, "SELECT sum(x) FROM p").await.unwrap_err().to_string();
    assert!(error.contains("NotFound") && error.contains(&points), "{error}");
}

/// Number of concurrent sessions.
const SESSIONS: usize = 4;
