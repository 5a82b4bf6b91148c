//! Long files that are read in two steps: their ends at once, all of them when that is asked for.
//!
//! In between the file is held open, so that the second step reads what the first one began, also when another
//! file has the name by then, or none. A write into it shows in its size and modification time.
//! A process may not have many files open, so that few are held; others are read at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use zvf_error::{Error, Result};
use zvf_format::num::to_u64;

use super::file::File;
use super::{ByteRange, Fault, Local, Room, Shared, run_blocking};
use crate::error::object_replaced_error;
use crate::key::Key;
use crate::source::{GetAnswer, PartialRead, Version};

/// A file of which the ends were read.
#[derive(Debug)]
pub(crate) struct HeldFile {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    key: Key,
    file: File,
}

impl Drop for Inner {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Local {
    /// Returns the file under `key`, as [`Source::begin`](crate::source::Source::begin) has it. None where it has to be
    /// read in the usual way, which also classifies faults.
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

impl Shared {
    fn begin(self: Arc<Self>, key: Key, long: u64, ends: u64) -> Option<PartialRead> {
        let file = self.dir.file(&key).ok()??;
        let piece = |range| self.piece(&file, range, false, None).ok();
        if file.size() < long {
            let read = piece(ByteRange::All)?;
            self.opened.fetch_add(1, Ordering::Relaxed);
            let got = GetAnswer { bytes: read.bytes, size: read.size, version: read.version };
            return Some(PartialRead::Whole(Some(got)));
        }
        // Elsewhere a file that is held may keep others from replacing it.
        if !cfg!(unix) {
            return None;
        }
        if HELD.fetch_add(1, Ordering::Relaxed) >= MAX_HELD_FILES {
            HELD.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let ends = piece(ByteRange::At { start: 0, len: ends }).zip(piece(ByteRange::Last(ends)));
        self.opened.fetch_add(1, Ordering::Relaxed);
        let inner = Arc::new(Inner { shared: Arc::clone(&self), key, file }); // releases its place when dropped
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
        let named = |error: Error| error.at_key(&self.inner.key);
        let room = Room { bytes, _held: held.map_err(named)? };
        run_blocking("read", move || inner.read(&room)).await?.map_err(named)
    }

    /// Returns which version of the file it is.
    pub(crate) fn version(&self) -> Version {
        self.inner.file.version()
    }
}

impl Inner {
    fn read(&self, room: &Room) -> Result<Bytes> {
        let read = match self.shared.piece(&self.file, ByteRange::All, false, Some(room)) {
            Ok(read) => read,
            Err(Fault::Error(error)) => return Err(error),
            // There is room for as many bytes as the file has.
            Err(Fault::NoRoom(bytes)) => {
                return Err(Error::limit("bytes of one read", room.bytes, bytes));
            }
        };
        if to_u64(read.bytes.len()) != self.file.size() || self.file.is_written()? {
            return Err(object_replaced_error());
        }
        Ok(read.bytes)
    }
}

/// Files that are held by this process.
static HELD: AtomicUsize = AtomicUsize::new(0);
/// The most that are: often no more than 1024 may be open.
const MAX_HELD_FILES: usize = 64;
