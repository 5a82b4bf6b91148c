//! The common part of the writers of rows and items: a chunk that grows, and is then encoded and
//! written.

use zvf_error::Result;
use zvf_format::num::to_u64;
use zvf_metadata::{ArrayDoc, ChunkKeyEncoding, Object};

use super::Build;
use super::chunk_sink::{ArrayReport, ChunkSink};
use super::memory_limiter::GrowingPermit;
use crate::codec::CodecPipeline;
use crate::key::Key;

/// A standalone array that is written in the order of its chunks.
#[derive(Debug)]
pub(super) struct Standalone {
    pub(super) sink: ChunkSink,
    attributes: Object,
    pub(super) chunk: Vec<u8>,
    pub(super) rows: u64,
    room: GrowingPermit,
}

impl Standalone {
    pub(super) fn new(build: Build, key: Key, attributes: Object, codecs: CodecPipeline) -> Self {
        let room = GrowingPermit::new(&build.0.room);
        let sink = ChunkSink::new(build, key, codecs, ChunkKeyEncoding::Default, None);
        Self { sink, attributes, chunk: Vec::new(), rows: 0, room }
    }

    /// Appends these bytes to the chunk.
    pub(super) fn append(&mut self, front: &[u8], bytes: &[u8]) -> Result<()> {
        self.room.acquire_up_to(self.chunk.len() + front.len() + bytes.len())?;
        self.chunk.extend_from_slice(front);
        self.chunk.extend_from_slice(bytes);
        Ok(())
    }

    /// Returns the chunk, and begins the next one with `next`.
    pub(super) fn take(&mut self, next: Vec<u8>) -> Vec<u8> {
        self.room.clear();
        std::mem::replace(&mut self.chunk, next)
    }

    /// Encodes and writes the chunk at this index.
    pub(super) fn write(&self, index: &[u64], chunk: Vec<u8>) -> Result<()> {
        let payload = to_u64(chunk.len());
        self.sink.put(index, vec![chunk.into()], payload)
    }

    /// Writes the document; `attributes` may add to its attributes.
    pub(super) fn finish(
        &mut self,
        mut doc: ArrayDoc,
        attributes: impl FnOnce(&mut Object),
    ) -> Result<ArrayReport> {
        doc.codecs.extend(self.sink.codecs.metadata());
        doc.attributes = std::mem::take(&mut self.attributes);
        attributes(&mut doc.attributes);
        let report = self.sink.close()?;
        self.sink.build.array(&self.sink.key, &doc)?;
        Ok(ArrayReport { items: self.rows, ..report })
    }
}
