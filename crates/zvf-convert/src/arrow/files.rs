//! Writers of record batches to files: Arrow IPC and Parquet.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter as ParquetEncoder};
use parquet::basic::{Compression, Type as PhysicalType, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnDescPtr;
use zvf_error::{Error, Result};
use zvf_model::Batch;

use super::{from_arrow_error, named_record_batch};
use crate::error::other_columns;

/// A writer of batches as Arrow IPC: one file (`.arrow`, Feather 2), or a stream (`.arrows`) that can be
/// read while it is written.
///
/// ```
/// use zvf_convert::ArrowWriter;
/// use zvf_metadata::Dtype;
/// use zvf_model::{Batch, Column, Kind};
///
/// let points = [1.5_f32, 2.0].map(f32::to_le_bytes).concat();
/// let batch = Batch::new(Kind::PointCloud, Column::new(Dtype::FLOAT32, 2, points.into())?);
/// let mut writer = ArrowWriter::file(Vec::new(), "position");
/// writer.write(&batch)?;
/// assert!(writer.finish()?.starts_with(b"ARROW1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ArrowWriter<W: Write> {
    state: State<W>,
    stream: bool,
    schema: Option<SchemaRef>, // of the batches so far
    first: &'static str,
    parts: usize, // so far
}

enum State<W: Write> {
    New(W),
    File(Box<FileWriter<W>>),
    Stream(Box<StreamWriter<W>>),
    Broken, // an error dropped the writer
}

impl<W: Write> fmt::Debug for State<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::New(_) => "New",
            Self::File(_) => "File",
            Self::Stream(_) => "Stream",
            Self::Broken => "Broken",
        })
    }
}

impl<W: Write> ArrowWriter<W> {
    /// Creates a writer of a file to `out`, with the positions called `first`.
    pub const fn file(out: W, first: &'static str) -> Self {
        Self { state: State::New(out), stream: false, schema: None, first, parts: 0 }
    }

    /// Creates a writer of a stream to `out`, with the positions called `first`.
    pub const fn stream(out: W, first: &'static str) -> Self {
        Self { state: State::New(out), stream: true, schema: None, first, parts: 0 }
    }

    /// Adds the vertices of a batch.
    ///
    /// # Errors
    ///
    /// When writing fails, a column has no Arrow type, or the columns differ from those of the
    /// first batch.
    pub fn write(&mut self, batch: &Batch) -> Result<()> {
        let rows = named_record_batch(batch, self.first, self.parts)?;
        self.parts += batch.parts().len();
        check_same_columns(&mut self.schema, &rows)?;
        let state = match (std::mem::replace(&mut self.state, State::Broken), self.stream) {
            (State::New(out), false) => State::File(
                FileWriter::try_new(out, &rows.schema()).map_err(from_arrow_error)?.into(),
            ),
            (State::New(out), true) => State::Stream(
                StreamWriter::try_new(out, &rows.schema()).map_err(from_arrow_error)?.into(),
            ),
            (state, _) => state,
        };
        self.state = match state {
            State::File(mut writer) => {
                writer.write(&rows).map_err(from_arrow_error)?;
                State::File(writer)
            }
            State::Stream(mut writer) => {
                writer.write(&rows).map_err(from_arrow_error)?;
                State::Stream(writer)
            }
            State::New(_) | State::Broken => return Err(failed_writer_error()),
        };
        Ok(())
    }

    /// Ends the file and returns the target, which stays empty without a batch.
    ///
    /// # Errors
    ///
    /// When writing fails, or failed before.
    pub fn finish(self) -> Result<W> {
        match self.state {
            State::New(out) => Ok(out),
            State::File(writer) => writer.into_inner().map_err(from_arrow_error),
            State::Stream(writer) => writer.into_inner().map_err(from_arrow_error),
            State::Broken => Err(failed_writer_error()),
        }
    }
}

fn failed_writer_error() -> Error {
    io::Error::other("writing failed before").into()
}

/// A writer of batches as one Parquet file, compressed with Zstandard, in row groups of about 16 MiB.
///
/// ```
/// use zvf_convert::ParquetWriter;
/// use zvf_metadata::Dtype;
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
    encoder: Option<ParquetEncoder<SharedBuffer>>,
    schema: Option<SchemaRef>, // of the batches so far
    buffer: SharedBuffer,
    first: &'static str,
    parts: usize, // so far
    row_group_bytes: usize,
}

