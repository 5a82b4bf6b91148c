//! Tests of NPY files: arrays of NumPy, and broken ones.

use std::io::Cursor;

use zvf_formats::{BatchWriter as _, ColumnRoles, FileReader, Input, ReadOptions};
use zvf_metadata::Dtype;
use zvf_model::flow::Piece;
use zvf_model::{Batch, Column, Field, Kind, ObjectId, Parts};

use crate::NPY;
use crate::npy::write::NpyWriter;
use crate::shared::{dump, dump_file, fault, open};

/// Returns a file of version 1.0 with this header text and these bytes.
pub(crate) fn npy(header: &str, bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(header.len()).unwrap();
    [b"\x93NUMPY\x01\0", &length.to_le_bytes()[..], header.as_bytes(), bytes].concat()
}

fn array(descr: &str, fortran: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    npy(&format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}}}"), bytes)
}

#[test]
fn reads_arrays_of_positions() {
    let options = ReadOptions { batch_rows: 2, ..ReadOptions::default() };
    for (file, expected) in [
        (
            array("'|u1'", "False", "(3, 2)", &[1, 2, 3, 4, 5, 6]),
            "point_cloud of uint8\nx,y\n1,2\n3,4\nx,y\n5,6\n",
        ),
        (array("'>i2'", "False", "(2,)", &[0, 1, 1, 0]), "point_cloud of int16\nx\n1\n256\n"),
        (array("'<f4'", "True", "(1, 1)", &[0, 0, 0x80, 0x3f]), "point_cloud of float32\nx\n1\n"),
        (array("'<f4'", "False", "(0, 3)", &[]), "point_cloud of float32\n"),
    ] {
        assert_eq!(dump(&NPY, &file, &options).unwrap(), expected);
    }
    let fortran = array("'|i1'", "True", "(3, 2)", &[1, 3, 5, 2, 4, 255]);
    assert_eq!(
        dump_file(&NPY, &fortran, &options).unwrap(),
        "point_cloud of int8\nx,y\n1,2\n3,4\nx,y\n5,-1\n"
    );
    assert_eq!(
        fault(dump(&NPY, &fortran, &options), "npy"),
        "Unsupported, fortran_order: False in a stream, found True; give the file itself, or \
             write it with np.ascontiguousarray()"
    );
}

#[test]
fn skips_pieces_without_reading_them() {
    let rows: Vec<u8> = (0..14).collect();
    let options = ReadOptions { batch_rows: 2, ..ReadOptions::default() };
    let folder = tempfile::tempdir().unwrap();
    for fortran in ["False", "True"] {
        let path = folder.path().join(fortran);
        std::fs::write(&path, array("'|u1'", fortran, "(7, 2)", &rows)).unwrap();
        let file = || open(Input::path(&path), Some(&NPY), &options).unwrap();
        let stream = || {
            let input = Input::reader(std::fs::File::open(&path).unwrap());
            open(input, Some(&NPY), &options)
        };
        let rest = |reader: FileReader| -> Vec<Vec<u8>> {
            let batch = |piece| match piece {
                Ok(Piece::Vertices(batch)) => batch.positions().bytes().to_vec(),
                piece => panic!("{piece:?}"),
            };
            reader.map(batch).collect()
        };
        let all = rest(file());
        assert_eq!(all.len(), 4);
        for skipped in 0..6 {
            let expected = all.get(skipped..).unwrap_or_default();
            let mut reader = file();
            assert!(reader.seek_past(skipped).unwrap());
            assert_eq!(rest(reader), expected, "{skipped} of {fortran}");
            if let Ok(mut reader) = stream() {
                assert!(reader.seek_past(skipped).unwrap());
                assert_eq!(rest(reader), expected, "{skipped} of a stream");
            }
        }
    }
    // A file that was cut after it was opened fails when it is read.
    let path = folder.path().join("cut");
    let whole = array("'|u1'", "False", "(7, 2)", &rows);
    std::fs::write(&path, &whole).unwrap();
    let mut reader = open(Input::path(&path), Some(&NPY), &options).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 7]).unwrap();
    let error = reader.seek_past(3).unwrap_err().to_string();
    assert!(error.starts_with("Truncated in npy"), "{error}");
    assert!(reader.next().is_none());
}

#[test]
fn reads_records_with_fields() {
    let descr = "[('n', '<u2'), ('y', '|i1'), ('x', '|i1'), ('v', '|u1', (2,)), ('object', '|i1')]";
    let records = [1, 0, 2, 3, 4, 5, 7, 2, 0, 254, 255, 8, 9, 255];
    let file = array(descr, "False", "(2,)", &records);
    let read = |columns, kind| {
        let options = ReadOptions { columns, kind, ..ReadOptions::default() };
        dump(&NPY, &file, &options)
    };
    assert_eq!(
        read(ColumnRoles::default(), None).unwrap(),
        "point_cloud of int8, n uint16, v uint8\nx,y,n,v_0,v_1,object\n3,2,1,4,5,7\n-1,-2,2,8,9,\n"
    );
    assert_eq!(
        read(ColumnRoles::default(), Some(Kind::Polyline)).unwrap(),
        "polyline of int8, n uint16, v uint8\nx,y,n,v_0,v_1,part,object\n3,2,1,4,5,0,7\n\
         -1,-2,2,8,9,1,-1\n"
    );
    let columns = ColumnRoles {
        positions: vec!["v".into()],
        object: Some("n".into()),
        fields: Some(vec!["n".into()]),
        types: Vec::new(),
    };
    assert_eq!(
        read(columns, None).unwrap(),
        "point_cloud of uint8, n uint16\nx,y,n,object\n4,5,1,1\n8,9,2,2\n"
    );
}

