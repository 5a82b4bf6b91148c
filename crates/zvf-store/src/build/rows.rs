//! Writes a standalone array of variable-length rows in order.
//!
//! ```text
//! chunk      u32 count, then u32 length and payload of each row       then the chain of codecs
//! the last   is filled with empty rows up to the length of a chunk, unless it is the only one
//! ```
//!
//! The framing grows with the rows; a full chunk is encoded and written. A chunk of empty rows
//! equals the fill value and is not stored.
//!
//! Not here: the content of rows.

use zvf_error::{Error, Locate as _, Result};
use zvf_format::num::to_u64;
use zvf_format::{Class, Expected};
use zvf_metadata::{ArrayDoc, CodecSpec, DataType, Object};

use super::Build;
use super::chunk_sink::ArrayReport;
use super::standalone::Standalone;
use crate::codec::CodecPipeline;
use crate::key::Key;

/// The description of an array of rows.
///
/// ```
/// use zvf_store::RowPlan;
///
/// assert_eq!(RowPlan::manifests().chunk_rows, Some(16384));
/// assert_eq!(RowPlan::default().chunk_rows, None);
/// ```
#[derive(Clone, Debug)]
pub struct RowPlan {
    /// Rows per chunk; `None` for a single chunk. An array with fewer rows has one smaller chunk.
    pub chunk_rows: Option<u64>,
    /// The attributes.
    pub attributes: Object,
    /// The codecs of chunks.
    pub codecs: CodecPipeline,
}

impl Default for RowPlan {
    /// Returns the plan of one chunk, compressed with Zstandard: for groups and names.
    fn default() -> Self {
        Self { chunk_rows: None, attributes: Object::new(), codecs: CodecPipeline::zstd(0) }
    }
}

impl RowPlan {
    /// Returns the plan of chunks of 16384 rows, compressed with Zstandard: for manifests of
    /// objects.
    pub fn manifests() -> Self {
        Self { chunk_rows: Some(MANIFEST_CHUNK_ROWS), ..Self::default() }
    }
}

/// A standalone array of rows that is being written.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # use zvf_store::{Build, BuildOptions, RowPlan};
/// # let dir = tempfile::tempdir().unwrap();
/// # let build = Build::begin(dir.path().join("x").to_str().unwrap(), BuildOptions::default()).await?;
/// let mut names = build.rows("parametric/names", RowPlan::default())?;
/// names.push(b"floor")?;
/// names.finish(|attributes| drop(attributes.insert("num_objects".into(), 1.into()))).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RowSink {
    array: Standalone, // its chunk is framed, with room for the count in front
    chunk_rows: Option<u64>,
    in_chunk: u64,
    empty: bool, // all rows of the chunk
}

impl RowSink {
    pub(super) fn begin(build: Build, key: Key, plan: RowPlan) -> Result<Self> {
        let RowPlan { chunk_rows, attributes, codecs } = plan;
        if chunk_rows == Some(0) {
            let (class, what) = (Class::InvalidArgument, "rows of a chunk");
            return Err(Error::new(class, what, Expected::AtLeast(1), 0).at_key(&key));
        }
        let mut array = Standalone::new(build, key, attributes, codecs);
        array.chunk = vec![0; COUNT_BYTES];
        Ok(Self { array, chunk_rows, in_chunk: 0, empty: true })
    }

    /// Returns the number of rows so far.
    pub fn rows(&self) -> u64 {
        self.array.rows
    }

    /// Adds one row.
    ///
    /// # Errors
    ///
    /// `LimitExceeded` for a row of 2^32 bytes or more, and when a chunk fills the budget; otherwise
    /// when a full chunk cannot be encoded or written.
    pub fn push(&mut self, row: &[u8]) -> Result<()> {
        self.add(row).at_key(&self.array.sink.key)
    }

    fn add(&mut self, row: &[u8]) -> Result<()> {
        let bytes = to_u64(row.len());
        let Ok(length) = u32::try_from(bytes) else {
            return Err(Error::limit("bytes of a row", u32::MAX.into(), bytes));
        };
        if self.chunk_rows == Some(self.in_chunk) {
            self.flush(self.in_chunk)?;
        }
        self.array.append(&length.to_le_bytes(), row)?;
        self.empty &= row.is_empty();
        self.in_chunk += 1;
        self.array.rows += 1;
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
        let rows = self.rows();
        // A single chunk is as long as the array; an array without rows has a chunk of one.
        let chunk = self.chunk_rows.unwrap_or(rows).min(rows).max(1);
        if self.in_chunk > 0 {
            self.flush(chunk)?;
        }
        let mut doc = ArrayDoc::new(vec![rows], vec![chunk], DataType::variable_length_bytes());
        doc.codecs.push(CodecSpec::vlen_bytes());
        self.array.finish(doc, attributes)
    }

    /// Writes the chunk with `count` rows.
    fn flush(&mut self, count: u64) -> Result<()> {
        let number = (self.rows() - 1) / count; // some rows came, and fit in the chunk
        let mut chunk = self.array.take(vec![0; COUNT_BYTES]);
        let missing = count - self.in_chunk;
        self.in_chunk = 0;
        if std::mem::replace(&mut self.empty, true) {
            return Ok(());
        }
        let Ok(short) = u32::try_from(count) else {
            return Err(Error::limit("rows of a chunk", u32::MAX.into(), count));
        };
        chunk[..COUNT_BYTES].copy_from_slice(&short.to_le_bytes());
        let padding = zvf_format::num::saturating_usize(missing * 4); // below 2^34
        chunk.resize(chunk.len() + padding, 0);
        self.array.write(&[number], chunk)
    }
}

/// Rows per chunk of manifests.
const MANIFEST_CHUNK_ROWS: u64 = 16384;
/// Bytes of the count at the start of a chunk.
const COUNT_BYTES: usize = 4;
