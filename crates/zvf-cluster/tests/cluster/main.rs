//! Compares statements on executors in separate processes with those of one process.
//!
//! A leaf that Ballista cannot divide silently counts rows once for each executor; these tests detect that.

#[path = "../../../zvf-datafusion/tests/agreement/check.rs"]
mod check;
mod division;
mod processes;
mod server;
#[path = "../../torture/session.rs"]
mod session;

use std::sync::Arc;
use std::time::Duration;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes_with_extension_codec,
};
use zvf_datafusion::{OpenOptions, StoreHandle, TableName};

use crate::processes::{Cluster, TIMEOUT};
use crate::server::{Gate, serve};
use crate::session::{answer, differences, local, points, remote, statements};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executors_answer_like_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let statements = statements(folder.path()).await;
    for executors in [2, 3] {
        let cluster = Cluster::start(executors, 1);
        let found = differences(&cluster, &statements).await;
        assert!(found.is_empty(), "{executors}: {}\n{}", found.join("\n"), cluster.logs());
        let has_worked = (0..executors).all(|number| cluster.has_worked(number));
        assert!(has_worked, "some executors did all the work");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_of_each_kind_answer_sql_like_queries() {
    let folder = archives::scratch();
    let cluster = Cluster::start(2, 4);
    let mut stores = Vec::new();
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
        stores.push((path, remote(&cluster).await));
    }
    let (passed, failed) = check::check_all(stores).await;
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
                    let expected = answer(&single, &sql).await.map_err(|error| error.to_string());
                    let actual = answer(&remote, &sql).await.map_err(|error| error.to_string());
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
    let points = points(folder.path()).await;
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
    // Another machine sees another store.
    let plan = context.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
    let bytes = physical_plan_to_bytes_with_extension_codec(plan, &codec).unwrap();
    let document = format!("{points}/0/zarr.json");
    let text = std::fs::read_to_string(&document).unwrap();
    std::fs::write(&document, text.replace("300000", "300001")).unwrap();
    let decoded = physical_plan_from_bytes_with_extension_codec(&bytes, &task, &codec).unwrap();
    let error = datafusion::physical_plan::collect(decoded, task).await.unwrap_err().to_string();
    assert!(error.contains("it is not as it was when the statement was planned"), "{error}");
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
    let running = tokio::spawn({
        let sql = sql.clone();
        async move { answer(&context, &sql).await }
    });
    gate.wait_until_held();
    cluster.kill_executor(0);
    cluster.add_executor();
    gate.open();
    let expected = answer(&local(), &sql).await.unwrap();
    match running.await.unwrap() {
        Ok(actual) => assert_eq!(actual, expected, "{}", cluster.logs()),
        // An error is allowed if it names the executor.
        Err(error) => assert!(error.to_string().to_lowercase().contains("executor"), "{error}"),
    }
    // The cluster still works.
    let context = remote(&cluster).await;
    assert_eq!(answer(&context, &sql).await.unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_of_several_stages_outlives_an_executor() {
    let folder = tempfile::tempdir().unwrap();
    let points = points(folder.path()).await;
    let sql = format!(
        "SELECT a.class, count(*), sum(a.w + b.w) FROM zvf('{points}') a JOIN zvf('{points}') b \
         ON a.x = b.y AND a.w = b.w AND b.x < 20 GROUP BY a.class ORDER BY a.class"
    );
    let expected = answer(&local(), &sql).await.unwrap();
    for pause in [200, 700, 1500] {
        let mut cluster = Cluster::start(3, 1);
        let (context, statement) = (remote(&cluster).await, sql.clone());
        let answer = tokio::spawn(async move { answer(&context, &statement).await });
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
    let points = points(folder.path()).await;
    let divide = format!("SELECT 1 / (w - w) FROM zvf('{points}')");
    let error = answer(&context, &divide).await.unwrap_err().to_string();
    assert!(error.contains("Divide by zero") && !error.contains("zvf:"), "{error}");
    // The store is removed before the executors open it.
    let table = format!("CREATE EXTERNAL TABLE p STORED AS ZVF LOCATION '{points}'");
    context.sql(&table).await.unwrap().collect().await.unwrap();
    std::fs::remove_dir_all(&points).unwrap();
    let error = answer(&context, "SELECT sum(x) FROM p").await.unwrap_err().to_string();
    assert!(error.contains("NotFound") && error.contains(&points), "{error}");
}

/// Number of concurrent sessions.
const SESSIONS: usize = 4;
