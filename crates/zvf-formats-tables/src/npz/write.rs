//! Writer of npz: an archive with one NumPy array for each column.
//!
//! ```text
//! positions.npy           (n, D)
//! NAME.npy                (n,) or (n, W), each attribute as stored; categories as texts
//! object.npy              (n,) int64, -1 for none
//! edges.npy, faces.npy    (m, L) int64
//! ```
//!
//! Members are stored without a date, in the order of the columns. [`numpy.load`] opens the archive, and the reader of
//! this crate restores each column.
//!
//! [`numpy.load`]: https://numpy.org/doc/stable/reference/generated/numpy.load.html

use std::io::Write as _;

use zvf_error::Result;
use zvf_format::num::usize_from_u32;
use zvf_formats::{
    CollectedInput, Encoded, Spool, Target, ZipWriter, cannot_hold, owner_ids, row_number,
};
use zvf_model::flow::FlowReport;

use crate::npy::write::{encode_header, missing_loss, text_length, type_code, write_texts};

pub(crate) fn encode(input: &CollectedInput, out: &mut Target<'_>) -> Encoded {
    let mut zip = ZipWriter::new(out);
    let batch = &input.batch;
    let positions = batch.positions();
    let (code, axes) = (type_code(positions.dtype()), usize_from_u32(positions.width()));
    write_array(&mut zip, "positions", &code, &shape(batch.len(), axes, true), |out| {
        Ok(out.write_all(positions.bytes())?)
    })?;
    let mut missing = 0;
    for field in batch.fields() {
        if field.name.is_empty() || field.name.contains(['/', '\\', '\0']) {
            let what = format!("the name {:?}", field.name);
            return Err(cannot_hold("npz", what, "leave it out with --attributes"));
        }
        let length = text_length(field);
        let code =
            length.map_or_else(|| type_code(field.column.dtype()), |length| format!("<U{length}"));
        let shape = shape(batch.len(), usize_from_u32(field.column.width()), false);
        write_array(&mut zip, &field.name, &code, &shape, |out| match length {
            None => Ok(out.write_all(field.column.bytes())?),
            Some(length) => (0..batch.len()).try_for_each(|row| {
                missing += write_texts(out, field, row, length)?;
                Ok(())
            }),
        })?;
    }
    if input.header.objects {
        write_integers(&mut zip, "object", 1, owner_ids(batch).into_iter())?;
    }
    if let Some(elements) = batch.elements() {
        let name = if elements.width() == 2 { "edges" } else { "faces" };
        let rows = elements.rows().iter().copied().map(row_number);
        write_integers(&mut zip, name, elements.width(), rows)?;
    }
    zip.finish()?;
    Ok(FlowReport { objects: 0, ..input.report(missing_loss(missing).into_iter().collect()) })
}

type Zip<'a, 't> = ZipWriter<&'a mut Target<'t>>;

fn write_integers(
    zip: &mut Zip<'_, '_>,
    name: &str,
    width: usize,
    numbers: impl Iterator<Item = i64>,
) -> Result<()> {
    let bytes: Vec<u8> = numbers.flat_map(i64::to_le_bytes).collect();
    let shape = shape(bytes.len() / 8 / width.max(1), width, false);
    write_array(zip, name, "<i8", &shape, |out| Ok(out.write_all(&bytes)?))
}

/// Returns the shape of an array; a column of one value a row has one axis, unless it `is_wide`.
fn shape(rows: usize, width: usize, is_wide: bool) -> String {
    if is_wide || width > 1 { format!("({rows}, {width})") } else { format!("({rows},)") }
}

fn write_array(
    zip: &mut Zip<'_, '_>,
    name: &str,
    code: &str,
    shape: &str,
    write: impl FnOnce(&mut Spool) -> Result<()>,
) -> Result<()> {
    let mut content = Spool::new(MAX_HELD, None);
    content.write_all(&encode_header(&format!("'{code}'"), shape, 0)?)?;
    write(&mut content)?;
    Ok(zip.write(&format!("{name}.npy"), &mut content)?)
}

/// The bytes of a member that stay in memory.
const MAX_HELD: usize = 1 << 22;
