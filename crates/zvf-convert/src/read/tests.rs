//! What holds of every format; and how the tests of each read.

use std::error::Error as _;
use std::io::Write as _;

use proptest::prelude::*;
use zvf_format::join_causes;
use zvf_metadata::Dtype;
use zvf_model::{Batch, Kind};

use super::*;
use crate::{CsvWriter, elements_as_rows};

/// Everything in a file as text: first what the header says, then the pieces.
pub(super) fn dump(format: Format, bytes: &[u8], options: &ReadOptions) -> Result<String, String> {
    let input = Input::reader(std::io::Cursor::new(bytes.to_vec()));
    dump_reader(open(input, Some(format), options))
}

/// The same of a file with a name.
pub(super) fn dump_file(
    format: Format,
    bytes: &[u8],
    options: &ReadOptions,
) -> Result<String, String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    dump_reader(open(Input::path(file.path()), Some(format), options))
}

/// All that a reader gives, as text.
pub(super) fn dump_reader(reader: Result<Reader, ConvertError>) -> Result<String, String> {
    let in_words = |error: ConvertError| join_causes(&error, error.source());
    let reader = reader.map_err(in_words)?;
    let mut text = header(reader.header());
    let said = reader.header().clone();
    let mut vertices = 0;
    for piece in reader {
        match piece.map_err(in_words)? {
            Piece::Vertices(batch) => {
                assert_eq!(batch.positions().dtype(), said.positions.dtype());
                assert_eq!(batch.positions().width(), said.positions.width());
                let names = |fields: &[zvf_model::Field]| {
                    let known = fields.iter();
                    known
                        .map(|f| (f.name.clone(), f.column.dtype(), f.column.width()))
                        .collect::<Vec<_>>()
                };
                assert_eq!(names(batch.fields()), names(&said.fields));
                let owned = batch.vertex_objects().is_some() || !batch.parts().offsets().is_empty();
                assert_eq!(owned, said.objects);
                text.push_str(&rows(&batch, &said.axes));
                if let Some(ends) = elements_as_rows(&batch, vertices).unwrap() {
                    text.push_str(&rows(&ends, &names_of_ends()));
                }
                vertices += u64::try_from(batch.len()).unwrap();
            }
            Piece::Elements { rows: vertices, fields } => {
                let batch = Batch::new(Kind::Graph, vertices);
                let batch = fields.into_iter().try_fold(batch, Batch::with_field).unwrap();
                text.push_str(&rows(&batch, &names_of_ends()));
            }
            Piece::Objects { ids, fields } => {
                let ids: Vec<u8> = ids.iter().flat_map(|id| id.0.to_le_bytes()).collect();
                let ids = zvf_model::Column::new(Dtype::INT64, 1, ids.into()).unwrap();
                let batch = Batch::new(Kind::PointCloud, ids);
                let batch = fields.into_iter().try_fold(batch, Batch::with_field).unwrap();
                text.push_str(&rows(&batch, &["id".to_owned()]));
            }
            Piece::Groups { groups, .. } => {
                for group in groups {
                    let members: Vec<i64> = group.members.iter().map(|id| id.0).collect();
                    text.push_str(&format!("group {:?} {members:?}\n", group.name));
                }
            }
        }
    }
    Ok(text)
}

fn names_of_ends() -> [String; 4] {
    ["v0", "v1", "v2", "v3"].map(str::to_owned)
}

fn header(header: &Header) -> String {
    let mut text = format!("{} of {}", header.kind, header.positions.dtype());
    for field in header.fields.iter().chain(&header.object_fields) {
        text.push_str(&format!(", {} {}", field.name, field.column.dtype()));
    }
    if let Some(elements) = &header.elements {
        text.push_str(&format!(", elements of {:?}", elements.width));
    }
    for out in &header.left_out {
        text.push_str(&format!(", not {out}"));
    }
    text.push('\n');
    text
}

