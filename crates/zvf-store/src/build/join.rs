//! Stores that many processes build together: joining a build, and the operations of each process.
//!
//! Not here: the tasks and their distribution (`zvf-write`).

use async_recursion::async_recursion as boxed;
use std::path::Path;
use std::sync::Arc;

use object_store::ObjectStore;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_publish::SharedStagingDir;

use super::local;
use super::site::Site;
use super::upload::Uploads;
use super::{Build, BuildOptions};
use crate::docs::DOCUMENT;
use crate::error::WithOp as _;
use crate::source::{Address, check_folders, run_blocking, url};

impl Build {
    /// Joins the build of the store at `address`. Several processes each write some of the cells,
    /// and one of them publishes the store. In a local directory, the store is built in `work`, a
    /// folder on the same file system that outlives every process; below a URL, objects have their
    /// final names.
    ///
    /// Repeating the same calls, in any process, changes nothing. Dropping the build removes
    /// nothing. End a sink with [`CellSink::finish_part`](super::CellSink::finish_part), and pass
    /// its result to the sink of the publishing process with
    /// [`CellSink::record_external`](super::CellSink::record_external).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> zvf_error::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let address = dir.path().join("a.zarrvectors").to_str().unwrap().to_owned();
    /// use zvf_format::key::ChunkKey;
    /// use zvf_metadata::{Axis, Root, ZarrVectors};
    /// use zvf_store::{Build, BuildOptions, CellPlan};
    ///
    /// let (work, plan) = (dir.path().join("work"), CellPlan::new(vec![0], vec![9]));
    /// let one = Build::join(&address, &work, BuildOptions::default()).await?;
    /// let cells = one.cells("0/vertices", plan.clone())?;
    /// cells.put(&"3".parse::<ChunkKey>()?, b"rows".as_slice().into())?;
    /// let (report, keys) = cells.finish_part()?;
    /// assert_eq!((report.items, keys.as_slice()), (1, &["3".into()][..]));
    /// one.flush().await?;
    ///
    /// let last = Build::join(&address, &work, BuildOptions::default()).await?;
    /// assert!(!last.is_published().await?);
    /// let cells = last.cells("0/vertices", plan)?;
    /// assert!(cells.find_missing(&keys).await?.is_empty());
    /// cells.record_external(&keys)?;
    /// cells.finish(|_| ()).await?;
    /// let block = ZarrVectors::new(vec![10.0], [vec![0.0], vec![99.0]]);
    /// last.publish(&Root::new(block, Axis::spatial(1).unwrap_or_default())).await?;
    /// assert!(Build::join(&address, &work, BuildOptions::default()).await?.is_published().await?);
    /// assert!(Build::is_built_in(&address, &work)?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin), but objects below the prefix are not an error.
    #[boxed]
    pub async fn join(address: &str, work: &Path, options: BuildOptions) -> Result<Self> {
        match Address::parse(address)? {
            Address::Directory(path) => {
                check_folders(&path)?;
                let (work, join_options) = (work.to_owned(), options.clone());
                let join = move || {
                    refuse_gone(&path, &work)?;
                    local::join(&path, &work, &join_options)
                };
                let work = run_blocking("write", join).await??;
                Ok(Self::new(Site::Common(Arc::new(work)), &options))
            }
            Address::Remote(scheme, url, path) => {
                let backend = url::build(scheme, &url, path, &options.store)?;
                let prefix = backend.prefix.as_ref();
                Self::join_object_store(backend.store, prefix, work, &options).await
            }
            Address::Versions(address) => Err(crate::versions::refuse_writing(&address)),
        }
    }

    /// Joins the build of a store below `prefix` of the caller's own backend; `work` is a folder
    /// that every process can access.
    ///
    /// # Errors
    ///
    /// As [`join`](Self::join).
    #[boxed]
    pub async fn join_object_store(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        work: &Path,
        options: &BuildOptions,
    ) -> Result<Self> {
        let uploads = Uploads::join(Self::remote(store, prefix, options)?, work).await?;
        Ok(Self::new(Site::Remote(Box::new(uploads)), options))
    }

    /// Returns whether the [joined](Self::join) store has been published, by this process or by one
    /// that may have died.
    ///
    /// # Errors
    ///
    /// When the store cannot be examined.
    #[boxed]
    pub async fn is_published(&self) -> Result<bool> {
        self.0.place.is_published().await
    }

    /// Waits until everything that was handed over is stored and, on a disk, would survive a power
    /// failure.
    ///
    /// # Errors
    ///
    /// The first write that failed.
    #[boxed]
    pub async fn flush(&self) -> Result<()> {
        self.check()?;
        self.0.place.flush().await
    }
}

/// Refuses a build whose store was published, and removed or replaced since.
fn refuse_gone(path: &Path, work: &Path) -> Result<()> {
    let look = zvf_publish::resolve_target(path)
        .and_then(|target| SharedStagingDir::is_gone(&target, work, DOCUMENT));
    if !look.with_op("open")? {
        return Ok(());
    }
    Err(Error::new(
        Class::FileChanged,
        "store of tasks",
        "the one of the plan: remove the folder of the plan to begin anew",
        "another: it was published, and removed or replaced since",
    ))
}
