//! Writes the encoded chunks of one array: each to its own object, or into a shard, which is
//! written when it is complete.
//!
//! Not here: how a chunk is encoded; the form of a shard ([`super::shards`]).

use std::sync::Mutex;

use bytes::Bytes;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_metadata::ChunkKeyEncoding;

use super::Build;
use super::shards::{CompleteShard, Shards};
use crate::codec;
use crate::key::Key;
use crate::layout::name_chunk;
use crate::sync::lock;

/// The chunks of an array that is being written, with counts `R` of its own.
#[derive(Debug)]
pub(super) struct ChunkSink<R> {
    pub(super) build: Build,
    pub(super) key: Key,
    names: ChunkKeyEncoding,
    is_sharded: bool,
    state: Mutex<SinkState<R>>,
}

#[derive(Debug)]
struct SinkState<R> {
    shards: Option<Shards>,
    finished: bool,
    written: Written<R>,
}

/// The counts of the chunks that were written.
#[derive(Debug, Default)]
pub(super) struct Written<R> {
    pub(super) counts: R,
    pub(super) stored_bytes: u64,
    pub(super) objects: u64,
}

impl<R: Default> ChunkSink<R> {
    pub(super) fn new(
        build: Build,
        key: Key,
        names: ChunkKeyEncoding,
        shards: Option<Shards>,
    ) -> Self {
        let is_sharded = shards.is_some();
        let state = SinkState { shards, finished: false, written: Written::default() };
        Self { build, key, names, is_sharded, state: Mutex::new(state) }
    }

    /// Writes the stored bytes of the chunk at `index`, or keeps them for its shard; `count` counts
    /// it.
    pub(super) fn put(
        &self,
        index: &[u64],
        parts: Vec<Bytes>,
        count: impl FnOnce(&mut R),
    ) -> Result<()> {
        if !self.is_sharded {
            lock(&self.state).check_open()?;
            self.write(index, parts)?;
            self.count(count);
            return Ok(());
        }
        let permit = self.build.0.room.try_acquire(codec::len(&parts))?;
        let mut state = lock(&self.state);
        state.check_open()?;
        state.shards.as_mut().expect("it is sharded").keep(index, parts, permit)?;
        count(&mut state.written.counts);
        Ok(())
    }

    /// Adds the counts of objects that another writer wrote.
    pub(super) fn count(&self, count: impl FnOnce(&mut R)) {
        count(&mut lock(&self.state).written.counts);
    }

    /// Writes the shard that contains the chunk at `index`, if there is one.
    pub(super) fn close_shard(&self, index: &[u64]) -> Result<()> {
        self.write_shard(|shards| shards.take(index)).map(drop)
    }

    /// Writes the remaining shards; nothing can be put after that.
    pub(super) fn close(&self) -> Result<Written<R>> {
        while self.write_shard(Shards::take_next)? {}
        let mut state = lock(&self.state);
        state.check_open()?;
        state.finished = true;
        Ok(std::mem::take(&mut state.written))
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
        let written = &mut lock(&self.state).written;
        written.objects += 1;
        written.stored_bytes += stored;
        Ok(())
    }

    fn object(&self, index: &[u64]) -> Result<Key> {
        self.key.join(&name_chunk(self.names, index))
    }
}

impl<R> SinkState<R> {
    fn check_open(&self) -> Result<()> {
        if !self.finished {
            return Ok(());
        }
        Err(Error::new(Class::InvalidArgument, "array", "one that goes on", "a finished one"))
    }
}
