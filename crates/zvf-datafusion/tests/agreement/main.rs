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
    let stores = archives::ids().into_iter().map(|id| {
        let path = archives::unpack_cached(folder.path(), &id).display().to_string();
        (path, SessionContext::new_with_config(config.clone()))
    });
    let (passed, failed) = check::check_all(stores).await;
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(passed > 500, "{passed}");
}
