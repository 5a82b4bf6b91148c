//! The compressed chunks of LAZ: the chunk table and the decoder of a chunk.
//!
//! ```text
//! table at     i64, offset of the chunk table; if it is -1, the offset is in the last 8 bytes of the file
//! chunks       contiguous
//! chunk table  version u32 0, chunks u32, then points (if they vary) and bytes of each, compressed
//! ```
//!
//! The crate `laz` decompresses a chunk. Every size that it trusts is first checked against the bytes of the
//! file, and a panic in it is reported as a broken file.

use std::io::Cursor;

use laz::laszip::{ChunkTable, LazItem, LazItemType, LazVlr};
use laz::record::{
    LayeredPointRecordDecompressor, RecordDecompressor, SequentialPointRecordDecompressor,
};
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_formats::{RandomFile, RecordNumbers, isolate, slice_len};

use crate::las::read::header::LasHeader;

/// The location of a chunk, and its count of points.
#[derive(Clone, Copy)]
pub(crate) struct Chunk {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) points: u64,
}

/// The parameters of the compression, from the `LASzip` VLR.
pub(crate) struct Compression {
    vlr: LazVlr,
    kind: u16, // 1 unchunked, 2 chunked, 3 chunked and layered
    record_bytes: usize,
}

impl Compression {
    /// Reads and checks the `LASzip` VLR.
    pub(crate) fn read(header: &LasHeader, source: &mut RandomFile) -> Result<Self> {
        let place = "VLR laszip encoded 22204";
        let record = header.record("laszip encoded", 22204);
        let found = "compressed points without it";
        let expected = "how points are compressed";
        let record = source.spot(place).need(record, Class::NotFound, expected, found)?;
        let raw = source.read(record.at, record.len, "the record of LASzip")?;
        let numbers = RecordNumbers::new(&raw);
        let items = u64::from(numbers.u16(32));
        if slice_len(&raw) != items * 6 + 34 {
            let expected = format!("{items} items of 6 bytes after 34");
            let found = format!("{} bytes", raw.len());
            return source.spot(place).refuse(Class::CountMismatch, expected, found);
        }
        let spot = source.spot(place);
        let vlr = LazVlr::from_buffer(&raw)
            .map_err(|error| spot.error(Class::Codec, "a known compression", error))?;
        let kind = numbers.u16(0);
        let record_bytes = usize::from(header.record_bytes);
        let sizes = vlr.items().iter().map(item_size).sum::<usize>();
        if sizes != record_bytes
            || vlr.items().iter().any(|item| item_size(item) != usize::from(item.size()))
        {
            let expected = format!("items of {record_bytes} bytes together");
            return source.spot(place).refuse(Class::CountMismatch, expected, sizes);
        }
        let is_layered = vlr.items().iter().any(|item| item.version() > 2);
        let has_chunk_size = kind == 1 || vlr.chunk_size() > 0;
        let is_known = (1..=3).contains(&kind) && is_layered == (kind == 3);
        if vlr.items().is_empty() || !is_known || !has_chunk_size {
            let found =
                format!("compressor {kind}, chunks of {}, {:?}", vlr.chunk_size(), vlr.items());
            return spot.refuse(Class::Codec, "a known compression", found);
        }
        Ok(Self { vlr, kind, record_bytes })
    }

    /// Reads the locations of the chunks and their counts of points.
    pub(crate) fn read_chunks(
        &self,
        header: &LasHeader,
        source: &mut RandomFile,
    ) -> Result<Vec<Chunk>> {
        let start = header.points_at;
        let end = source.len();
        if header.count == 0 {
            return Ok(Vec::new());
        }
        // Saturates above any limit.
        if header.count > end.saturating_mul(MAX_POINTS_PER_BYTE) {
            let expected =
                format!("at most {MAX_POINTS_PER_BYTE} points for each byte of the file");
            let found = header.count.to_string();
            return source.spot_at(107).refuse(Class::LimitExceeded, expected, found);
        }
        if self.kind == 1 {
            let bytes = end - start; // the header was checked: points begin in the file
            return Ok(vec![Chunk { at: start, bytes, points: header.count }]);
        }
        let first = start + 8;
        let raw = source.read(start, 8, "where the chunk table is")?;
        let mut table_at = RecordNumbers::new(&raw).u64(0).cast_signed();
        if table_at == -1 {
            let raw = source.read(end - 8, 8, "where the chunk table is")?;
            table_at = RecordNumbers::new(&raw).u64(0).cast_signed();
        }
        let table_at_inside =
            u64::try_from(table_at).ok().filter(|at| (first..=end - 8).contains(at));
        let Some(table_at) = table_at_inside else {
            let expected = format!("a chunk table from byte {first} to {end}");
            return source.spot_at(start).refuse(Class::Truncated, expected, table_at);
        };
        self.read_table(header, source, first, table_at)
    }

