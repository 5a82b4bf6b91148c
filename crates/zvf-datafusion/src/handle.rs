//! `StoreHandle`: an open store with I/O counters, shared by tables.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use datafusion::error::{DataFusionError, Result};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use zvf::{IoStats, LevelId, OpenOptions, Reader};

use crate::external_error;

/// The address of a store: all that another process needs to open it.
///
/// Options of a backend may be secrets: they are serialized, but not displayed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreAddress {
    path: String,
    storage_options: Vec<(String, String)>,
}

impl StoreAddress {
    /// Creates the address of the store at `path`, a path or a URL, with backend options by their `object_store` names.
    pub fn new(path: &str, storage_options: Vec<(String, String)>) -> Self {
        Self { path: path.to_owned(), storage_options }
    }

    /// Returns the path or URL.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the options of the backend.
    pub fn storage_options(&self) -> &[(String, String)] {
        &self.storage_options
    }

    /// Opens the store with `options`, except that the backend options are those of this address.
    async fn open(&self, options: &OpenOptions) -> Result<Reader> {
        let opened = zvf::open(&self.path, self.open_options(options)).await;
        opened.map_err(|error| self.name_in(external_error(error)))
    }

    /// Returns an error of reading the store with its name.
    pub(crate) fn name_in(&self, error: DataFusionError) -> DataFusionError {
        match error {
            DataFusionError::External(cause) => match cause.downcast::<zvf::Error>() {
                Ok(cause) => external_error(cause.within(&self.path)),
                Err(cause) => DataFusionError::External(cause),
            },
            other => other,
        }
    }

    fn open_options(&self, options: &OpenOptions) -> OpenOptions {
        let storage_options = self.storage_options.clone();
        OpenOptions { storage_options, ..options.clone() }
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreAddress").field(&self.path).finish()
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.path)
    }
}

/// An open store that tables share: its address, its options and the reader.
#[derive(Clone, Debug)]
pub struct StoreHandle {
    address: StoreAddress,
    options: Arc<OpenOptions>,
    /// Replaced by [`Self::reopen`] after rows were added.
    reader: Arc<RwLock<Reader>>,
    /// Requests and bytes at the last call of [`Self::take_io`].
    last_io: Arc<Mutex<(u64, u64)>>,
}

impl StoreHandle {
    /// Opens the store at `path`, a path or a URL.
    ///
    /// # Errors
    ///
    /// As [`zvf::open`].
    pub async fn open(path: &str, options: OpenOptions) -> Result<Self> {
        let address = StoreAddress::new(path, options.storage_options.clone());
        Self::open_at(address, options).await
    }

    /// Opens the store at `address`, with the memory limits and timeouts of `options`.
    pub(crate) async fn open_at(address: StoreAddress, options: OpenOptions) -> Result<Self> {
        let reader = Arc::new(RwLock::new(address.open(&options).await?));
        Ok(Self { address, options: Arc::new(options), reader, last_io: Arc::default() })
    }

    /// Returns the address of the store.
    pub const fn address(&self) -> &StoreAddress {
        &self.address
    }

    /// Returns the reader of the store, in the state of its opening or of the last INSERT through one of its tables.
    pub fn reader(&self) -> Reader {
        self.reader.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a hash of the commit and of the documents of the store and of a level: the same in
    /// all processes that see the same store.
    pub(crate) async fn state(&self, level: u32) -> Result<u64> {
        let reader = self.reader();
        let level = reader.level(LevelId(level)).await.map_err(external_error)?;
        let (store, documents) = (reader.store(), level.node().meta().print());
        let mut hasher = DefaultHasher::new();
        (store.journal_head(), store.root_json(), documents).hash(&mut hasher);
        Ok(hasher.finish())
    }

    /// Returns the options with which the store is opened.
    pub(crate) fn open_options(&self) -> OpenOptions {
        self.address.open_options(&self.options)
    }

    /// Reopens the store after a change, for all clones of this handle.
    pub(crate) async fn reopen(&self) -> Result<()> {
        let reader = self.address.open(&self.options).await?;
        *self.last_io.lock().unwrap_or_else(PoisonError::into_inner) = (0, 0);
        *self.reader.write().unwrap_or_else(PoisonError::into_inner) = reader;
        Ok(())
    }

    /// Returns the requests and bytes since the last call. Concurrent scans of one store share these counters.
    pub(crate) fn take_io(&self) -> (u64, u64) {
        let IoStats { requests, bytes_read, .. } = self.reader().store().io_stats();
        let mut last = self.last_io.lock().unwrap_or_else(PoisonError::into_inner);
        let (before_requests, before_bytes) = std::mem::replace(&mut *last, (requests, bytes_read));
        // A reader that was opened anew counts from 0.
        (requests.saturating_sub(before_requests), bytes_read.saturating_sub(before_bytes))
    }
}

/// Runs a future on a separate runtime and blocks until it is done, for code that has no runtime or must not block its own.
pub(crate) fn wait<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let start = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("zvf-open").enable_all().build()
    };
    let runtime = match RUNTIME.get_or_init(start) {
        Ok(runtime) => runtime,
        Err(error) => return Err(DataFusionError::External(error.to_string().into())),
    };
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    runtime.spawn(async move {
        // Sending fails only if the caller is gone.
        drop(sender.send(work.await));
    });
    let closed = |_closed| DataFusionError::External("the store was not opened".into());
    receiver.recv().map_err(closed)?
}
