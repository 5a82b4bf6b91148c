//! Tests of NPZ archives: stored and deflated members, ZIP and ZIP64 sizes.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use zvf_formats::{ColumnRoles, ReadOptions};
use zvf_model::Kind;

use crate::NPZ;
use crate::npy::read::tests::npy;
use crate::shared::{dump, dump_file};

fn array(descr: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    npy(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}"), bytes)
}

/// Writes an archive of `members`, with ZIP64 sizes and offsets if `zip64`.
fn archive(members: &[(&str, Vec<u8>)], deflated: bool, zip64: bool) -> Vec<u8> {
    let mut file = Vec::new();
    let mut directory = Vec::new();
    for (name, bytes) in members {
        let mut sum = flate2::Crc::new();
        sum.update(bytes);
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        let stored = if deflated { encoder.finish().unwrap() } else { bytes.clone() };
        let short = |n: usize| u16::try_from(n).unwrap().to_le_bytes();
        let long = |n: usize| u32::try_from(n).unwrap().to_le_bytes();
        let quad = |n: usize| u64::try_from(n).unwrap().to_le_bytes();
        let method: u16 = if deflated { 8 } else { 0 };
        let max = [0xff; 4];
        let (size, packed, at) = (long(bytes.len()), long(stored.len()), long(file.len()));
        let extra =
            [&short(1)[..], &short(24), &quad(bytes.len()), &quad(stored.len()), &quad(file.len())];
        let extra =
            if zip64 { [&[9, 9, 2, 0, 0, 0][..], &extra.concat()].concat() } else { Vec::new() };
        let head = |size: [u8; 4], packed: [u8; 4], extra: &[u8]| {
            let sum = sum.sum().to_le_bytes();
            let words = [&[20, 0, 0, 0][..], &method.to_le_bytes(), &[0; 4], &sum, &packed, &size];
            [&words.concat()[..], &short(name.len()), &short(extra.len())].concat()
        };
        directory.extend(
            [
                &b"PK\x01\x02\x14\0"[..],
                &head(if zip64 { max } else { size }, if zip64 { max } else { packed }, &extra)[..],
                &[0; 10][..],
                if zip64 { &max[..] } else { &at[..] },
                name.as_bytes(),
                &extra,
            ]
            .concat(),
        );
        file.extend(
            [&b"PK\x03\x04"[..], &head(size, packed, b"")[..], name.as_bytes(), &stored].concat(),
        );
    }
    let count = u16::try_from(members.len()).unwrap().to_le_bytes();
    let start = u32::try_from(file.len()).unwrap();
    let size = u32::try_from(directory.len()).unwrap();
    file.extend(directory);
    if zip64 {
        let at = u64::try_from(file.len()).unwrap();
        let counts = u64::try_from(members.len()).unwrap().to_le_bytes();
        let (size, start) = (u64::from(size).to_le_bytes(), u64::from(start).to_le_bytes());
        file.extend([b"PK\x06\x06", &[0; 28][..], &counts, &size, &start].concat());
        file.extend([b"PK\x06\x07", &[0; 4][..], &at.to_le_bytes(), &[1, 0, 0, 0]].concat());
        file.extend([b"PK\x05\x06", &[0; 4][..], &[0xff; 12], &[0; 2]].concat());
    } else {
        let ends = [&start.to_le_bytes()[..], b"\x03\0end"].concat();
        file.extend(
            [b"PK\x05\x06", &[0; 4][..], &count, &count, &size.to_le_bytes(), &ends].concat(),
        );
    }
    file
}

fn mesh() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("label.npy", array("<u2", "(4,)", &[1, 0, 2, 0, 3, 0, 4, 0])),
        ("positions.npy", array("|i1", "(4, 2)", &[0, 1, 2, 3, 4, 5, 6, 7])),
        (
            "faces.npy",
            array(
                "<u4",
                "(2, 3)",
                &[0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0],
            ),
        ),
        ("object.npy", array("<i2", "(4,)", &[7, 0, 7, 0, 255, 255, 9, 0])),
    ]
}

#[test]
fn reads_arrays_in_step() {
    let small = ReadOptions { batch_rows: 3, ..ReadOptions::default() };
    for (deflated, zip64) in [(false, false), (true, false), (false, true), (true, true)] {
        let file = archive(&mesh(), deflated, zip64);
        assert_eq!(
            dump_file(&NPZ, &file, &small).unwrap(),
            "mesh of int8, label uint16, elements of Some(3)\nx,y,label,object\n0,1,1,7\n2,3,2,7\n\
             4,5,3,\nx,y,label,object\n6,7,4,9\nv0,v1,v2\n0,1,2\n3,2,1\n"
        );
    }
    let fortran = "{'descr': '|u1', 'fortran_order': True, 'shape': (3, 2)}";
    let members = [("xyz.npy", npy(fortran, &[1, 3, 5, 2, 4, 6]))];
    for deflated in [false, true] {
        assert_eq!(
            dump_file(&NPZ, &archive(&members, deflated, false), &small).unwrap(),
            "point_cloud of uint8\nx,y\n1,2\n3,4\n5,6\n"
        );
    }
    let columns = ColumnRoles {
        positions: vec!["y".into(), "x".into()],
        object: Some("t".into()),
        fields: Some(vec![]),
        types: vec![],
    };
    let chains = ReadOptions { columns, kind: Some(Kind::Polyline), ..ReadOptions::default() };
    let two_rows = |bytes: &[u8]| array("|u1", "(2,)", bytes);
    let members = [
        ("x.npy", two_rows(&[1, 2])),
        ("y.npy", two_rows(&[3, 4])),
        ("t.npy", two_rows(&[5, 5])),
        ("q", two_rows(&[0, 0])),
    ];
    assert_eq!(
        dump_file(&NPZ, &archive(&members, true, false), &chains).unwrap(),
        "polyline of uint8\ny,x,part,object\n3,1,0,5\n4,2,0,5\n"
    );
}

