//! Reader of Arrow and Parquet: tables of vertices, and features of GeoParquet and `GeoArrow`.
//!
//! ```text
//! metadata `geo`, or a field of `geoarrow.*`   features: a geometry a row, other columns are attributes of objects
//! neither                                      a vertex a row, as `create` names columns: x, y, z or position
//! ```
//!
//! Batches are read one at a time, so memory is bounded by a row group or a record batch. Types are kept. Columns of text
//! and columns that may have missing values are read in a first pass, to infer their types. A column whose statistics say
//! that nothing is missing is read once.
//!
//! Not here: writing ([`crate::files`]).

mod cells;
mod check;
mod features;
mod geometry;
mod table;

use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_schema::{ArrowError, SchemaRef};
use bytes::Bytes as Shared;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_formats::{Bytes, FileReader, RandomFile, ReadOptions, isolate, read_failed};

use crate::Form;

pub(crate) fn open(bytes: Bytes, options: &ReadOptions, form: Form) -> Result<FileReader> {
    let mut source = RandomFile::open(bytes, options.memory)?;
    check_magic(&mut source, form)?;
    match form {
        Form::File => check::check_file(&mut source)?,
        Form::Stream => check::check_stream(&mut source)?,
        Form::Parquet => {}
    }
    let batches = Batches::open(source, form, options.batch_rows)?;
    if let Some(geometry) = geometry::find_column(&batches)? {
        return features::open(batches, geometry, options);
    }
    table::open(batches, options)
}

fn check_magic(source: &mut RandomFile, form: Form) -> Result<()> {
    let magic: &[u8] = match form {
        Form::File => b"ARROW1",
        Form::Parquet => b"PAR1",
        Form::Stream => return Ok(()),
    };
    let size = to_u64(magic.len());
    let expected = String::from_utf8_lossy(magic).into_owned();
    let start = source.read(0, size.min(source.len()), "the magic")?;
    let show = |bytes: &[u8]| format!("{:?}", String::from_utf8_lossy(bytes));
    source.spot_at(0).ensure(start == magic, Class::BadMagic, &expected, show(&start))?;
    let at = source.len() - size;
    let end = source.read(at, size, "the magic at the end")?;
    source.spot_at(at).ensure(end == magic, Class::Truncated, expected, show(&end))
}

/// The record batches of a file, which can be read more than once.
struct Batches {
    bytes: FileBytes,
    form: Form,
    format: &'static str,
    schema: SchemaRef,
    batch_rows: usize,
    /// For each column: whether the statistics of Parquet say that nothing is missing.
    without_nulls: Vec<bool>,
    rows: Option<u64>,
}

/// The bytes of a file.
enum FileBytes {
    File(File),
    Memory(Shared),
}

impl FileBytes {
    fn try_clone(&self) -> Result<Self> {
        Ok(match self {
            Self::File(file) => Self::File(file.try_clone().map_err(read_failed)?),
            Self::Memory(memory) => Self::Memory(memory.clone()),
        })
    }
}

impl Length for FileBytes {
    fn len(&self) -> u64 {
        match self {
            Self::File(file) => Length::len(file),
            Self::Memory(memory) => Length::len(memory),
        }
    }
}

