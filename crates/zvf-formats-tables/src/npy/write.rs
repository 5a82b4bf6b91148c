//! Writer of the array file of NumPy: a header, then one record a vertex.
//!
//! ```text
//! offset  size  field
//! 0       6     magic, 93 4e 55 4d 50 59
//! 6       2     version 1.0
//! 8       2     length of the header, u16
//! 10      n     header: a dictionary as text, padded with blanks, a line feed at its end
//! 10 + n        records
//! ```
//!
//! A record is `position` (a value for each axis), then every attribute as stored, then `part` and `object` (both i64,
//! -1 for none) where the input has them. Categories are written as texts, padded to the longest of them;
//! a missing value is an empty text. The header has the number of records, so it is written first with room to spare
//! and again at the end; that needs a target that can seek.

use std::io::{Seek, SeekFrom, Write};

use zvf_error::Result;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_formats::{
    BatchWriter, NewFile, OpenedWriter, Table, cannot_hold, field_value, other_columns, row_number,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::flow::Loss;
use zvf_model::{Batch, Field, Value};

pub(crate) fn open<'a>(file: NewFile<'a, '_>) -> OpenedWriter<'a> {
    let first = file.options.first_column;
    NpyWriter { first, ..NpyWriter::new(file.target) }.into_writer(file.header)
}

/// Writes batches as one array of records.
pub(crate) struct NpyWriter<W> {
    out: W,
    descr: Option<String>,
    start: u64, // of the header in the target, once it is written
    records: u64,
    first: &'static str,
    parts: usize,   // so far
    missing: usize, // texts so far
}

impl<W: Write + Seek> NpyWriter<W> {
    /// Creates a writer to `out`, from its current position on.
    pub(crate) const fn new(out: W) -> Self {
        Self { out, descr: None, start: 0, records: 0, first: "position", parts: 0, missing: 0 }
    }
}

impl<W: Write + Seek> BatchWriter for NpyWriter<W> {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        let table = Table::new(batch, &[]).with_first_part(self.parts);
        self.parts += batch.parts().len();
        let found = descr(batch, self.first);
        match &self.descr {
            Some(first_descr) if *first_descr != found => {
                return Err(other_columns(first_descr.clone(), found));
            }
            Some(_) => {}
            None => {
                let header = header(&found, self.records)?;
                self.start = self.out.stream_position()?;
                self.out.write_all(&header)?;
                self.descr = Some(found);
            }
        }
        let texts: Vec<Option<usize>> = batch.fields().iter().map(text_length).collect();
        let only_positions = batch.fields().is_empty() && !has_objects(batch);
        if only_positions {
            self.out.write_all(batch.positions().bytes())?;
        }
        let rows = if only_positions { 0 } else { batch.len() };
        for row in 0..rows {
            self.out.write_all(batch.positions().row(row))?;
            for (field, texts) in batch.fields().iter().zip(&texts) {
                match texts {
                    None => self.out.write_all(field.column.row(row))?,
                    Some(length) => {
                        self.missing += write_texts(&mut self.out, field, row, *length)?;
                    }
                }
            }
            if has_parts(batch) {
                let part = table.part(row).map_or(-1, row_number);
                self.out.write_all(&part.to_le_bytes())?;
            }
            if has_objects(batch) {
                let object = table.object(row).map_or(-1, |object| object.0);
                self.out.write_all(&object.to_le_bytes())?;
            }
        }
        self.records += to_u64(batch.len());
        Ok(())
    }

    fn finish(mut self, losses: &mut Vec<Loss>) -> Result<()> {
        losses.extend(missing_loss(self.missing));
        if let Some(descr) = &self.descr {
            let end = self.out.stream_position()?;
            self.out.seek(SeekFrom::Start(self.start))?;
            self.out.write_all(&header(descr, self.records)?)?;
            self.out.seek(SeekFrom::Start(end))?;
        }
        Ok(self.out.flush()?)
    }
}

fn has_parts(batch: &Batch) -> bool {
    !batch.parts().offsets().is_empty()
}

fn has_objects(batch: &Batch) -> bool {
    batch.vertex_objects().is_some() || has_parts(batch)
}

