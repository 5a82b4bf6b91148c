//! Tests of the TRK reader: streamlines in either byte order, and malformed files.

use zvf_formats::ReadOptions;
use zvf_model::Kind;

use crate::TRK;
use crate::shared::{dump, fault};

/// Returns a file whose header has these fields, each at its offset, and this body; in either byte order.
fn file(big_endian: bool, fields: &[(usize, &[u8])], body: &[&[u8]]) -> Vec<u8> {
    let number = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        if big_endian {
            bytes.reverse();
        }
        bytes
    };
    let mut header = vec![0; 1000];
    let unit = 1.0_f32.to_le_bytes();
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"TRACK\0");
    [12, 16, 20, 440, 460, 480, 500].into_iter().for_each(|at| put(at, &number(&unit)));
    put(948, b"RAS\0");
    put(992, &number(&2_i32.to_le_bytes()));
    put(996, &number(&1000_i32.to_le_bytes()));
    for (at, bytes) in fields {
        let text = (38..440).contains(at) && !(238..240).contains(at) || *at == 948 || *at == 0;
        put(*at, &if text { bytes.to_vec() } else { number(bytes) });
    }
    body.iter().for_each(|word| header.extend(number(word)));
    header
}

/// Returns two streamlines of 2 and 1 points, an empty one between them; two scalars, three properties.
fn good_file(big_endian: bool, count: u8) -> Vec<u8> {
    let floats: Vec<[u8; 4]> = [
        1.0, 2.0, 3.0, 0.5, 7.0, 4.0, 5.0, 6.0, 0.25, 8.0, 10.0, 11.0, 12.0, // two points
        13.0, 14.0, 15.0, // the empty one
        0.0, 0.0, 0.0, 0.125, 9.0, 16.0, 17.0, 18.0, // one point
    ]
    .into_iter()
    .map(f32::to_le_bytes)
    .collect();
    let words =
        |range: std::ops::Range<usize>| floats[range].iter().map(|word| &word[..]).collect();
    let body: Vec<&[u8]> = [
        vec![&[2, 0, 0, 0][..]],
        words(0..13),
        vec![&[0, 0, 0, 0]],
        words(13..16),
        vec![&[1, 0, 0, 0]],
        words(16..24),
    ]
    .concat();
    let fields: [(usize, &[u8]); 7] = [
        (36, &[2, 0]),
        (38, b"fa"),
        (58, b"md"),
        (238, &[3, 0]),
        (240, b"pair\x002"),
        (260, b"length"),
        (988, &[count, 0, 0, 0]),
    ];
    file(big_endian, &fields, &body)
}

#[test]
fn reads_streamlines_of_both_byte_orders() {
    let small = |batch_rows| ReadOptions { batch_rows, ..ReadOptions::default() };
    let fields = "streamline of float32, fa float32, md float32, pair float32, length float32\n";
    for big_endian in [false, true] {
        for count in [0, 3] {
            let file = good_file(big_endian, count);
            assert_eq!(
                dump(&TRK, &file, &small(100)).unwrap(),
                format!(
                    "{fields}x,y,z,fa,md,part,object\n0.5,1.5,2.5,0.5,7,0,0\n3.5,4.5,5.5,0.25,8,0,0\n\
                     -0.5,-0.5,-0.5,0.125,9,2,2\nid,pair_0,pair_1,length\n0,10,11,12\n1,13,14,15\n\
                     2,16,17,18\n"
                )
            );
            let names = "x,y,z,fa,md,part,object\n";
            let dumped = dump(&TRK, &file, &small(1)).unwrap();
            assert!(
                dumped.starts_with(&format!(
                    "{fields}{names}0.5,1.5,2.5,0.5,7,0,0\n{names}3.5,4.5,5.5,0.25,8,0,0\n\
                 id,pair_0,pair_1,length\n0,10,11,12\nid,"
                )),
                "{dumped}"
            );
        }
    }
    let points = ReadOptions { kind: Some(Kind::PointCloud), ..ReadOptions::default() };
    let dumped = dump(&TRK, &good_file(false, 3), &points).unwrap();
    assert!(dumped.contains("\nx,y,z,fa,md,object\n0.5,1.5,2.5,0.5,7,0\n"), "{dumped}");
}

