//! Tests of PLY files in each encoding, and of broken files.

use zvf_formats::{Polygons, ReadOptions};
use zvf_metadata::Dtype;
use zvf_model::{Batch, Column, Elements, Kind};

use crate::PLY;
use crate::ply::write::tests::write_one;
use crate::shared::{dump, dump_file, fault};

const QUAD: &str = "element vertex 4\ncomment caf\u{e9}\nproperty short y\nproperty short x\nproperty uchar c\n\
    obj_info by hand\nelement face 2\nproperty list uchar int vertex_indices\nproperty ushort w\nend_header\n";

fn file(format: &str, header: &str, body: &[u8]) -> Vec<u8> {
    [b"ply\nformat ", format.as_bytes(), b" 1.0\n", header.as_bytes(), body].concat()
}

fn quads() -> [Vec<u8>; 3] {
    let text = b"0 1 9\n2 3\n8\n 4 5 7 6 7 6\n4 0 1 2 3 500\n4  3 2 1 0\t600\n";
    let little = b"\0\0\x01\0\x09\x02\0\x03\0\x08\x04\0\x05\0\x07\x06\0\x07\0\x06\
        \x04\0\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\xf4\x01\
        \x04\x03\0\0\0\x02\0\0\0\x01\0\0\0\0\0\0\0\x58\x02";
    let big = b"\0\0\0\x01\x09\0\x02\0\x03\x08\0\x04\0\x05\x07\0\x06\0\x07\x06\
        \x04\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\x03\x01\xf4\
        \x04\0\0\0\x03\0\0\0\x02\0\0\0\x01\0\0\0\0\x02\x58";
    [
        file("ascii", QUAD, text),
        file("binary_little_endian", QUAD, little),
        file("binary_big_endian", &QUAD.replace('\n', "\r\n"), big),
    ]
}

#[test]
fn reads_equal_values_in_each_encoding() {
    let fans = ReadOptions { polygons: Polygons::Triangles, ..ReadOptions::default() };
    let small = ReadOptions { batch_rows: 3, ..ReadOptions::default() };
    let bare = ReadOptions { kind: Some(Kind::PointCloud), ..ReadOptions::default() };
    for file in quads() {
        let vertices = "x,y,c\n1,0,9\n3,2,8\n5,4,7\n7,6,6\n";
        assert_eq!(
            dump_file(&PLY, &file, &ReadOptions::default()).unwrap(),
            format!(
                "mesh of int16, c uint8, elements of Some(4)\n{vertices}\
                v0,v1,v2,v3,w\n0,1,2,3,500\n3,2,1,0,600\n"
            )
        );
        assert_eq!(
            dump(&PLY, &file, &fans).unwrap(),
            format!(
                "mesh of int16, c uint8, elements of Some(3)\n{vertices}\
                v0,v1,v2,w\n0,1,2,500\n0,2,3,500\n3,2,1,600\n3,1,0,600\n"
            )
        );
        assert_eq!(
            dump(&PLY, &file, &small).unwrap(),
            "mesh of int16, c uint8, elements of None\nx,y,c\n1,0,9\n3,2,8\n5,4,7\nx,y,c\n7,6,6\n\
             v0,v1,v2,v3,w\n0,1,2,3,500\n3,2,1,0,600\n"
        );
        assert_eq!(
            dump(&PLY, &file, &bare).unwrap(),
            format!("point_cloud of int16, c uint8, not 2 face elements\n{vertices}")
        );
    }
}

#[test]
fn a_coordinate_of_a_texture_is_no_time() {
    let names = ["x", "y", "z", "s", "t"].map(|name| format!("property float {name}\n"));
    let header = format!("element vertex 1\n{}end_header\n", names.concat());
    let read = dump(&PLY, &file("ascii", &header, b"1 2 3 4 5\n"), &ReadOptions::default());
    assert!(read.unwrap().ends_with("\nx,y,z,s,t\n1,2,3,4,5\n"));
}

