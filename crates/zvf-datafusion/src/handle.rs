//! An opened store, and the counting of what is read from it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use datafusion::error::{DataFusionError, Result};
use tokio::runtime::Runtime;
use zvf::{IoStats, OpenOptions, Reader};

use crate::external;

/// A store that tables share: its address, how it was opened, and the reader.
#[derive(Clone, Debug)]
pub struct StoreHandle {
    address: Arc<str>,
    storage_options: Arc<[(String, String)]>,
    /// Another one once rows were added.
    reader: Arc<RwLock<Reader>>,
    /// What the backend had been asked for when somebody last looked.
    seen: Arc<Mutex<(u64, u64)>>,
}

impl StoreHandle {
    /// Opens the store at `address`, a path or a URL.
    ///
    /// # Errors
    ///
    /// As [`zvf::open`].
    pub async fn open(address: &str, options: OpenOptions) -> Result<Self> {
        let storage_options = options.storage_options.clone().into();
        let reader = zvf::open(address, options).await.map_err(external)?;
        let reader = Arc::new(RwLock::new(reader));
        Ok(Self { address: address.into(), storage_options, reader, seen: Arc::default() })
    }

    /// The path or URL that it was opened by.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The options of the backend, by the names that `object_store` has.
    #[must_use]
    pub fn storage_options(&self) -> &[(String, String)] {
        &self.storage_options
    }

    /// The reader, of the store as it was when it was opened or rows were last added to it by a table of it.
    #[must_use]
    pub fn reader(&self) -> Reader {
        self.reader.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens the store again, for all who share it: it was changed.
    pub(crate) async fn reopen(&self) -> Result<()> {
        let storage_options = self.storage_options.to_vec();
        let options = OpenOptions { storage_options, ..OpenOptions::default() };
        let reader = zvf::open(&self.address, options).await.map_err(external)?;
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
