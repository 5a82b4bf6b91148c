//! Link rows of one cell, flat and inline, for several shapes of a row.
#![no_main]

use hostile::Kind;
use libfuzzer_sys::fuzz_target;
use zvf_format::link::{Body, LinkCell, LinkInteger, RowShape, encode};

fuzz_target!(|blob: &[u8]| {
    let shapes = [
        (LinkInteger::I64, 2, true),
        (LinkInteger::I64, 3, true),
        (LinkInteger::I32, 2, false),
        (LinkInteger::U8, 8, true),
    ];
    for (element, width, has_perm) in shapes {
        let shape = RowShape::new(element, width, has_perm).unwrap();
        for body in [Body::Flat, Body::Inline] {
            let rows = Some(vec![10; width]);
            zvf_fuzz::decode(&Kind::LinkCell { body, shape, rows }, blob);
        }
        if let Ok(cell) = LinkCell::parse(blob, Body::Flat, shape) {
            let records: Vec<_> = cell.records().collect();
            assert_eq!(encode(&[&records], Body::Flat, shape).unwrap(), blob);
        }
    }
});
