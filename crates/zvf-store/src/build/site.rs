//! The place in which a store is built: a folder of one process, a folder of several processes, or
//! the objects below a prefix. Everything that differs between them is here.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use zvf_error::{Error, Locate as _, Result};
use zvf_publish::{SharedStagingDir, StagingDir};

use super::check::check_store;
use super::memory_limiter::MemoryLimiter;
use super::upload::Uploads;
use crate::error::WithOp as _;
use crate::key::Key;
use crate::source::remote::Created;
use crate::source::run_blocking;

/// The place in which the store is being built.
#[derive(Debug)]
pub(super) enum Site {
    Local(Arc<StagingDir>),
    Common(Arc<SharedStagingDir>),
    Remote(Box<Uploads>),
}

impl Site {
    /// Returns whether a call may wait until there is room for its bytes.
    pub(super) fn may_wait(&self) -> bool {
        match self {
            Self::Local(_) | Self::Common(_) => true,
            Self::Remote(uploads) => uploads.may_wait(),
        }
    }

    /// Returns whether other processes write some of the cells.
    pub(super) fn is_shared(&self) -> bool {
        match self {
            Self::Local(_) => false,
            Self::Common(_) => true,
            Self::Remote(uploads) => uploads.is_shared(),
        }
    }

    /// Writes one object.
    pub(super) fn put(&self, key: Key, parts: Vec<Bytes>, room: &MemoryLimiter) -> Result<()> {
        match self {
            Self::Local(folder) => Ok(folder.put(key.as_str(), &parts)?),
            Self::Common(work) => Ok(work.put(key.as_str(), &parts)?),
            Self::Remote(uploads) => uploads.put(key, parts, room),
        }
    }

    /// Like [`put`](Self::put), for a task, which waits for memory without blocking its thread.
    pub(super) async fn put_later(
        &self,
        key: Key,
        parts: Vec<Bytes>,
        room: &MemoryLimiter,
    ) -> Result<()> {
        match self {
            Self::Remote(uploads) => uploads.put_later(key, parts, room).await,
            Self::Local(_) | Self::Common(_) => self.put(key, parts, room),
        }
    }

    /// Returns which of these objects, written by other processes, are missing; `array` is their
    /// common parent.
    pub(super) async fn find_missing(
        &self,
        array: &Key,
        objects: BTreeSet<Key>,
    ) -> Result<BTreeSet<Key>> {
        match self {
            Self::Local(_) => Ok(BTreeSet::new()),
            Self::Common(work) => {
                on_disk(work, "read", move |work| find_missing_files(work, objects)).await
            }
            Self::Remote(uploads) => uploads.find_missing(array, objects).await,
        }
    }

    /// Waits until everything is stored, then makes the store visible with the root document
    /// `root` under `key`; `nodes` are those that were written or taken over. Returns how the
    /// store was protected from others that publish under the same name.
    pub(super) async fn publish(
        &self,
        key: Key,
        root: Bytes,
        nodes: BTreeSet<Key>,
    ) -> Result<Created> {
        match self {
            Self::Local(folder) => {
                let publish = move |folder: &StagingDir| {
                    folder.put_again(key.as_str(), &root)?;
                    // The cells of an array that stays in its place are in the target.
                    let target = folder.lock().target();
                    let stays =
                        |key: &Key| folder.is_addition() && target.join(key.as_str()).exists();
                    check_store(folder.path(), &root, &|key| nodes.contains(key), &stays)?;
                    Ok::<_, Error>(folder.publish()?)
                };
                on_disk(folder, "publish", publish).await.map(|()| Created::Guarded)
            }
            Self::Common(work) => {
                let publish = move |work: &SharedStagingDir| {
                    if !work.is_published()? {
                        let is_known = |key: &Key| nodes.contains(key);
                        check_store(&work.path(), &root, &is_known, &|_| false)?;
                    }
                    Ok::<_, Error>(work.publish(root)?)
                };
                on_disk(work, "publish", publish).await.map(|()| Created::Guarded)
            }
            Self::Remote(uploads) => uploads.publish(&key, &root, &nodes).await,
        }
    }

    /// Returns whether the store has been published, by any process.
    pub(super) async fn is_published(&self) -> Result<bool> {
        match self {
            Self::Local(folder) => Ok(folder.is_published()),
            Self::Common(work) => on_disk(work, "publish", |work| work.is_published()).await,
            Self::Remote(uploads) => uploads.is_published().await,
        }
    }

    /// Waits until everything is stored and, on a disk, would survive a power failure.
    pub(super) async fn flush(&self) -> Result<()> {
        match self {
            Self::Local(_) => Ok(()), // by `publish`, once for all
            Self::Common(work) => on_disk(work, "write", |work| work.flush()).await,
            Self::Remote(uploads) => uploads.flush().await,
        }
    }

    /// Removes everything that was written.
    pub(super) async fn abandon(&self) -> Result<()> {
        match self {
            Self::Local(folder) => {
                let folder = Arc::clone(folder);
                run_blocking("write", move || folder.abandon()).await
            }
            Self::Common(_) => Ok(()), // others may go on
            Self::Remote(uploads) => uploads.abandon().await,
        }
    }
}

fn find_missing_files(work: &SharedStagingDir, objects: BTreeSet<Key>) -> Result<BTreeSet<Key>> {
    let mut missing = BTreeSet::new();
    for key in objects {
        if !work.has(key.as_str()).with_op("read").at_key(&key)? {
            missing.insert(key);
        }
    }
    Ok(missing)
}

/// Works in a folder of this machine where the thread may wait.
pub(super) async fn on_disk<F, T, E>(
    folder: &Arc<F>,
    op: &'static str,
    work: impl FnOnce(&F) -> Result<T, E> + Send + 'static,
) -> Result<T>
where
    F: Send + Sync + 'static,
    T: Send + 'static,
    E: Send + 'static,
    Error: From<E>,
{
    let folder = Arc::clone(folder);
    Ok(run_blocking(op, move || work(&folder)).await??)
}
