//! Tests filter pushdown with `-0` and `0`, which are equal in a store and differ in SQL.

use datafusion::prelude::SessionContext;

use crate::check::number;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_distinguish_zeros_like_sql() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("zeros.zarrvectors").display().to_string();
    let context = SessionContext::new();
    zvf_datafusion::register(&context, zvf::OpenOptions::default());
    let rows: Vec<String> = ["-0", "0", "-1", "1", "2", "-3"]
        .iter()
        .flat_map(|x| ["-0", "0", "4", "NaN"].map(|w| format!("('{x}', '{w}')")))
        .collect();
    let copy = format!(
        "COPY (SELECT CAST(a AS FLOAT) AS x, CAST(1 AS FLOAT) AS y, CAST(b AS DOUBLE) AS w \
         FROM (VALUES {}) AS t (a, b)) TO '{path}'",
        rows.join(", ")
    );
    context.sql(&copy).await.unwrap().collect().await.unwrap();
    let mut nonempty = 0;
    for column in ["x", "w"] {
        for op in ["<", "<=", "=", "<>", ">", ">="] {
            for literal in ["0", "0.0", "CAST('-0' AS DOUBLE)", "CAST('-0' AS FLOAT)", "1"] {
                let pushed =
                    format!("SELECT count(*) FROM zvf('{path}') WHERE {column} {op} {literal}");
                // Filters are not pushed below a limit.
                let engine_sql = format!(
                    "SELECT count(*) FROM (SELECT {column} AS a FROM zvf('{path}') LIMIT 1000) WHERE a {op} {literal}"
                );
                let expected = number(&context, &engine_sql).await.unwrap();
                assert_eq!(number(&context, &pushed).await.unwrap(), expected, "{pushed}");
                nonempty += u32::from(expected > 0.0);
            }
        }
        for set in ["IN (0, 2)", "BETWEEN 0 AND 1", "BETWEEN -1 AND CAST('-0' AS DOUBLE)"] {
            let pushed = format!("SELECT count(*) FROM zvf('{path}') WHERE {column} {set}");
            let engine_sql = format!(
                "SELECT count(*) FROM (SELECT {column} AS a FROM zvf('{path}') LIMIT 1000) WHERE a {set}"
            );
            let expected = number(&context, &engine_sql).await.unwrap();
            assert_eq!(number(&context, &pushed).await.unwrap(), expected, "{pushed}");
        }
    }
    assert!(nonempty > 40, "{nonempty}");
}