/// Returns the list of columns, as NumPy writes it.
fn descr(batch: &Batch, first: &str) -> String {
    let width = batch.positions().width();
    let mut columns = vec![column(first, &type_code(batch.positions().dtype()), width, true)];
    for field in batch.fields() {
        let width = field.column.width();
        let code = match text_length(field) {
            Some(length) => format!("<U{length}"),
            None => type_code(field.column.dtype()),
        };
        columns.push(column(&field.name, &code, width, width > 1));
    }
    let int = |name| column(name, &type_code(Dtype::INT64), 1, false);
    columns.extend(has_parts(batch).then(|| int("part")));
    columns.extend(has_objects(batch).then(|| int("object")));
    format!("[{}]", columns.join(", "))
}

/// Returns the length of the longest category of `field`; `None` if it has none.
pub(crate) fn text_length(field: &Field) -> Option<usize> {
    let values = field.categories.as_ref()?.values();
    let lengths = values.iter().map(|value| value.to_string().chars().count());
    Some(lengths.fold(1, usize::max)) // NumPy has no text type of length 0
}

/// Returns the loss of so many missing texts.
pub(crate) fn missing_loss(count: usize) -> Option<Loss> {
    let text = format!("missing texts ({count}) become empty: arrays of texts have none");
    (count > 0).then(|| Loss::new(text))
}

/// Writes the texts of a row, each padded to `length` characters of 32 bits. Returns how many are
/// missing.
pub(crate) fn write_texts(
    out: &mut impl Write,
    field: &Field,
    row: usize,
    length: usize,
) -> Result<usize> {
    let mut missing = 0;
    for at in 0..usize_from_u32(field.column.width()) {
        let text = match field_value(field, row, at)? {
            Value::Null => {
                missing += 1;
                String::new()
            }
            value => value.to_string(),
        };
        let characters = text.chars().map(u32::from).chain(std::iter::repeat(0));
        for character in characters.take(length) {
            out.write_all(&character.to_le_bytes())?;
        }
    }
    Ok(missing)
}

fn column(name: &str, code: &str, width: u32, vector: bool) -> String {
    let name = name.replace('\\', "\\\\").replace('\'', "\\'");
    let shape = if vector { format!(", ({width},)") } else { String::new() };
    format!("('{name}', '{code}'{shape})")
}

/// Returns the type as NumPy spells it in a file.
pub(crate) fn type_code(dtype: Dtype) -> String {
    let (order, size) = (if dtype.size == 1 { '|' } else { '<' }, dtype.size);
    match dtype.kind {
        DtypeKind::Bool => format!("|b{size}"),
        DtypeKind::Int => format!("{order}i{size}"),
        DtypeKind::UInt => format!("{order}u{size}"),
        DtypeKind::Float => format!("<f{size}"),
        DtypeKind::Text => format!("<U{}", size / 4),
    }
}

/// Encodes the header, whose length does not depend on the number of records.
fn header(descr: &str, records: u64) -> Result<Vec<u8>> {
    let spare = MAX_COUNT_DIGITS - records.to_string().len();
    encode_header(descr, &format!("({records},)"), spare)
}

/// Encodes the header of an array of type `descr`, both in the words of Python, with at least
/// `spare` blanks at its end.
///
/// # Errors
///
/// When it has 64 KiB or more.
pub fn encode_header(descr: &str, shape: &str, spare: usize) -> Result<Vec<u8>> {
    let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}");
    let unpadded = ((text.len() + spare) + PREAMBLE_BYTES) + 1;
    let total_bytes = unpadded.next_multiple_of(ALIGNMENT);
    let length = u16::try_from(total_bytes - PREAMBLE_BYTES).map_err(|_too_long| {
        cannot_hold("npy", "a header of 64 KiB or more", "choose fewer columns, or write CSV")
    })?;
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend(length.to_le_bytes());
    header.extend(text.bytes());
    header.resize(total_bytes - 1, b' ');
    header.push(b'\n');
    Ok(header)
}