/// A buffer between the encoder, which needs a target that is `Send`, and the target.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SharedBuffer {
    pub(crate) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<W: Write> ParquetWriter<W> {
    /// Creates a writer to `out`, with the positions called `first`.
    pub fn new(out: W, first: &'static str) -> Self {
        let (buffer, row_group_bytes) = (SharedBuffer::default(), ROW_GROUP_BYTES);
        Self { out, encoder: None, schema: None, buffer, first, parts: 0, row_group_bytes }
    }

    /// Sets a smaller size of row groups, which take less memory.
    #[must_use]
    pub fn with_row_group_bytes(self, bytes: usize) -> Self {
        Self { row_group_bytes: bytes.clamp(1, ROW_GROUP_BYTES), ..self }
    }

    /// Adds the vertices of a batch.
    ///
    /// # Errors
    ///
    /// When writing fails, a column has no Arrow type, or the columns differ from those of the
    /// first batch.
    pub fn write(&mut self, batch: &Batch) -> Result<()> {
        let rows = named_record_batch(batch, self.first, self.parts)?;
        self.parts += batch.parts().len();
        check_same_columns(&mut self.schema, &rows)?;
        let encoder = match self.encoder.take() {
            Some(encoder) => self.encoder.insert(encoder),
            None => {
                let settings = writer_properties(&rows.schema()).map_err(from_parquet_error)?;
                let schema = rows.schema();
                let encoder = ParquetEncoder::try_new(self.buffer.clone(), schema, Some(settings));
                self.encoder.insert(encoder.map_err(from_parquet_error)?)
            }
        };
        encoder.write(&rows).map_err(from_parquet_error)?;
        if encoder.in_progress_size() >= self.row_group_bytes {
            encoder.flush().map_err(from_parquet_error)?;
        }
        Ok(self.out.write_all(&self.buffer.take())?)
    }

    /// Ends the file and returns the target, which stays empty without a batch.
    ///
    /// # Errors
    ///
    /// When writing fails.
    pub fn finish(mut self) -> Result<W> {
        if let Some(encoder) = self.encoder.take() {
            encoder.close().map_err(from_parquet_error)?;
        }
        self.out.write_all(&self.buffer.take())?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Returns the settings of a file: compressed, and floats without a dictionary, since few of them are equal.
pub(crate) fn writer_properties(schema: &Schema) -> Result<WriterProperties, ParquetError> {
    let columns = ArrowSchemaConverter::new().convert(schema)?;
    let builder =
        WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()));
    let is_float = |column: &&ColumnDescPtr| {
        matches!(column.physical_type(), PhysicalType::FLOAT | PhysicalType::DOUBLE)
    };
    let floats = columns.columns().iter().filter(is_float);
    let builder = floats.fold(builder, |builder, column| {
        builder.set_column_dictionary_enabled(column.path().clone(), false)
    });
    Ok(builder.build())
}

/// Stores the columns of the first batch, and refuses batches with others.
fn check_same_columns(first: &mut Option<SchemaRef>, rows: &RecordBatch) -> Result<()> {
    let found = rows.schema();
    match first {
        Some(first_schema) if *first_schema != found => {
            let (expected, found) = (describe_columns(first_schema), describe_columns(&found));
            Err(other_columns(expected, found))
        }
        Some(_) => Ok(()),
        None => {
            *first = Some(found);
            Ok(())
        }
    }
}

fn describe_columns(schema: &SchemaRef) -> String {
    let fields = schema.fields().iter();
    let words: Vec<String> =
        fields.map(|field| format!("{} {}", field.name(), field.data_type())).collect();
    words.join(",")
}

pub(crate) fn from_parquet_error(error: ParquetError) -> Error {
    from_arrow_error(ArrowError::from(error))
}

/// Approximate bytes of a row group, which a Parquet writer holds in memory.
pub(crate) const ROW_GROUP_BYTES: usize = 16 << 20;

#[cfg(test)]
mod tests {

    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use zvf_metadata::Dtype;
    use zvf_model::{Categories, Column, Field, Kind, ObjectId, Parts, Value};

    use super::*;

    fn column(dtype: &str, width: u32, bytes: &[u8]) -> Column {
        Column::new(dtype.parse::<Dtype>().unwrap(), width, bytes.to_vec().into()).unwrap()
    }

    /// Returns three vertices of two lines with a column of each kind, their first coordinates from `x` on.
    fn batch(x: u8) -> Batch {
        let labels = Categories::new(vec![Value::from("axon"), Value::from("soma")], Some(9));
        let text = [b'a', 0, 0, 0, 0xe9, 0, 0, 0, 0, 0, 0, 0];
        let fields = [
            Field::new("f", column("float16", 1, &[0, 0x3c, 0, 0xc0, 0, 0])),
            Field::new("flag", column("bool", 1, &[1, 0, 1])),
            Field::new("text", column("<U1", 1, &text)),
            Field::new("pair", column("int32", 2, &[x; 24])),
            Field::new("label", column("uint8", 1, &[1, 9, 0])).with_categories(labels.clone()),
            Field::new("two", column("uint8", 2, &[1, 9, 0, 0, 1, 1])).with_categories(labels),
        ];
        let batch = Batch::new(Kind::Polyline, column("uint8", 2, &[x, 1, x, 2, x, 3]));
        let batch = fields.into_iter().try_fold(batch, Batch::with_field).unwrap();
        let parts = Parts::new(vec![0, 1, 3], vec![ObjectId(7), ObjectId(-1)]).unwrap();
        batch.with_parts(parts).unwrap()
    }

