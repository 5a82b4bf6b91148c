//! Rows of an NPY array, read block by block.

use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{saturating_usize, to_u64, usize_from_u32};
use zvf_formats::{Bytes, FilePlace, RecordField, read_failed, record_bytes};

use crate::npy::read::header::ArrayHeader;

/// An array with a read position.
pub(crate) struct Array {
    pub(crate) fields: Vec<RecordField>, // of one row
    pub(crate) stride: usize,            // bytes of one row, not 0
    pub(crate) rows: u64,                // as the header declares
    remaining_rows: u64,
    source: RowSource,
}

/// Opens the bytes of an array again, at an offset.
pub(crate) type Reopen<'a> = dyn Fn(u64) -> Result<Bytes> + 'a;

enum RowSource {
    /// C order: one stream.
    Rows(Bytes),
    /// Fortran order: one stream per column, and the bytes of a value.
    Columns(Vec<Bytes>, usize),
}

impl Array {
    /// Opens the array at the start of `bytes`. A numeric array of one axis has rows of one value, one of
    /// two axes has rows as wide as its second axis. `reopen` is needed for Fortran order only.
    pub(crate) fn open(mut bytes: Bytes, reopen: Option<&Reopen<'_>>) -> Result<Self> {
        let header = ArrayHeader::read(&mut bytes)?;
        let start = bytes.position();
        let spot = bytes.spot("shape");
        let is_plain = matches!(header.fields.as_slice(), [only] if only.name.is_empty());
        let (rows, width) = match header.shape.as_slice() {
            [rows] => (*rows, 1),
            [rows, width] if is_plain => (*rows, *width),
            _ => {
                let expected = if is_plain { "one or two axes" } else { "one axis of records" };
                let hint = "reshape the array: one row a vertex";
                let found = format_args!("{:?}", header.shape);
                return spot.hint(hint).refuse(Class::BadShape, expected, found);
            }
        };
        let mut fields = header.fields.clone();
        let width = u32::try_from(width).ok().filter(|width| (1..=MAX_ROW_VALUES).contains(width));
        if let (true, [only], Some(width)) = (is_plain, fields.as_mut_slice(), width) {
            only.width = width;
        }
        let stride = record_bytes(&fields);
        let width = width.filter(|_| (1..=MAX_ROW_BYTES).contains(&stride));
        let found = format_args!("{:?}", header.shape);
        let width = spot.need(width, Class::BadShape, "rows of 1 byte to 1 MiB", found)?;
        let claimed = header
            .element_count()
            .and_then(|_| rows.checked_mul(to_u64(stride))?.checked_add(start));
        let found = format_args!("{:?}", header.shape);
        let claimed = spot.need(claimed, Class::Overflow, "fewer than 2^64 bytes", found)?;
        check_length(&bytes, claimed)?;
        let source = match header.fortran_order && width > 1 && rows > 1 {
            true => RowSource::open_columns(&bytes, reopen, rows, usize_from_u32(width), stride)?,
            false => RowSource::Rows(bytes),
        };
        Ok(Self { fields, stride, rows, remaining_rows: rows, source })
    }

    /// Reads the next rows, at most `max_rows`. Returns `None` after the last row, where it checks that
    /// the file ends.
    pub(crate) fn read_rows(&mut self, max_rows: usize) -> Result<Option<Vec<u8>>> {
        let rows = saturating_usize(self.remaining_rows).min(max_rows.max(1));
        if rows == 0 {
            self.source.check_end()?;
            return Ok(None);
        }
        let block = match &mut self.source {
            RowSource::Rows(bytes) => {
                let mut block = vec![0; rows * self.stride];
                bytes.read(&mut block, "the rows")?;
                block
            }
            RowSource::Columns(columns, size) => interleave(columns, *size, rows)?,
        };
        self.remaining_rows -= to_u64(rows);
        Ok(Some(block))
    }