impl ChunkReader for FileBytes {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(match self {
            Self::File(file) => Box::new(file.get_read(start)?),
            Self::Memory(memory) => Box::new(memory.get_read(start)?),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Shared, ParquetError> {
        match self {
            Self::File(file) => file.get_bytes(start, length),
            Self::Memory(memory) => memory.get_bytes(start, length),
        }
    }
}

type ParquetBuilder = ParquetRecordBatchReaderBuilder<FileBytes>;

/// An iterator over record batches.
type BatchIter = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

impl Batches {
    fn open(source: RandomFile, form: Form, batch_rows: usize) -> Result<Self> {
        let format = source.format();
        let bytes = match source.into_parts() {
            Ok(file) => FileBytes::File(file),
            Err(memory) => FileBytes::Memory(memory),
        };
        let schema = Arc::new(arrow_schema::Schema::empty());
        let mut all = Self {
            bytes,
            form,
            format,
            schema,
            batch_rows: batch_rows.max(1),
            without_nulls: Vec::new(),
            rows: None,
        };
        match form {
            Form::Parquet => {
                let builder = all.open_parquet()?;
                all.schema = builder.schema().clone();
                let groups = builder.metadata().row_groups();
                let leaves = builder.parquet_schema();
                let has_no_nulls = |column: usize| {
                    groups.iter().all(|group| {
                        let leaf_has_no_nulls = |leaf: usize| {
                            let chunk = group.columns().get(leaf);
                            chunk.and_then(|chunk| chunk.statistics()?.null_count_opt()) == Some(0)
                        };
                        (0..leaves.num_columns())
                            .filter(|leaf| leaves.get_column_root_idx(*leaf) == column)
                            .all(leaf_has_no_nulls)
                    })
                };
                all.without_nulls = (0..all.schema.fields().len()).map(has_no_nulls).collect();
                all.rows = u64::try_from(builder.metadata().file_metadata().num_rows()).ok();
            }
            Form::File | Form::Stream => all.schema = all.open_ipc(None)?.1,
        }
        Ok(all)
    }

    /// Returns an error of the file.
    fn input_error(&self, place: &str, error: impl std::fmt::Display) -> Error {
        input_error(self.format, place, error)
    }

    fn open_parquet(&self) -> Result<ParquetBuilder> {
        let bytes = self.bytes.try_clone()?;
        let builder = isolate::catch(|| ParquetBuilder::try_new(bytes));
        builder.map_err(|error| self.input_error("the footer", error))
    }

    fn open_ipc(&self, columns: Option<Vec<usize>>) -> Result<(BatchIter, SchemaRef)> {
        let stream: Box<dyn ReadSeek> = match self.bytes.try_clone()? {
            FileBytes::File(mut file) => {
                file.rewind().map_err(read_failed)?;
                Box::new(std::io::BufReader::new(file))
            }
            FileBytes::Memory(memory) => Box::new(Cursor::new(memory)),
        };
        let form = self.form;
        let opened = isolate::catch(|| -> Result<(BatchIter, SchemaRef), ArrowError> {
            if form == Form::Stream {
                let reader = StreamReader::try_new(stream, columns)?;
                let schema = reader.schema();
                return Ok((Box::new(reader), schema));
            }
            let reader = arrow_ipc::reader::FileReader::try_new(stream, columns)?;
            let schema = reader.schema();
            Ok((Box::new(reader), schema))
        });
        opened.map_err(|error| self.input_error("the schema", error))
    }

    /// Reads the batches of these columns.
    fn read(&self, columns: &[usize]) -> Result<BatchIter> {
        let rows = self.batch_rows;
        let batches: BatchIter = match self.form {
            Form::Parquet => {
                let builder = self.open_parquet()?;
                if !has_valid_counts(builder.metadata()) {
                    let found = "numbers of rows that are negative or do not add up";
                    return Err(self.input_error("the row groups", found));
                }
                let mask = ProjectionMask::roots(builder.parquet_schema(), columns.iter().copied());
                let builder = builder.with_projection(mask).with_batch_size(rows);
                let reader = isolate::catch(|| builder.build());
                Box::new(reader.map_err(|error| self.input_error("the row groups", error))?)
            }
            Form::File | Form::Stream => self.open_ipc(Some(columns.to_vec()))?.0,
        };
        Ok(Box::new(PanicGuard { batches }))
    }
}

/// Checks that the row counts of the row groups are not negative and their sum does not overflow.
fn has_valid_counts(metadata: &parquet::file::metadata::ParquetMetaData) -> bool {
    let counts = metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()).ok());
    let total = counts.reduce(|sum, count| sum?.checked_add(count?));
    total.is_none_or(|total| total.is_some_and(|total| i64::try_from(total).is_ok()))
}

fn input_error(format: &'static str, place: &str, error: impl std::fmt::Display) -> Error {
    let found = error.to_string();
    zvf_formats::Spot::new(format, place).error(Class::Codec, "what the format says", found)
}

trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// An iterator over batches that turns panics of the decoder into errors.
struct PanicGuard {
    batches: BatchIter,
}

impl Iterator for PanicGuard {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batches = &mut self.batches;
        isolate::catch_panic(|| batches.next())
            .unwrap_or_else(|panic| Some(Err(ArrowError::ParquetError(panic))))
    }
}

#[cfg(test)]
mod tests;