#[test]
fn refuses_broken_archives() {
    let default = ReadOptions::default;
    let whole = || archive(&mesh(), false, false);
    let with = |name: &'static str, bytes: Vec<u8>| {
        let mut members = mesh();
        members.retain(|(member, _)| *member != name);
        members.push((name, bytes));
        archive(&members, false, false)
    };
    let mut damaged = whole();
    damaged[100] ^= 1; // a value of the first member
    let mut encrypted = whole();
    let entry = encrypted.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    encrypted[entry + 8] = 1;
    let mut unknown_method = whole();
    unknown_method[entry + 10] = 12;
    let cut = whole();
    let cut = cut[..cut.len() - 40].to_vec();
    let mut counted = whole();
    let at = counted.len() - 15;
    counted[at] = 9;
    let mut far = whole();
    let at = far.len() - 8;
    far[at] = 0x7f;
    let nothing: &[(&str, Vec<u8>)] = &[];
    for (file, message) in [
        (
            b"PK\x03\x04 and no more".to_vec(),
            "BadMagic in zip, an archive: expected end of central directory, found none",
        ),
        (cut, "BadMagic in zip, an archive: expected end of central directory, found none"),
        (
            encrypted,
            "Unsupported in zip, label.npy: expected a member in the clear, found an encrypted one",
        ),
        (unknown_method, "Unsupported in zip, label.npy: expected method 0 or 8, found 12"),
        (counted, "CountMismatch in zip, an archive: expected 9 members, found 4"),
        (
            far,
            "OutOfBounds in zip, an archive: expected a directory within the file, of at most 4 MiB, found",
        ),
        (
            archive(nothing, false, false),
            "InvalidArgument in npz, the archive: expected an array \"positions\", or \"x\", \"y\", \"z\", \
             found ; name the arrays of positions with --positions",
        ),
        (damaged, "Checksum, cannot read: the checksum of label.npy is another"),
        (
            with("label.npy", array("|u1", "(3,)", &[0; 3])),
            "CountMismatch in npz, label: expected 4 rows, as many as there are positions, found 3; choose \
             arrays with --positions and --attributes",
        ),
        (
            with("faces.npy", array("<f4", "(1, 3)", &[0; 12])),
            "Unsupported in npz, faces: expected whole numbers, found float32",
        ),
        (
            with("object.npy", array("|u1", "(4, 2)", &[0; 8])),
            "BadShape in npz, object: expected one number a vertex, found 2",
        ),
        (
            with("faces.npy", array("|u1", "(1, 9)", &[0; 9])),
            "BadShape in npz, faces: expected from 2 to 8 vertices a row, found 9",
        ),
        (
            with("faces.npy", array("|i1", "(1, 3)", &[0, 4, 0])),
            "OutOfBounds in npz, faces: expected a vertex below 4, found 4",
        ),
        (
            with("faces.npy", array("|i1", "(1, 3)", &[0, 255, 0])),
            "OutOfBounds in npz, faces: expected a vertex below 4, found -1",
        ),
        (
            with(
                "label.npy",
                npy("{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (4,)}", &[0; 4]),
            ),
            "Unsupported in npz, label: expected plain values, found records with fields",
        ),
        (
            archive(
                &[("x.npy", array("|u1", "(1,)", &[0])), ("y.npy", array("|i1", "(1,)", &[0]))],
                false,
                false,
            ),
            "Unsupported in npz, y: expected uint8 for every axis, found int8; convert them to one type first",
        ),
    ] {
        let found = dump_file(&NPZ, &file, &default()).unwrap_err();
        assert!(found.starts_with(message), "{found} instead of {message}");
    }
    assert_eq!(
        dump(&NPZ, &whole(), &default()).unwrap_err(),
        "Unsupported in npz, the archive: expected a file, found a stream; give the file itself"
    );
    let columns = ColumnRoles { positions: vec!["where".into()], ..ColumnRoles::default() };
    assert_eq!(
        dump_file(&NPZ, &whole(), &ReadOptions { columns, ..default() }).unwrap_err(),
        "InvalidArgument in npz, the archive: expected an array \"where\", found \"label\", \
         \"positions\", \"faces\", \"object\""
    );
    let points = archive(&mesh()[1..2], false, false);
    let graph = ReadOptions { kind: Some(Kind::Graph), ..default() };
    assert_eq!(
        dump_file(&NPZ, &points, &graph).unwrap_err(),
        "InvalidArgument in npz, the archive: expected an array of edges or faces of a graph, found none"
    );
}
