//! Writer of batches to files of Arrow and Parquet.

use zvf_error::Result;
use zvf_format::num::saturating_usize;
use zvf_model::Batch;

use super::rows::{BatchWriter, Rows};
use super::{Opened, Target, WriteOptions};
use crate::arrow::{ArrowWriter, ParquetWriter};

pub(crate) fn open<'a>(target: Target<'a>, options: &WriteOptions) -> Opened<'a> {
    let out = target.into_file("Arrow")?;
    Ok(Box::new(Rows::new(ArrowWriter::file(out, options.first_column), false)))
}

pub(crate) fn open_stream<'a>(target: Target<'a>, options: &WriteOptions) -> Opened<'a> {
    let out = target.into_file("Arrow")?;
    Ok(Box::new(Rows::new(ArrowWriter::stream(out, options.first_column), false)))
}

pub(crate) fn open_parquet<'a>(target: Target<'a>, options: &WriteOptions) -> Opened<'a> {
    let out = target.into_file("Parquet")?;
    let writer = ParquetWriter::new(out, options.first_column);
    // Encoding a row group takes several times its bytes.
    let bytes = saturating_usize(options.memory / ROW_GROUPS_OF_MEMORY);
    Ok(Box::new(Rows::new(writer.with_row_group_bytes(bytes), false)))
}

/// The number of row groups that the memory limit could hold.
const ROW_GROUPS_OF_MEMORY: u64 = 16;

impl<W: std::io::Write> BatchWriter for ArrowWriter<W> {
    const NAME: &'static str = "Arrow";

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        self.write(batch)
    }

    fn end(self) -> Result<()> {
        self.finish().map(drop)
    }
}

impl<W: std::io::Write> BatchWriter for ParquetWriter<W> {
    const NAME: &'static str = "Parquet";

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        self.write(batch)
    }

    fn end(self) -> Result<()> {
        self.finish().map(drop)
    }
}
