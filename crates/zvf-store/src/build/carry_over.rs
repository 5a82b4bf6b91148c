//! Building on the store that is replaced: unchanged files are hard-linked, new ones are written
//! next to them.
//!
//! Each file that is carried over costs one hard link, and no bytes if the file system supports
//! hard links. The old store is not modified: [`Build::publish`] replaces it as a whole, or it
//! stays as it is. A store that is added to stays in its place; only its documents are copied.
//!
//! This works only in a local directory: object stores have neither hard links nor an atomic
//! exchange.

use async_recursion::async_recursion as boxed;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_metadata::{ArrayDoc, Root};

use super::Build;
#[cfg(feature = "local")]
use super::Site;
use crate::key::Key;
use crate::open::Store;

impl Build {
    /// Carries over the store that is replaced, except its root document and everything in or below
    /// a node for which `leave` is true; returns the number of nodes. Must be called before
    /// anything is written.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> zvf_error::Result<()> {
    /// # use zvf_metadata::{Axis, LevelDoc, Root, ZarrVectors};
    /// # use zvf_store::{Build, BuildOptions, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let address = dir.path().join("x").to_str().unwrap().to_owned();
    /// # let block = ZarrVectors::new(vec![1.0, 1.0], [vec![0.0; 2], vec![1.0; 2]]);
    /// # let root = Root::new(block, Axis::spatial(2).unwrap_or_default());
    /// # let build = Build::begin(&address, BuildOptions::default()).await?;
    /// # build.group("0", &LevelDoc::new(0).to_group()).await?;
    /// # build.group("1", &LevelDoc::new(1).to_group()).await?;
    /// # build.publish(&root).await?;
    /// let options = BuildOptions { replace: true, ..BuildOptions::default() };
    /// let build = Build::begin(&address, options).await?;
    /// build.carry_over(|node| node.as_str() == "1").await?;
    /// build.publish(&root).await?;
    /// assert_eq!(Store::open(&address, Default::default()).await?.list_levels().await?, [0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`] on an object store; otherwise when a file can neither be linked nor
    /// copied.
    pub async fn carry_over(&self, leave: impl Fn(&Key) -> bool + Send + 'static) -> Result<u64> {
        let documents = self.kept_documents(leave).await?;
        for (document, array) in &documents {
            self.take_over_document(document, array.as_ref())?;
        }
        Ok(zvf_format::num::to_u64(documents.len()))
    }

    /// Copies the documents of the store that is added to
    /// ([`BuildOptions::adds`](super::BuildOptions::adds)), except its root document and those in
    /// or below a node for which `leave` is true. Its cells stay in place and are not part of
    /// [`preview`](Self::preview). Must be called before anything is written.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> zvf_error::Result<()> {
    /// # use zvf_metadata::{Axis, LevelDoc, Root, ZarrVectors};
    /// # use zvf_store::{Build, BuildOptions, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let address = dir.path().join("x").to_str().unwrap().to_owned();
    /// # let block = ZarrVectors::new(vec![1.0, 1.0], [vec![0.0; 2], vec![1.0; 2]]);
    /// # let root = Root::new(block, Axis::spatial(2).unwrap_or_default());
    /// # let build = Build::begin(&address, BuildOptions::default()).await?;
    /// # build.group("0", &LevelDoc::new(0).to_group()).await?;
    /// # build.publish(&root).await?;
    /// let options = BuildOptions { replace: true, adds: true, ..BuildOptions::default() };
    /// let build = Build::begin(&address, options).await?;
    /// build.copy_documents(|_node| false).await?;
    /// build.group("1", &LevelDoc::new(1).to_group()).await?;
    /// build.publish(&root).await?;
    /// assert_eq!(Store::open(&address, Default::default()).await?.list_levels().await?, [0, 1]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`] on an object store; otherwise when a document can be neither read nor written.
    #[cfg(feature = "local")]
    pub async fn copy_documents(
        &self,
        leave: impl Fn(&Key) -> bool + Send + 'static,
    ) -> Result<()> {
        let folder = self.staging()?;
        let copy = move || super::local::copy_documents(&folder, &leave);
        for (document, text) in crate::source::run_blocking("write", copy).await?? {
            self.take_over_document(&document, array(&text).as_ref())?;
        }
        Ok(())
    }