fn rows(batch: &Batch, axes: &[String]) -> String {
    let mut writer = CsvWriter::new(Vec::new(), axes);
    writer.write(batch).unwrap();
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

#[test]
fn formats_by_name_and_by_bytes() {
    let all = Format::ALL.iter().flat_map(|f| f.extensions().iter().map(move |e| (*e, *f)));
    for (extension, format) in all {
        assert_eq!(Format::from_extension(format!("a.{extension}").as_ref()), Some(format));
        if !extension.contains('.') {
            assert_eq!(Format::from_extension(extension.as_ref()), None);
        }
    }
    for (bytes, format) in [
        (&b"\x93NUMPY\x01\0"[..], Some(Format::Npy)),
        (b"PK\x03\x04", Some(Format::Npz)),
        (b"ply\nformat", Some(Format::Ply)),
        (b"ply\r\nformat", Some(Format::Ply)),
        (b"TRACK\0", Some(Format::Trk)),
        (b"plywood", None),
        (b"", None),
    ] {
        assert_eq!(Format::from_bytes(bytes), format);
    }
}

#[test]
fn the_first_bytes_go_before_the_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("points.csv");
    std::fs::write(
        &path,
        "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\n5\n",
    )
    .unwrap();
    let dumped = dump_reader(open(Input::path(&path), None, &ReadOptions::default()));
    assert_eq!(dumped.unwrap(), "point_cloud of float32\nx\n5\n");
    std::fs::write(&path, "x\n7\n").unwrap();
    let dumped = dump_reader(open(Input::path(&path), None, &ReadOptions::default()));
    assert_eq!(dumped.unwrap(), "point_cloud of float64\nx\n7\n");
}

#[test]
fn what_is_not_there_or_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    let error = open(Input::path(&path), None, &ReadOptions::default()).unwrap_err();
    assert_eq!(error.class(), Class::NotFound);
    let line = join_causes(&error, error.source());
    assert_eq!(line, "cannot read: No such file or directory (os error 2)");
    std::fs::write(&path, "x\n7\n").unwrap();
    let error = open(Input::path(&path), None, &ReadOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot tell the format of {}: name it with --format, or end its name with one of {}",
            path.display(),
            Format::readable()
        )
    );
    assert_eq!(error.class(), Class::InvalidArgument);
}

#[test]
fn nothing_follows_an_error() {
    let input = Input::reader(&b"x\n1\ntwo\n3\n"[..]);
    let options = ReadOptions { positions: None, ..ReadOptions::default() };
    let mut reader = open(input, Some(Format::Csv), &options).unwrap();
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

/// Something that begins like a file of the format, so that more than the magic is tried.
fn start(format: Format) -> &'static [u8] {
    match format {
        Format::Stl => b"solid",
        Format::Vtk => b"# vtk DataFile Version 3.0\na\nASCII\nDATASET POLYDATA\nPOINTS 1 float\n0 0 0\n",
        Format::Vtp => b"<VTKFile type='PolyData'>",
        Format::Graphml => b"<graphml><graph edgedefault='directed'>",
        Format::Edgelist => b"1 2 0.5\n",
        Format::Gltf => b"{\"asset\": {\"version\": \"2.0\"}}",
        Format::Draco => b"DRACO\x02\x02\x01\0\0\0",
        Format::Gifti => b"<GIFTI>",
        Format::Freesurfer => b"\xff\xff\xfe",
        Format::Npy => b"\x93NUMPY\x01\0\x3b\0{'descr': '<f4', 'fortran_order': False, 'shape': (9, 2)}\n",
        Format::Npz => b"PK\x05\x06\0\0\0\0\0\0\0\0",
        Format::Csv => b"x,y,object,note\n1,2,3,a\n",
        Format::Tsv => b"x\ty\n1\t2\n",
        Format::Ply => {
            b"ply\nformat binary_little_endian 1.0\nelement vertex 3\nproperty float x\nelement face 9\n\
              property list uchar short vertex_indices\nproperty uchar c\nend_header\n0123456789ab"
        }
        Format::Obj => b"v 0 0 0\nv 1 0 0\nv 1 1 0\nf 1 2 3\n",
        Format::Swc => b"1 1 0 0 0 1 -1\n2 3 1 0 0 1 1\n",
        Format::Trk => b"TRACK\0",
        Format::Las | Format::Laz | Format::Copc => b"LASF",
        Format::FlatGeobuf => b"fgb\x03fgb\0\x08\0\0\0",
        Format::Xyz => b"1 2 3\n4 5 6\n",
        Format::Pts => b"1\n1 2 3 4 5 6 7\n",
        Format::GeoJson | Format::GeoJsonLines => b"{\"type\":\"Feature\",\"geometry\":{\"type\":\"Point\",\"coordinates\":[1,2]}}",
        #[cfg(feature = "h5ad")]
        Format::H5ad => b"\x89HDF\r\n\x1a\n",
        #[cfg(feature = "arrow")]
        Format::Arrow | Format::GeoArrow => b"ARROW1\0\0",
        #[cfg(feature = "arrow")]
        Format::Parquet | Format::GeoParquet => b"PAR1",
        #[cfg(feature = "arrow")]
        Format::Arrows => b"\xff\xff\xff\xff",
        Format::Jsonl => b"{}",
        Format::Tck => b"mrtrix tracks\ndatatype: Float32LE\nfile: . 60\nEND\n",
        Format::Trx => b"PK\x03\x04",
        Format::TrxFolder | Format::Precomputed => b"\0",
    }
}

