//! Building on the store that is replaced: unchanged files are hard-linked, new ones are written
//! next to them.
//!
//! Each file that is carried over costs one hard link, and no bytes if the file system supports
//! hard links. The old store is not modified: [`Build::publish`] replaces it as a whole, or it
//! stays as it is. A store that is added to stays in its place; only its documents are copied.
//!
//! This works only in a local directory: object stores have neither hard links nor an atomic
//! exchange.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::Class;
use zvf_metadata::{ArrayDoc, Root};
use zvf_publish::StagingDir;

use super::Build;
use super::names::NodeState;
use super::site::{Site, on_disk};
use crate::error::WithOp as _;
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
        let keep = move |folder: &StagingDir| {
            // A path that is not a key is not left out.
            let leave = |path: &str| Key::parse(path).is_ok_and(|key| leave(&key));
            let documents = super::local::keys(folder.carry_over(&leave)?)?;
            documents_in(folder.path(), documents)
        };
        let documents = on_disk(self.staging()?, "write", keep).await?;
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
    pub async fn copy_documents(
        &self,
        leave: impl Fn(&Key) -> bool + Send + 'static,
    ) -> Result<()> {
        let copy = move |folder: &StagingDir| super::local::copy_documents(folder, &leave);
        for (document, text) in on_disk(self.staging()?, "write", copy).await? {
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
    #[boxed]
    pub async fn hard_link_to(&self, path: &str, folder: &std::path::Path) -> Result<()> {
        let (staging, folder) = (self.staging()?, folder.to_owned());
        self.write_implied_groups().await?;
        self.check()?;
        let key = Key::parse(path)?;
        on_disk(staging, "write", move |staging| staging.hard_link_to(key.as_str(), &folder)).await
    }

    /// Links the files that an earlier build hard-linked into `folder` to `path`, where nothing may
    /// have been written.
    ///
    /// # Errors
    ///
    /// As [`hard_link_to`](Self::hard_link_to).
    #[boxed]
    pub async fn hard_link_from(&self, folder: &std::path::Path, path: &str) -> Result<()> {
        let (staging, folder) = (self.staging()?, folder.to_owned());
        let key = Key::parse(path)?;
        let adopt = move |staging: &StagingDir| {
            let documents = super::local::keys(staging.hard_link_from(&folder, key.as_str())?)?;
            let documents = documents.iter().map(|document| key.join(document.as_str()));
            documents_in(staging.path(), documents.collect::<Result<_, _>>()?)
        };
        for (document, array) in on_disk(staging, "write", adopt).await? {
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
    #[boxed]
    pub async fn remove(&self, path: &str) -> Result<()> {
        let (folder, key) = (self.staging()?, Key::parse(path)?);
        let below = key.clone();
        on_disk(folder, "write", move |folder| folder.remove(below.as_str())).await?;
        self.0.nodes.remove(&key);
        Ok(())
    }

    fn take_over_document(&self, document: &Key, array: Option<&ArrayDoc>) -> Result<()> {
        let node = document.as_str().rsplit_once('/').map_or("", |(node, _)| node);
        let node = Key::parse(node)?;
        if let Some(doc) = array {
            self.0.declared.remember(&node, doc);
        }
        self.0.nodes.set(node, NodeState::complete(array.is_some()));
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
        let folder = self.staging()?;
        let (key, root) = (crate::docs::document(&Key::root())?, root.print().into());
        on_disk(folder, "write", move |folder| folder.put_again(key.as_str(), &root)).await?;
        Store::open(&folder.path().to_string_lossy(), crate::OpenOptions::default()).await
    }

    /// Returns the folder in which the store is built.
    pub(super) fn staging(&self) -> Result<&Arc<StagingDir>> {
        let Site::Local(folder) = &self.0.place else {
            let rule =
                "a folder of this machine: an object store cannot replace a store in one step";
            let found = "an object store";
            return Err(Error::new(Class::Unsupported, "store to build on", rule, found));
        };
        Ok(folder)
    }
}

/// Returns each of these documents, parsed if it is the document of an array.
fn documents_in(
    store: &std::path::Path,
    documents: Vec<Key>,
) -> Result<Vec<(Key, Option<ArrayDoc>)>> {
    let documents = documents.into_iter().map(|key| {
        let text = std::fs::read(store.join(key.as_str()));
        let text = text.with_op("read").at_key(&key)?;
        Ok((key, array(&text)))
    });
    documents.collect()
}

fn array(text: &[u8]) -> Option<ArrayDoc> {
    use zvf_metadata::Node;
    match Node::parse(text) {
        Ok(Node::Array(doc)) => Some(*doc),
        _ => None,
    }
}
