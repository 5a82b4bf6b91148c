//! The rows of an array, block by block.

use zvf_format::Class;
use zvf_format::num::to_u64;

use super::header::ArrayHeader;
use crate::ConvertError;
use crate::error::Place;
use crate::read::input::Bytes;
use crate::read::roles::RecordField;

/// An array, and how far it was read.
pub(in crate::read) struct Array {
    fields: Vec<RecordField>, // of one row
    stride: usize,            // bytes of one row, not 0
    rows: u64,
    left: u64,
    source: Source,
}

/// The bytes of an array once more, from a place in them.
pub(in crate::read) type Again<'a> = dyn Fn(u64) -> Result<Bytes, ConvertError> + 'a;

enum Source {
    /// Row after row.
    Rows(Bytes),
    /// One place in the file a column, all of the same size.
    Columns(Vec<Bytes>, usize),
}

impl Array {
    /// The array that `bytes` begin with. One axis of numbers is rows of one value, two are rows of as
    /// many as the second is long. `again` gives the same bytes from another place, where it can.
    pub(in crate::read) fn open(
        mut bytes: Bytes,
        again: Option<&Again<'_>>,
    ) -> Result<Self, ConvertError> {
        let header = ArrayHeader::read(&mut bytes)?;
        let start = bytes.at();
        let bad = |class, expected: &str, found: String| {
            bytes.bad(class, Place::Named("shape".to_owned()), expected, found)
        };
        let plain = matches!(header.fields.as_slice(), [only] if only.name.is_empty());
        let (rows, width) = match header.shape.as_slice() {
            [rows] => (*rows, 1),
            [rows, width] if plain => (*rows, *width),
            _ => {
                let expected = if plain { "one or two axes" } else { "one axis of records" };
                let hint = "reshape the array: one row a vertex";
                let bad = bad(Class::BadShape, expected, format!("{:?}", header.shape));
                return Err(bad.with_hint(hint).into());
            }
        };
        let mut fields = header.fields.clone();
        if let ([only], Ok(width)) = (fields.as_mut_slice(), u32::try_from(width)) {
            only.width = only.width.saturating_mul(width); // too wide: refused below
        }
        let stride = fields.iter().fold(0_usize, |sum, field| sum.saturating_add(field.size()));
        if width == 0 || width > MAX_ROW_VALUES || !(1..=MAX_ROW_BYTES).contains(&stride) {
            let expected = "rows of 1 byte to 1 MiB";
            return Err(bad(Class::BadShape, expected, format!("{:?}", header.shape)).into());
        }
        let claimed = header
            .elements()
            .and_then(|_| rows.checked_mul(u64::try_from(stride).ok()?)?.checked_add(start));
        let Some(claimed) = claimed else {
            let found = format!("{:?}", header.shape);
            return Err(bad(Class::Overflow, "fewer than 2^64 bytes", found).into());
        };
        let source = match header.fortran && width > 1 && rows > 1 {
            true => Source::columns(&bytes, again, [rows, width, start], stride)?,
            false => {
                check_length(&bytes, claimed)?;
                Source::Rows(bytes)
            }
        };
        Ok(Self { fields, stride, rows, left: rows, source })
    }

    /// What a row is made of.
    pub(in crate::read) fn fields(&self) -> &[RecordField] {
        &self.fields
    }

    /// Bytes of a row.
    pub(in crate::read) const fn stride(&self) -> usize {
        self.stride
    }

    /// All rows, as the file claims.
    pub(in crate::read) const fn rows(&self) -> u64 {
        self.rows
    }

    /// The next rows, at most `most` of them; nothing at the end, where the file has to end as well.
    pub(in crate::read) fn next(&mut self, most: usize) -> Result<Option<Vec<u8>>, ConvertError> {
        let rows = usize::try_from(self.left).unwrap_or(usize::MAX).min(most.max(1));
        if rows == 0 {
            self.source.check_end()?;
            return Ok(None);
        }
        let block = match &mut self.source {
            Source::Rows(bytes) => {
                let mut block = vec![0; rows * self.stride];
                bytes.read(&mut block, "the rows")?;
                block
            }
            Source::Columns(columns, size) => interleave(columns, *size, rows)?,
        };
        self.left -= to_u64(rows);
        Ok(Some(block))
    }

