//! Writer of npz: an archive with one NumPy array for each column.
//!
//! ```text
//! positions.npy           (n, D)
//! NAME.npy                (n,) or (n, W), each attribute as stored: codes, where there are categories
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
use zvf_metadata::Dtype;
use zvf_model::Column;

use super::collected_input::Collector;
use super::npy::{encode_header, type_code};
use super::spool::Spool;
use super::zip::ZipWriter;
use super::{Opened, Report, Sink, Target, WriteOptions};
use crate::elements::row_number;
use crate::error::cannot_hold;
use crate::read::{Header, Piece};
use crate::table::owner_ids;

pub(crate) fn open<'a>(target: Target<'a>, options: &WriteOptions) -> Opened<'a> {
    let zip = ZipWriter::new(target.into_file("npz")?);
    Ok(Box::new(NpzWriter { zip, collector: Collector::new(options.memory, "npz") }))
}

type Zip<'a> = ZipWriter<Target<'a>>;

struct NpzWriter<'a> {
    zip: Zip<'a>,
    collector: Collector,
}

impl Sink for NpzWriter<'_> {
    fn begin(&mut self, header: &Header) -> Result<()> {
        self.collector.begin(header)
    }

    fn write(&mut self, piece: Piece) -> Result<()> {
        self.collector.push(piece)
    }

    fn finish(self: Box<Self>) -> Result<Report> {
        let Self { mut zip, collector } = *self;
        let Some(mut collected) = collector.finish() else { return Ok(Report::default()) };
        let batch = collected.take_batch()?;
        let mut report = Report { vertices: batch.len() as u64, ..Report::default() };
        write_column(&mut zip, "positions", batch.positions(), true)?;
        for field in batch.fields() {
            if field.name.is_empty() || field.name.contains(['/', '\\', '\0']) {
                let what = format!("the name {:?}", field.name);
                return Err(cannot_hold("npz", what, "leave it out with --attributes"));
            }
            write_column(&mut zip, &field.name, &field.column, field.column.width() > 1)?;
        }
        if collected.header.objects {
            write_integers(&mut zip, "object", 1, owner_ids(&batch).into_iter())?;
        }
        if let Some(elements) = batch.elements() {
            report.elements = elements.len() as u64;
            let name = if elements.width() == 2 { "edges" } else { "faces" };
            let rows = elements.rows().iter().copied().map(row_number);
            write_integers(&mut zip, name, elements.width(), rows)?;
        }
        zip.finish()?;
        Ok(report)
    }
}

fn write_integers(
    zip: &mut Zip<'_>,
    name: &str,
    width: usize,
    numbers: impl Iterator<Item = i64>,
) -> Result<()> {
    let bytes: Vec<u8> = numbers.flat_map(i64::to_le_bytes).collect();
    let rows = bytes.len() / 8 / width.max(1);
    let shape = if width == 1 { format!("({rows},)") } else { format!("({rows}, {width})") };
    write_array(zip, name, Dtype::INT64, &shape, &bytes)
}

fn write_column(zip: &mut Zip<'_>, name: &str, column: &Column, is_wide: bool) -> Result<()> {
    let (rows, width) = (column.len(), column.width());
    let shape = if is_wide { format!("({rows}, {width})") } else { format!("({rows},)") };
    write_array(zip, name, column.dtype(), &shape, column.bytes())
}

fn write_array(
    zip: &mut Zip<'_>,
    name: &str,
    dtype: Dtype,
    shape: &str,
    bytes: &[u8],
) -> Result<()> {
    let mut content = Spool::new(usize::MAX, None);
    content.write_all(&encode_header(&format!("'{}'", type_code(dtype)), shape, 0)?)?;
    content.write_all(bytes)?;
    Ok(zip.write(&format!("{name}.npy"), &mut content)?)
}

#[cfg(test)]
mod tests {
    use crate::Format;
    use crate::read::{self, Input, ReadOptions};
    use crate::write::Target;
    use crate::write::{self, WriteOptions};

    #[test]
    fn a_mesh_comes_back() {
        let text: &[u8] =
            b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\n\
            property uchar q\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n\
            0 1 7\n2 3 8\n4 5 9\n3 2 1 0\n";
        let reader = read::open(Input::reader(text), None, &ReadOptions::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mesh.npz");
        let target = Target::file(std::fs::File::create(&path).unwrap());
        let writer = write::open(Format::Npz, target, &WriteOptions::default()).unwrap();
        let report = write::copy(reader, writer).unwrap();
        assert_eq!((report.vertices, report.elements), (3, 1));
        let again = read::open(Input::path(&path), None, &ReadOptions::default()).unwrap();
        assert_eq!(again.header().fields[0].name.as_ref(), "q");
        let pieces: Vec<read::Piece> = again.collect::<Result<_, _>>().unwrap();
        let read::Piece::Vertices(batch) = &pieces[0] else { panic!() };
        assert_eq!(batch.positions().float(2, 1), Some(5.0));
        let read::Piece::Elements { rows, .. } = &pieces[1] else { panic!() };
        assert_eq!(rows.as_slice::<i64>(), Some(&[2, 1, 0][..]));
    }
}
