//! Opens a store whose large files are mapped.

use async_recursion::async_recursion as boxed;
use std::path::Path;

use crate::budget::Budget;
use crate::file::RangedFile;
use crate::open::Store;
use crate::options::OpenOptions;
use crate::source::{Origin, is_pack_file};
use zvf_error::Result;
use zvf_map::{MappedFile, Promise};

impl Store {
    /// Opens the store in the directory or pack `path`, reading its large files through memory
    /// maps: uncompressed cells are then views of the file, without a copy. After using an answer,
    /// call [`check_maps`](Self::check_maps). Files beyond the map limit of the process are read.
    ///
    /// # Safety
    ///
    /// While the handle, a clone of it, a handle that [`revalidate`](Self::revalidate) returned, or
    /// bytes from one of them live, no one may change the bytes of a file of the store in place.
    /// After [`install_sigbus_handler`](zvf_map::install_sigbus_handler), the process
    /// survives a truncation of a file; without it, a truncation ends the process.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[expect(unsafe_code, reason = "the caller promises what a map cannot check")]
    pub async unsafe fn open_mapped(path: &Path, options: OpenOptions) -> Result<Self> {
        // SAFETY: the caller promises that nobody changes the files in place.
        Self::open_promised(path, options, unsafe { Promise::of_caller() }).await
    }

    /// The same, but maps only files that nobody can write to, as [`MappedFile::map_if_immutable`]
    /// determines, and reads all others.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[boxed]
    pub async fn open_mapped_if_immutable(path: &Path, options: OpenOptions) -> Result<Self> {
        Self::open_promised(path, options, Promise::WHERE_IMMUTABLE).await
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
        let source = Origin::open_mapped(path, &budget, promise)?;
        Self::begin(source, budget, options).await
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    #[expect(
        unsafe_code,
        reason = "the stores belong to one test, which reads no byte that it changes in place"
    )]
    async fn open_mapped(path: &Path) -> Store {
        // SAFETY: the files belong to one test, which reads no byte that it changes in place.
        unsafe { Store::open_mapped(path, OpenOptions::default()) }.await.unwrap()
    }

    /// Returns a store with one cell that is large enough to be mapped.
    fn large_store() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/three.zarrvectors");
        archives::copy(&from, dir.path()).unwrap();
        let cell = dir.path().join("0/vertices/c/0/0");
        let payload = vec![7_u8; 1 << 18];
        let framed = [&1_u32.to_le_bytes()[..], &(1_u32 << 18).to_le_bytes(), &payload].concat();
        fs::write(&cell, framed).unwrap();
        (dir, cell)
    }

    #[tokio::test]
    async fn large_cells_are_slices_of_the_map_until_the_file_changes() {
        let (dir, cell) = large_store();
        let store = open_mapped(dir.path()).await;
        let vertices = store.level(0).await.unwrap().required_cells("vertices").await.unwrap();
        let key = "-1.0".parse::<zvf_format::key::ChunkKey>().unwrap();
        let read = || vertices.read(&key, crate::Caching::Once);
        let bytes = read().await.unwrap().unwrap();
        assert_eq!(bytes.len(), 1 << 18);
        let opened = store.io_stats().requests;
        assert_eq!(read().await.unwrap().unwrap().as_ptr(), bytes.as_ptr(), "a copy was made");
        assert_eq!(store.io_stats().requests, opened, "the file was opened again");
        store.check_maps().unwrap();

        // A new version under the same name: this handle keeps the old one.
        let replacement = dir.path().join("other");
        fs::write(&replacement, [1, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        fs::rename(&replacement, &cell).unwrap();
        assert_eq!(read().await.unwrap().unwrap().as_ptr(), bytes.as_ptr());
        store.check_maps().unwrap();

        let (dir, cell) = large_store();
        let store = open_mapped(dir.path()).await;
        let vertices = store.level(0).await.unwrap().required_cells("vertices").await.unwrap();
        vertices.read(&key, crate::Caching::Once).await.unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::OpenOptions::new().append(true).open(&cell).unwrap().set_len(1 << 19).unwrap();
        let error = store.check_maps().unwrap_err();
        assert_eq!(
            error.to_string(),
            "FileChanged in 0/vertices/c/0/0, the object was replaced while it was being read"
        );
    }
}
