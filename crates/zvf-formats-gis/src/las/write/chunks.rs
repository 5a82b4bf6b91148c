//! Compressor of points to the chunks of LAZ, with the chunk table.

use laz::laszip::{ChunkTable, ChunkTableEntry, LazItemRecordBuilder, LazVlr, LazVlrBuilder};
use laz::record::{
    LayeredPointRecordCompressor, RecordCompressor, SequentialPointRecordCompressor,
};
use zvf_error::Result;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_formats::isolate;

use crate::las::read::header::RECORD_BYTES;
use crate::las::write::schema::{Schema, refuse};

/// A LAZ compressor that cuts points into chunks.
pub(crate) struct Chunks {
    vlr: LazVlr,
    layered: bool,
    table: ChunkTable,
    buffer: Vec<u8>,
    chunk_bytes: usize,
    record_bytes: usize,
}

impl Chunks {
    /// Creates a compressor of chunks of the usual size, or of any size where `is_variable` is set.
    pub(crate) fn new(schema: &Schema, is_variable: bool) -> Result<Self> {
        let extra = schema.record_bytes - RECORD_BYTES[usize::from(schema.point_format)];
        let items = LazItemRecordBuilder::default_for_point_format_id(schema.point_format, extra);
        let items = items.map_err(|error| refuse(error.to_string()))?;
        let vlr = LazVlrBuilder::new(items);
        let vlr = if is_variable {
            vlr.with_variable_chunk_size().build()
        } else {
            vlr.with_fixed_chunk_size(CHUNK_POINTS).build()
        };
        Ok(Self {
            vlr,
            layered: schema.point_format > 5,
            table: ChunkTable::default(),
            buffer: Vec::new(),
            chunk_bytes: usize_from_u32(CHUNK_POINTS) * usize::from(schema.record_bytes),
            record_bytes: usize::from(schema.record_bytes),
        })
    }

    /// Returns the data of the VLR that describes the compression.
    pub(crate) fn record(&self) -> Result<Vec<u8>> {
        let mut data = Vec::new();
        self.vlr.write_to(&mut data)?;
        Ok(data)
    }

    /// Adds points, and returns the chunks that are now full.
    pub(crate) fn push(&mut self, records: &[u8]) -> Result<Vec<u8>> {
        self.buffer.extend_from_slice(records);
        let mut full = Vec::new();
        while self.buffer.len() >= self.chunk_bytes {
            let rest = self.buffer.split_off(self.chunk_bytes);
            let chunk = std::mem::replace(&mut self.buffer, rest);
            full.extend(self.compress(&chunk)?);
        }
        Ok(full)
    }

    /// Compresses all `records` to one chunk.
    pub(crate) fn compress(&mut self, records: &[u8]) -> Result<Vec<u8>> {
        let mut compressor: Box<dyn RecordCompressor<Vec<u8>>> = if self.layered {
            Box::new(LayeredPointRecordCompressor::new(Vec::new()))
        } else {
            Box::new(SequentialPointRecordCompressor::new(Vec::new()))
        };
        let result = compressor.set_fields_from(self.vlr.items());
        result.map_err(|error| refuse(error.to_string()))?;
        let done = isolate::catch_panic(|| {
            compressor.compress_many(records)?;
            compressor.done()?;
            Ok::<_, std::io::Error>(compressor.box_into_inner())
        });
        let bytes = done.map_err(refuse)??;
        self.table.push(ChunkTableEntry {
            point_count: to_u64(records.len() / self.record_bytes),
            byte_count: to_u64(bytes.len()),
        });
        Ok(bytes)
    }

    /// Returns the last chunk and the chunk table.
    pub(crate) fn finish(&mut self) -> Result<(Vec<u8>, Vec<u8>)> {
        let rest = std::mem::take(&mut self.buffer);
        let last = if rest.is_empty() { Vec::new() } else { self.compress(&rest)? };
        let mut table = Vec::new();
        self.table.write_to(&mut table, &self.vlr)?;
        Ok((last, table))
    }
}

/// Points of a chunk, as in `LASzip`.
const CHUNK_POINTS: u32 = 50_000;
