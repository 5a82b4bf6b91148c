//! Long files that are read in two steps: their ends first, the rest on request.
//!
//! In between, the file stays open, so that both steps read the same file even if another file
//! takes its name or it is removed. A write to it changes its size and modification time. A process
//! can have only so many open files, so only a few are held; others are read whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::num::to_u64;

use super::file::File;
use super::{ByteRange, Local, LocalState, PieceFault, Room, run_blocking};
use crate::budget::Budget;
use crate::key::Key;
use crate::source::{GetAnswer, PartialRead, Version};

/// A file whose ends were read.
#[derive(Debug)]
pub(crate) struct HeldFile {
    inner: Arc<HeldState>,
}

#[derive(Debug)]
struct HeldState {
    shared: Arc<LocalState>,
    key: Key,
    file: File,
}

impl Drop for HeldState {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Local {
    /// Returns the file under `key`, as [`Origin::begin`](crate::source::Origin::begin) needs it.
    /// Returns `None` if it must be read in the usual way, which also classifies errors.
    pub(crate) async fn begin(
        &self,
        key: &Key,
        long: u64,
        ends: u64,
    ) -> Result<Option<PartialRead>> {
        let (shared, key) = (Arc::clone(&self.0), key.clone());
        run_blocking("read", move || shared.begin(key, long, ends)).await
    }
}

impl LocalState {
    fn begin(self: Arc<Self>, key: Key, long: u64, ends: u64) -> Option<PartialRead> {
        let file = self.dir.file(&key).ok()??;
        let piece = |range| self.piece(&file, range, false, None).ok();
        if file.size() < long {
            let read = piece(ByteRange::All)?;
            self.opened.fetch_add(1, Ordering::Relaxed);
            let got = GetAnswer { bytes: read.bytes, size: read.size, version: read.version };
            return Some(PartialRead::Whole(Some(got)));
        }
        // On other systems, an open file may prevent others from replacing it.
        if !cfg!(unix) {
            return None;
        }
        if HELD.fetch_add(1, Ordering::Relaxed) >= MAX_HELD_FILES {
            HELD.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let ends = piece(ByteRange::At { start: 0, len: ends }).zip(piece(ByteRange::Last(ends)));
        self.opened.fetch_add(1, Ordering::Relaxed);
        let inner = Arc::new(HeldState { shared: Arc::clone(&self), key, file }); // releases its place when dropped
        let (head, tail) = ends?;
        Some(PartialRead::Ends(head.bytes, tail.bytes, HeldFile { inner }))
    }
}

impl HeldFile {
    /// Reads all of the file.
    pub(crate) async fn read(&self) -> Result<Bytes> {
        let inner = Arc::clone(&self.inner);
        let bytes = inner.file.size();
        let held = inner.shared.budget.reserve(bytes).await;
        let room = Room { bytes, _held: held.at_key(&self.inner.key)? };
        run_blocking("read", move || inner.read(&room)).await?.at_key(&self.inner.key)
    }

    /// Returns the version of the file.
    pub(crate) fn version(&self) -> Version {
        self.inner.file.version()
    }
}

impl HeldState {
    fn read(&self, room: &Room) -> Result<Bytes> {
        let read = match self.shared.piece(&self.file, ByteRange::All, false, Some(room)) {
            Ok(read) => read,
            Err(PieceFault::Error(error)) => return Err(error),
            // The file fits in the budget.
            Err(PieceFault::NoRoom(bytes)) => {
                return Err(Budget::refusal(room.bytes, bytes));
            }
        };
        if to_u64(read.bytes.len()) != self.file.size() || self.file.is_written()? {
            return Err(Error::replaced());
        }
        Ok(read.bytes)
    }
}

/// Number of files that this process holds open.
static HELD: AtomicUsize = AtomicUsize::new(0);
/// Maximum number of held files: often a process may have only 1024 open files.
const MAX_HELD_FILES: usize = 64;
