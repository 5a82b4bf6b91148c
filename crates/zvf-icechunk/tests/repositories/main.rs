//! Compares stores in repositories with the same stores in folders.

mod editing;
mod reading;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use tempfile::TempDir;
use zvf_store::{CommitNote, ObjectStream, OpenOptions, Store, Versions};

/// Returns the options with which the tests open stores.
pub(crate) fn options() -> OpenOptions {
    OpenOptions { versions: Some(zvf_icechunk::hook()), ..OpenOptions::default() }
}

/// A repository in a temporary folder.
pub(crate) struct Repository {
    folder: TempDir,
}

impl Repository {
    /// Creates a repository that holds the archived store `id` in its root.
    pub(crate) async fn with_store(id: &str) -> Self {
        let repository = Self { folder: archives::scratch() };
        repository.versions("").create(streamed(&objects(id)), note("first")).await.unwrap();
        repository
    }

    /// Creates a folder without a repository.
    pub(crate) fn empty() -> Self {
        Self { folder: archives::scratch() }
    }

    /// Returns the address with `query` after the `?`.
    pub(crate) fn address(&self, query: &str) -> String {
        let mark = if query.is_empty() { "" } else { "?" };
        format!("icechunk+file://{}/repository{mark}{query}", self.folder.path().display())
    }

    pub(crate) fn versions(&self, query: &str) -> Arc<dyn Versions> {
        Store::versions(&self.address(query), &options()).unwrap().unwrap()
    }

    /// Opens the repository with icechunk itself.
    pub(crate) async fn as_icechunk(&self) -> icechunk::Repository {
        let path = self.folder.path().join("repository");
        let storage = icechunk::new_local_filesystem_storage(&path).await.unwrap();
        icechunk::Repository::open(storage).execute().await.unwrap()
    }
}

/// Returns the objects of an archived store.
pub(crate) fn objects(id: &str) -> BTreeMap<String, Bytes> {
    archives::files(id).into_iter().map(|(key, bytes)| (key, bytes.into())).collect()
}

/// Streams objects in the order in which a repository is created: documents first.
pub(crate) fn streamed(objects: &BTreeMap<String, Bytes>) -> ObjectStream<'static> {
    let mut objects: Vec<_> = objects.clone().into_iter().collect();
    objects.sort_by_key(|(key, _)| (!key.ends_with("zarr.json"), key.matches('/').count()));
    stream::iter(objects.into_iter().map(Ok)).boxed()
}

pub(crate) fn note(message: &str) -> CommitNote {
    CommitNote { message: message.to_owned(), ..CommitNote::default() }
}