#[test]
fn reads_edges_and_skips_other_elements() {
    let header = "element camera 1\nproperty list char float at\nproperty double f\nelement nothing 99\n\
        element vertex 2\nproperty float x\nproperty list uchar char tags\nproperty int object\n\
        element edge 1\nproperty int vertex2\nproperty uchar w\nproperty int vertex1\n\
        element last 1\nproperty char a\nend_header\n";
    let text = b"2 0.5 1 9\n1 0 7\n2 3 1 2 3 -1\n1 200 0\n5\n\n";
    let expected = "graph of float32, w uint8, elements of Some(2), not 1 camera elements, not 99 nothing \
        elements, not 1 last elements, not the lists tags of vertices; to keep them, make each number a \
        separate property\nx,object\n1,7\n2,\nv0,v1,w\n\
        0,1,200\n";
    let expected = expected.replace("float32, w uint8, elements", "float32, elements");
    assert_eq!(
        dump(&PLY, &file("ascii", header, text), &ReadOptions::default()).unwrap(),
        expected
    );
    let binary = b"\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\x3f\0\x07\0\0\0\0\0\0\x40\x03abc\xff\xff\xff\xff\
        \x01\0\0\0\xc8\0\0\0\0\x05";
    let file = file("binary_little_endian", header, binary);
    assert_eq!(dump(&PLY, &file, &ReadOptions::default()).unwrap(), expected);
}

#[test]
fn reads_back_written_files() {
    let points: Vec<u8> = (0..9_u8).flat_map(|n| f32::from(n).to_le_bytes()).collect();
    let positions = Column::new(Dtype::FLOAT32, 3, points.into()).unwrap();
    let faces = Elements::new(3, vec![0, 1, 2, 2, 1, 0]).unwrap();
    let batch = Batch::new(Kind::Mesh, positions).with_elements(faces).unwrap();
    let mut file = Vec::new();
    write_one(&batch, &[], &mut file).unwrap();
    assert_eq!(
        dump_file(&PLY, &file, &ReadOptions::default()).unwrap(),
        "mesh of float32, elements of Some(3)\nx,y,z\n0,1,2\n3,4,5\n6,7,8\nv0,v1,v2\n0,1,2\n2,1,0\n"
    );
}

#[test]
fn refuses_broken_headers() {
    for (text, message) in [
        ("plx\n", "BadMagic, line 1: ply, found another first line"),
        ("ply\n", "Truncated, line 1: end_header, found the end"),
        ("ply\nend_header\n", "Truncated, line 2: a line with the format, found none"),
        (
            "ply\nformat text 1.0\n",
            "Unsupported, line 2: ascii, binary_little_endian or binary_big_endian, found \"text\"",
        ),
        ("ply\nformat ascii 2.0\n", "UnsupportedVersion, line 2: version 1.0, found \"2.0\""),
        (
            "ply\nelement vertex -1\n",
            "Encoding, line 2: a number of elements, found \"element vertex -1\"",
        ),
        (
            "ply\nproperty float x\n",
            "Encoding, line 2: an element first, found \"property float x\"",
        ),
        (
            "ply\nelement vertex 1\nproperty half x\n",
            "BadTag, line 3: a type such as float or uchar, found \"half\"",
        ),
        (
            "ply\nelement vertex 1\nproperty float\n",
            "Encoding, line 3: a type and a name, found \"property float\"",
        ),
        (
            "ply\nelement vertex 1\nproperty list float int a\n",
            "BadTag, line 3: a whole number to count with, found \"property list float int a\"",
        ),
        (
            "ply\nelement vertex 1\nproperty float x\nproperty float x\n",
            "Duplicate, line 4: another name for each property, found \"x\"",
        ),
        (
            "ply\nsomething else\n",
            "BadTag, line 2: format, element, property, comment or end_header, found \"something \
             else\"",
        ),
        (
            "ply\nformat ascii 1.0\nelement face 1\nproperty list uchar int vertex_index\nend_header\n",
            "Unsupported, header: an element vertex, found none",
        ),
        (
            "ply\nformat ascii 1.0\nelement face 1\nproperty list uchar int vertex_index\nelement vertex 1\n\
             property float x\nend_header\n",
            "Unsupported, header: vertices before what joins them, found them after it",
        ),
        (
            "ply\nformat ascii 1.0\nelement vertex 1\nproperty float a\nend_header\n",
            "InvalidArgument, the fields of a record: a field \"position\", or \"x\", \"y\", \
             \"z\", found \"a\"; name the fields of positions, as in --positions x,y,z",
        ),
    ] {
        let found = dump(&PLY, text.as_bytes(), &ReadOptions::default());
        assert_eq!(fault(found, "PLY"), message, "{text}");
    }
    let many: String = (0..257).map(|n| format!("element e{n} 1\n")).collect();
    let found = dump(&PLY, format!("ply\n{many}").as_bytes(), &ReadOptions::default());
    assert_eq!(
        fault(found, "PLY"),
        "LimitExceeded, line 258: at most 256 elements, found \"e256\""
    );
    let many: String = (0..257).map(|n| format!("property int p{n}\n")).collect();
    let found = dump(&PLY, format!("ply\nelement e 1\n{many}").as_bytes(), &ReadOptions::default());
    assert_eq!(
        fault(found, "PLY"),
        "LimitExceeded, line 259: at most 256 properties of an element, found \"p256\""
    );
    let mesh = ReadOptions { kind: Some(Kind::Mesh), ..ReadOptions::default() };
    let points = "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\n1\n";
    assert_eq!(
        fault(dump(&PLY, points.as_bytes(), &mesh), "PLY"),
        "InvalidArgument, header: edges or faces of a mesh, found vertices only"
    );
}