    /// Skips `blocks` blocks of `rows` rows, or the remaining rows.
    pub(crate) fn seek_past(&mut self, blocks: usize, rows: usize) -> Result<()> {
        // A saturated product exceeds the rows of any array.
        let skipped_rows = to_u64(blocks).saturating_mul(to_u64(rows.max(1)));
        let rows = skipped_rows.min(self.remaining_rows);
        match &mut self.source {
            RowSource::Rows(bytes) => bytes.seek_past(rows * to_u64(self.stride))?,
            RowSource::Columns(columns, size) => {
                for bytes in columns {
                    bytes.seek_past(rows * to_u64(*size))?;
                }
            }
        }
        self.remaining_rows -= rows;
        Ok(())
    }
}

impl RowSource {
    /// Opens the columns of `rows` rows of `stride` bytes. The end of the last column fits in 64 bits, as was checked.
    fn open_columns(
        bytes: &Bytes,
        reopen: Option<&Reopen<'_>>,
        rows: u64,
        width: usize,
        stride: usize,
    ) -> Result<Self> {
        let Some(reopen) = reopen else {
            let hint = "give the file itself, or write it with np.ascontiguousarray()";
            let spot = bytes.spot("fortran_order").hint(hint);
            return spot.refuse(Class::Unsupported, "False in a stream", "True");
        };
        if width > MAX_COLUMNS {
            let place = "shape";
            let expected = format!("at most {MAX_COLUMNS} columns in Fortran order");
            let hint = "write it with np.ascontiguousarray()";
            return bytes.spot(place).hint(hint).refuse(Class::LimitExceeded, expected, width);
        }
        let size = stride / width;
        let mut columns = Vec::new();
        let mut at = bytes.position();
        for _ in 0..width {
            columns.push(reopen(at)?);
            at += rows * to_u64(size);
        }
        Ok(Self::Columns(columns, size))
    }

    /// Checks that nothing follows the last row.
    fn check_end(&mut self) -> Result<()> {
        let last = match self {
            Self::Rows(bytes) => bytes,
            Self::Columns(columns, _) => match columns.last_mut() {
                Some(bytes) => bytes,
                None => return Ok(()),
            },
        };
        if last.peek()?.is_empty() {
            return Ok(());
        }
        let place = FilePlace::Byte(last.position());
        let hint = "several arrays in one file are not read: write them one by one, or as npz";
        let spot = last.spot(place).hint(hint);
        spot.refuse(Class::Trailing, "the end after the last row", "more bytes")
    }
}

/// Checks the length of a file against its header. The length of a stream is unknown.
fn check_length(bytes: &Bytes, claimed: u64) -> Result<()> {
    let Some(path) = bytes.path() else { return Ok(()) };
    let metadata = std::fs::metadata(path).map_err(read_failed)?;
    if metadata.is_file() && metadata.len() < claimed {
        let expected = format!("a file of {claimed} bytes");
        return bytes.spot("shape").refuse(Class::Truncated, expected, metadata.len());
    }
    Ok(())
}

/// Reads `rows` rows whose values are `size` bytes, one value from each of `columns`.
fn interleave(columns: &mut [Bytes], size: usize, rows: usize) -> Result<Vec<u8>> {
    let stride = size * columns.len();
    let mut block = vec![0; stride * rows];
    let mut column = vec![0; size * rows];
    for (at, bytes) in columns.iter_mut().enumerate() {
        bytes.read(&mut column, "a column")?;
        let offset = at * size;
        for (row, value) in block.chunks_exact_mut(stride).zip(column.chunks_exact(size)) {
            row[offset..offset + size].copy_from_slice(value);
        }
    }
    Ok(block)
}

/// Bytes of one row.
const MAX_ROW_BYTES: usize = 1 << 20;
/// Values of one row of numbers.
const MAX_ROW_VALUES: u32 = 4096;
/// Columns of an array in Fortran order; each needs an open file.
const MAX_COLUMNS: usize = 64;
