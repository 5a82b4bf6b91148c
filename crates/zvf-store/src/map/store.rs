//! Opens a store whose large files are mapped.

use async_recursion::async_recursion as boxed;
use std::path::Path;

use super::{MappedFile, Promise};
use crate::budget::Budget;
use crate::file::RangedFile;
use crate::open::Store;
use crate::options::OpenOptions;
use crate::source::{Source, is_pack_file};
use zvf_error::Result;

impl Store {
    /// Opens the store in the directory or pack `path`, reading its large files through memory
    /// maps: uncompressed cells are then views of the file, without a copy. After using an answer,
    /// call [`check_maps`](Self::check_maps). Files beyond the map limit of the process are read.
    ///
    /// # Safety
    ///
    /// While the handle, a clone of it, a handle that [`revalidate`](Self::revalidate) returned, or
    /// bytes from one of them live, no one may change the bytes of a file of the store in place.
    /// After [`install_sigbus_handler`](crate::signal::install_sigbus_handler), the process
    /// survives a truncation of a file; without it, a truncation ends the process.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[expect(unsafe_code, reason = "the caller promises what a map cannot check")]
    pub async unsafe fn open_mapped(path: &Path, options: OpenOptions) -> Result<Self> {
        Self::open_promised(path, options, Promise::OfCaller).await
    }

    /// The same, but maps only files that nobody can write to, as [`MappedFile::map_if_immutable`]
    /// determines, and reads all others.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[boxed]
    pub async fn open_mapped_if_immutable(path: &Path, options: OpenOptions) -> Result<Self> {
        Self::open_promised(path, options, Promise::WhereImmutable).await
    }

    async fn open_promised(path: &Path, options: OpenOptions, promise: Promise) -> Result<Self> {
        if is_pack_file(path) {
            let file = match MappedFile::open(path, promise)? {
                Some(file) => RangedFile::from_map(file)?,
                None => RangedFile::open_path(path, &options).await?,
            };
            return Self::open_pack(file, options).await;
        }
        let budget = Budget::new(&options);
        let source = Source::open_mapped(path, &budget, promise)?;
        Self::begin(source, budget, options).await
    }
}