    fn read_table(
        &self,
        header: &LasHeader,
        source: &mut RandomFile,
        first: u64,
        table_at: u64,
    ) -> Result<Vec<Chunk>> {
        let raw = source.read(table_at, 8, "the chunk table")?;
        let count = u64::from(RecordNumbers::new(&raw).u32(4));
        let data = table_at - first;
        let min_chunk_bytes = u64::from(header.record_bytes).max(1);
        if count > data / min_chunk_bytes {
            let expected = format!("chunks in {data} bytes");
            return source.spot_at(table_at).refuse(Class::CountMismatch, expected, count);
        }
        let remaining_bytes = source.len() - table_at;
        let size = (count * 16 + 64).min(remaining_bytes);
        let raw = source.read(table_at, size, "the chunk table")?;
        let is_variable = self.vlr.uses_variable_size_chunks();
        let table = isolate::catch(|| ChunkTable::read(&mut Cursor::new(raw), is_variable));
        let spot = source.spot_at(table_at);
        let table = table.map_err(|found| spot.error(Class::Codec, "a chunk table", found))?;
        let mut chunks = Vec::new();
        let (mut at, mut remaining) = (first, header.count);
        for entry in &table {
            let end = at.checked_add(entry.byte_count).filter(|end| *end <= table_at);
            let found = format_args!("{} bytes from {at}", entry.byte_count);
            let expected = "chunks that end at the chunk table";
            let end = spot.need(end, Class::OutOfBounds, expected, found)?;
            let fixed = u64::from(self.vlr.chunk_size()).min(remaining);
            let points = if is_variable { entry.point_count } else { fixed };
            let found = format_args!("{points} more than {remaining}");
            let expected = "points as the header counts";
            spot.ensure(points <= remaining, Class::CountMismatch, expected, found)?;
            chunks.push(Chunk { at, bytes: entry.byte_count, points });
            remaining -= points;
            at = end;
        }
        let expected = format_args!("chunks of {} points", header.count);
        let found = format_args!("{remaining} less");
        spot.ensure(remaining == 0, Class::CountMismatch, expected, found)?;
        Ok(chunks)
    }

    /// Returns the number of layers of a chunk. Their sizes follow its first point.
    fn count_layers(&self) -> usize {
        let layers = self.vlr.items().iter().map(|item| match item.item_type() {
            LazItemType::Point14 => 9,
            LazItemType::RGBNIR14 => 2,
            LazItemType::Byte14(n) => usize::from(n),
            _ => 1,
        });
        layers.sum()
    }

    /// Reads a chunk, and opens a decoder of it.
    pub(crate) fn open_chunk(&self, source: &mut RandomFile, chunk: Chunk) -> Result<ChunkDecoder> {
        let raw = source.read(chunk.at, chunk.bytes, "compressed points")?;
        if self.kind == 3 && chunk.points > 0 {
            self.check_layers(source, chunk, RecordNumbers::new(&raw))?;
        }
        let items = self.vlr.items();
        let is_layered = self.kind == 3;
        let decoder = isolate::catch(|| {
            let input = Cursor::new(raw);
            let mut decoder: Decoder = if is_layered {
                Box::new(LayeredPointRecordDecompressor::new(input))
            } else {
                Box::new(SequentialPointRecordDecompressor::new(input))
            };
            decoder.set_fields_from(items).map(|()| decoder)
        });
        let decoder = decoder.map_err(|found| {
            source.spot_at(chunk.at).error(Class::Codec, "items that go together", found)
        })?;
        let (at, remaining, record_bytes) = (chunk.at, chunk.points, self.record_bytes);
        Ok(ChunkDecoder { decoder, at, remaining, record_bytes })
    }

    fn check_layers(&self, source: &RandomFile, chunk: Chunk, n: RecordNumbers<'_>) -> Result<()> {
        let spot = source.spot_at(chunk.at);
        let count = u64::from(n.u32(self.record_bytes));
        let expected = format_args!("a chunk of {} points", chunk.points);
        spot.ensure(count == chunk.points, Class::CountMismatch, expected, count)?;
        let sizes_at = self.record_bytes + 4;
        let data_at = sizes_at + self.count_layers() * 4;
        let layers = (sizes_at..data_at).step_by(4).map(|at| u64::from(n.u32(at)));
        let sum = layers.sum::<u64>();
        let layer_bytes = chunk.bytes.saturating_sub(to_u64(data_at)); // 0 if the sizes are cut
        let expected = format_args!("layers of {sum} bytes");
        spot.ensure(sum <= layer_bytes, Class::Truncated, expected, layer_bytes)
    }
}

type Decoder = Box<dyn RecordDecompressor<Cursor<Vec<u8>>> + Send + Sync>;

/// Streaming decoder of a chunk.
pub(crate) struct ChunkDecoder {
    decoder: Decoder,
    at: u64,
    pub(crate) remaining: u64,
    record_bytes: usize,
}

impl ChunkDecoder {
    /// Decodes the next records, at most `rows`.
    pub(crate) fn read_records(&mut self, source: &RandomFile, rows: usize) -> Result<Vec<u8>> {
        let rows = saturating_usize(self.remaining).min(rows);
        let mut points = vec![0; rows * self.record_bytes];
        let decoder = &mut self.decoder;
        let result = isolate::catch(|| decoder.decompress_many(&mut points));
        result.map_err(|found| {
            source.spot_at(self.at).error(Class::Codec, format!("{rows} compressed points"), found)
        })?;
        self.remaining -= to_u64(rows);
        Ok(points)
    }
}

/// Returns the bytes of an item in a point record.
fn item_size(item: &LazItem) -> usize {
    match item.item_type() {
        LazItemType::Byte(n) | LazItemType::Byte14(n) => usize::from(n),
        LazItemType::Point10 => 20,
        LazItemType::GpsTime | LazItemType::RGBNIR14 => 8,
        LazItemType::RGB12 | LazItemType::RGB14 => 6,
        LazItemType::WavePacket13 | LazItemType::WavePacket14 => 29,
        LazItemType::Point14 => 30,
    }
}

/// Limit of the compression ratio, which protects against decompression bombs. Equal points compress to almost nothing.
const MAX_POINTS_PER_BYTE: u64 = 4096;
