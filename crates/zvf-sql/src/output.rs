//! Output of answers as tables, CSV, JSON, Arrow and Parquet: batch by batch, in bounded memory except for tables.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::arrow::csv;
use datafusion::arrow::ipc::writer::{FileWriter, StreamWriter};
use datafusion::arrow::json::{ArrayWriter, LineDelimitedWriter, WriterBuilder};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::DataFrame;
use futures_util::StreamExt as _;
use zvf::format::Class;
use zvf::publish::{AtomicFile, Disk, FileOptions};

use crate::arguments::{Arguments, Format};
use crate::fault::Fault;

/// Refuses an output that cannot be written, before anything is read.
pub(crate) fn check(arguments: &Arguments) -> Result<(), Fault> {
    if arguments.chosen_format().is_none() {
        return Err(Fault::usage("the name of the file says no format: give --format"));
    }
    let Some(path) = arguments.file() else { return Ok(()) };
    if !arguments.overwrite && std::fs::metadata(path).is_ok_and(is_full) {
        let text = format!("{} is there: give another name, or --overwrite", path.display());
        return Err(Fault::new(Class::AlreadyExists, text));
    }
    Ok(())
}

/// Returns whether a file is not empty; an empty one may be overwritten.
fn is_full(found: std::fs::Metadata) -> bool {
    found.is_file() && found.len() > 0
}

/// Writes an answer; returns whether it has more rows than are shown.
pub(crate) async fn write(frame: DataFrame, arguments: &Arguments) -> Result<bool, Fault> {
    let format = arguments.chosen_format().unwrap_or(Format::Table);
    let Some(path) = arguments.file() else {
        let mut out = BufWriter::new(io::stdout());
        let is_cut = write_to(frame, format, arguments, &mut out).await?;
        out.flush()?;
        return Ok(is_cut);
    };
    let is_empty = std::fs::metadata(path).is_ok_and(|found| !is_full(found));
    let options = FileOptions {
        replace: arguments.overwrite || is_empty,
        replace_changed: arguments.overwrite,
        ..FileOptions::default()
    };
    let mut file = AtomicFile::create(&Disk::default(), path, options)?;
    let mut out = BufWriter::new(file.file());
    let is_cut = write_to(frame, format, arguments, &mut out).await?;
    out.flush()?;
    drop(out);
    file.publish()?;
    Ok(is_cut)
}

async fn write_to(
    frame: DataFrame,
    format: Format,
    arguments: &Arguments,
    out: &mut (impl Write + Send),
) -> Result<bool, Fault> {
    let mut rows = frame.execute_stream().await?;
    let schema: SchemaRef = rows.schema();
    if format == Format::Table {
        let limit = if arguments.limit == 0 { usize::MAX } else { arguments.limit };
        let (mut batches, mut remaining, mut is_cut) =
            (vec![RecordBatch::new_empty(schema)], limit, false);
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            is_cut = batch.num_rows() > remaining;
            batches.push(batch.slice(0, batch.num_rows().min(remaining)));
            remaining -= batch.num_rows().min(remaining);
            if is_cut {
                break;
            }
        }
        writeln!(out, "{}", pretty_format_batches(&batches).map_err(to_fault)?)?;
        return Ok(is_cut);
    }
    let to_file = arguments.file().is_some();
    let mut writer = Writer::new(format, out, Arc::clone(&schema), to_file)?;
    if format == Format::Csv {
        // Write the header even if there are no rows.
        writer.write(&RecordBatch::new_empty(schema))?;
    }
    while let Some(batch) = rows.next().await {
        writer.write(&batch?)?;
    }
    writer.finish()?;
    Ok(false)
}

/// A writer of record batches in one of the formats.
enum Writer<'a, W: Write + Send> {
    Csv(Box<csv::Writer<&'a mut W>>),
    Json(Box<ArrayWriter<&'a mut W>>),
    Jsonl(Box<LineDelimitedWriter<&'a mut W>>),
    ArrowFile(Box<FileWriter<&'a mut W>>),
    ArrowStream(Box<StreamWriter<&'a mut W>>),
    Parquet(Box<ArrowWriter<&'a mut W>>),
}

impl<'a, W: Write + Send> Writer<'a, W> {
    fn new(
        format: Format,
        out: &'a mut W,
        schema: SchemaRef,
        to_file: bool,
    ) -> Result<Self, Fault> {
        Ok(match format {
            Format::Table | Format::Csv => {
                Self::Csv(Box::new(csv::WriterBuilder::new().with_header(true).build(out)))
            }
            Format::Json => Self::Json(Box::new(json_options().build(out))),
            Format::Jsonl => Self::Jsonl(Box::new(json_options().build(out))),
            Format::Arrow if to_file => {
                Self::ArrowFile(Box::new(FileWriter::try_new(out, &schema).map_err(to_fault)?))
            }
            Format::Arrow => {
                Self::ArrowStream(Box::new(StreamWriter::try_new(out, &schema).map_err(to_fault)?))
            }
            Format::Parquet => {
                let writer = ArrowWriter::try_new(out, schema, None);
                Self::Parquet(Box::new(writer.map_err(|error| Fault::usage(error.to_string()))?))
            }
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), Fault> {
        match self {
            Self::Csv(writer) => writer.write(batch).map_err(to_fault),
            Self::Json(writer) => writer.write(batch).map_err(to_fault),
            Self::Jsonl(writer) => writer.write(batch).map_err(to_fault),
            Self::ArrowFile(writer) => writer.write(batch).map_err(to_fault),
            Self::ArrowStream(writer) => writer.write(batch).map_err(to_fault),
            Self::Parquet(writer) => {
                writer.write(batch).map_err(|error| Fault::usage(error.to_string()))
            }
        }
    }

    fn finish(self) -> Result<(), Fault> {
        match self {
            Self::Csv(_) => Ok(()),
            Self::Json(mut writer) => writer.finish().map_err(to_fault),
            Self::Jsonl(mut writer) => writer.finish().map_err(to_fault),
            Self::ArrowFile(mut writer) => writer.finish().map_err(to_fault),
            Self::ArrowStream(mut writer) => writer.finish().map_err(to_fault),
            Self::Parquet(writer) => {
                writer.close().map(drop).map_err(|error| Fault::usage(error.to_string()))
            }
        }
    }
}

/// Returns a JSON writer that writes nulls, so that each object has every key.
fn json_options() -> WriterBuilder {
    WriterBuilder::new().with_explicit_nulls(true)
}

/// Converts an error of Arrow to a fault.
fn to_fault(error: datafusion::arrow::error::ArrowError) -> Fault {
    match error {
        datafusion::arrow::error::ArrowError::IoError(_, source) => source.into(),
        other => datafusion::error::DataFusionError::from(other).into(),
    }
}
