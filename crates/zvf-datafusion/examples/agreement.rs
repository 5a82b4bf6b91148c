//! Compares SQL with the stores themselves: `agreement STORE_OR_FOLDER..`, for `cargo xtask conformance --sql`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use datafusion::prelude::{SessionConfig, SessionContext};

#[path = "../tests/agreement/check.rs"]
mod check;

#[tokio::main]
async fn main() -> ExitCode {
    let mut stores = Vec::new();
    for argument in std::env::args_os().skip(1) {
        find(Path::new(&argument), &mut stores);
    }
    let config = SessionConfig::new().with_target_partitions(3);
    let count = stores.len();
    let stores = stores.into_iter().map(|path| {
        let path = path.to_string_lossy().into_owned();
        (path, SessionContext::new_with_config(config.clone()))
    });
    let (passed, failed) = check::check_all(stores).await;
    for line in &failed {
        println!("{line}");
    }
    println!("{passed} passed, {} failed, of {count} stores", failed.len());
    if !failed.is_empty() || count == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The stores at or below a path.
fn find(path: &Path, stores: &mut Vec<PathBuf>) {
    let is_store = zvf_datafusion::is_store_name(&path.to_string_lossy());
    if is_store {
        stores.push(path.to_owned());
        return;
    }
    let Ok(entries) = std::fs::read_dir(path) else { return };
    let mut below: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    below.sort();
    for path in
        below.iter().filter(|path| path.is_dir() || path.extension().is_some_and(|e| e == "tet"))
    {
        find(path, stores);
    }
}
