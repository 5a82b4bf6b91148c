//! Writer of npz: an archive with one NumPy array for each column.
//!
//! ```text
//! positions.npy           (n, D)
//! NAME.npy                (n,) or (n, W), each attribute as stored; categories of texts as the texts
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

use super::collected_input::CollectedInput;
use super::npy::{encode_header, text_length, type_code, write_texts};
use super::spool::Spool;
use super::zip::ZipWriter;
use super::{Encoded, Report, Target, WriteOptions};
use crate::elements::row_number;
use crate::error::cannot_hold;
use crate::table::owner_ids;

pub(crate) fn encode(
    input: &CollectedInput,
    out: &mut Target<'_>,
    _options: &WriteOptions,
) -> Encoded {
    let mut zip = ZipWriter::new(out);
    let batch = &input.batch;
    let positions = batch.positions();
    let (code, axes) = (type_code(positions.dtype()), usize_from_u32(positions.width()));
    write_array(&mut zip, "positions", &code, &shape(batch.len(), axes, true), |out| {
        Ok(out.write_all(positions.bytes())?)
    })?;
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
            Some(length) => {
                (0..batch.len()).try_for_each(|row| write_texts(out, field, row, length))
            }
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
    Ok(Report { objects: 0, ..input.report(Vec::new()) })
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

#[cfg(test)]
mod tests {
    use crate::Format;
    use crate::read::{self, Input, Piece, ReadOptions};
    use crate::table::field_value;
    use crate::write::{self, Report, Target, WriteOptions};

    /// Returns what a file gives once it is written as npz and read again.
    fn copy(text: &'static [u8], format: Option<Format>) -> (Report, Vec<Piece>) {
        let options = ReadOptions::default();
        let reader = read::open(Input::reader(text), format, &options).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy.npz");
        let target = Target::file(std::fs::File::create(&path).unwrap());
        let writer = write::open(Format::Npz, target, &WriteOptions::default()).unwrap();
        let report = write::copy(reader, writer).unwrap();
        let again = read::open(Input::path(&path), None, &options).unwrap();
        (report, again.collect::<Result<_, _>>().unwrap())
    }

    #[test]
    fn a_mesh_comes_back() {
        let text: &[u8] =
            b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\n\
            property uchar q\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n\
            0 1 7\n2 3 8\n4 5 9\n3 2 1 0\n";
        let (report, pieces) = copy(text, None);
        assert_eq!((report.vertices, report.elements), (3, 1));
        let Piece::Vertices(batch) = &pieces[0] else { panic!() };
        assert_eq!(batch.fields()[0].name.as_ref(), "q");
        assert_eq!(batch.positions().float(2, 1), Some(5.0));
        let Piece::Elements { rows, .. } = &pieces[1] else { panic!() };
        assert_eq!(rows.as_slice::<i64>(), Some(&[2, 1, 0][..]));
    }

    #[test]
    fn texts_come_back() {
        let text = "x,y,z,tree\n1,2,3,ash\n2,3,4,\n3,4,5,mélèze\n";
        let (_, pieces) = copy(text.as_bytes(), Some(Format::Csv));
        let Piece::Vertices(batch) = &pieces[0] else { panic!() };
        let value = |row| field_value(&batch.fields()[0], row, 0).unwrap().to_string();
        assert_eq!([0, 1, 2].map(value), ["ash", "", "mélèze"]);
    }
}
