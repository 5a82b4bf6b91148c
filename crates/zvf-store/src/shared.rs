//! The state shared by all handles of one open store: its backend, its cached metadata, its limits.
//!
//! Not here: reading through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::num::to_u64;
use zvf_metadata::{LayoutFamily, Node, Root};

use crate::budget::Budget;
use crate::cache::Cache;
use crate::codec::Caps;
use crate::docs::{Doc, Docs};
use crate::key::Key;
use crate::layout::SharedTables;
use crate::notice::{Notice, Notices};
use crate::source::{Get, Origin};

/// One open store.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) source: Origin,
    pub(crate) docs: Docs,
    pub(crate) notices: Notices,
    pub(crate) cache: Cache,
    pub(crate) budget: Budget,
    pub(crate) root: Root,
    pub(crate) family: LayoutFamily,
    pub(crate) ids: AtomicU32,
    pub(crate) tables: SharedTables,
}

impl Handle {
    /// Returns a number for one array, under which its chunks are cached.
    pub(crate) fn new_id(&self) -> u32 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Refuses a backend that cannot list what lies below `key`, and says so in a notice; `without`
    /// is what the caller would have needed instead.
    pub(crate) fn check_listable(&self, key: &Key, without: &'static str) -> Result<()> {
        if self.source.can_list() {
            return Ok(());
        }
        self.notices.add(Notice::CannotEnumerate { key: key.clone() });
        Err(Error::unsupported("enumeration without", without).at_key(key))
    }

    /// Returns the objects under `keys`, which were listed, each with its key.
    pub(crate) async fn stored_objects(&self, keys: &[Key]) -> Result<Vec<(Key, Bytes)>> {
        let gets: Vec<Get> = keys.iter().cloned().map(Get::object).collect();
        let answers = self.source.read_many(&gets).await.into_iter().zip(keys);
        let objects = answers.map(|(got, key)| {
            let got = got.at_key(key)?;
            let got = got.ok_or_else(|| Error::missing(key, "it was listed"))?;
            Ok((key.clone(), got.bytes))
        });
        objects.collect()
    }

    /// Returns the document of the node under `key`.
    pub(crate) async fn node(&self, key: &Key) -> Result<Option<Arc<Node>>> {
        self.docs.node(&self.source, key).await
    }

    /// Like [`node`](Self::node), but returns only the outline of a long document.
    pub(crate) async fn outline(&self, key: &Key) -> Result<Doc> {
        self.docs.outline(&self.source, key).await
    }

    /// Returns the maximum decoded size of one chunk: half of the bytes that may be in flight,
    /// because a growing buffer exists twice.
    pub(crate) fn chunk_cap(&self) -> u64 {
        (self.budget.max_bytes() / 2).min(MAX_CHUNK_BYTES)
    }

    /// Returns the limits for decoding chunks of up to `chunk` bytes. Each thread has a growing
    /// buffer in addition to its finished ones.
    pub(crate) fn caps(&self, chunk: u64) -> Caps {
        let buffers = to_u64(rayon::current_num_threads()) * CHUNKS_PER_THREAD;
        let share = self.budget.max_bytes() / buffers; // a pool has threads
        Caps { chunk, thread: share.max(MIN_SHARE_BYTES), batch: self.budget.max_bytes() }
    }
}

/// The maximum share of a thread, in finished chunks.
const CHUNKS_PER_THREAD: u64 = 4;
/// The minimum share of a thread, whatever the budget: few chunks are larger.
const MIN_SHARE_BYTES: u64 = 2 << 20;
/// The maximum decoded size of a chunk of any store.
const MAX_CHUNK_BYTES: u64 = 1 << 30;
