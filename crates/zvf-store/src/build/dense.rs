//! Writes a standalone array of fixed-size items, row by row in order.
//!
//! ```text
//! chunk      rows back to back, little-endian           then the chain of codecs
//! the last   is filled up with the fill value, unless all rows are one chunk
//! ```
//!
//! A chunk that contains only the fill value is not stored.
//!
//! Not here: the meaning of items; which value stands for "absent".

use zvf_error::{Error, Locate as _, Result};
use zvf_format::num::{saturating_usize, to_u64};
use zvf_format::{Class, Found};
use zvf_metadata::{ArrayDoc, CodecSpec, DataType, Dtype, FillValue, Object};

use super::Build;
use super::chunk_sink::ArrayReport;
use super::standalone::Standalone;
use crate::codec::CodecPipeline;
use crate::key::Key;
use crate::layout::fill_item;

/// The description of a standalone array of items.
///
/// ```
/// use zvf_metadata::{Dtype, FillValue};
/// use zvf_store::DensePlan;
///
/// let ids = DensePlan::new(Dtype::INT64);
/// assert_eq!((ids.chunk_rows, ids.fill), (None, FillValue::int(0)));
/// ```
#[derive(Clone, Debug)]
pub struct DensePlan {
    /// The type of an item. Rows are little-endian, whatever byte order the type states.
    pub dtype: Dtype,
    /// Items per row in an array of two axes; `None` for one axis.
    pub columns: Option<u64>,
    /// Rows per chunk, with the last chunk padded; `None` for a single chunk.
    pub chunk_rows: Option<u64>,
    /// The value of chunks that are not stored.
    pub fill: FillValue,
    /// The attributes.
    pub attributes: Object,
    /// The codecs of chunks.
    pub codecs: CodecPipeline,
}

impl DensePlan {
    /// Returns the plan of one axis and one chunk, with fill value zero, compressed with Zstandard.
    pub fn new(dtype: Dtype) -> Self {
        let fill = FillValue::zero(dtype.kind);
        let (columns, chunk_rows, attributes) = (None, None, Object::new());
        Self { dtype, columns, chunk_rows, fill, attributes, codecs: CodecPipeline::zstd(0) }
    }

    /// Returns the plan of a column of objects: chunks of 65536 rows with fill value `fill`.
    pub fn object_attribute(dtype: Dtype, columns: Option<u64>, fill: FillValue) -> Self {
        Self { columns, chunk_rows: Some(ATTRIBUTE_CHUNK_ROWS), fill, ..Self::new(dtype) }
    }
}

/// A standalone array of items that is being written.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # use zvf_metadata::{Dtype, FillValue};
/// # use zvf_store::{Build, BuildOptions, DensePlan};
/// # let dir = tempfile::tempdir().unwrap();
/// # let build = Build::begin(dir.path().join("x").to_str().unwrap(), BuildOptions::default()).await?;
/// let plan = DensePlan::object_attribute(Dtype::FLOAT32, None, FillValue::float(f64::NAN));
/// let mut lengths = build.dense("0/object_attributes/length", plan)?;
/// lengths.push(&[1.5_f32.to_le_bytes(), 2.5_f32.to_le_bytes()].concat())?;
/// assert_eq!(lengths.finish(|_| ()).await?.items, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DenseSink {
    array: Standalone,
    plan: DensePlan,
    width: usize,    // bytes of a row, not 0
    fill: Box<[u8]>, // one item
}

impl DenseSink {
    pub(super) fn begin(build: Build, key: Key, mut plan: DensePlan) -> Result<Self> {
        let width = plan.dtype.size.checked_mul(plan.columns.unwrap_or(1));
        let chunk = width.and_then(|width| width.checked_mul(plan.chunk_rows.unwrap_or(1)));
        let (Some(width), Some(1..=MAX_CHUNK_BYTES)) = (width, chunk) else {
            let found = Found::from(chunk.unwrap_or(u64::MAX)); // for the message
            let error =
                Error::new(Class::InvalidArgument, "bytes of a chunk", "1 byte to 1 GiB", found);
            return Err(error.at_key(&key));
        };
        let (attributes, codecs) = (std::mem::take(&mut plan.attributes), plan.codecs.clone());
        Ok(Self {
            array: Standalone::new(build, key, attributes, codecs),
            width: saturating_usize(width), // at most 1 GiB
            fill: fill_item(plan.fill.fill(), plan.dtype),
            plan,
        })
    }