#[test]
fn refuses_broken_bodies() {
    let header = "element vertex 2\nproperty int x\nelement face 2\nproperty list char int vertex_index\nend_header\n";
    for (text, message) in [
        ("1", "Truncated, line 8, column \"x\": a value, found the end"),
        ("1\n1.5", "Encoding, line 9, column \"x\": int32, found \"1.5\""),
        (
            "1 2\n3 0 1 2",
            "OutOfBounds, line 9, column \"vertex_index\": a vertex from 0 to 1, found 2",
        ),
        (
            "1 2\n3 0 1 -1",
            "OutOfBounds, line 9, column \"vertex_index\": a vertex from 0 to 1, found -1",
        ),
        ("1 2\n-3", "Negative, line 9, column \"vertex_index\": a length of 0 or more, found -3"),
        (
            "1 2\n2 0 1",
            "BadShape, line 9, column \"vertex_index\": from 3 to 8 corners, found 2; use \
             --triangles",
        ),
        (
            "1 2\n3 0 1 0\n4 0 1 0 1",
            "CountMismatch, line 10, column \"vertex_index\": 3 corners as the first face has, \
             found 4; use --triangles",
        ),
        ("1 2\nx", "Encoding, line 9, column \"vertex_index\": a whole number, found \"x\""),
        (
            "1 2\n3 0 1 0\n3 0 1 0\n5",
            "Trailing, line 10, column \"the end\": the end after the last element, found more",
        ),
    ] {
        let file = file("ascii", header, text.as_bytes());
        let found = fault(dump(&PLY, &file, &ReadOptions::default()), "PLY");
        assert_eq!(found, message, "{text}");
    }
    let long = [b"1 ".as_slice(), &[b'2'; 2000]].concat();
    assert_eq!(
        fault(dump(&PLY, &file("ascii", header, &long), &ReadOptions::default()), "PLY"),
        "LimitExceeded, line 8, column \"x\": a value of at most 1024 bytes, found a longer one"
    );
    for (bytes, message) in [
        (&b"\0\0\0\0\x01\0\0"[..], "Truncated, byte 130: 8 bytes of element vertex, found 7"),
        (b"\0\0\0\0\0\0\0\0\xff", "Negative, byte 138: a length of 0 or more, found -1"),
        (
            b"\0\0\0\0\0\0\0\0\x03\0\0\0\0\x02\0\0\0",
            "OutOfBounds, byte 143: a vertex from 0 to 1, found 2",
        ),
        (
            b"\0\0\0\0\0\0\0\0\x03\0\0\0\0\x01\0\0\0\xff\xff\xff\xff",
            "OutOfBounds, byte 147: a vertex from 0 to 1, found -1",
        ),
    ] {
        let file = file("binary_little_endian", header, bytes);
        let found = fault(dump(&PLY, &file, &ReadOptions::default()), "PLY");
        assert_eq!(found, message);
    }
    let claim = "element vertex 4000000000000000000\nproperty float x\nend_header\n";
    let found = dump(&PLY, &file("binary_little_endian", claim, b"1234"), &ReadOptions::default());
    assert!(fault(found, "PLY").starts_with("Truncated, byte"), "a claim reserves nothing");
}
