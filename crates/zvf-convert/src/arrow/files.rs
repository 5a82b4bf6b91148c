//! Record batches in files: Arrow IPC and Parquet.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use arrow_schema::ArrowError;
use parquet::arrow::ArrowWriter as Rows;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use zvf_model::Batch;

use super::{named_record_batch, refused};
use crate::ConvertError;

/// Writes batches as one Arrow IPC file (`.arrow`, Feather 2).
///
/// ```
/// use zvf_convert::ArrowWriter;
/// use zvf_format::metadata::Dtype;
/// use zvf_model::{Batch, Column, Kind};
///
/// let points = [1.5_f32, 2.0].map(f32::to_le_bytes).concat();
/// let batch = Batch::new(Kind::PointCloud, Column::new(Dtype::FLOAT32, 2, points.into())?);
/// let mut writer = ArrowWriter::new(Vec::new(), "position");
/// writer.write(&batch)?;
/// assert!(writer.finish()?.starts_with(b"ARROW1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ArrowWriter<W: Write> {
    state: State<W>,
    first: &'static str,
}

enum State<W: Write> {
    New(W),
    Begun(Box<FileWriter<W>>),
    Broken,
}

impl<W: Write> fmt::Debug for State<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::New(_) => "New",
            Self::Begun(_) => "Begun",
            Self::Broken => "Broken",
        })
    }
}

impl<W: Write> ArrowWriter<W> {
    /// A writer to `out`, the positions called `first`.
    pub const fn new(out: W, first: &'static str) -> Self {
        Self { state: State::New(out), first }
    }

    /// Adds the vertices of a batch.
    ///
    /// # Errors
    ///
    /// When writing fails, a column has no Arrow type, or the batch has other columns than the first.
    pub fn write(&mut self, batch: &Batch) -> Result<(), ConvertError> {
        let rows = named_record_batch(batch, self.first)?;
        let mut writer = match std::mem::replace(&mut self.state, State::Broken) {
            State::New(out) => Box::new(FileWriter::try_new(out, &rows.schema()).map_err(refused)?),
            State::Begun(writer) => writer,
            State::Broken => return Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
        };
        same_columns(writer.schema(), &rows)?;
        writer.write(&rows).map_err(refused)?;
        self.state = State::Begun(writer);
        Ok(())
    }

    /// Ends the file, and hands the target back. Without a batch it stays empty.
    ///
    /// # Errors
    ///
    /// When writing fails, or failed before.
    pub fn finish(self) -> Result<W, ConvertError> {
        match self.state {
            State::New(out) => Ok(out),
            State::Begun(writer) => writer.into_inner().map_err(refused),
            State::Broken => Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
        }
    }
}

/// Writes batches as one Parquet file, compressed with Zstandard.
///
/// ```
/// use zvf_convert::ParquetWriter;
/// use zvf_format::metadata::Dtype;
/// use zvf_model::{Batch, Column, Kind};
///
/// let points = [1.5_f32, 2.0].map(f32::to_le_bytes).concat();
/// let batch = Batch::new(Kind::PointCloud, Column::new(Dtype::FLOAT32, 2, points.into())?);
/// let mut writer = ParquetWriter::new(Vec::new(), "position");
/// writer.write(&batch)?;
/// assert!(writer.finish()?.starts_with(b"PAR1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ParquetWriter<W: Write> {
    out: W,
    rows: Option<Rows<Held>>,
    held: Held,
    first: &'static str,
}

/// Bytes that the encoder made and nobody wrote yet: it wants a target that other threads may hold.
#[derive(Clone, Debug, Default)]
struct Held(Arc<Mutex<Vec<u8>>>);

impl Write for Held {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Held {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<W: Write> ParquetWriter<W> {
    /// A writer to `out`, the positions called `first`.
    pub fn new(out: W, first: &'static str) -> Self {
        Self { out, rows: None, held: Held::default(), first }
    }

