//! The blocking API: the same calls without async.
//!
//! A store on the local disk is read on the calling thread. For a remote store this module owns a
//! small tokio runtime, which is created when the store is opened and shut down when the last clone
//! of the handle is dropped. Inside another runtime, waiting for a network would block that
//! runtime, so such a call returns an error. Local stores can be read anywhere.

use std::io;
use std::sync::Arc;

use tokio::runtime::{Builder, Handle, Runtime};
use zvf_format::Class;
use zvf_store::{OpenOptions, Store, block_on};

use crate::Error;

/// Runs futures to completion: directly for a local store, on a runtime for a remote one.
#[derive(Clone, Debug)]
pub struct BlockingRuntime {
    runtime: Option<Arc<Owned>>,
}

/// A runtime that can be dropped in any context.
#[derive(Debug)]
struct Owned(Option<Runtime>);

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl BlockingRuntime {
    /// Creates the runtime that reading from `address` needs, if any.
    ///
    /// ```
    /// let waiter = zvf::blocking::BlockingRuntime::for_address("data/brain.zarrvectors")?;
    /// assert_eq!(waiter.wait(async { 6 * 7 })?, 42);
    /// # Ok::<(), zvf::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When `address` is not a path or URL, or a runtime is needed and cannot start.
    pub fn for_address(address: &str) -> Result<Self, Error> {
        if !Store::needs_runtime(address)? {
            return Ok(Self { runtime: None });
        }
        refuse_inside()?;
        let built = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("zvf")
            .enable_all()
            .build();
        let runtime = Owned(Some(built.map_err(no_runtime_error)?));
        Ok(Self { runtime: Some(Arc::new(runtime)) })
    }

    /// Runs `future` to completion.
    ///
    /// # Errors
    ///
    /// When the store is remote and the caller is inside a runtime.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T, Error> {
        match self.runtime.as_deref() {
            Some(Owned(Some(runtime))) => {
                refuse_inside()?;
                Ok(runtime.block_on(future))
            }
            Some(Owned(None)) | None => Ok(block_on(future)),
        }
    }
}

/// Opens the store at `address`, as [`open_store`](crate::open_store) does.
///
/// ```
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// let (store, waiter) = zvf::blocking::open_store(path, zvf::OpenOptions::default())?;
/// let level = waiter.wait(store.level(0))??;
/// assert_eq!(level.meta().vertex_count, 3);
/// # Ok::<(), zvf::Error>(())
/// ```
///
/// # Errors
///
/// As [`open_store`](crate::open_store), and when the store is remote and the caller is inside a
/// runtime.
pub fn open_store(address: &str, options: OpenOptions) -> Result<(Store, BlockingRuntime), Error> {
    let waiter = BlockingRuntime::for_address(address)?;
    let store = waiter.wait(crate::open_store(address, options))??;
    Ok((store, waiter))
}

/// Opens the store at `address`, as [`open`](crate::open) does.
///
/// ```
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// use zvf::{OpenOptions, Query};
///
/// let reader = zvf::blocking::open(path, OpenOptions::default())?;
/// assert_eq!(reader.run(&Query::all())?.batch.len(), 3);
/// # Ok::<(), zvf::Error>(())
/// ```
///
/// # Errors
///
/// As [`open`](crate::open), and when the store is remote and the caller is inside a runtime.
#[cfg(feature = "query")]
pub fn open(address: &str, options: OpenOptions) -> Result<Reader, Error> {
    let (store, waiter) = open_store(address, options)?;
    Ok(Reader { inner: zvf_query::Reader::new(store), waiter })
}

/// A handle for querying the levels of one store; cheap to clone.
#[cfg(feature = "query")]
#[derive(Clone, Debug)]
pub struct Reader {
    inner: zvf_query::Reader,
    waiter: BlockingRuntime,
}

#[cfg(feature = "query")]
impl Reader {
    /// Returns the store.
    pub const fn store(&self) -> &Store {
        self.inner.store()
    }

    /// Returns the runtime that waits for this store, for calls on the store and its levels.
    pub const fn waiter(&self) -> &BlockingRuntime {
        &self.waiter
    }

    /// Returns level `level`, which is opened once.
    ///
    /// # Errors
    ///
    /// As [`Reader::level`](zvf_query::Reader::level) and [`BlockingRuntime::wait`].
    pub fn level(&self, level: zvf_model::LevelId) -> Result<zvf_model::LevelReader, Error> {
        self.waiter.wait(self.inner.level(level))?
    }

    /// Returns the plan of `query`.
    ///
    /// # Errors
    ///
    /// As [`Reader::plan`](zvf_query::Reader::plan) and [`BlockingRuntime::wait`].
    pub fn plan(&self, query: &zvf_query::Query) -> Result<zvf_query::QueryPlan, Error> {
        self.waiter.wait(self.inner.plan(query))?
    }

