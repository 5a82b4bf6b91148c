//! Checks plans: which chunks are pruned by conditions and joins, and the statistics of tables.

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::TableProvider as _;
use datafusion::common::ScalarValue;
use datafusion::common::stats::Precision;
use datafusion::prelude::{SessionConfig, SessionContext};
use zvf::OpenOptions;
use zvf_datafusion::{StoreHandle, TableName, TableOptions, ZvfTable};

use crate::check::number;

fn session() -> SessionContext {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    zvf_datafusion::register(&context, OpenOptions::default());
    context
}

/// Writes 40 objects of 50 points, each in its own chunk.
async fn objects(context: &SessionContext, folder: &tempfile::TempDir) -> String {
    let path = folder.path().join("objects.zarrvectors").display().to_string();
    let copy = format!(
        "COPY (SELECT CAST(value / 50 * 10 + value % 5 AS FLOAT) AS x, CAST(value % 7 AS FLOAT) AS y, \
         value / 50 + 100 AS cell FROM generate_series(0, 1999)) TO '{path}' \
         OPTIONS ('positions' 'x,y', 'object' 'cell', 'kind' 'point_cloud', 'chunk_shape' '10,10')"
    );
    context.sql(&copy).await.unwrap().collect().await.unwrap();
    path
}

/// Returns the plan of a statement with its metrics.
async fn analyze(context: &SessionContext, sql: &str) -> String {
    let rows = context.sql(&format!("EXPLAIN ANALYZE {sql}")).await.unwrap();
    pretty_format_batches(&rows.collect().await.unwrap()).unwrap().to_string()
}