    /// Hard-links everything that was written at and below `path` into `folder`, which must not
    /// exist, and syncs it if the build is synced. A later build may use
    /// [`hard_link_from`](Self::hard_link_from).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> zvf_error::Result<()> {
    /// # use zvf_metadata::{Axis, LevelDoc, Root, ZarrVectors};
    /// # use zvf_store::{Build, BuildOptions, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let address = dir.path().join("x").to_str().unwrap().to_owned();
    /// # let block = ZarrVectors::new(vec![1.0, 1.0], [vec![0.0; 2], vec![1.0; 2]]);
    /// # let root = Root::new(block, Axis::spatial(2).unwrap_or_default());
    /// let build = Build::begin(&address, BuildOptions::default()).await?;
    /// build.group("0", &LevelDoc::new(0).to_group()).await?;
    /// build.hard_link_to("0", &dir.path().join("aside")).await?;
    /// build.abandon().await?;
    ///
    /// let build = Build::begin(&address, BuildOptions::default()).await?;
    /// build.hard_link_from(&dir.path().join("aside"), "0").await?;
    /// build.publish(&root).await?;
    /// assert_eq!(Store::open(&address, Default::default()).await?.list_levels().await?, [0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`] on an object store; otherwise when a file can be neither linked nor copied.
    #[cfg(feature = "local")]
    #[boxed]
    pub async fn hard_link_to(&self, path: &str, folder: &std::path::Path) -> Result<()> {
        let (staging, folder) = (self.staging()?, folder.to_owned());
        self.write_implied_groups().await?;
        self.check()?;
        let key = Key::root().join(path)?;
        let link = move || staging.hard_link_to(key.as_str(), &folder);
        Ok(crate::source::run_blocking("write", link).await??)
    }

    /// Links the files that an earlier build hard-linked into `folder` to `path`, where nothing may
    /// have been written.
    ///
    /// # Errors
    ///
    /// As [`hard_link_to`](Self::hard_link_to).
    #[cfg(feature = "local")]
    #[boxed]
    pub async fn hard_link_from(&self, folder: &std::path::Path, path: &str) -> Result<()> {
        let (staging, folder) = (self.staging()?, folder.to_owned());
        let key = Key::root().join(path)?;
        let adopt = move || {
            let documents = super::local::keys(staging.hard_link_from(&folder, key.as_str())?)?;
            let documents = documents.iter().map(|document| key.join(document.as_str()));
            documents_in(staging.path(), documents.collect::<Result<_, _>>()?)
        };
        for (document, array) in crate::source::run_blocking("write", adopt).await?? {
            self.take_over_document(&document, array.as_ref())?;
        }
        Ok(())
    }

    /// Removes everything that was written or carried over at and below `path`, as if it had never
    /// been there.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> zvf_error::Result<()> {
    /// # use zvf_metadata::{Axis, LevelDoc, Root, ZarrVectors};
    /// # use zvf_store::{Build, BuildOptions, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let address = dir.path().join("x").to_str().unwrap().to_owned();
    /// # let block = ZarrVectors::new(vec![1.0, 1.0], [vec![0.0; 2], vec![1.0; 2]]);
    /// # let root = Root::new(block, Axis::spatial(2).unwrap_or_default());
    /// let build = Build::begin(&address, BuildOptions::default()).await?;
    /// build.group("0", &LevelDoc::new(0).to_group()).await?;
    /// build.group("1", &LevelDoc::new(1).to_group()).await?;
    /// build.remove("1").await?;
    /// build.publish(&root).await?;
    /// assert_eq!(Store::open(&address, Default::default()).await?.list_levels().await?, [0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`] on an object store; otherwise when a file cannot be removed.
    #[cfg(feature = "local")]
    #[boxed]
    pub async fn remove(&self, path: &str) -> Result<()> {
        let (folder, key) = (self.staging()?, Key::root().join(path)?);
        let below = key.clone();
        crate::source::run_blocking("write", move || folder.remove(below.as_str())).await??;
        crate::sync::lock(&self.0.nodes)
            .retain(|node, _| *node != key && !super::is_below(node, &key));
        Ok(())
    }

