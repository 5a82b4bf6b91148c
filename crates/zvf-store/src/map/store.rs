//! Opening a store whose large files are mapped.

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
    /// Opens the store in the directory or pack `path`, whose large files are read through memory maps: cells that are
    /// not compressed are then views of the file, without a copy. After an answer made of them, ask
    /// [`check_maps`](Self::check_maps). Files beyond what a process can map are read.
    ///
    /// # Safety
    ///
    /// For as long as the handle, a copy of it, a handle that [`revalidate`](Self::revalidate) made of it, or
    /// bytes one of them gave live, no one may change the bytes of a file of the store in place. A file that is
    /// only cut short is survived where [`install_sigbus_handler`](crate::signal::install_sigbus_handler) was called, and ends
    /// the process otherwise.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[expect(unsafe_code, reason = "the caller promises what a map cannot check")]
    pub async unsafe fn open_mapped(path: &Path, options: OpenOptions) -> Result<Self> {
        Self::open_promised(path, options, Promise::OfCaller).await
    }

    /// Returns the same, mapping only files that nobody can write to, as [`MappedFile::map_if_immutable`] finds out, and
    /// reading all others.
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
