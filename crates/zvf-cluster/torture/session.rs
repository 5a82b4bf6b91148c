//! Stores, sessions and statements of tests and torture.

use std::fmt::Write as _;
use std::path::Path;

use datafusion::arrow::csv::Writer;
use datafusion::error::Result;
use datafusion::physical_plan::common::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use zvf_datafusion::{OpenOptions, with_paths_as_tables};

use crate::processes::Cluster;

/// Creates a store of 300 000 points with text in 64 chunks, which a scan divides into several tasks.
pub(crate) async fn points(folder: &Path) -> String {
    let path = folder.join("points.zarrvectors").display().to_string();
    let copy = format!(
        "COPY (SELECT CAST(value % 400 AS FLOAT) AS x, CAST(value / 400 % 400 AS FLOAT) AS y, \
         CAST(value % 7 AS FLOAT) AS z, CAST(value % 11 AS INT) AS w, CASE value % 5 WHEN 0 THEN 'roof' \
         WHEN 1 THEN 'wall' WHEN 2 THEN 'tree' ELSE 'road' END AS class FROM generate_series(1, 300000)) \
         TO '{path}' OPTIONS ('chunk_shape' '50,50,50')"
    );
    local().sql(&copy).await.unwrap().collect().await.unwrap();
    path
}

pub(crate) fn local() -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(2);
    prepare(SessionContext::new_with_config(config), OpenOptions::default())
}

pub(crate) async fn remote(cluster: &Cluster) -> SessionContext {
    prepare(zvf_cluster::connect(&cluster.url()).await.unwrap(), OpenOptions::default())
}

/// Returns the session with stores as tables, which it opens with `options`.
pub(crate) fn prepare(context: SessionContext, options: OpenOptions) -> SessionContext {
    let context = with_paths_as_tables(context, options.clone());
    zvf_datafusion::register(&context, options);
    context
}

/// Returns names, types and rows of an answer; rows without an order are sorted.
pub(crate) async fn answer(context: &SessionContext, sql: &str) -> Result<String> {
    let rows = context.sql(sql).await?.execute_stream().await?;
    let mut text = String::new();
    for field in rows.schema().fields() {
        writeln!(text, "{} {}", field.name(), field.data_type()).unwrap();
    }
    let mut csv = Writer::new(Vec::new());
    for batch in collect(rows).await? {
        csv.write(&batch)?;
    }
    let csv = String::from_utf8(csv.into_inner()).unwrap();
    let mut lines: Vec<&str> = csv.lines().skip(1).collect();
    if !sql.contains("ORDER BY") {
        lines.sort_unstable();
    }
    Ok(text + &lines.join("\n"))
}

/// Returns the statements on stores that it makes in `folder`.
pub(crate) async fn statements(folder: &Path) -> Vec<String> {
    let path = points(folder).await;
    let archived = |id| archives::unpack_cached(folder, id).display().to_string();
    let text = include_str!("statements.sql")
        .replace("{points}", &format!("zvf('{path}')"))
        .replace("{path}", &path)
        .replace("{lines}", &archived("sl3_streamlines"))
        .replace("{levels}", &archived("sl3_pyramid"))
        .replace("{mesh}", &archived("ms3_tri"))
        .replace("{missing}", &folder.join("missing.zarrvectors").display().to_string());
    text.split(";\n").map(str::to_owned).filter(|sql| !sql.is_empty()).collect()
}

/// Returns what differs between the answers of a cluster and those of one process.
pub(crate) async fn differences(cluster: &Cluster, statements: &[String]) -> Vec<String> {
    let (single, remote) = (local(), remote(cluster).await);
    let mut found = Vec::new();
    for sql in statements {
        let ours = answer(&remote, sql).await.map_err(|error| error.to_string());
        let expected = answer(&single, sql).await.map_err(|error| error.to_string());
        if ours != expected && (ours.is_ok() || expected.is_ok()) {
            found.push(format!("{sql}:\n{ours:?}, in one process\n{expected:?}"));
        }
    }
    found
}
