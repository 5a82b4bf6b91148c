//! Point records, read in blocks and decoded into columns.

use zvf_error::Result;
use zvf_format::num::to_u64;
use zvf_formats::{Extents, FLOAT64, RandomFile, new_column, owner_at, value_places};
use zvf_model::{Batch, Column, Field, Kind, ObjectId};

use crate::las::Grid;
use crate::las::read::chunks::{Chunk, ChunkDecoder, Compression};
use crate::las::read::header::LasHeader;
use crate::las::read::layout::{Form, LasField};

/// The remaining points of a file.
pub(crate) enum PointReader {
    /// Uncompressed records, contiguous from byte `at`.
    Plain { at: u64, remaining: u64, record_bytes: u64 },
    /// Compressed chunks, and the decoder of the current one.
    Compressed {
        compression: Compression,
        chunks: std::vec::IntoIter<Chunk>,
        decoder: Option<ChunkDecoder>,
    },
}

impl PointReader {
    /// Opens all points of a file.
    pub(crate) fn open(header: &LasHeader, source: &mut RandomFile) -> Result<Self> {
        if !header.compressed {
            let record_bytes = u64::from(header.record_bytes);
            let (at, remaining) = (header.points_at, header.count);
            return Ok(Self::Plain { at, remaining, record_bytes });
        }
        let compression = Compression::read(header, source)?;
        let chunks = compression.read_chunks(header, source)?;
        Ok(Self::from_chunks(compression, chunks))
    }

    pub(crate) fn from_chunks(compression: Compression, chunks: Vec<Chunk>) -> Self {
        Self::Compressed { compression, chunks: chunks.into_iter(), decoder: None }
    }

    /// Returns the number of points, before the first are read.
    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Plain { remaining, .. } => *remaining,
            Self::Compressed { chunks, .. } => {
                chunks.as_slice().iter().map(|chunk| chunk.points).sum()
            }
        }
    }

    /// Reads the next records, at most `rows`. Returns none at the end.
    pub(crate) fn read_records(&mut self, source: &mut RandomFile, rows: usize) -> Result<Vec<u8>> {
        match self {
            Self::Plain { at, remaining, record_bytes } => {
                let rows = to_u64(rows).min(*remaining);
                let bytes = rows * *record_bytes;
                let points = source.read(*at, bytes, "points")?;
                *at += bytes;
                *remaining -= rows;
                Ok(points)
            }
            Self::Compressed { compression, chunks, decoder } => loop {
                if let Some(decoder) = decoder.as_mut().filter(|decoder| decoder.remaining > 0) {
                    return decoder.read_records(source, rows);
                }
                match chunks.next() {
                    None => return Ok(Vec::new()),
                    Some(chunk) => *decoder = Some(compression.open_chunk(source, chunk)?),
                }
            },
        }
    }
}

/// The selected columns of a point record.
pub(crate) struct PointSchema {
    pub(crate) record_bytes: usize, // at least those of the point format
    pub(crate) grid: Grid,
    pub(crate) fields: Vec<LasField>,
    /// The column of object ids.
    pub(crate) object: Option<LasField>,
    pub(crate) kind: Kind,
}

impl PointSchema {
    /// Returns the records of points in a box.
    pub(crate) fn filter_records(&self, records: &[u8], bounds: &Extents) -> Vec<u8> {
        let is_inside = |record: &&[u8]| bounds.contains(&self.grid.position(record));
        records.chunks_exact(self.record_bytes).filter(is_inside).flatten().copied().collect()
    }

    /// Decodes whole records into a batch.
    pub(crate) fn decode_batch(&self, records: &[u8]) -> Result<Batch> {
        let mut batch =
            Batch::new(self.kind, new_column(FLOAT64, 3, self.decode_positions(records))?);
        for field in &self.fields {
            batch = batch.with_field(self.decode_field(field, records)?)?;
        }
        let Some(object) = &self.object else { return Ok(batch) };
        let ids = self.decode_field(object, records)?.column;
        let owners: Result<Vec<Option<ObjectId>>, _> =
            (0..ids.len()).map(|row| owner_at(&ids, row, self.kind, "LAS")).collect();
        Ok(batch.with_vertex_objects(owners?)?)
    }

    fn decode_positions(&self, records: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(records.len() / self.record_bytes * 24);
        for record in records.chunks_exact(self.record_bytes) {
            for value in self.grid.position(record) {
                bytes.extend_from_slice(&value.to_le_bytes());
            }
        }
        bytes
    }

    fn decode_field(&self, field: &LasField, records: &[u8]) -> Result<Field> {
        let records = records.chunks_exact(self.record_bytes);
        let (at, size) = (field.offset, field.size());
        let slots = records.map(|record| &record[at..at + size]); // `read_fields` checked the ends
        let bytes: Vec<u8> = match &field.form {
            Form::Plain => slots.flatten().copied().collect(),
            Form::Bits { shift, bits } => {
                let mask = (1_u8 << bits) - 1; // at most 5 bits
                slots.flatten().map(|byte| byte >> shift & mask).collect()
            }
            Form::Scaled(grid) => {
                let raw =
                    new_column(field.stored, field.width, slots.flatten().copied().collect())?;
                let number = |(row, axis)| {
                    grid.scale(axis, raw.float(row, axis).unwrap_or(f64::NAN)).to_le_bytes()
                };
                value_places(&raw).flat_map(number).collect() // at most three axes
            }
        };
        Ok(field_with_description(field, new_column(field.dtype(), field.width, bytes)?))
    }
}

/// Returns the values of `field` as an attribute with its name and description.
pub(crate) fn field_with_description(field: &LasField, column: Column) -> Field {
    Field {
        description: field.description.as_deref().map(Into::into),
        ..Field::new(&*field.name, column)
    }
}
