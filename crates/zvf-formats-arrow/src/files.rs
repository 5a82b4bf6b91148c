//! Files of record batches: Arrow IPC and Parquet.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter as ParquetEncoder};
use parquet::basic::{Compression, Type as PhysicalType, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnDescPtr;
use zvf_error::{Error, Result};
use zvf_format::num::saturating_usize;
use zvf_formats::{BatchWriter, NewFile, OpenedWriter, other_columns};
use zvf_model::Batch;
use zvf_model::flow::Loss;

use crate::batch::named_record_batch;
use crate::{Form, from_arrow_error};

/// Opens a writer of batches.
pub(crate) fn open<'a>(file: NewFile<'a, '_>, form: Form) -> OpenedWriter<'a> {
    let records = RecordFile::new(file.target, form, file.options.memory);
    ArrowWriter::new(records, file.options.first_column).into_writer(file.header)
}

/// A file of record batches, which begins with the first of them.
pub(crate) struct RecordFile<W: Write> {
    out: Option<W>, // until it begins
    form: Form,
    encoder: Option<Encoder<W>>,
    row_group_bytes: usize,
}

enum Encoder<W: Write> {
    File(Box<FileWriter<W>>),
    Stream(Box<StreamWriter<W>>),
    Parquet(Box<ParquetEncoder<SharedBuffer>>, SharedBuffer, W),
}

impl<W: Write> RecordFile<W> {
    /// Creates a file whose row groups fit the memory of a writer.
    pub(crate) fn new(out: W, form: Form, memory: u64) -> Self {
        // Encoding a row group takes several times its bytes.
        let bytes = saturating_usize(memory / ROW_GROUPS_OF_MEMORY);
        let row_group_bytes = bytes.clamp(1, ROW_GROUP_BYTES);
        Self { out: Some(out), form, encoder: None, row_group_bytes }
    }

    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        if let Some(out) = self.out.take() {
            self.encoder = Some(Encoder::new(out, self.form, &rows.schema())?);
        }
        match &mut self.encoder {
            Some(Encoder::File(writer)) => writer.write(rows).map_err(from_arrow_error),
            Some(Encoder::Stream(writer)) => writer.write(rows).map_err(from_arrow_error),
            Some(Encoder::Parquet(writer, buffer, out)) => {
                writer.write(rows).map_err(from_parquet_error)?;
                if writer.in_progress_size() >= self.row_group_bytes {
                    writer.flush().map_err(from_parquet_error)?;
                }
                Ok(out.write_all(&buffer.take())?)
            }
            None => Err(failed_writer_error()),
        }
    }

    /// Ends the file, with an entry of `metadata` in the footer of Parquet.
    pub(crate) fn finish(self, metadata: Option<KeyValue>) -> Result<()> {
        let mut out = match self.encoder {
            Some(Encoder::File(writer)) => writer.into_inner().map_err(from_arrow_error)?,
            Some(Encoder::Stream(writer)) => writer.into_inner().map_err(from_arrow_error)?,
            Some(Encoder::Parquet(mut writer, buffer, mut out)) => {
                metadata.into_iter().for_each(|entry| writer.append_key_value_metadata(entry));
                writer.close().map_err(from_parquet_error)?;
                out.write_all(&buffer.take())?;
                out
            }
            None => self.out.ok_or_else(failed_writer_error)?,
        };
        Ok(out.flush()?)
    }
}

impl<W: Write> Encoder<W> {
    fn new(out: W, form: Form, schema: &SchemaRef) -> Result<Self> {
        Ok(match form {
            Form::File => {
                Self::File(FileWriter::try_new(out, schema).map_err(from_arrow_error)?.into())
            }
            Form::Stream => {
                Self::Stream(StreamWriter::try_new(out, schema).map_err(from_arrow_error)?.into())
            }
            Form::Parquet => {
                let buffer = SharedBuffer::default();
                let settings = writer_properties(schema).map_err(from_parquet_error)?;
                let writer =
                    ParquetEncoder::try_new(buffer.clone(), schema.clone(), Some(settings));
                Self::Parquet(writer.map_err(from_parquet_error)?.into(), buffer, out)
            }
        })
    }
}

fn failed_writer_error() -> Error {
    io::Error::other("writing failed before").into()
}

/// The output of an encoder that needs a target of its own, which may cross threads.
#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

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
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A writer of batches as a file of record batches.
pub(crate) struct ArrowWriter<W: Write> {
    file: RecordFile<W>,
    schema: Option<SchemaRef>, // of the batches so far
    first: &'static str,
    parts: usize, // so far
}

