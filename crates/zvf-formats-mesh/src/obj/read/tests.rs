//! Tests of OBJ files: meshes, lines, points and broken files.

use zvf_formats::{Polygons, ReadOptions};
use zvf_metadata::Dtype;
use zvf_model::Kind;

use crate::OBJ;
use crate::shared::{dump, dump_file, fault};

#[test]
fn reads_faces_lines_and_points() {
    let mesh = "# by hand\nmtllib a.mtl\nv 0 0 0\nv 1 0 0 1.0\r\nv 1 1 0\nvn 0 0 1\nvn 0 1 1\nusemtl b\n\
        f 1/1/1 2//2 3\nv 0 1 0.5\nf -1 -2 -4\nl 1 2\n";
    let lines = "v 0 0 0\nv 1 0 0\nv 2 0 0\nl 1 2 3\nl 3 1\n";
    let default = ReadOptions::default;
    let small = ReadOptions { batch_rows: 1, ..default() };
    let points = ReadOptions { kind: Some(Kind::PointCloud), ..default() };
    let graph = ReadOptions {
        kind: Some(Kind::Graph),
        positions: "float64".parse::<Dtype>().ok(),
        ..default()
    };
    let fans = ReadOptions { polygons: Polygons::Triangles, ..default() };
    let left_out = "not 1 material file, not 1 material reference, not 2 normals; to keep them, give each \
                vertex its own in a PLY or glTF file";
    for (text, options, expected) in [
        (
            mesh,
            default(),
            format!(
                "mesh of float32, elements of Some(3), {left_out}, not 1 line\nx,y,z\n0,0,0\n1,0,0\n1,1,0\n\
                 0,1,0.5\nv0,v1,v2\n0,1,2\n3,2,0\n"
            ),
        ),
        (
            mesh,
            graph,
            format!(
                "graph of float64, elements of Some(2), {left_out}, not 2 faces\nx,y,z\n0,0,0\n1,0,0\n1,1,0\n\
                 0,1,0.5\nv0,v1\n0,1\n"
            ),
        ),
        (
            lines,
            small,
            "graph of float32, elements of Some(2)\nx,y,z\n0,0,0\nx,y,z\n1,0,0\nx,y,z\n2,0,0\n\
             v0,v1\n0,1\n1,2\nv0,v1\n2,0\n"
                .to_owned(),
        ),
        (
            lines,
            points,
            "point_cloud of float32, not 2 lines\nx,y,z\n0,0,0\n1,0,0\n2,0,0\n".to_owned(),
        ),
        (
            "v 0 0 0 0.5 0 1\nv 1 1 1 1 1 1\nv 2 2 2 0 0 0\nv 3 3 3 0 0 0\nf 1 2 3 4\n",
            fans,
            "mesh of float32, color float32, elements of Some(3)\nx,y,z,color_0,color_1,color_2\n\
             0,0,0,0.5,0,1\n1,1,1,1,1,1\n2,2,2,0,0,0\n3,3,3,0,0,0\nv0,v1,v2\n0,1,2\n0,2,3\n"
                .to_owned(),
        ),
        ("", default(), "point_cloud of float32\n".to_owned()),
    ] {
        assert_eq!(dump_file(&OBJ, text.as_bytes(), &options).unwrap(), expected, "{text}");
    }
}

#[test]
fn refuses_broken_files() {
    for (text, message) in [
        ("v 1 2\n", "CountMismatch, line 1: x, y and z, found 2 values"),
        (
            "v 0 0 0 1 1 1\nv 0 0 0\n",
            "CountMismatch, line 2: x, y, z and a colour as the first vertex has, found 3 values",
        ),
        ("v 0 0 zero\n", "Encoding, line 1: a number, found \"zero\""),
        ("v 0 0 0\nf 1 1 2\n", "OutOfBounds, line 2: one of the 1 vertices above, found \"2\""),
        ("v 0 0 0\nf 1 1 -2\n", "OutOfBounds, line 2: one of the 1 vertices above, found \"-2\""),
        ("v 0 0 0\nf 1 1 0\n", "Encoding, line 2: a number of a vertex, from 1, found \"0\""),
        ("v 0 0 0\nf 1 1 a/1\n", "Encoding, line 2: a number of a vertex, from 1, found \"a/1\""),
        ("v 0 0 0\nf 1 1\n", "BadShape, line 2: from 3 to 8 corners, found 2; use --triangles"),
        (
            "v 0 0 0\nf 1 1 1\nf 1 1 1 1\n",
            "CountMismatch, line 3: 3 corners as the first face has, found 4; use --triangles",
        ),
        ("v 0 0 0\nl 1\n", "BadShape, line 2: 2 vertices or more, found 1"),
    ] {
        let found = dump_file(&OBJ, text.as_bytes(), &ReadOptions::default());
        assert_eq!(fault(found, "OBJ"), message, "{text}");
    }
    let mesh = ReadOptions { kind: Some(Kind::Mesh), ..ReadOptions::default() };
    assert_eq!(
        fault(dump_file(&OBJ, b"v 0 0 0\n", &mesh), "OBJ"),
        "InvalidArgument, the file: edges or faces of a mesh, found none"
    );
    let integers = ReadOptions { positions: Some(Dtype::INT64), ..ReadOptions::default() };
    assert_eq!(
        fault(dump_file(&OBJ, b"v 0 0 0\n", &integers), "OBJ"),
        "Unsupported, the positions: a type of floats, found int64"
    );
    assert_eq!(
        fault(dump(&OBJ, b"v 0 0 0\n", &ReadOptions::default()), "OBJ"),
        "Unsupported, the stream: a file, which is read twice, found a stream; give the file \
             itself"
    );
}