    /// Passes over `blocks` blocks of `rows` rows, or what is left of them.
    pub(in crate::read) fn seek_past(
        &mut self,
        blocks: usize,
        rows: usize,
    ) -> Result<(), ConvertError> {
        // Too many: more than any array has.
        let rows = to_u64(blocks).saturating_mul(to_u64(rows.max(1))).min(self.left);
        match &mut self.source {
            Source::Rows(bytes) => bytes.seek_past(rows * to_u64(self.stride))?,
            Source::Columns(columns, size) => {
                for bytes in columns {
                    bytes.seek_past(rows * to_u64(*size))?;
                }
            }
        }
        self.left -= rows;
        Ok(())
    }
}

impl Source {
    fn columns(
        bytes: &Bytes,
        again: Option<&Again<'_>>,
        [rows, width, start]: [u64; 3],
        stride: usize,
    ) -> Result<Self, ConvertError> {
        let Some(again) = again else {
            let place = Place::Named("fortran_order".to_owned());
            let bad = bytes.bad(Class::Unsupported, place, "False in a stream", "True");
            let hint = "give the file itself, or write it with np.ascontiguousarray()";
            return Err(bad.with_hint(hint).into());
        };
        let width = usize::try_from(width).unwrap_or(usize::MAX);
        let size = stride.checked_div(width).unwrap_or(1);
        let column = rows.saturating_mul(to_u64(size));
        let all = column.saturating_mul(to_u64(width));
        check_length(bytes, start.saturating_add(all))?; // too large: past the end of any file
        let mut columns = Vec::new();
        let mut at = start;
        for _ in 0..width.min(MAX_COLUMNS) {
            columns.push(again(at)?);
            at = at.saturating_add(column);
        }
        if columns.len() != width {
            let place = Place::Named("shape".to_owned());
            let expected = format!("at most {MAX_COLUMNS} columns in Fortran order");
            let hint = "write it with np.ascontiguousarray()";
            let bad = bytes.bad(Class::LimitExceeded, place, expected, width.to_string());
            return Err(bad.with_hint(hint).into());
        }
        Ok(Self::Columns(columns, size))
    }

    /// Nothing may follow the last row.
    fn check_end(&mut self) -> Result<(), ConvertError> {
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
        let place = Place::Byte(last.at());
        let hint = "several arrays in one file are not read: write them one by one, or as npz";
        let bad = last.bad(Class::Trailing, place, "the end after the last row", "more bytes");
        Err(bad.with_hint(hint).into())
    }
}

/// Refuses a file that is shorter than it claims, where its length is known.
fn check_length(bytes: &Bytes, claimed: u64) -> Result<(), ConvertError> {
    let Some(path) = bytes.path() else { return Ok(()) };
    let found = std::fs::metadata(path).map_err(ConvertError::Read)?;
    if found.is_file() && found.len() < claimed {
        let place = Place::Named("shape".to_owned());
        let expected = format!("a file of {claimed} bytes");
        let found = found.len().to_string();
        return Err(bytes.bad(Class::Truncated, place, expected, found).into());
    }
    Ok(())
}

/// `rows` rows, whose values come one from each of `columns`.
fn interleave(columns: &mut [Bytes], size: usize, rows: usize) -> Result<Vec<u8>, ConvertError> {
    let stride = size * columns.len();
    let mut block = vec![0; stride * rows];
    let mut column = vec![0; size * rows];
    for (at, bytes) in columns.iter_mut().enumerate() {
        bytes.read(&mut column, "a column")?;
        let offset = at * size;
        for (row, value) in block.chunks_exact_mut(stride).zip(column.chunks_exact(size)) {
            if let Some(place) = row.get_mut(offset..offset + size) {
                place.copy_from_slice(value);
            }
        }
    }
    Ok(block)
}

/// Bytes of one row.
const MAX_ROW_BYTES: usize = 1 << 20;
/// Values of one row of numbers.
const MAX_ROW_VALUES: u64 = 4096;
/// Columns that are read at once from as many places.
const MAX_COLUMNS: usize = 64;