impl<W: Write> ArrowWriter<W> {
    /// Creates a writer to `file`. The column of positions is called `first`.
    pub(crate) const fn new(file: RecordFile<W>, first: &'static str) -> Self {
        Self { file, schema: None, first, parts: 0 }
    }
}

impl<W: Write> BatchWriter for ArrowWriter<W> {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        let rows = named_record_batch(batch, self.first, self.parts)?;
        self.parts += batch.parts().len();
        let first = self.schema.get_or_insert_with(|| rows.schema());
        if *first != rows.schema() {
            return Err(other_columns(describe_columns(first), describe_columns(&rows.schema())));
        }
        self.file.write(&rows)
    }

    fn finish(self, _: &mut Vec<Loss>) -> Result<()> {
        self.file.finish(None)
    }
}

/// Returns the settings of a file: compressed, and floats without a dictionary, since few of them are equal.
fn writer_properties(schema: &Schema) -> Result<WriterProperties, ParquetError> {
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

fn describe_columns(schema: &SchemaRef) -> String {
    let fields = schema.fields().iter();
    let words: Vec<String> =
        fields.map(|field| format!("{} {}", field.name(), field.data_type())).collect();
    words.join(",")
}

fn from_parquet_error(error: ParquetError) -> Error {
    from_arrow_error(ArrowError::from(error))
}

/// The number of row groups that the memory limit could hold.
const ROW_GROUPS_OF_MEMORY: u64 = 16;
/// Approximate bytes of a row group, which a Parquet writer holds in memory.
const ROW_GROUP_BYTES: usize = 16 << 20;

#[cfg(test)]
mod tests {

    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use zvf_model::{Categories, Field, Kind, ObjectId, Parts, Value};

    use super::*;
    use crate::shared::column;

    fn begin<W: Write>(out: W, form: Form) -> ArrowWriter<W> {
        ArrowWriter::new(RecordFile::new(out, form, 1 << 30), "place")
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

    fn write_two(form: Form) -> Vec<u8> {
        let mut file = Vec::new();
        let mut writer = begin(&mut file, form);
        [batch(1), batch(2)].iter().try_for_each(|batch| writer.write(batch)).unwrap();
        writer.finish(&mut Vec::new()).unwrap();
        file
    }

    #[test]
    fn parquet_reads_back() {
        let file = write_two(Form::Parquet);
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(file)).unwrap();
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
        let file = io::Cursor::new(write_two(Form::File));
        let file = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
        assert_eq!(file.collect::<Result<Vec<_>, _>>().unwrap(), rows(batches()));
        let stream = io::Cursor::new(write_two(Form::Stream));
        let stream = arrow_ipc::reader::StreamReader::try_new(stream, None).unwrap();
        assert_eq!(stream.collect::<Result<Vec<_>, _>>().unwrap(), rows(batches()));
    }

    #[test]
    fn refuses_a_batch_with_other_columns() {
        let plain = || Batch::new(Kind::PointCloud, column("uint8", 1, &[1]));
        let more = plain().with_field(Field::new("n", column("int8", 1, &[0]))).unwrap();
        let message = "InvalidArgument, a batch has other columns than the first: place FixedSizeList(1 x \
             non-null UInt8),n Int8 instead of place FixedSizeList(1 x non-null UInt8)";
        for form in [Form::File, Form::Stream, Form::Parquet] {
            let mut writer = begin(Vec::new(), form);
            writer.write(&plain()).unwrap();
            assert_eq!(writer.write(&more).unwrap_err().to_string(), message);
            writer.write(&plain()).unwrap();
        }
    }

    #[test]
    fn writes_an_empty_file_without_a_batch() {
        for form in [Form::File, Form::Parquet] {
            let mut file = Vec::new();
            begin(&mut file, form).finish(&mut Vec::new()).unwrap();
            assert!(file.is_empty());
        }
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
        let mut writer = begin(Full, Form::File);
        let error = writer.write(&batch(1)).unwrap_err();
        assert_eq!(error.class(), zvf_format::Class::NoSpace);
        let error = writer.finish(&mut Vec::new()).err().unwrap();
        assert_eq!(error.to_string(), "Io, cannot write: writing failed before");
        let mut writer = begin(Full, Form::Parquet);
        writer.write(&batch(1)).unwrap(); // buffered until the row group is full
        assert_eq!(
            writer.finish(&mut Vec::new()).err().unwrap().class(),
            zvf_format::Class::NoSpace
        );
    }
}