    /// Returns the number of rows so far.
    pub fn rows(&self) -> u64 {
        self.array.rows
    }

    /// Adds whole rows.
    ///
    /// # Errors
    ///
    /// [`Class::BadShape`] when `rows` is not a whole number of rows; [`Class::LimitExceeded`] when
    /// a chunk fills the budget; otherwise when a full chunk cannot be encoded or written.
    pub fn push(&mut self, rows: &[u8]) -> Result<()> {
        self.add(rows).at_key(&self.array.sink.key)
    }

    fn add(&mut self, mut rows: &[u8]) -> Result<()> {
        if !rows.len().is_multiple_of(self.width) {
            return Err(Error::new(Class::BadShape, "bytes of rows", "whole rows", rows.len()));
        }
        while !rows.is_empty() {
            let full = self.full_chunk_bytes();
            if full == Some(self.array.chunk.len()) {
                self.flush()?;
            }
            let room = full.map_or(rows.len(), |full| full - self.array.chunk.len());
            let (now, later) = rows.split_at(room.min(rows.len()));
            self.array.append(now, &[])?;
            self.array.rows += to_u64(now.len() / self.width);
            rows = later;
        }
        Ok(())
    }

    /// Writes the last chunk and the document; `attributes` may add to those of the plan.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    pub async fn finish(mut self, attributes: impl FnOnce(&mut Object)) -> Result<ArrayReport> {
        self.end(attributes).at_key(&self.array.sink.key)
    }

    fn end(&mut self, attributes: impl FnOnce(&mut Object)) -> Result<ArrayReport> {
        if self.rows() > 0 {
            let full = self.full_chunk_bytes().unwrap_or(0); // one chunk is as long as it is
            while self.array.chunk.len() < full {
                self.array.chunk.extend_from_slice(&self.fill);
            }
            self.flush()?;
        }
        let rows = self.rows();
        let chunk_rows = self.plan.chunk_rows.unwrap_or(rows).max(1);
        let axes = |rows| std::iter::once(rows).chain(self.plan.columns).collect::<Vec<u64>>();
        let data_type = DataType::number(self.plan.dtype);
        let mut doc = ArrayDoc::new(axes(rows), axes(chunk_rows), data_type);
        let wide = self.plan.dtype.size > 1;
        doc.codecs.push(if wide { CodecSpec::bytes() } else { CodecSpec::single_bytes() });
        doc.fill_value = self.plan.fill.clone();
        self.array.finish(doc, attributes)
    }

    /// Returns the bytes of a full chunk, at most 1 GiB, if there are several chunks.
    fn full_chunk_bytes(&self) -> Option<usize> {
        self.plan.chunk_rows.map(|rows| self.width * saturating_usize(rows))
    }

    /// Writes the chunk.
    fn flush(&mut self) -> Result<()> {
        let chunk = self.array.take(Vec::new());
        let per_chunk = self.plan.chunk_rows.unwrap_or(u64::MAX); // without chunks all rows are in the first
        // There is at least one row here, and at least one row per chunk.
        let number = (self.rows() - 1) / per_chunk;
        let size = self.fill.len().max(1);
        if chunk.chunks(size).all(|item| item == &*self.fill) {
            return Ok(());
        }
        let index = if self.plan.columns.is_some() { &[number, 0][..] } else { &[number] };
        self.array.write(index, chunk)
    }
}

/// Rows per chunk of object attributes.
const ATTRIBUTE_CHUNK_ROWS: u64 = 65536;
/// Readers do not decode more than this at once.
const MAX_CHUNK_BYTES: u64 = 1 << 30;