    fn take_over_document(&self, document: &Key, array: Option<&ArrayDoc>) -> Result<()> {
        let node = document.as_str().rsplit_once('/').map_or("", |(node, _)| node);
        let node = Key::root().join(node)?;
        if let Some(doc) = array {
            self.0.declared.remember(&node, doc);
        }
        self.take_copied_name(node, array.is_some());
        Ok(())
    }

    /// Returns everything that was written and carried over so far, as a store with this root
    /// document. Publishing or dropping the build removes it.
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`] on an object store; when a write failed; when it cannot be opened.
    #[boxed]
    pub async fn preview(&self, root: &Root) -> Result<Store> {
        self.write_implied_groups().await?;
        self.check()?;
        let path = self.preview_path(root.print()).await?;
        Store::open(&path, crate::OpenOptions::default()).await
    }

    /// Returns the folder in which the store is built.
    #[cfg(feature = "local")]
    pub(super) fn staging(&self) -> Result<std::sync::Arc<zvf_publish::StagingDir>> {
        let Site::Local(folder) = &self.0.place else { return Err(unsupported_backend_error()) };
        Ok(std::sync::Arc::clone(folder))
    }

    #[cfg(feature = "local")]
    async fn kept_documents(
        &self,
        leave: impl Fn(&Key) -> bool + Send + 'static,
    ) -> Result<Vec<(Key, Option<ArrayDoc>)>> {
        let folder = self.staging()?;
        let keep = move || {
            // A path that is not a key is not left out.
            let leave = |path: &str| Key::root().join(path).is_ok_and(|key| leave(&key));
            let documents = super::local::keys(folder.carry_over(&leave)?)?;
            documents_in(folder.path(), documents)
        };
        crate::source::run_blocking("write", keep).await?
    }

    #[cfg(feature = "local")]
    async fn preview_path(&self, root: String) -> Result<String> {
        let folder = self.staging()?;
        let key = crate::docs::document(&Key::root())?;
        let path = folder.path().to_string_lossy().into_owned();
        let root = root.into();
        let put = move || folder.put_again(key.as_str(), &root);
        crate::source::run_blocking("write", put).await??;
        Ok(path)
    }

    #[cfg(not(feature = "local"))]
    async fn kept_documents(
        &self,
        _leave: impl Fn(&Key) -> bool + Send + 'static,
    ) -> Result<Vec<(Key, Option<ArrayDoc>)>> {
        Err(unsupported_backend_error())
    }

    #[cfg(not(feature = "local"))]
    async fn preview_path(&self, _root: String) -> Result<String> {
        Err(unsupported_backend_error())
    }
}

fn unsupported_backend_error() -> Error {
    let rule = "a folder of this machine: an object store cannot replace a store in one step";
    Error::new(Class::Unsupported, "store to build on", rule, "an object store")
}

/// Returns each of these documents, parsed if it is the document of an array.
#[cfg(feature = "local")]
fn documents_in(
    store: &std::path::Path,
    documents: Vec<Key>,
) -> Result<Vec<(Key, Option<ArrayDoc>)>> {
    let documents = documents.into_iter().map(|key| {
        let text = std::fs::read(store.join(key.as_str()));
        let text = text.map_err(|error| Error::io("read", error).at_key(&key))?;
        Ok((key, array(&text)))
    });
    documents.collect()
}

#[cfg(feature = "local")]
fn array(text: &[u8]) -> Option<ArrayDoc> {
    use zvf_metadata::Node;
    match Node::parse(text) {
        Ok(Node::Array(doc)) => Some(*doc),
        _ => None,
    }
}
