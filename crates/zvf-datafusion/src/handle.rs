//! An opened store, and the counting of what is read from it.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use datafusion::error::{DataFusionError, Result};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use zvf::{IoStats, OpenOptions, Reader};

use crate::external;

/// Where a store is: what another process needs to open it.
///
/// Options of a backend may be secrets: they are sent with it, and not shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreAddress {
    path: String,
    storage_options: Vec<(String, String)>,
}

impl StoreAddress {
    /// The store at `path`, a path or a URL, with options of the backend by the names that `object_store` has.
    #[must_use]
    pub fn new(path: &str, storage_options: Vec<(String, String)>) -> Self {
        Self { path: path.to_owned(), storage_options }
    }

    /// The path or URL.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The options of the backend.
    #[must_use]
    pub fn storage_options(&self) -> &[(String, String)] {
        &self.storage_options
    }

    /// Opens the store with the options of this address and those of `others` that are not about the backend.
    async fn open(&self, others: &OpenOptions) -> Result<Reader> {
        zvf::open(&self.path, self.open_options(others)).await.map_err(external)
    }

    fn open_options(&self, others: &OpenOptions) -> OpenOptions {
        let storage_options = self.storage_options.clone();
        OpenOptions { storage_options, ..others.clone() }
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

/// A store that tables share: its address, how it was opened, and the reader.
#[derive(Clone, Debug)]
pub struct StoreHandle {
    address: StoreAddress,
    options: Arc<OpenOptions>,
    /// Another one once rows were added.
    reader: Arc<RwLock<Reader>>,
    /// What the backend had been asked for when somebody last looked.
    seen: Arc<Mutex<(u64, u64)>>,
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

    /// Opens the store at `address`, with what `options` say of memory and patience.
    pub(crate) async fn open_at(address: StoreAddress, options: OpenOptions) -> Result<Self> {
        let reader = Arc::new(RwLock::new(address.open(&options).await?));
        Ok(Self { address, options: Arc::new(options), reader, seen: Arc::default() })
    }

    /// Where the store is.
    #[must_use]
    pub const fn address(&self) -> &StoreAddress {
        &self.address
    }

    /// The reader, of the store as it was when it was opened or rows were last added to it by a table of it.
    #[must_use]
    pub fn reader(&self) -> Reader {
        self.reader.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How the store is opened.
    pub(crate) fn open_options(&self) -> OpenOptions {
        self.address.open_options(&self.options)
    }

    /// Opens the store again, for all who share it: it was changed.
    pub(crate) async fn reopen(&self) -> Result<()> {
        let reader = self.address.open(&self.options).await?;
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = (0, 0);
        *self.reader.write().unwrap_or_else(PoisonError::into_inner) = reader;
        Ok(())
    }

    /// Requests and bytes since the last call. Scans of one store that run at once share what they read.
    pub(crate) fn take_io(&self) -> (u64, u64) {
        let IoStats { requests, bytes_read, .. } = self.reader().store().io_stats();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (before_requests, before_bytes) = std::mem::replace(&mut *seen, (requests, bytes_read));
        (requests.saturating_sub(before_requests), bytes_read.saturating_sub(before_bytes))
    }
}

/// Waits for work that needs a runtime, from code that has none or must not wait in its own.
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
        // Nobody is there to take it when the caller gave up.
        drop(sender.send(work.await));
    });
    let gone = |_gone| DataFusionError::External("the store was not opened".into());
    receiver.recv().map_err(gone)?
}
