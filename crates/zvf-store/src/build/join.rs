//! Stores that many processes build together: joining a build, and the operations of each process.
//!
//! Not here: the tasks and their distribution (`zvf-write`).

use async_recursion::async_recursion as boxed;
use std::sync::Arc;

use object_store::ObjectStore;
use zvf_error::{Error, Result};
#[cfg(feature = "local")]
use zvf_format::Class;
#[cfg(feature = "local")]
use zvf_publish::SharedStagingDir;

#[cfg(feature = "local")]
use super::local;
use super::upload::Uploads;
use super::{Build, BuildOptions, Site, cannot_replace_error};
#[cfg(feature = "local")]
use crate::docs::DOCUMENT;
use crate::source::{Place, url};

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
    /// assert_eq!((report.cells, keys.as_slice()), (1, &["3".into()][..]));
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
    pub async fn join(
        address: &str,
        work: &std::path::Path,
        options: BuildOptions,
    ) -> Result<Self> {
        match Place::parse(address)? {
            #[cfg(feature = "local")]
            Place::Directory(path) => Self::join_folder(path, work.to_owned(), options).await,
            #[cfg(not(feature = "local"))]
            Place::Directory(path) => {
                let (path, _) = (path.to_string_lossy(), work);
                Err(Error::unsupported("folder of this machine", &path))
            }
            Place::Remote(scheme, url, path) => {
                let backend = url::build(scheme, &url, path, &options.store)?;
                let prefix = backend.prefix.as_ref();
                Self::join_object_store(backend.store, prefix, work, &options).await
            }
            Place::Versions(address) => Err(crate::versions::refuse_writing(&address)),
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
        work: &std::path::Path,
        options: &BuildOptions,
    ) -> Result<Self> {
        if options.replace {
            return Err(cannot_replace_error());
        }
        let remote = Self::remote(store, prefix, options)?;
        let uploads = Uploads::join(remote, work).await?;
        let may_wait = uploads.may_wait();
        Ok(Self::new(Site::Remote(Box::new(uploads)), options, may_wait))
    }

    /// Returns whether the [joined](Self::join) store has been published, by this process or by one
    /// that may have died.
    ///
    /// # Errors
    ///
    /// When the store cannot be examined.
    #[boxed]
    pub async fn is_published(&self) -> Result<bool> {
        match &self.0.place {
            #[cfg(feature = "local")]
            Site::Local(folder) => Ok(folder.is_published()),
            #[cfg(feature = "local")]
            Site::Common(work) => {
                let work = Arc::clone(work);
                Ok(crate::source::run_blocking("publish", move || work.is_published()).await??)
            }
            Site::Remote(uploads) => uploads.is_published().await,
        }
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
        match &self.0.place {
            #[cfg(feature = "local")]
            Site::Local(_) => Ok(()), // by `publish`, once for all
            #[cfg(feature = "local")]
            Site::Common(work) => {
                let work = Arc::clone(work);
                Ok(crate::source::run_blocking("write", move || work.flush()).await??)
            }
            Site::Remote(uploads) => uploads.flush().await,
        }
    }

    /// Joins the build of a store in a directory.
    ///
    /// # Errors
    ///
    /// As [`join`](Self::join).
    #[cfg(feature = "local")]
    pub(crate) async fn join_folder(
        path: std::path::PathBuf,
        work: std::path::PathBuf,
        options: BuildOptions,
    ) -> Result<Self> {
        let join_options = options.clone();
        let join = move || {
            let look = zvf_publish::resolve_target(&path)
                .and_then(|target| SharedStagingDir::is_gone(&target, &work, DOCUMENT));
            if look.map_err(|error| Error::io("open", error))? {
                let rule = "the one of the plan: remove the folder of the plan to begin anew";
                return Err(Error::new(
                    Class::FileChanged,
                    "store of tasks",
                    rule,
                    "another: it was published, and removed or replaced since",
                ));
            }
            local::join(&path, &work, &join_options)
        };
        let work = crate::source::run_blocking("write", join).await??;
        Ok(Self::new(Site::Common(Arc::new(work)), &options, true))
    }
}
