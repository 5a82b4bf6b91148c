//! Tests of all formats.

mod archived;
mod measures;
#[path = "../../zvf-formats/tests/shared/mod.rs"]
mod shared;
mod written;

use std::error::Error as _;

use proptest::prelude::*;
use zvf_error::join_causes;
use zvf_format::Class;
use zvf_formats::Spec;

use self::shared::dump_reader;
use crate::read::{Format, Input, ReadOptions, open};

/// The specifications of all formats.
pub(crate) const ALL: &[&Spec] = &{
    let mut all = [Format::ALL[0].spec(); Format::ALL.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = Format::ALL[at].spec();
        at += 1;
    }
    all
};

#[test]
fn detects_formats_by_name_and_by_bytes() {
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
fn first_bytes_override_the_name() {
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
fn refuses_missing_files_and_unknown_formats() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    let error = open(Input::path(&path), None, &ReadOptions::default()).unwrap_err();
    assert_eq!(error.class(), Class::NotFound);
    let line = join_causes(&error, error.source());
    assert_eq!(line, "NotFound, cannot read: no such file or folder");
    std::fs::write(&path, "x\n7\n").unwrap();
    let error = open(Input::path(&path), None, &ReadOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "InvalidArgument, cannot tell the format of {}: name it with --format, or end its name with one of {}",
            path.display(),
            Format::list()
        )
    );
    assert_eq!(error.class(), Class::InvalidArgument);
    let path = folder.path().join("roads.shp");
    std::fs::write(&path, "").unwrap();
    let error = open(Input::path(&path), None, &ReadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("ogr2ogr -f FlatGeobuf"), "{error}");
    for (file, said) in
        [("neurons/a.swc", "name its files, such as"), ("b/zarr.json", "is a store")]
    {
        let path = folder.path().join(file);
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "").unwrap();
        let input = Input::path(path.parent().unwrap());
        let error = open(input, None, &ReadOptions::default()).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn ends_after_an_error() {
    let input = Input::reader(&b"x\n1\ntwo\n3\n"[..]);
    let options = ReadOptions { positions: None, ..ReadOptions::default() };
    let mut reader = open(input, Some(Format::Csv), &options).unwrap();
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

/// Returns the start of a file of the format, so that tests reach more than the check of the magic bytes.
fn file_start(format: Format) -> &'static [u8] {
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
        #[cfg(feature = "dots")]
        Format::Dots => b"dots\n",
    }
}

/// Returns the header of a TRK file, zero where that is valid.
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

    /// Any bytes are read or refused, and the output is bounded by the number of bytes.
    #[test]
    fn reads_or_refuses_any_bytes(
        which in 0..Format::ALL.len(),
        started: bool,
        mut tail in prop::collection::vec(any::<u8>(), 0..300),
        text in "[0-9 .,/#\"efvlnp\n-]{0,120}",
        words: bool,
    ) {
        let format = Format::ALL[which];
        let mut bytes = match (started, format) {
            (true, Format::Trk) => trk_header(),
            (true, format) => file_start(format).to_vec(),
            (false, _) => Vec::new(),
        };
        if words {
            tail = text.into_bytes();
        }
        bytes.extend(tail);
        let options = ReadOptions { batch_rows: 7, memory: 1 << 16, ..ReadOptions::default() };
        let vertices = shared::dump_file(format.spec(), &bytes, &options).map_or(0, |text| text.lines().count());
        prop_assert!(vertices <= bytes.len() * 4 + 10);
        prop_assert_eq!(shared::dump(format.spec(), &bytes, &options).is_ok(), shared::dump(format.spec(), &bytes, &options).is_ok());
    }

    /// A valid file with one changed byte is read or refused.
    #[test]
    fn reads_or_refuses_one_changed_byte(which in 0..Format::ALL.len(), at: prop::sample::Index, byte: u8) {
        let format = Format::ALL[which];
        let mut bytes = match format {
            Format::Trk => [trk_header(), vec![1, 0, 0, 0], vec![0; 12]].concat(),
            Format::Npy => [file_start(format), &[0; 72]].concat(),
            Format::Ply => [file_start(format), &[3, 0, 0, 1, 0, 2, 0, 7].repeat(9)].concat(),
            format => file_start(format).to_vec(),
        };
        bytes.push(byte); // for formats whose start is empty
        *at.get_mut(&mut bytes) = byte;
        let _ = shared::dump_file(format.spec(), &bytes, &ReadOptions::default());
    }

    /// The contents of a file do not depend on the size of batches.
    #[test]
    fn batch_size_does_not_matter(rows in prop::collection::vec((-9..9_i64, any::<u8>()), 0..40), batch in 1..50_usize) {
        let text: String = rows.iter().map(|(x, n)| format!("{x},{n}\n")).collect();
        let text = format!("x,n\n{text}");
        let lines = |batch_rows| {
            let options = ReadOptions { batch_rows, ..ReadOptions::default() };
            let dumped = shared::dump(Format::Csv.spec(), text.as_bytes(), &options).unwrap();
            dumped.lines().filter(|line| *line != "x,n").map(str::to_owned).collect::<Vec<_>>()
        };
        prop_assert_eq!(lines(batch), lines(1000));
    }
}
