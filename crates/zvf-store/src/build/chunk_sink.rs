//! Writes the encoded chunks of one array: each to its own object, or into a shard, which is
//! written when it is complete.
//!
//! Not here: the payload of a chunk; the form of a shard ([`super::shards`]).

use std::sync::Mutex;

use bytes::Bytes;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::Class;
use zvf_metadata::ChunkKeyEncoding;

use super::Build;
use super::shards::{CompleteShard, Shards};
use crate::codec::{self, CodecPipeline};
use crate::key::Key;
use crate::layout::name_chunk;
use crate::sync::lock;

/// Counts of a written array.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # use zvf_store::{Build, BuildOptions, CellPlan, DensePlan, RowPlan};
/// # let dir = tempfile::tempdir().unwrap();
/// # let build = Build::begin(dir.path().join("x").to_str().unwrap(), BuildOptions::default()).await?;
/// let cells = build.cells("0/vertices", CellPlan::new(vec![0], vec![9]))?;
/// cells.put(&"3".parse::<zvf_format::key::ChunkKey>()?, vec![0; 24].into())?;
/// let report = cells.finish(|_| ()).await?;
/// assert_eq!((report.items, report.payload_bytes, report.stored_bytes), (1, 24, 32));
///
/// let mut groups = build.rows("0/groups", RowPlan::default())?;
/// groups.push(&[1; 8])?;
/// groups.push(b"")?;
/// let report = groups.finish(|_| ()).await?;
/// assert_eq!((report.items, report.objects), (2, 1));
///
/// // One object with id 0: nothing but the fill value, so nothing is stored.
/// let mut ids = build.dense("0/object_index/object_ids", DensePlan::new(zvf_metadata::Dtype::INT64))?;
/// ids.push(&0_i64.to_le_bytes())?;
/// let report = ids.finish(|_| ()).await?;
/// assert_eq!((report.items, report.objects), (1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArrayReport {
    /// Number of cells or chunks that are not empty, or of rows.
    pub items: u64,
    /// Bytes of payloads that this process encoded.
    pub payload_bytes: u64,
    /// Bytes of the objects.
    pub stored_bytes: u64,
    /// Number of objects, without the document.
    pub objects: u64,
}

/// The chunks of an array that is being written.
#[derive(Debug)]
pub(super) struct ChunkSink {
    pub(super) build: Build,
    pub(super) key: Key,
    pub(super) codecs: CodecPipeline,
    names: ChunkKeyEncoding,
    is_sharded: bool,
    state: Mutex<SinkState>,
}

#[derive(Debug)]
struct SinkState {
    shards: Option<Shards>,
    finished: bool,
    report: ArrayReport,
}

impl ChunkSink {
    pub(super) fn new(
        build: Build,
        key: Key,
        codecs: CodecPipeline,
        names: ChunkKeyEncoding,
        shards: Option<Shards>,
    ) -> Self {
        let is_sharded = shards.is_some();
        let state = SinkState { shards, finished: false, report: ArrayReport::default() };
        Self { build, key, codecs, names, is_sharded, state: Mutex::new(state) }
    }

    /// Encodes and writes the chunk at `index`, or keeps it for its shard; counts it with a payload
    /// of this many bytes.
    pub(super) fn put(&self, index: &[u64], parts: Vec<Bytes>, payload: u64) -> Result<()> {
        self.put_chunk(index, parts, payload).at_key(&self.key)
    }

    fn put_chunk(&self, index: &[u64], parts: Vec<Bytes>, payload: u64) -> Result<()> {
        let parts = self.build.encode(&self.codecs, parts)?;
        if self.is_sharded {
            let permit = self.build.0.room.try_acquire(codec::len(&parts))?;
            let mut state = lock(&self.state);
            state.check_open()?;
            state.shards.as_mut().expect("it is sharded").keep(index, parts, permit)?;
        } else {
            lock(&self.state).check_open()?;
            self.write(index, parts)?;
        }
        let report = &mut lock(&self.state).report;
        report.items += 1;
        report.payload_bytes += payload;
        Ok(())
    }

    /// Writes the shard that contains the chunk at `index`, if there is one.
    pub(super) fn close_shard(&self, index: &[u64]) -> Result<()> {
        self.write_shard(|shards| shards.take(index)).map(drop)
    }

    /// Writes the remaining shards; nothing can be put after that.
    pub(super) fn close(&self) -> Result<ArrayReport> {
        while self.write_shard(Shards::take_next).at_key(&self.key)? {}
        let mut state = lock(&self.state);
        state.check_open().at_key(&self.key)?;
        state.finished = true;
        Ok(state.report)
    }

    /// Returns the object that contains the chunk at `index`.
    pub(super) fn object_of(&self, index: &[u64]) -> Result<Key> {
        match &lock(&self.state).shards {
            Some(shards) => self.object(&shards.locate(index).0),
            None => self.object(index),
        }
    }

    fn write_shard(&self, take: impl FnOnce(&mut Shards) -> Option<CompleteShard>) -> Result<bool> {
        let Some(shard) = lock(&self.state).shards.as_mut().and_then(take) else {
            return Ok(false);
        };
        self.write(&shard.index.clone(), shard.assemble()?)?;
        Ok(true)
    }

    /// Writes the object at `index`: a chunk or a shard.
    fn write(&self, index: &[u64], parts: Vec<Bytes>) -> Result<()> {
        let stored = codec::len(&parts);
        self.build.object(self.object(index)?, parts)?;
        let report = &mut lock(&self.state).report;
        report.objects += 1;
        report.stored_bytes += stored;
        Ok(())
    }

    fn object(&self, index: &[u64]) -> Result<Key> {
        self.key.join(&name_chunk(self.names, index))
    }
}

impl SinkState {
    fn check_open(&self) -> Result<()> {
        if !self.finished {
            return Ok(());
        }
        Err(Error::new(Class::InvalidArgument, "array", "one that goes on", "a finished one"))
    }
}
