//! Tests statements with named arguments, on links in several tasks, and statements that write stores.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use archives::s3::S3;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use zvf::create::{Recipe, StoreLayout, create};
use zvf::{ObjectId, OpenOptions, Query};
use zvf_datafusion::{StoreHandle, TableName, TableOptions, ZvfTable};

use crate::check::number;

fn session(options: OpenOptions) -> SessionContext {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    zvf_datafusion::register(&context, options);
    context
}

async fn run(context: &SessionContext, sql: &str) -> String {
    let rows = context.sql(sql).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&rows).unwrap().to_string()
}

async fn plan_error(context: &SessionContext, sql: &str) -> String {
    context.sql(sql).await.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accepts_named_arguments() {
    let folder = archives::scratch();
    let path = archives::unpack_cached(folder.path(), "sl3_pyramid").display().to_string();
    // Sessions that are derived from a registered one accept named arguments, too.
    let registered = session(OpenOptions::default());
    let with_paths =
        zvf_datafusion::with_paths_as_tables(registered.clone(), OpenOptions::default());
    for context in [registered, with_paths] {
        let positional = format!("SELECT count(*) FROM zvf('{path}', 'vertices', 1, 'streamline')");
        let expected = number(&context, &positional).await.unwrap();
        let finest =
            number(&context, &format!("SELECT count(*) FROM zvf('{path}')")).await.unwrap();
        assert!(expected > 0.0 && expected != finest, "{expected} of {finest}");
        for arguments in [
            format!("'{path}', level => 1, kind => 'streamline'"),
            format!("'{path}', 'vertices', level => 1"),
            format!("level => 1, table => 'VERTICES', Path => '{path}'"),
            format!("'vertices', path => '{path}', level => 2 - 1"),
            format!(
                "'{path}', 1, kind => 'streamline', geometry => true, group_attributes => false"
            ),
            format!("'{path}', level := 1"),
        ] {
            for sql in [
                format!("SELECT count(*) FROM zvf({arguments})"),
                format!("WITH v AS (SELECT * FROM zvf({arguments}) AS z) SELECT count(*) FROM v"),
                format!(
                    "SELECT max(n) FROM (SELECT 1 AS a) AS one, LATERAL (SELECT count(*) AS n FROM zvf({arguments})) AS two"
                ),
            ] {
                assert_eq!(number(&context, &sql).await.unwrap(), expected, "{sql}");
            }
        }
        for (arguments, expected) in [
            ("levle => 1", "the name of an argument of zvf(): expected path, table, level"),
            (
                "level => 1, level => 1",
                "the argument level of zvf(): expected one value, found several",
            ),
            ("1, level => 1", "the argument level of zvf(): expected one value, found several"),
            (
                "'links', 'objects'",
                "the argument table of zvf(): expected one value, found several",
            ),
            ("kind => 'objects'", "the option kind: expected a kind of geometry"),
            ("level => 'mesh'", "expected the number of a level, found mesh"),
            ("level => -1", "expected the number of a level, found -1"),
            ("level => 1.5", "expected the number of a level, found 1.5"),
            ("table => 'mesh'", "expected one of vertices, objects"),
            ("geometry => 1", "the option geometry: expected true or false, found 1"),
            ("path => 7", "zvf(): expected the path or URL of a store in quotes"),
        ] {
            let error =
                plan_error(&context, &format!("SELECT * FROM zvf('{path}', {arguments})")).await;
            assert!(error.contains(expected), "{arguments}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_applied_commit_is_read_whole() {
    let store = archives::Unpacked::new("sl3_streamlines");
    let path = store.path().to_str().unwrap();
    let context = session(OpenOptions::default());
    let sql = format!("SELECT count(*) FROM zvf('{path}')");
    let opened_before = context.sql(&sql).await.unwrap();
    let (rows, before) = (number(&context, &sql).await.unwrap(), archives::tree(store.path()));
    let options = zvf::edit::CommitOptions::default();
    let mut editor = zvf::edit::Editor::open(store.path(), Path::new("."), options).unwrap();
    editor.line(1, r#"{"op": "object.remove", "objects": [0]}"#).unwrap();
    editor.finish().unwrap();
    archives::unapply_half(store.path(), &before);
    let left = number(&context, &sql).await.unwrap();
    assert!(left > 0.0 && left < rows, "{left} of {rows}");
    // A statement is answered as of one commit.
    let counted = pretty_format_batches(&opened_before.collect().await.unwrap()).unwrap();
    assert!(counted.to_string().contains(&format!(" {rows} ")), "{counted}");
}

/// Creates a grid of 190 x 190 vertices in 16 chunks, with two triangles in each square.
async fn grid(folder: &Path) -> String {
    const SIDE: usize = 190;
    let mut text = String::new();
    for n in 0..SIDE * SIDE {
        writeln!(text, "v {} {} 0", n % SIDE, n / SIDE).unwrap();
    }
    for n in (0..SIDE * (SIDE - 1)).filter(|n| (n + 1) % SIDE != 0) {
        let [a, b, c, d] = [n + 1, n + 2, n + 1 + SIDE, n + 2 + SIDE];
        writeln!(text, "f {a} {b} {c}\nf {b} {d} {c}").unwrap();
    }
    let (file, store) = (folder.join("grid.obj"), folder.join("grid.zarrvectors"));
    std::fs::write(&file, text).unwrap();
    let recipe = Recipe { chunk: Some(vec![50.0; 3]), ..Recipe::default() };
    let go = &mut |_, _| ControlFlow::Continue(());
    let layout = StoreLayout::scan(&file, &recipe, go).unwrap();
    let store = store.to_str().unwrap().to_owned();
    create(&file, &store, &layout, &recipe, go).await.unwrap();
    store
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_links_in_tasks_and_prunes_cells() {
    let folder = tempfile::tempdir().unwrap();
    let store = grid(folder.path()).await;
    let context = session(OpenOptions::default());
    let links = format!("zvf('{store}', 'links')");
    let count = |condition: &str| format!("SELECT count(*) FROM {links} {condition}");
    assert_eq!(number(&context, &count("")).await.unwrap(), 71_442.0);
    let plan = run(&context, &format!("EXPLAIN ANALYZE {}", count(""))).await;
    assert!(plan.contains("file_groups={2 groups"), "{plan}");
    for (end, chunk) in [(1, "0.0.0"), (2, "1.2.0"), (3, "3.3.0")] {
        let condition = format!("WHERE corner{end}_chunk = '{chunk}'");
        // Filters are not pushed below a limit, so the engine tests all links.
        let sql = format!("SELECT count(*) FROM (SELECT * FROM {links} LIMIT 1000000) {condition}");
        let expected = number(&context, &sql).await.unwrap();
        assert!(expected > 1000.0, "{sql}: {expected}");
        assert_eq!(number(&context, &count(&condition)).await.unwrap(), expected, "{condition}");
        let plan = run(&context, &format!("EXPLAIN ANALYZE {}", count(&condition))).await;
        assert!(plan.contains("cells_pruned=") && !plan.contains("cells_pruned=0"), "{plan}");
    }
    for chunk in ["9.9.9", "9.9.9223372036854775807"] {
        let missing = count(&format!("WHERE corner1_chunk = '{chunk}'"));
        assert_eq!(number(&context, &missing).await.unwrap(), 0.0, "{chunk}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inserts_attributes_that_are_named_like_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.zarrvectors").display().to_string();
    let context = session(OpenOptions::default());
    let copy = format!(
        "COPY (SELECT CAST(value AS FLOAT) AS x, CAST(0 AS FLOAT) AS y, CAST(value AS INT) AS chunk \
         FROM generate_series(1, 10)) TO '{path}' OPTIONS ('positions' 'x,y')"
    );
    run(&context, &copy).await;
    let table = format!("CREATE EXTERNAL TABLE p STORED AS ZVF LOCATION '{path}'");
    run(&context, &table).await;
    let sum = "SELECT sum(\"vertex.chunk\") FROM p";
    assert_eq!(number(&context, sum).await.unwrap(), 55.0);
    run(&context, "INSERT INTO p (x, y, \"vertex.chunk\") VALUES (3, 0, 45)").await;
    assert_eq!(number(&context, sum).await.unwrap(), 100.0);
    assert_eq!(number(&context, "SELECT count(*) FROM p WHERE x = 3").await.unwrap(), 2.0);
}

/// Creates a store with two lines of five vertices, objects 0 and 1, as the table `p`.
async fn make_lines(context: &SessionContext, folder: &Path) -> String {
    let path = folder.join("lines.zarrvectors").display().to_string();
    let copy = format!(
        "COPY (SELECT CAST(value AS FLOAT) AS x, CAST(0 AS FLOAT) AS y, value / 5 AS line \
         FROM generate_series(0, 9)) TO '{path}' \
         OPTIONS ('positions' 'x,y', 'object' 'line', 'kind' 'polyline')"
    );
    run(context, &copy).await;
    run(context, &format!("CREATE EXTERNAL TABLE p STORED AS ZVF LOCATION '{path}'")).await;
    path
}

/// Returns the error of running a statement.
async fn run_error(context: &SessionContext, sql: &str) -> String {
    context.sql(sql).await.unwrap().collect().await.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inserted_lines_have_the_ids_of_their_rows() {
    let folder = tempfile::tempdir().unwrap();
    let context = session(OpenOptions::default());
    let path = make_lines(&context, folder.path()).await;
    run(
        &context,
        "INSERT INTO p (x, y, object) VALUES (30, 0, 7), (20, 0, 7), (5, 5, 9), (6, 6, 9)",
    )
    .await;
    let sum = |object: i64| format!("SELECT sum(x) FROM p WHERE object = {object}");
    for (object, expected) in [(0, 10.0), (1, 35.0), (7, 50.0), (9, 11.0)] {
        assert_eq!(number(&context, &sum(object)).await.unwrap(), expected, "{object}");
    }
    // The vertices of the line are in the order of its rows, regardless of chunks.
    let reader = zvf::open(&path, OpenOptions::default()).await.unwrap();
    let line = reader.run(&Query::all().of_objects([ObjectId(7)])).await.unwrap().batch;
    assert_eq!([0, 1].map(|row| line.positions().float(row, 0)), [Some(30.0), Some(20.0)]);
    let reused =
        run_error(&context, "INSERT INTO p (x, y, object) VALUES (1, 1, 7), (2, 2, 7)").await;
    assert!(reused.contains("the id 7 was used before"), "{reused}");
    let without_id = run_error(&context, "INSERT INTO p (x, y) VALUES (1, 1), (2, 2)").await;
    assert!(without_id.contains("an id for each vertex of a polyline"), "{without_id}");
    assert_eq!(number(&context, "SELECT count(*) FROM p").await.unwrap(), 14.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inserted_lines_are_counted_in_all_tables_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let context = session(OpenOptions::default());
    let path = make_lines(&context, folder.path()).await;
    let store = StoreHandle::open(&path, OpenOptions::default()).await.unwrap();
    for (name, table) in [("v", TableName::Vertices), ("o", TableName::Objects)] {
        let options = TableOptions { table, ..TableOptions::default() };
        let table = ZvfTable::open(store.clone(), options).await.unwrap();
        context.register_table(name, Arc::new(table)).unwrap();
    }
    let count = "SELECT count(*) FROM o";
    assert_eq!(number(&context, count).await.unwrap(), 2.0);
    run(&context, "INSERT INTO v (x, y, object) VALUES (30, 0, 7), (20, 0, 7)").await;
    // Below a limit the engine reads rows instead of using statistics.
    let read = "SELECT count(DISTINCT \"row\") FROM (SELECT \"row\" FROM o LIMIT 100000)";
    let rows = number(&context, read).await.unwrap();
    assert!(rows > 2.0, "{rows}");
    assert_eq!(number(&context, count).await.unwrap(), rows);
    assert_eq!(number(&context, "SELECT max(\"row\") FROM o").await.unwrap(), rows - 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_is_within_the_memory_of_the_pool() {
    let folder = tempfile::tempdir().unwrap();
    let config = SessionConfig::new().with_target_partitions(1);
    let pool = Arc::new(GreedyMemoryPool::new(4 << 20));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
    let context = SessionContext::new_with_config_rt(config, runtime);
    zvf_datafusion::register(&context, OpenOptions::default());
    make_lines(&context, folder.path()).await;
    let insert = |rows: u64| {
        format!(
            "INSERT INTO p (x, y, object) \
             SELECT CAST(value AS FLOAT), CAST(0 AS FLOAT), 20 FROM generate_series(1, {rows})"
        )
    };
    let error = run_error(&context, &insert(20_000)).await;
    assert!(
        error.contains("INSERT") && error.contains("for which there is free memory"),
        "{error}"
    );
    run(&context, &insert(1000)).await;
    assert_eq!(number(&context, "SELECT count(*) FROM p").await.unwrap(), 1010.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_a_store_to_a_bucket_with_the_options_of_the_session() {
    let server = S3::start().unwrap();
    let options =
        server.options().into_iter().fold(OpenOptions::default(), |options, (key, value)| {
            options.with_storage_option(key, value)
        });
    let context = session(options);
    let address = "s3://bucket/copied.zarrvectors";
    let copy = format!(
        "COPY (SELECT CAST(value AS FLOAT) AS x, CAST(1 AS FLOAT) AS y FROM generate_series(1, 100)) \
         TO '{address}' OPTIONS ('positions' 'x,y')"
    );
    run(&context, &copy).await;
    let sum = format!("SELECT sum(x) FROM zvf('{address}')");
    assert_eq!(number(&context, &sum).await.unwrap(), 5050.0);
}
