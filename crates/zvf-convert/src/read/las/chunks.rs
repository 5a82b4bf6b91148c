//! The compressed points of LAZ, chunk by chunk.
//!
//! ```text
//! table at     i64, where the chunk table is; -1 where the last 8 bytes of the file say it
//! chunks       one after the other
//! chunk table  version u32 0, chunks u32, then points (if they vary) and bytes of each, compressed
//! ```
//!
//! The crate `laz` decompresses a chunk; every size it would believe is compared with the bytes that are
//! there before, and a panic in it is a fault of the file.

use std::io::Cursor;

use laz::laszip::{ChunkTable, LazItem, LazItemType, LazVlr};
use laz::record::{
    LayeredPointRecordDecompressor, RecordDecompressor, SequentialPointRecordDecompressor,
};
use zvf_format::Class;
use zvf_format::num::to_u64;

use super::header::LasHeader;
use crate::ConvertError;
use crate::error::Place;
use crate::isolate;
use crate::read::source::{Numbers, Source, length};

/// Compressed points that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) at: u64,
    pub(super) bytes: u64,
    pub(super) points: u64,
}

/// How points are compressed.
#[derive(Clone, Debug)]
pub(super) struct Compression {
    vlr: LazVlr,
    kind: u16, // 1 all in one, 2 in chunks, 3 in chunks of layers
    record_bytes: usize,
}

impl Compression {
    /// What the record of `LASzip` says.
    pub(super) fn read(header: &LasHeader, source: &mut Source) -> Result<Self, ConvertError> {
        let place = || Place::Named("VLR laszip encoded 22204".to_owned());
        let Some(record) = header.record("laszip encoded", 22204) else {
            let found = "compressed points without it";
            return Err(source
                .bad(Class::NotFound, place(), "how points are compressed", found)
                .into());
        };
        let (at, len) = (record.at, record.len);
        let raw = source.read(at, len, "the record of LASzip")?;
        let items = u64::from(Numbers(&raw).u16(32));
        if length(&raw) != items * 6 + 34 {
            let expected = format!("{items} items of 6 bytes after 34");
            let found = format!("{} bytes", raw.len());
            return Err(source.bad(Class::CountMismatch, place(), expected, found).into());
        }
        let bad = |found: String| source.bad(Class::Codec, place(), "a known compression", found);
        let vlr = LazVlr::from_buffer(&raw).map_err(|error| bad(error.to_string()))?;
        let kind = Numbers(&raw).u16(0);
        let record_bytes = usize::from(header.record_bytes);
        let sizes = vlr.items().iter().map(size).sum::<usize>();
        if sizes != record_bytes
            || vlr.items().iter().any(|item| size(item) != usize::from(item.size()))
        {
            let expected = format!("items of {record_bytes} bytes together");
            return Err(source
                .bad(Class::CountMismatch, place(), expected, sizes.to_string())
                .into());
        }
        let layered = vlr.items().iter().any(|item| item.version() > 2);
        let chunks = kind == 1 || vlr.chunk_size() > 0;
        if vlr.items().is_empty() || layered != (kind == 3) || !(1..=3).contains(&kind) || !chunks {
            let found =
                format!("compressor {kind}, chunks of {}, {:?}", vlr.chunk_size(), vlr.items());
            return Err(bad(found).into());
        }
        Ok(Self { vlr, kind, record_bytes })
    }

    /// Where the chunks are and how many points each has.
    pub(super) fn chunks(
        &self,
        header: &LasHeader,
        source: &mut Source,
    ) -> Result<Vec<Chunk>, ConvertError> {
        let start = header.points_at;
        let end = source.len();
        if header.count == 0 {
            return Ok(Vec::new());
        }
        if header.count > end.saturating_mul(MAX_POINTS_A_BYTE) {
            let expected = format!("at most {MAX_POINTS_A_BYTE} points for each byte of the file");
            let found = header.count.to_string();
            return Err(source.bad(Class::LimitExceeded, Place::Byte(107), expected, found).into());
        }
        if self.kind == 1 {
            let bytes = end.saturating_sub(start);
            return Ok(vec![Chunk { at: start, bytes, points: header.count }]);
        }
        let first = start.saturating_add(8);
        let raw = source.read(start, 8, "where the chunk table is")?;
        let mut table_at = Numbers(&raw).i64(0);
        if table_at == -1 {
            let raw = source.read(end.saturating_sub(8), 8, "where the chunk table is")?;
            table_at = Numbers(&raw).i64(0);
        }
        let inside =
            u64::try_from(table_at).ok().filter(|at| (first..=end.saturating_sub(8)).contains(at));
        let Some(table_at) = inside else {
            let expected = format!("a chunk table from byte {first} to {end}");
            return Err(source
                .bad(Class::Truncated, Place::Byte(start), expected, table_at.to_string())
                .into());
        };
        self.read_table(header, source, first, table_at)
    }

