//! Writer of batches to files of Arrow and Parquet.

use zvf_format::num::saturating_usize;
use zvf_formats::{BatchWriter as _, Opened, Target, WriteOptions};

use crate::Form;
use crate::files::{ArrowWriter, RecordFile};

pub(crate) fn open<'a>(target: Target<'a>, options: &WriteOptions, form: Form) -> Opened<'a> {
    let format = if form == Form::Parquet { "Parquet" } else { "Arrow" };
    // Encoding a row group takes several times its bytes.
    let bytes = saturating_usize(options.memory / ROW_GROUPS_OF_MEMORY);
    let file = RecordFile::new(target.into_file(format)?, form).with_row_group_bytes(bytes);
    ArrowWriter::new(file, options.first_column).into_sink()
}

/// The number of row groups that the memory limit could hold.
const ROW_GROUPS_OF_MEMORY: u64 = 16;
