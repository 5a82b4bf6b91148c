//! Builds on a disk that a test watches; not an interface, and not part of any promise.

use async_recursion::async_recursion as boxed;
use std::path::Path;

use zvf_error::Result;
pub use zvf_publish::{Call, Disk};

/// Begins a store in the directory `path`, with every call to the system going through `disk`.
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

/// Takes part in building the store in the directory `path` in the folder `work`, with every call to the
/// system going through `disk`.
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