    /// Adds the vertices of a batch.
    ///
    /// # Errors
    ///
    /// When writing fails, a column has no Arrow type, or the batch has other columns than the first.
    pub fn write(&mut self, batch: &Batch) -> Result<(), ConvertError> {
        let rows = named_record_batch(batch, self.first)?;
        let writer = match self.rows.take() {
            Some(writer) => self.rows.insert(writer),
            None => {
                let level = ZstdLevel::default();
                let settings =
                    WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
                let writer = Rows::try_new(self.held.clone(), rows.schema(), Some(settings));
                self.rows.insert(writer.map_err(not_written)?)
            }
        };
        writer.write(&rows).map_err(not_written)?;
        Ok(self.out.write_all(&self.held.take())?)
    }

    /// Ends the file, and hands the target back. Without a batch it stays empty.
    ///
    /// # Errors
    ///
    /// When writing fails.
    pub fn finish(mut self) -> Result<W, ConvertError> {
        if let Some(rows) = self.rows.take() {
            rows.close().map_err(not_written)?;
        }
        self.out.write_all(&self.held.take())?;
        self.out.flush()?;
        Ok(self.out)
    }
}

fn same_columns(wanted: &arrow_schema::SchemaRef, rows: &RecordBatch) -> Result<(), ConvertError> {
    let (wanted, found) = (names(wanted), names(&rows.schema()));
    if wanted == found { Ok(()) } else { Err(ConvertError::Columns { wanted, found }) }
}

fn names(schema: &arrow_schema::SchemaRef) -> String {
    let fields = schema.fields().iter();
    fields
        .map(|field| format!("{} {}", field.name(), field.data_type()))
        .collect::<Vec<_>>()
        .join(",")
}

fn not_written(error: ParquetError) -> ConvertError {
    refused(ArrowError::from(error))
}

#[cfg(test)]
mod tests {
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use zvf_format::metadata::Dtype;
    use zvf_model::{Column, Field, Kind};

    use super::*;

    fn batch(values: &[f32]) -> Batch {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Batch::new(Kind::PointCloud, Column::new(Dtype::FLOAT32, 1, bytes.into()).unwrap())
    }

    #[test]
    fn parquet_reads_back() {
        let mut writer = ParquetWriter::new(Vec::new(), "vertices");
        writer.write(&batch(&[1.0, 2.0])).unwrap();
        writer.write(&batch(&[3.0])).unwrap();
        let file = bytes::Bytes::from(writer.finish().unwrap());
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        let rows: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
        let expected = named_record_batch(&batch(&[1.0, 2.0, 3.0]), "vertices").unwrap();
        assert_eq!(rows, [expected]);
    }

    #[test]
    fn arrow_files_read_back_and_hold_one_kind_of_rows() {
        let mut writer = ArrowWriter::new(Vec::new(), "position");
        writer.write(&batch(&[1.0, 2.0])).unwrap();
        writer.write(&batch(&[3.0])).unwrap();
        let file = io::Cursor::new(writer.finish().unwrap());
        let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
        let rows: Vec<usize> = reader.map(|rows| rows.unwrap().num_rows()).collect();
        assert_eq!(rows, [2, 1]);

        let mut writer = ArrowWriter::new(Vec::new(), "position");
        writer.write(&batch(&[1.0])).unwrap();
        let field = Field::new("n", Column::new(Dtype::INT64, 1, vec![0; 8].into()).unwrap());
        let error = writer.write(&batch(&[1.0]).with_field(field).unwrap()).unwrap_err();
        assert!(
            error.to_string().starts_with("a batch has other columns than the first"),
            "{error}"
        );
    }

    #[test]
    fn no_batch_is_an_empty_file() {
        assert!(ArrowWriter::new(Vec::new(), "position").finish().unwrap().is_empty());
        assert!(ParquetWriter::new(Vec::new(), "position").finish().unwrap().is_empty());
    }
}