    fn read_table(
        &self,
        header: &LasHeader,
        source: &mut Source,
        first: u64,
        table_at: u64,
    ) -> Result<Vec<Chunk>, ConvertError> {
        let raw = source.read(table_at, 8, "the chunk table")?;
        let count = u64::from(Numbers(&raw).u32(4));
        let data = table_at - first;
        let place = Place::Byte(table_at);
        let smallest = u64::from(header.record_bytes).max(1);
        if count > data / smallest {
            let expected = format!("chunks in {data} bytes");
            return Err(source
                .bad(Class::CountMismatch, place, expected, count.to_string())
                .into());
        }
        let left = source.len() - table_at;
        let size = (count * 16 + 64).min(left);
        let raw = source.read(table_at, size, "the chunk table")?;
        let vary = self.vlr.uses_variable_size_chunks();
        let table = isolate::catch(|| ChunkTable::read(&mut Cursor::new(raw), vary));
        let table = table.and_then(|table| table.map_err(|error| error.to_string()));
        let bad = |class, expected: &str, found: String| {
            ConvertError::from(source.bad(class, Place::Byte(table_at), expected, found))
        };
        let table = table.map_err(|found| bad(Class::Codec, "a chunk table", found))?;
        let mut chunks = Vec::new();
        let (mut at, mut left) = (first, header.count);
        for entry in &table {
            let end = at.checked_add(entry.byte_count).filter(|end| *end <= table_at);
            let Some(end) = end else {
                let found = format!("{} bytes from {at}", entry.byte_count);
                return Err(bad(Class::OutOfBounds, "chunks that end at the chunk table", found));
            };
            let fixed = u64::from(self.vlr.chunk_size()).min(left);
            let points = if vary { entry.point_count } else { fixed };
            if points > left {
                let found = format!("{points} more than {left}");
                return Err(bad(Class::CountMismatch, "points as the header counts", found));
            }
            chunks.push(Chunk { at, bytes: entry.byte_count, points });
            left -= points;
            at = end;
        }
        if left > 0 {
            let expected = format!("chunks of {} points", header.count);
            let found = format!("{left} less");
            return Err(bad(Class::CountMismatch, &expected, found));
        }
        Ok(chunks)
    }

    /// The layers of a chunk, whose sizes follow its first point.
    fn count_layers(&self) -> usize {
        let layers = self.vlr.items().iter().map(|item| match item.item_type() {
            LazItemType::Point14 => 9,
            LazItemType::RGBNIR14 => 2,
            LazItemType::Byte14(n) => usize::from(n),
            _ => 1,
        });
        layers.sum()
    }

    /// Begins to decompress `chunk`.
    pub(super) fn begin(&self, source: &mut Source, chunk: Chunk) -> Result<Open, ConvertError> {
        let raw = source.read(chunk.at, chunk.bytes, "compressed points")?;
        if self.kind == 3 && chunk.points > 0 {
            self.check_layers(source, chunk, Numbers(&raw))?;
        }
        let items = self.vlr.items();
        let layered = self.kind == 3;
        let decoder = isolate::catch(|| {
            let input = Cursor::new(raw);
            let mut decoder: Decoder = if layered {
                Box::new(LayeredPointRecordDecompressor::new(input))
            } else {
                Box::new(SequentialPointRecordDecompressor::new(input))
            };
            decoder.set_fields_from(items).map_err(|error| error.to_string()).map(|()| decoder)
        });
        let decoder = decoder.and_then(|decoder| decoder).map_err(|found| {
            source.bad(Class::Codec, Place::Byte(chunk.at), "items that go together", found)
        })?;
        Ok(Open { decoder, at: chunk.at, left: chunk.points, record_bytes: self.record_bytes })
    }

    fn check_layers(
        &self,
        source: &Source,
        chunk: Chunk,
        n: Numbers<'_>,
    ) -> Result<(), ConvertError> {
        let bad = |class, expected: String, found: String| {
            Err(source.bad(class, Place::Byte(chunk.at), expected, found).into())
        };
        let count = u64::from(n.u32(self.record_bytes));
        if count != chunk.points {
            let expected = format!("a chunk of {} points", chunk.points);
            return bad(Class::CountMismatch, expected, count.to_string());
        }
        let sizes = self.record_bytes + 4;
        let data = sizes + self.count_layers() * 4;
        let layers = (sizes..data).step_by(4).map(|at| u64::from(n.u32(at)));
        let sum = layers.sum::<u64>();
        let have = chunk.bytes.saturating_sub(to_u64(data));
        if sum > have {
            return bad(Class::Truncated, format!("layers of {sum} bytes"), have.to_string());
        }
        Ok(())
    }
}

type Decoder = Box<dyn RecordDecompressor<Cursor<Vec<u8>>> + Send + Sync>;

/// A chunk in the course of being decompressed.
pub(super) struct Open {
    decoder: Decoder,
    at: u64,
    pub(super) left: u64,
    record_bytes: usize,
}

impl Open {
    /// The next points, at most `rows` of them.
    pub(super) fn read(&mut self, source: &Source, rows: usize) -> Result<Vec<u8>, ConvertError> {
        let rows = usize::try_from(self.left).unwrap_or(usize::MAX).min(rows);
        let mut points = vec![0; rows * self.record_bytes];
        let decoder = &mut self.decoder;
        let done = isolate::catch(|| decoder.decompress_many(&mut points));
        let done = done.and_then(|done| done.map_err(|error| error.to_string()));
        done.map_err(|found| {
            let expected = format!("{rows} compressed points");
            source.bad(Class::Codec, Place::Byte(self.at), expected, found)
        })?;
        self.left -= to_u64(rows);
        Ok(points)
    }
}

/// Bytes of an item in a point.
fn size(item: &LazItem) -> usize {
    match item.item_type() {
        LazItemType::Byte(n) | LazItemType::Byte14(n) => usize::from(n),
        LazItemType::Point10 => 20,
        LazItemType::GpsTime | LazItemType::RGBNIR14 => 8,
        LazItemType::RGB12 | LazItemType::RGB14 => 6,
        LazItemType::WavePacket13 | LazItemType::WavePacket14 => 29,
        LazItemType::Point14 => 30,
    }
}

/// Equal points take next to no bytes; more than this is no point cloud.
const MAX_POINTS_A_BYTE: u64 = 4096;