    /// Returns the whole answer to `query`.
    ///
    /// # Errors
    ///
    /// As [`Reader::run`](zvf_query::Reader::run) and [`BlockingRuntime::wait`].
    pub fn run(&self, query: &zvf_query::Query) -> Result<zvf_query::Answer, Error> {
        self.waiter.wait(self.inner.run(query))?
    }

    /// Returns the number of vertices, objects and elements in the answer to `query`.
    ///
    /// # Errors
    ///
    /// As [`Reader::count`](zvf_query::Reader::count) and [`BlockingRuntime::wait`].
    pub fn count(&self, query: &zvf_query::Query) -> Result<zvf_query::Counts, Error> {
        self.waiter.wait(self.inner.count(query))?
    }

    /// Returns statistics of the values of level `level`.
    ///
    /// # Errors
    ///
    /// As [`Reader::statistics`](zvf_query::Reader::statistics) and [`BlockingRuntime::wait`].
    pub fn statistics(
        &self,
        level: zvf_model::LevelId,
        kind: Option<zvf_model::Kind>,
    ) -> Result<zvf_query::Statistics, Error> {
        self.waiter.wait(self.inner.statistics(level, kind))?
    }

    /// Returns the answer to `query` batch by batch, in order and in bounded memory. The next
    /// batches are prefetched, by the runtime for a remote store and by threads for a local one.
    /// Other queries on the same handle never wait for them.
    pub fn batches(
        &self,
        query: zvf_query::Query,
    ) -> impl Iterator<Item = Result<zvf_model::Batch, Error>> + use<> {
        use futures_util::StreamExt as _;
        let (mut stream, waiter) = (self.inner.stream(query), self.waiter.clone());
        let mut failed = false;
        std::iter::from_fn(move || {
            if failed {
                return None;
            }
            let next = match waiter.wait(stream.next()) {
                Ok(next) => next?,
                Err(error) => Err(error),
            };
            failed = next.is_err();
            Some(next)
        })
    }
}

/// Returns an error on a thread that belongs to a runtime.
fn refuse_inside() -> Result<(), Error> {
    match Handle::try_current() {
        Ok(_) => Err(would_block_error()),
        Err(_) => Ok(()),
    }
}

/// Returns the error for a call that would block a thread that drives other tasks.
fn would_block_error() -> Error {
    let text = "a blocking call on a remote store inside an async runtime";
    let error = Error::custom(Class::InvalidArgument, text).with_op("wait");
    error.with_hint("use the async functions there, or a thread of its own")
}

/// Returns the error for a runtime that cannot start.
fn no_runtime_error(source: io::Error) -> Error {
    let text = format!("the runtime for remote stores does not start: {}", source.kind());
    Error::custom(Class::Io, text).with_op("open").with_cause(source)
}

/// Threads of a runtime: they only move bytes, decoding happens elsewhere.
const WORKERS: usize = 2;

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const THREE: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");

    #[test]
    fn a_future_that_waits_is_woken() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let waiter = BlockingRuntime::for_address(THREE).unwrap();
        let thread = thread::spawn(move || sender.send(5).unwrap());
        assert_eq!(waiter.wait(receiver).unwrap().unwrap(), 5);
        thread.join().unwrap();
    }

    #[test]
    fn a_remote_store_is_refused_inside_a_runtime_and_a_local_one_is_not() {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let error = open_store("memory:", OpenOptions::default()).unwrap_err();
            assert_eq!((error.class(), error.op()), (Class::InvalidArgument, "wait"));
            assert_eq!(
                error.to_string(),
                "InvalidArgument, a blocking call on a remote store inside an async runtime; use the \
                 async functions there, or a thread of its own"
            );
            assert!(open_store(THREE, OpenOptions::default()).is_ok());
        });
    }

    #[test]
    fn a_task_may_wait_for_more_than_its_budget_of_steps() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let steps = runtime.block_on(async {
            let waiter = BlockingRuntime::for_address(THREE).unwrap();
            let door = tokio::sync::Semaphore::new(1);
            waiter.wait(async {
                for _ in 0..1000 {
                    drop(door.acquire().await);
                }
                1000
            })
        });
        assert_eq!(steps.unwrap(), 1000);
    }

    #[test]
    fn a_handle_may_be_dropped_inside_a_runtime() {
        let waiter = BlockingRuntime::for_address("memory:").unwrap();
        assert!(waiter.wait(async { tokio::time::sleep(std::time::Duration::ZERO).await }).is_ok());
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            assert!(waiter.wait(async {}).is_err(), "refused, and no panic");
            drop(waiter);
        });
    }

    #[test]
    fn a_missing_store_is_reported_with_a_hint() {
        let error = open_store("memory:", OpenOptions::default()).unwrap_err();
        assert_eq!((error.class(), error.key()), (Class::NotFound, Some("zarr.json")));
        assert_eq!(error.hint(), Some("give the folder of the store, which contains zarr.json"));
    }
}
