//! Arrow and Parquet: tables of vertices, and features of GeoParquet and `GeoArrow`.
//!
//! ```text
//! metadata `geo`, or a field of `geoarrow.*`   features: a geometry a row, all else attributes of objects
//! neither                                      a vertex a row, as `create` names columns: x, y, z or position
//! ```
//!
//! Batches come one after the other, so memory follows a row group or a record batch. Types stay. Text and
//! missing values settle in a first pass over the columns that may have them; where statistics say that nothing
//! is missing a column is read once.
//!
//! Not here: writing ([`crate::ArrowWriter`], [`crate::ParquetWriter`]).

mod cells;
mod check;
mod features;
mod geometry;
mod table;

use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, SchemaRef};
use bytes::Bytes as Shared;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use zvf_format::Class;
use zvf_format::num::to_u64;

use super::input::Bytes;
use super::source::Source;
use super::{ReadOptions, Reader};
use crate::error::Place;
use crate::{ConvertError, isolate};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<Reader, ConvertError> {
    open_as(bytes, options, Form::File)
}

pub(crate) fn open_stream(bytes: Bytes, options: &ReadOptions) -> Result<Reader, ConvertError> {
    open_as(bytes, options, Form::Stream)
}

pub(crate) fn open_parquet(bytes: Bytes, options: &ReadOptions) -> Result<Reader, ConvertError> {
    open_as(bytes, options, Form::Parquet)
}

fn open_as(bytes: Bytes, options: &ReadOptions, form: Form) -> Result<Reader, ConvertError> {
    let mut source = Source::open(bytes, options.memory)?;
    check_magic(&mut source, form)?;
    match form {
        Form::File => check::check_file(&mut source)?,
        Form::Stream => check::check_stream(&mut source)?,
        Form::Parquet => {}
    }
    let batches = Batches::open(source, form, options.batch_rows)?;
    if let Some(place) = geometry::find(&batches)? {
        return features::open(batches, place, options);
    }
    table::open(batches, options)
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    File,
    Stream,
    Parquet,
}

fn check_magic(source: &mut Source, form: Form) -> Result<(), ConvertError> {
    let magic: &[u8] = match form {
        Form::File => b"ARROW1",
        Form::Parquet => b"PAR1",
        Form::Stream => return Ok(()),
    };
    let size = to_u64(magic.len());
    let expected = String::from_utf8_lossy(magic).into_owned();
    let start = source.read(0, size.min(source.len()), "the magic")?;
    let show = |bytes: &[u8]| format!("{:?}", String::from_utf8_lossy(bytes));
    if start != magic {
        return Err(source.bad(Class::BadMagic, Place::Byte(0), expected, show(&start)).into());
    }
    let at = source.len().saturating_sub(size);
    let end = source.read(at, size.min(source.len()), "the magic at the end")?;
    if end != magic {
        return Err(source.bad(Class::Truncated, Place::Byte(at), expected, show(&end)).into());
    }
    Ok(())
}

/// A file that can be passed over more than once.
struct Batches {
    held: Held,
    form: Form,
    format: &'static str,
    schema: SchemaRef,
    batch_rows: usize,
    /// Columns of Parquet in which nothing is missing, as its statistics say.
    complete: Vec<bool>,
    rows: Option<u64>,
}

/// The bytes of a file.
enum Held {
    File(File),
    Memory(Shared),
}

/// Batches one after the other.
type BatchIter = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

impl Batches {
    fn open(source: Source, form: Form, batch_rows: usize) -> Result<Self, ConvertError> {
        let format = source.format();
        let held = match source.into_parts() {
            Ok(file) => Held::File(file),
            Err(memory) => Held::Memory(memory.into()),
        };
        let schema = Arc::new(arrow_schema::Schema::empty());
        let mut all = Self {
            held,
            form,
            format,
            schema,
            batch_rows: batch_rows.max(1),
            complete: Vec::new(),
            rows: None,
        };
        match form {
            Form::Parquet => {
                let builder = all.parquet()?;
                all.schema = builder.schema().clone();
                let groups = builder.metadata().row_groups();
                let leaves = builder.parquet_schema();
                let without_nulls = |column: usize| {
                    groups.iter().all(|group| {
                        let counted = |leaf: usize| {
                            let chunk = group.columns().get(leaf);
                            chunk.and_then(|chunk| chunk.statistics()?.null_count_opt()) == Some(0)
                        };
                        (0..leaves.num_columns())
                            .filter(|leaf| leaves.get_column_root_idx(*leaf) == column)
                            .all(counted)
                    })
                };
                all.complete = (0..all.schema.fields().len()).map(without_nulls).collect();
                all.rows = u64::try_from(builder.metadata().file_metadata().num_rows()).ok();
            }
            Form::File | Form::Stream => all.schema = all.ipc(None)?.1,
        }
        Ok(all)
    }

    /// A fault of the file.
    fn bad(&self, place: &str, error: impl std::fmt::Display) -> ConvertError {
        bad(self.format, place, error)
    }

