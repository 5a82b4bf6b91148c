//! Compares SQL with `zvf query` on every archived store.

mod check;
#[cfg(feature = "geo")]
mod geometry;
mod plans;
mod statements;
mod zeros;

use datafusion::prelude::{SessionConfig, SessionContext};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archived_stores_answer_sql_like_queries() {
    let folder = archives::scratch();
    // Use several partitions, independent of the number of cores.
    let config = SessionConfig::new().with_target_partitions(3);
    let context = SessionContext::new_with_config(config);
    let (mut passed, mut failed) = (0, Vec::new());
    for id in archives::ids() {
        let path = archives::unpack_cached(folder.path(), &id);
        match check::check(path.to_str().unwrap(), &context).await {
            Ok(verdict) => {
                passed += verdict.passed;
                failed.extend(verdict.failed.into_iter().map(|line| format!("{id}: {line}")));
            }
            Err(error) => failed.push(format!("{id}: {error}")),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(passed > 500, "{passed}");
}