#[test]
fn reads_names_of_several_values() {
    let mut last = [0; 20];
    last[0] = b'v';
    last[19] = 3;
    for (fields, expected) in [
        (vec![(36, &[3, 0][..]), (38, &last)], "streamline of float32, v float32\n"),
        (
            vec![(36, &[3, 0][..]), (38, b"a"), (240, b"not counted")],
            "streamline of float32, a float32, scalars float32\n",
        ),
        (vec![(238, &[1, 0][..])], "streamline of float32, properties float32\n"),
        (
            vec![(500, &[0; 4][..])],
            "streamline of float32, note no matrix is recorded: voxels are taken for mm of the world\n",
        ),
        (
            vec![(992, &[1, 0, 0, 0][..])],
            "streamline of float32, note no matrix is recorded: voxels are taken for mm of the world\n",
        ),
    ] {
        assert_eq!(
            dump(&TRK, &file(false, &fields, &[]), &ReadOptions::default()).unwrap(),
            expected
        );
    }
}

#[test]
fn refuses_malformed_files() {
    let short = good_file(false, 3)[..1050].to_vec();
    let more = [good_file(false, 3), vec![0]].concat();
    let two = [good_file(false, 2)].concat();
    let four = good_file(false, 4);
    let negative = file(false, &[], &[&[255, 255, 255, 255]]);
    let nan = f32::NAN.to_le_bytes();
    for (file, message) in [
        (b"TRACK".to_vec(), "Truncated, byte 0: 1000 bytes of the header, found 5"),
        (
            file(false, &[(0, b"TRICK")], &[]),
            "BadMagic, magic: TRACK, found [54, 52, 49, 43, 4b, 00]",
        ),
        (file(false, &[(996, &[0, 1, 0, 0])], &[]), "BadTag, hdr_size: 1000, found 256"),
        (file(false, &[(992, &[3, 0, 0, 0])], &[]), "UnsupportedVersion, version: 1 or 2, found 3"),
        (
            file(false, &[(16, &[0; 4])], &[]),
            "OutOfBounds, voxel_size: lengths above 0, found [1.0, 0.0, 1.0]",
        ),
        (file(false, &[(36, &[255, 255])], &[]), "Negative, n_scalars: 0 or more, found -1"),
        (
            file(false, &[(238, &[1, 0]), (240, b"a\x002")], &[]),
            "CountMismatch, n_properties: names of 1 values, found names of more, or twice",
        ),
        (
            file(false, &[(36, &[2, 0]), (38, b"a"), (58, b"a")], &[]),
            "CountMismatch, n_scalars: names of 2 values, found names of more, or twice",
        ),
        (file(false, &[(440, &nan)], &[]), "OutOfBounds, vox_to_ras: finite numbers, found others"),
        (
            file(false, &[(440, &[0; 4])], &[]),
            "BadShape, vox_to_ras: a matrix with three directions, found a flat one",
        ),
        (
            file(false, &[(948, b"RLS")], &[]),
            "BadTag, voxel_order: a letter each of L or R, P or A, I or S, found \"RLS\"",
        ),
        (
            file(false, &[(988, &[255, 255, 255, 255])], &[]),
            "Negative, n_count: 0 or more, found -1",
        ),
        (negative, "Negative, byte 1000: 0 points or more, found -1"),
        (short, "Truncated, byte 1044: 12 bytes of the properties of a streamline, found 6"),
        (more, "Trailing, byte 1108: the end after 3 streamlines, found more"),
        (two, "Trailing, byte 1072: the end after 2 streamlines, found more"),
        (four, "Truncated, byte 1108: 4 streamlines, found 3"),
    ] {
        assert_eq!(fault(dump(&TRK, &file, &ReadOptions::default()), "TRK"), message);
    }
    let claim = file(false, &[], &[&[255, 255, 255, 127], &[0; 12]]);
    let found = fault(dump(&TRK, &claim, &ReadOptions::default()), "TRK");
    assert!(
        found.contains("of the points of a streamline, found 12"),
        "a claim reserves nothing: {found}"
    );
    let graph = ReadOptions { kind: Some(Kind::Graph), ..ReadOptions::default() };
    assert_eq!(
        fault(dump(&TRK, &good_file(false, 0), &graph), "TRK"),
        "Unsupported, the file: streamline, polyline or point_cloud, found graph"
    );
}
