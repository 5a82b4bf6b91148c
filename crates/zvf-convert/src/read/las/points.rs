//! Points in blocks, wherever they lie; and columns of them.

use zvf_format::num::to_u64;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Batch, Column, Field, Kind, ObjectId};

use super::chunks::{Chunk, Compression, Open};
use super::header::LasHeader;
use super::layout::{FLOAT64, Form, LasField};
use crate::ConvertError;
use crate::read::roles::owner;
use crate::read::source::{Numbers, Source};
use crate::read::values::{column, no_batch};

/// Points that are still to come.
pub(super) enum Points {
    /// Records one after the other.
    Plain { at: u64, left: u64, record_bytes: u64 },
    /// Chunks of compressed ones.
    Compressed { compression: Compression, chunks: std::vec::IntoIter<Chunk>, open: Option<Open> },
}

impl Points {
    /// All points of a file.
    pub(super) fn open(header: &LasHeader, source: &mut Source) -> Result<Self, ConvertError> {
        if !header.compressed {
            let record_bytes = u64::from(header.record_bytes);
            return Ok(Self::Plain { at: header.points_at, left: header.count, record_bytes });
        }
        let compression = Compression::read(header, source)?;
        let chunks = compression.chunks(header, source)?;
        Ok(Self::of_chunks(compression, chunks))
    }

    /// The points of these chunks.
    pub(super) fn of_chunks(compression: Compression, chunks: Vec<Chunk>) -> Self {
        Self::Compressed { compression, chunks: chunks.into_iter(), open: None }
    }

    /// The next records, at most `rows` of them; none at the end.
    pub(super) fn read(
        &mut self,
        source: &mut Source,
        rows: usize,
    ) -> Result<Vec<u8>, ConvertError> {
        match self {
            Self::Plain { at, left, record_bytes } => {
                let rows = to_u64(rows).min(*left);
                let bytes = rows * *record_bytes;
                let points = source.read(*at, bytes, "points")?;
                *at += bytes;
                *left -= rows;
                Ok(points)
            }
            Self::Compressed { compression, chunks, open } => loop {
                if let Some(open) = open.as_mut().filter(|open| open.left > 0) {
                    return open.read(source, rows);
                }
                match chunks.next() {
                    None => return Ok(Vec::new()),
                    Some(chunk) => *open = Some(compression.begin(source, chunk)?),
                }
            },
        }
    }
}

/// What makes columns of records.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) record_bytes: usize,
    pub(super) scales: [f64; 3],
    pub(super) offsets: [f64; 3],
    pub(super) fields: Vec<LasField>,
    /// The column that says which object a point belongs to.
    pub(super) object: Option<LasField>,
    pub(super) kind: Kind,
}

impl Table {
    /// A batch of whole records.
    pub(super) fn batch(&self, records: &[u8]) -> Result<Batch, ConvertError> {
        let mut batch = Batch::new(self.kind, column(FLOAT64, 3, self.positions(records))?);
        for field in &self.fields {
            batch = batch.with_field(self.field(field, records)?).map_err(no_batch)?;
        }
        let Some(object) = &self.object else { return Ok(batch) };
        let ids = self.field(object, records)?.column;
        let owners: Result<Vec<Option<ObjectId>>, _> =
            (0..ids.len()).map(|row| owner(&ids, row, self.kind, "LAS")).collect();
        batch.with_vertex_objects(owners?).map_err(no_batch)
    }

    /// Where a point is.
    pub(super) fn position(&self, record: &[u8]) -> [f64; 3] {
        [0, 1, 2].map(|axis: usize| {
            let raw = f64::from(Numbers(record).i32(axis * 4));
            let scale = self.scales.get(axis).copied().unwrap_or(1.0);
            raw * scale + self.offsets.get(axis).copied().unwrap_or(0.0)
        })
    }

    fn positions(&self, records: &[u8]) -> Vec<u8> {
        let rows = records.len().checked_div(self.record_bytes).unwrap_or(0);
        let mut bytes = Vec::with_capacity(rows * 24);
        for record in records.chunks_exact(self.record_bytes.max(1)) {
            for value in self.position(record) {
                bytes.extend_from_slice(&value.to_le_bytes());
            }
        }
        bytes
    }

    fn field(&self, field: &LasField, records: &[u8]) -> Result<Field, ConvertError> {
        let records = records.chunks_exact(self.record_bytes.max(1));
        let (at, size) = (field.offset, field.size());
        let slots =
            records.map(|record| record.get(at..at.saturating_add(size)).unwrap_or_default());
        let bytes: Vec<u8> = match &field.form {
            Form::Plain => slots.flatten().copied().collect(),
            Form::Bits { shift, bits } => {
                let mask =
                    1_u8.checked_shl(u32::from(*bits)).map_or(u8::MAX, |top| top.wrapping_sub(1));
                let shift = u32::from(*shift);
                slots.flatten().map(|byte| byte.checked_shr(shift).unwrap_or(0) & mask).collect()
            }
            Form::Scaled { scales, offsets } => slots
                .flat_map(|slot| scale(field.stored, slot, scales, offsets))
                .flat_map(f64::to_le_bytes)
                .collect(),
        };
        Ok(describe(field, column(field.dtype(), field.width, bytes)?))
    }
}

/// The attribute of that description.
pub(super) fn describe(field: &LasField, column: Column) -> Field {
    Field {
        description: field.description.as_deref().map(Into::into),
        ..Field::new(&*field.name, column)
    }
}

/// Stored numbers times their scales plus their offsets.
fn scale<'a>(
    stored: Dtype,
    slot: &'a [u8],
    scales: &'a [f64; 3],
    offsets: &'a [f64; 3],
) -> impl Iterator<Item = f64> + 'a {
    let size = usize::try_from(stored.size).unwrap_or(1).max(1);
    slot.chunks_exact(size)
        .zip(scales.iter().zip(offsets))
        .map(move |(raw, (scale, offset))| float_of(stored, raw) * scale + offset)
}

/// A little-endian number as `float64`.
#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "scaled numbers are float64"
)]
pub(super) fn float_of(stored: Dtype, raw: &[u8]) -> f64 {
    let mut wide = [0; 8];
    for (to, from) in wide.iter_mut().zip(raw) {
        *to = *from;
    }
    let bits = u64::from_le_bytes(wide);
    let shift = u32::try_from(64_usize.saturating_sub(raw.len().saturating_mul(8))).unwrap_or(0);
    match stored.kind {
        DtypeKind::Int => {
            bits.checked_shl(shift).unwrap_or(0).cast_signed().checked_shr(shift).unwrap_or(0)
                as f64
        }
        DtypeKind::Float if raw.len() == 4 => {
            f64::from(f32::from_bits(u32::try_from(bits).unwrap_or(0)))
        }
        DtypeKind::Float => f64::from_bits(bits),
        DtypeKind::UInt | DtypeKind::Bool | DtypeKind::Text => bits as f64,
    }
}