/// Returns a metric of the leaf of the plan that reads vertices.
fn metric(plan: &str, name: &str) -> u64 {
    let leaf =
        plan.lines().find(|line| line.contains("vertices/0")).unwrap_or_else(|| panic!("{plan}"));
    let split = leaf.split_once(&format!("{name}=")).unwrap_or_else(|| panic!("{name}: {plan}"));
    let digits: String = split.1.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_prune_chunks_by_object() {
    let folder = tempfile::tempdir().unwrap();
    let context = session();
    let path = objects(&context, &folder).await;
    let vertices = format!("zvf('{path}') AS v");
    let ids = "(SELECT column1 AS id FROM (VALUES (103), (117), (999)))";
    for sql in [
        format!("SELECT count(*), sum(v.x) FROM {vertices} WHERE object IN {ids}"),
        format!("SELECT count(*), sum(v.x) FROM {vertices} JOIN {ids} AS s ON v.object = s.id"),
        format!(
            "SELECT count(*), sum(v.x) FROM {vertices} JOIN zvf('{path}', 'objects') AS o ON v.object = o.object \
             WHERE o.object IN (103, 117) AND o.fragments = 1"
        ),
    ] {
        assert_eq!(number(&context, &sql).await.unwrap(), 100.0, "{sql}");
        let plan = analyze(&context, &sql).await;
        assert_eq!((metric(&plan, "cells_read"), metric(&plan, "cells_pruned")), (2, 38), "{plan}");
        assert!(metric(&plan, "requests") > 0 && metric(&plan, "bytes_read") > 0, "{plan}");
    }
    // One join keeps all vertices, and one selects no object.
    let sql = format!("SELECT count(*) FROM {vertices} LEFT JOIN {ids} AS s ON v.object = s.id");
    assert_eq!(number(&context, &sql).await.unwrap(), 2000.0);
    let sql = format!("SELECT count(*) FROM {vertices} WHERE object NOT IN {ids}");
    assert_eq!(number(&context, &sql).await.unwrap(), 1900.0);
    let missing_ids = ids.replace("103", "3").replace("117", "17");
    let sql = format!("SELECT count(*) FROM {vertices} WHERE object IN {missing_ids}");
    assert_eq!(number(&context, &sql).await.unwrap(), 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_prune_chunks() {
    let folder = archives::scratch();
    let path = archives::unpack_cached(folder.path(), "sl3_pyramid").display().to_string();
    let context = session();
    let table = format!("zvf('{path}', 'group_attributes')");
    let members = format!("zvf('{path}', 'members')");
    let sql = format!("SELECT count(*) FROM {table}");
    let total = number(&context, &sql).await.unwrap();
    let sql = format!("SELECT count(*) FROM {table} WHERE array_has(groups, 0)");
    let in_group = number(&context, &sql).await.unwrap();
    assert!(in_group > 0.0 && in_group < total, "{in_group} of {total}");
    assert!(analyze(&context, &sql).await.contains("groups=1"));
    // The engine casts the numbers to floats.
    let sql = format!("SELECT count(*) FROM {table} WHERE array_has(groups, 0.0)");
    assert_eq!(number(&context, &sql).await.unwrap(), in_group);
    let join = format!(
        "SELECT count(*) FROM zvf('{path}') WHERE object IN (SELECT object FROM {members} WHERE \"group\" = 0)"
    );
    assert_eq!(number(&context, &join).await.unwrap(), in_group);
    // The group does not exist, or the table has no groups.
    let sql = format!("SELECT count(*) FROM {table} WHERE array_has(groups, 99)");
    assert_eq!(number(&context, &sql).await.unwrap(), 0.0);
    let sql = format!("SELECT * FROM zvf('{path}', 'objects', 'group_attributes')");
    let error = context.sql(&sql).await.unwrap_err().to_string();
    assert!(error.contains("columns of fragments or groups: expected the vertices"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_of_tables_are_correct() {
    let folder = tempfile::tempdir().unwrap();
    let context = session();
    let path = objects(&context, &folder).await;
    let store = StoreHandle::open(&path, OpenOptions::default()).await.unwrap();
    let open = async |table| {
        let options = TableOptions { table, ..TableOptions::default() };
        ZvfTable::open(store.clone(), options).await.unwrap()
    };
    let vertices = open(TableName::Vertices).await.statistics().unwrap();
    assert_eq!(vertices.num_rows, Precision::Inexact(2000));
    let [x, _, object, ..] = vertices.column_statistics.as_slice() else { panic!("{vertices:?}") };
    // Bounds may be wider than the data: the engine must not answer from them.
    let (low, high) = (x.min_value.get_value().unwrap(), x.max_value.get_value().unwrap());
    assert!(*low <= ScalarValue::Float32(Some(0.0)) && *high >= ScalarValue::Float32(Some(394.0)));
    assert_eq!((x.min_value.is_exact(), x.null_count), (Some(false), Precision::Exact(0)));
    assert_eq!(object.distinct_count, Precision::Inexact(40));
    let objects = open(TableName::Objects).await.statistics().unwrap();
    assert_eq!(objects.num_rows, Precision::Inexact(40));
    for (column, expected) in [("min(x)", 0.0), ("max(x)", 394.0), ("min(object)", 100.0)] {
        let sql = format!("SELECT {column} FROM zvf('{path}')");
        assert_eq!(number(&context, &sql).await.unwrap(), expected, "{sql}");
    }
    // Rows can be added to objects that are points or lines, not to skeletons.
    for (id, table, column) in
        [("sk3_trees", TableName::Objects, "row"), ("sl3_pyramid", TableName::Groups, "group")]
    {
        let path = archives::unpack_cached(folder.path(), id).display().to_string();
        let store = StoreHandle::open(&path, OpenOptions::default()).await.unwrap();
        let options = TableOptions { table, ..TableOptions::default() };
        let table_of = ZvfTable::open(store.clone(), options).await.unwrap();
        let statistics = table_of.statistics().unwrap();
        let index = table_of.schema().index_of(column).unwrap();
        let column_statistics = &statistics.column_statistics[index];
        let Precision::Exact(rows) = statistics.num_rows else { panic!("{statistics:?}") };
        let last = ScalarValue::UInt64(Some(rows as u64 - 1));
        assert_eq!(column_statistics.max_value, Precision::Exact(last));
        // Below a limit the engine reads rows instead of using statistics.
        let sql = format!(
            "SELECT count(DISTINCT \"{column}\") FROM (SELECT \"{column}\" FROM zvf('{path}', '{table}') LIMIT 100000)"
        );
        assert_eq!(number(&context, &sql).await.unwrap(), rows as f64, "{sql}");
    }
}
