//! Keys and segments print as they parse, both orders are those of numbers and of text, and a position
//! lies in the chunk and in the grid that it should.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use zvf_format::grid::{ChunkShape, Grid};
use zvf_format::key::{CellKey, ChunkKey, ChunkPath, Delta, Offsets};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    text: &'a str,
    one: Vec<i64>,
    other: Vec<i64>,
    offsets: [[i64; 2]; 2],
    low: [f64; 2],
    high: [f64; 2],
    sizes: [f64; 2],
}

fuzz_target!(|input: Input<'_>| {
    text(input.text);
    keys(&input.one, &input.other);
    let offsets = Offsets::new(2, &[&input.offsets[0], &input.offsets[1]]).unwrap();
    assert_eq!(Offsets::parse(&offsets.to_string(), 2, 3).unwrap(), offsets);
    positions(&input);
});

/// What parses prints as the same text.
fn text(text: &str) {
    if let Ok(key) = text.parse::<ChunkKey>() {
        assert_eq!(key.to_string(), text);
    }
    for width in 1..=3 {
        if let Ok(offsets) = Offsets::parse(text, 2, width) {
            assert_eq!(offsets.to_string(), text);
        }
        let _ = CellKey::split(text, 2, width);
    }
    if let Ok(delta) = Delta::parse_strict(text) {
        assert_eq!(delta.to_string(), text);
    }
    let _ = (text.parse::<Delta>(), text.parse::<ChunkPath>());
}

fn keys(one: &[i64], other: &[i64]) {
    let (Ok(one_key), Ok(other_key)) = (ChunkKey::new(one), ChunkKey::new(other)) else { return };
    assert_eq!(one_key.to_string().parse::<ChunkKey>().unwrap(), one_key);
    assert_eq!(one_key.cmp_numeric(&other_key), one.cmp(other));
    let texts = (one_key.to_string(), other_key.to_string());
    assert_eq!(one_key.cmp_string(&other_key), texts.0.cmp(&texts.1));
}

fn positions(input: &Input<'_>) {
    let Ok(shape) = ChunkShape::new(&input.sizes) else { return };
    let Ok(chunk) = shape.chunk_of(&input.high) else { return };
    for ((chunk, x), size) in chunk.components().iter().zip(input.high).zip(input.sizes) {
        assert_eq!((x / size).floor() as i64, *chunk);
    }
    let ordered = input.low.iter().zip(input.high).all(|(low, high)| *low <= high);
    if let Ok(grid) = Grid::from_bounds(&input.low, &input.high, &shape) {
        assert!(!ordered || grid.contains(&chunk));
    }
}
