//! What benches and the programs that break things look at; not an interface, and not part of any
//! promise.

use async_recursion::async_recursion as boxed;
use std::path::Path;

use crate::budget::Budget;
use crate::error::StoreError;
use crate::key::Key;
use crate::options::OpenOptions;
use crate::source::{Get, Source};
#[cfg(feature = "local")]
pub use zvf_publish::{Call, Disk};

/// A source, to be read without anything on top of it.
#[derive(Debug)]
pub struct Reader(Source);

impl Reader {
    /// Reads below the directory `path`.
    ///
    /// # Errors
    ///
    /// When the directory cannot be opened.
    pub fn open_local(path: &Path) -> Result<Self, StoreError> {
        let options = OpenOptions::default();
        let address = path.to_string_lossy();
        Ok(Self(Source::open(&address, &Budget::new(&options), &options)?))
    }

    /// Reads all of every object, and says how many bytes that was.
    ///
    /// # Errors
    ///
    /// The first fault there is.
    #[boxed]
    pub async fn read_all(&self, keys: &[Key]) -> Result<usize, StoreError> {
        let gets: Vec<Get> = keys.iter().cloned().map(Get::object).collect();
        let mut bytes = 0_usize;
        for answer in self.0.read_many(&gets).await {
            bytes += answer?.map_or(0, |got| got.bytes.len());
        }
        Ok(bytes)
    }
}

/// Begins a store in the directory `path`, with every call to the system going through `disk`.
///
/// # Errors
///
/// As [`crate::Build::begin`].
#[cfg(feature = "local")]
#[boxed]
pub async fn build_on(
    disk: Disk,
    path: &Path,
    options: crate::BuildOptions,
) -> Result<crate::Build, StoreError> {
    crate::Build::in_folder(path.to_owned(), crate::BuildOptions { disk, ..options }).await
}

/// Takes part in building the store in the directory `path` in the folder `work`, with every call to the
/// system going through `disk`.
///
/// # Errors
///
/// As [`crate::Build::join`].
#[cfg(feature = "local")]
#[boxed]
pub async fn join_on(
    disk: Disk,
    path: &Path,
    work: &Path,
    options: crate::BuildOptions,
) -> Result<crate::Build, StoreError> {
    let options = crate::BuildOptions { disk, ..options };
    crate::Build::join_folder(path.to_owned(), work.to_owned(), options).await
}