    fn rows(batches: impl IntoIterator<Item = Batch>) -> Vec<RecordBatch> {
        let numbered = batches.into_iter().zip((0..).step_by(2)); // each has two parts
        numbered.map(|(batch, first)| named_record_batch(&batch, "place", first).unwrap()).collect()
    }

    #[test]
    fn parquet_reads_back() {
        let mut writer = ParquetWriter::new(Vec::new(), "place");
        writer.write(&batch(1)).unwrap();
        writer.write(&batch(2)).unwrap();
        let file = bytes::Bytes::from(writer.finish().unwrap());
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let expected = rows([batch(1), batch(2)]);
        assert_eq!(reader.schema().fields(), expected[0].schema().fields());
        let found: Vec<RecordBatch> =
            reader.with_batch_size(3).build().unwrap().map(Result::unwrap).collect();
        // The reader builds its own dictionaries, so only the values are compared.
        for (found, expected) in found.iter().zip(&expected) {
            for (found, expected) in found.columns().iter().zip(expected.columns()) {
                assert_eq!(&decode_labels(found), &decode_labels(expected));
            }
        }
        assert_eq!(found.len(), 2);
    }

    fn decode_labels(array: &arrow_array::ArrayRef) -> arrow_array::ArrayRef {
        use arrow_array::Array as _;
        use arrow_array::cast::AsArray as _;
        let array = array.as_fixed_size_list_opt().map_or(array, |list| list.values());
        match array.as_dictionary_opt::<arrow_array::types::UInt8Type>() {
            Some(codes) => {
                let texts = codes.downcast_dict::<arrow_array::StringArray>().unwrap();
                Arc::new(texts.into_iter().collect::<arrow_array::StringArray>())
            }
            None => array.slice(0, array.len()),
        }
    }

    #[test]
    fn arrow_reads_back() {
        let batches = || [batch(1), batch(2)];
        let mut file = ArrowWriter::file(Vec::new(), "place");
        let mut stream = ArrowWriter::stream(Vec::new(), "place");
        for batch in batches() {
            file.write(&batch).unwrap();
            stream.write(&batch).unwrap();
        }
        let file = io::Cursor::new(file.finish().unwrap());
        let file = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
        assert_eq!(file.collect::<Result<Vec<_>, _>>().unwrap(), rows(batches()));
        let stream = io::Cursor::new(stream.finish().unwrap());
        let stream = arrow_ipc::reader::StreamReader::try_new(stream, None).unwrap();
        assert_eq!(stream.collect::<Result<Vec<_>, _>>().unwrap(), rows(batches()));
    }

    #[test]
    fn refuses_a_batch_with_other_columns() {
        let plain = || Batch::new(Kind::PointCloud, column("uint8", 1, &[1]));
        let more = plain().with_field(Field::new("n", column("int8", 1, &[0]))).unwrap();
        let message = "InvalidArgument, a batch has other columns than the first: place FixedSizeList(1 x \
             non-null UInt8),n Int8 instead of place FixedSizeList(1 x non-null UInt8)";
        for mut writer in
            [ArrowWriter::file(Vec::new(), "place"), ArrowWriter::stream(Vec::new(), "place")]
        {
            writer.write(&plain()).unwrap();
            assert_eq!(writer.write(&more).unwrap_err().to_string(), message);
            writer.write(&plain()).unwrap();
        }
        let mut writer = ParquetWriter::new(Vec::new(), "place");
        writer.write(&plain()).unwrap();
        assert_eq!(writer.write(&more).unwrap_err().to_string(), message);
    }

    #[test]
    fn writes_an_empty_file_without_a_batch() {
        assert!(ArrowWriter::file(Vec::new(), "position").finish().unwrap().is_empty());
        assert!(ParquetWriter::new(Vec::new(), "position").finish().unwrap().is_empty());
    }

    #[test]
    fn reports_a_failing_target() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut writer = ArrowWriter::file(Full, "place");
        let error = writer.write(&batch(1)).unwrap_err();
        assert_eq!(error.class(), zvf_format::Class::NoSpace);
        let error = writer.finish().err().unwrap();
        assert_eq!(error.to_string(), "Io, cannot write: writing failed before");
        let mut writer = ParquetWriter::new(Full, "place");
        writer.write(&batch(1)).unwrap(); // buffered until the row group is full
        assert_eq!(writer.finish().err().unwrap().class(), zvf_format::Class::NoSpace);
    }
}
