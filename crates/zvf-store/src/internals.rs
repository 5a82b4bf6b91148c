//! Builds on a disk that a test observes; not a public interface, and not covered by any promise.

use async_recursion::async_recursion as boxed;
use std::path::Path;

use zvf_error::Result;
pub use zvf_publish::{Call, Disk};

/// Begins a store in the directory `path`; every system call goes through `disk`.
///
/// # Errors
///
/// As [`crate::Build::begin`].
#[boxed]
pub async fn build_on(
    disk: Disk,
    path: &Path,
    options: crate::BuildOptions,
) -> Result<crate::Build> {
    crate::Build::in_folder(path.to_owned(), crate::BuildOptions { disk, ..options }).await
}

/// Joins the build of the store in the directory `path` in the folder `work`; every system call
/// goes through `disk`.
///
/// # Errors
///
/// As [`crate::Build::join`].
#[boxed]
pub async fn join_on(
    disk: Disk,
    path: &Path,
    work: &Path,
    options: crate::BuildOptions,
) -> Result<crate::Build> {
    let options = crate::BuildOptions { disk, ..options };
    crate::Build::join_folder(path.to_owned(), work.to_owned(), options).await
}