const PREAMBLE_BYTES: usize = 10;
const ALIGNMENT: usize = 64;
const MAX_COUNT_DIGITS: usize = 20; // digits of u64::MAX

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use zvf_model::{Categories, Kind, ObjectId, Parts};

    use super::*;
    use crate::shared::column;

    #[test]
    fn writes_records_and_counts_them_in_the_header() {
        let batch = |x: u8, name: &str| {
            Batch::new(Kind::Polyline, column("uint8", 2, &[x, x]))
                .with_field(Field::new(name, column("<U1", 1, &[0x61, 0, 0, 0])))
                .unwrap()
                .with_parts(Parts::new(vec![0, 1], vec![ObjectId(5)]).unwrap())
                .unwrap()
        };
        let mut file = Cursor::new(b"before".to_vec());
        file.set_position(6);
        let mut writer = NpyWriter::new(&mut file);
        writer.write(&batch(1, "it's")).unwrap();
        writer.write(&batch(2, "it's")).unwrap();
        assert!(writer.write(&batch(3, "other")).is_err());
        writer.finish(&mut Vec::new()).unwrap();
        let bytes = file.into_inner();
        let expected = "{'descr': [('position', '|u1', (2,)), ('it\\'s', '<U1'), ('part', '<i8'), \
            ('object', '<i8')], 'fortran_order': False, 'shape': (2,), }";
        assert_eq!(&bytes[..6], b"before");
        assert_eq!(&bytes[6..14], b"\x93NUMPY\x01\0");
        let length = usize::from(u16::from_le_bytes([bytes[14], bytes[15]]));
        let text = std::str::from_utf8(&bytes[16..16 + length]).unwrap();
        assert_eq!((text.trim_end(), text.ends_with('\n')), (expected, true));
        assert_eq!((length + PREAMBLE_BYTES) % ALIGNMENT, 0);
        let first = b"\x01\x01a\0\0\0\0\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0";
        let second = b"\x02\x02a\0\0\0\x01\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0";
        assert_eq!(bytes[16 + length..], [&first[..], second].concat());
    }

    #[test]
    fn categories_are_written_as_texts() {
        let texts = Categories::new(["axon", "é"].map(Value::from).to_vec(), Some(-1));
        let numbers = Categories::new(vec![Value::Int(7)], None);
        let batch = Batch::new(Kind::PointCloud, column("uint8", 1, &[1, 2, 3]))
            .with_field(Field::new("name", column("int8", 1, &[1, 255, 0])).with_categories(texts))
            .unwrap()
            .with_field(Field::new("n", column("uint8", 1, &[0; 3])).with_categories(numbers))
            .unwrap();
        let mut file = Cursor::new(Vec::new());
        let mut writer = NpyWriter::new(&mut file);
        writer.write(&batch).unwrap();
        let mut losses = Vec::new();
        writer.finish(&mut losses).unwrap();
        assert_eq!(losses, [missing_loss(1).unwrap()]);
        let bytes = file.into_inner();
        let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        let header = String::from_utf8_lossy(&bytes[10..start]).into_owned();
        assert!(header.contains("('name', '<U4'), ('n', '<U1')"), "{header}");
        let text = |text: &str| {
            let characters = text.chars().map(u32::from).chain(std::iter::repeat(0)).take(4);
            characters.flat_map(u32::to_le_bytes).collect::<Vec<u8>>()
        };
        let rows = [(1, "é"), (2, ""), (3, "axon")];
        let expected =
            rows.iter().flat_map(|(x, name)| [&[*x][..], &text(name), b"7\0\0\0"].concat());
        assert_eq!(bytes[start..], expected.collect::<Vec<u8>>());

        let unknown = Categories::new(vec![Value::from("a")], None);
        let field = Field::new("name", column("uint8", 1, &[9])).with_categories(unknown);
        let batch = Batch::new(Kind::PointCloud, column("uint8", 1, &[1])).with_field(field);
        let error = NpyWriter::new(Cursor::new(Vec::new())).write(&batch.unwrap()).unwrap_err();
        assert!(
            error.to_string().starts_with("OutOfBounds, cannot decode the categories of \"name\""),
            "{error}"
        );
    }
}