#[test]
fn reads_back_written_arrays() {
    let column = |dtype: &str, width, bytes: &[u8]| {
        Column::new(dtype.parse::<Dtype>().unwrap(), width, bytes.to_vec().into()).unwrap()
    };
    let batch = Batch::new(Kind::Polyline, column("uint8", 2, &[1, 2, 3, 4, 5, 6]))
        .with_field(Field::new(
            "text",
            column("<U1", 1, &[0x61, 0, 0, 0, 0x62, 0, 0, 0, 0, 0, 0, 0]),
        ))
        .unwrap()
        .with_parts(Parts::new(vec![0, 1, 3], vec![ObjectId(5), ObjectId(5)]).unwrap())
        .unwrap();
    let mut file = Cursor::new(Vec::new());
    let mut writer = NpyWriter::new(&mut file);
    writer.write(&batch).unwrap();
    writer.finish(&mut Vec::new()).unwrap();
    let options = ReadOptions { kind: Some(Kind::Polyline), ..ReadOptions::default() };
    let dumped = dump(&NPY, &file.into_inner(), &options);
    assert_eq!(
        dumped.unwrap(),
        "polyline of uint8, text <U1\nx,y,text,part,object\n1,2,a,0,5\n3,4,b,1,5\n5,6,,1,5\n"
    );
}

#[test]
fn refuses_unsupported_arrays() {
    let options = ReadOptions::default();
    for (file, message) in [
        (
            array("'<f4'", "False", "(2, 2, 2)", &[0; 32]),
            "BadShape, shape: one or two axes, found [2, 2, 2]; reshape the array: one row a vertex",
        ),
        (
            array("[('x', '<f4')]", "False", "(2, 2)", &[0; 16]),
            "BadShape, shape: one axis of records, found [2, 2]; reshape the array: one row a \
             vertex",
        ),
        (
            array("'<f4'", "False", "(2, 0)", &[]),
            "BadShape, shape: rows of 1 byte to 1 MiB, found [2, 0]",
        ),
        (
            array("'<f4'", "False", "(2, 5000)", &[]),
            "BadShape, shape: rows of 1 byte to 1 MiB, found [2, 5000]",
        ),
        (
            array("'<f8'", "False", "(9223372036854775807, 2)", &[]),
            "Overflow, shape: fewer than 2^64 bytes, found [9223372036854775807, 2]",
        ),
        (
            array("'<f4'", "False", "(2, 9)", &[0; 72]),
            "BadShape, the positions: from 1 to 8 axes of positions, found 9",
        ),
        (
            array("'|b1'", "False", "(1, 2)", &[0; 2]),
            "Unsupported, the positions: numbers, found bool",
        ),
        (
            array("'<f4'", "False", "(3, 2)", &[0; 20]),
            "Truncated, byte 67: 24 bytes of the rows, found 20",
        ),
        (
            array("'|u1'", "False", "(1, 2)", &[0; 3]),
            "Trailing, byte 69: the end after the last row, found more bytes; several arrays in \
             one file are not read: write them one by one, or as npz",
        ),
        (
            array("[('a', '<f4'), ('b', '<f4')]", "False", "(1,)", &[0; 8]),
            "InvalidArgument, the fields of a record: a field \"position\", or \"x\", \"y\", \
             \"z\", found \"a\", \"b\"; name the fields of positions, as in --positions x,y,z",
        ),
        (
            array("[('x', '<f4'), ('y', '<f8')]", "False", "(1,)", &[0; 12]),
            "Unsupported, y: float32 for every axis, found float64; convert them to one type first",
        ),
        (
            array("[('x', '<f4'), ('x', '<f4')]", "False", "(1,)", &[0; 8]),
            "Duplicate, the fields of a record: another name for each field, found \"x\" twice",
        ),
        (
            array("[('x', '<f4'), ('object', '<f4')]", "False", "(1,)", &[0; 8]),
            "Unsupported, the fields of a record: one whole number for the object, found float32 \
             x 1",
        ),
        (
            array("[('x', '|u1'), ('object', '<u8')]", "False", "(1,)", &[255; 9]),
            "Overflow, the objects: a number below 2^63, found 18446744073709551615",
        ),
    ] {
        assert_eq!(fault(dump(&NPY, &file, &options), "npy"), message);
    }
    let short = array("'<f4'", "False", "(3, 2)", &[0; 20]);
    assert_eq!(
        fault(dump_file(&NPY, &short, &options), "npy"),
        "Truncated, shape: a file of 91 bytes, found 87"
    );
    let wide = array("'|u1'", "True", "(2, 65)", &[0; 130]);
    assert_eq!(
        fault(dump_file(&NPY, &wide, &options), "npy"),
        "LimitExceeded, shape: at most 64 columns in Fortran order, found 65; write it with \
             np.ascontiguousarray()"
    );
    let columns = ColumnRoles { positions: vec!["q".into()], ..ColumnRoles::default() };
    let file = array("[('x', '<f4')]", "False", "(0,)", &[]);
    let error = dump(&NPY, &file, &ReadOptions { columns, ..options });
    assert_eq!(
        fault(error, "npy"),
        "InvalidArgument, the fields of a record: a field \"q\", found \"x\""
    );
}
