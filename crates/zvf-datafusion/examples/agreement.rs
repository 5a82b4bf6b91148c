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
    let context = SessionContext::new_with_config(config);
    let (mut passed, mut failed) = (0, 0);
    for store in &stores {
        let path = store.to_string_lossy();
        match check::check(&path, &context).await {
            Ok(verdict) => {
                passed += verdict.passed;
                failed += verdict.failed.len();
                for line in verdict.failed {
                    println!("{path}: {line}");
                }
            }
            Err(error) => {
                failed += 1;
                println!("{path}: {error}");
            }
        }
    }
    println!("{passed} passed, {failed} failed, of {} stores", stores.len());
    if failed > 0 || stores.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
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