/// The header of a TRK file, all zeros but what must not be.
fn trk_header() -> Vec<u8> {
    let mut header = vec![0; 1000];
    header[..5].copy_from_slice(b"TRACK");
    for at in [12, 16, 20] {
        header[at..at + 4].copy_from_slice(&1.0_f32.to_le_bytes());
    }
    header[992] = 2;
    header[996..1000].copy_from_slice(&1000_i32.to_le_bytes());
    header
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Any bytes are read or refused, and what is read is no more than there are bytes for.
    #[test]
    fn any_bytes(
        which in 0..Format::ALL.len(),
        started: bool,
        mut tail in prop::collection::vec(any::<u8>(), 0..300),
        text in "[0-9 .,/#\"efvlnp\n-]{0,120}",
        words: bool,
    ) {
        let format = Format::ALL[which];
        let mut bytes = match (started, format) {
            (true, Format::Trk) => trk_header(),
            (true, format) => start(format).to_vec(),
            (false, _) => Vec::new(),
        };
        if words {
            tail = text.into_bytes();
        }
        bytes.extend(tail);
        let options = ReadOptions { batch_rows: 7, memory: 1 << 16, ..ReadOptions::default() };
        let vertices = dump_file(format, &bytes, &options).map_or(0, |text| text.lines().count());
        prop_assert!(vertices <= bytes.len() * 4 + 10);
        prop_assert_eq!(dump(format, &bytes, &options).is_ok(), dump(format, &bytes, &options).is_ok());
    }

    /// One wrong byte of a good file is read or refused as well.
    #[test]
    fn one_byte_off(which in 0..Format::ALL.len(), at: prop::sample::Index, byte: u8) {
        let format = Format::ALL[which];
        let mut bytes = match format {
            Format::Trk => [trk_header(), vec![1, 0, 0, 0], vec![0; 12]].concat(),
            Format::Npy => [start(format), &[0; 72]].concat(),
            Format::Ply => [start(format), &[3, 0, 0, 1, 0, 2, 0, 7].repeat(9)].concat(),
            format => start(format).to_vec(),
        };
        bytes.push(byte); // of formats that begin with nothing
        *at.get_mut(&mut bytes) = byte;
        let _ = dump_file(format, &bytes, &ReadOptions::default());
    }

    /// However a file is cut into batches, it holds the same.
    #[test]
    fn batches_do_not_matter(rows in prop::collection::vec((-9..9_i64, any::<u8>()), 0..40), batch in 1..50_usize) {
        let text: String = rows.iter().map(|(x, n)| format!("{x},{n}\n")).collect();
        let text = format!("x,n\n{text}");
        let lines = |batch_rows| {
            let options = ReadOptions { batch_rows, ..ReadOptions::default() };
            let dumped = dump(Format::Csv, text.as_bytes(), &options).unwrap();
            dumped.lines().filter(|line| *line != "x,n").map(str::to_owned).collect::<Vec<_>>()
        };
        prop_assert_eq!(lines(batch), lines(1000));
    }
}
