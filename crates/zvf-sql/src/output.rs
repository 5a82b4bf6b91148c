//! Output of answers as tables, CSV, JSON, Arrow and Parquet: batch by batch, in bounded memory except for tables.

use std::io::{self, BufWriter, Write};

use arrow_array::{RecordBatch, RecordBatchWriter};
use datafusion::arrow::csv;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::ipc::writer::{FileWriter, StreamWriter};
use datafusion::arrow::json::WriterBuilder;
use datafusion::arrow::json::writer::{JsonArray, LineDelimited};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::DataFrame;
use futures_util::TryStreamExt as _;
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
    let rows = frame.execute_stream().await?;
    let schema = rows.schema();
    // With nulls, so that each object has every key.
    let json = WriterBuilder::new().with_explicit_nulls(true);
    match format {
        Format::Table => return write_table(rows, arguments.limit, out).await,
        Format::Csv => {
            let mut writer = csv::Writer::new(out);
            // The header, even if there are no rows.
            writer.write(&RecordBatch::new_empty(schema))?;
            write_rows(rows, writer).await
        }
        Format::Json => write_rows(rows, json.build::<_, JsonArray>(out)).await,
        Format::Jsonl => write_rows(rows, json.build::<_, LineDelimited>(out)).await,
        Format::Arrow if arguments.file().is_some() => {
            write_rows(rows, FileWriter::try_new(out, &schema)?).await
        }
        Format::Arrow => write_rows(rows, StreamWriter::try_new(out, &schema)?).await,
        Format::Parquet => {
            let writer = ArrowWriter::try_new(out, schema, None).map_err(ArrowError::from)?;
            write_rows(rows, writer).await
        }
    }?;
    Ok(false)
}

/// Writes a table of at most `limit` rows, of all for 0; returns whether there are more.
async fn write_table(
    mut rows: SendableRecordBatchStream,
    limit: usize,
    out: &mut impl Write,
) -> Result<bool, Fault> {
    let mut remaining = if limit == 0 { usize::MAX } else { limit };
    let (mut batches, mut is_cut) = (vec![RecordBatch::new_empty(rows.schema())], false);
    while !is_cut && let Some(batch) = rows.try_next().await? {
        is_cut = batch.num_rows() > remaining;
        let shown = batch.num_rows().min(remaining);
        batches.push(batch.slice(0, shown));
        remaining -= shown;
    }
    writeln!(out, "{}", pretty_format_batches(&batches)?)?;
    Ok(is_cut)
}

async fn write_rows(
    mut rows: SendableRecordBatchStream,
    mut writer: impl RecordBatchWriter,
) -> Result<(), Fault> {
    while let Some(batch) = rows.try_next().await? {
        writer.write(&batch)?;
    }
    Ok(writer.close()?)
}