    fn parquet(&self) -> Result<ParquetBuilder, ConvertError> {
        let builder = match &self.held {
            Held::File(file) => {
                let file = file.try_clone().map_err(ConvertError::Read)?;
                let builder = isolate::catch(|| ParquetRecordBatchReaderBuilder::try_new(file));
                builder.map(|builder| builder.map(ParquetBuilder::File))
            }
            Held::Memory(memory) => {
                let memory = memory.clone();
                let builder = isolate::catch(|| ParquetRecordBatchReaderBuilder::try_new(memory));
                builder.map(|builder| builder.map(ParquetBuilder::Memory))
            }
        };
        builder
            .map_err(|panic| self.bad("the footer", panic))?
            .map_err(|error| self.bad("the footer", error))
    }

    fn ipc(&self, columns: Option<Vec<usize>>) -> Result<(BatchIter, SchemaRef), ConvertError> {
        let stream: Box<dyn ReadSeek> = match &self.held {
            Held::File(file) => {
                let mut file = file.try_clone().map_err(ConvertError::Read)?;
                file.rewind().map_err(ConvertError::Read)?;
                Box::new(std::io::BufReader::new(file))
            }
            Held::Memory(memory) => Box::new(Cursor::new(memory.clone())),
        };
        let form = self.form;
        let opened = isolate::catch(|| -> Result<(BatchIter, SchemaRef), ArrowError> {
            if form == Form::Stream {
                let reader = StreamReader::try_new(stream, columns)?;
                let schema = reader.schema();
                return Ok((Box::new(reader), schema));
            }
            let reader = FileReader::try_new(stream, columns)?;
            let schema = reader.schema();
            Ok((Box::new(reader), schema))
        });
        opened
            .map_err(|panic| self.bad("the schema", panic))?
            .map_err(|error| self.bad("the schema", error))
    }

    /// Passes over the batches of these columns.
    fn read(&self, columns: &[usize]) -> Result<BatchIter, ConvertError> {
        let rows = self.batch_rows;
        let batches: BatchIter = match self.form {
            Form::Parquet => {
                let builder = self.parquet()?;
                if !has_sound_counts(builder.metadata()) {
                    let found = "numbers of rows that are negative or do not add up";
                    return Err(self.bad("the row groups", found));
                }
                isolate::catch(|| builder.build(columns, rows))
                    .map_err(|panic| self.bad("the row groups", panic))?
                    .map_err(|error| self.bad("the row groups", error))?
            }
            Form::File | Form::Stream => self.ipc(Some(columns.to_vec()))?.0,
        };
        Ok(Box::new(Caught { batches }))
    }
}

/// Whether the rows that the row groups claim can be counted.
fn has_sound_counts(metadata: &parquet::file::metadata::ParquetMetaData) -> bool {
    let counts = metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()).ok());
    let total = counts.reduce(|sum, count| sum?.checked_add(count?));
    total.is_none_or(|total| total.is_some_and(|total| i64::try_from(total).is_ok()))
}

fn bad(format: &'static str, place: &str, error: impl std::fmt::Display) -> ConvertError {
    let place = Place::Named(place.to_owned());
    let found = error.to_string();
    crate::BadInput::new(Class::Codec, format, place, "what the format says", found).into()
}

trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// A reader of Parquet in the making.
enum ParquetBuilder {
    File(ParquetRecordBatchReaderBuilder<File>),
    Memory(ParquetRecordBatchReaderBuilder<Shared>),
}

impl ParquetBuilder {
    fn schema(&self) -> &SchemaRef {
        match self {
            Self::File(builder) => builder.schema(),
            Self::Memory(builder) => builder.schema(),
        }
    }

    fn metadata(&self) -> &Arc<parquet::file::metadata::ParquetMetaData> {
        match self {
            Self::File(builder) => builder.metadata(),
            Self::Memory(builder) => builder.metadata(),
        }
    }

    fn parquet_schema(&self) -> &parquet::schema::types::SchemaDescriptor {
        match self {
            Self::File(builder) => builder.parquet_schema(),
            Self::Memory(builder) => builder.parquet_schema(),
        }
    }

    fn build(
        self,
        columns: &[usize],
        rows: usize,
    ) -> Result<BatchIter, parquet::errors::ParquetError> {
        let mask = ProjectionMask::roots(self.parquet_schema(), columns.iter().copied());
        Ok(match self {
            Self::File(builder) => {
                Box::new(builder.with_projection(mask).with_batch_size(rows).build()?)
            }
            Self::Memory(builder) => {
                Box::new(builder.with_projection(mask).with_batch_size(rows).build()?)
            }
        })
    }
}

/// Batches whose decoder may panic.
struct Caught {
    batches: BatchIter,
}

impl Iterator for Caught {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batches = &mut self.batches;
        isolate::catch(|| batches.next())
            .unwrap_or_else(|panic| Some(Err(ArrowError::ParquetError(panic))))
    }
}

#[cfg(test)]
mod tests;
