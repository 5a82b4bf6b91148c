//! A file laid out by hand and by the planner; every refusal; and files that satisfy strict
//! readers.

use std::string::ToString;

use proptest::prelude::*;

use super::*;
use crate::tests::two_tiles;
use crate::{TensorDtype, TetView};

fn geometry(shape: &[u64], chunk: &[u64]) -> TileGeometry {
    TileGeometry::new(TensorDtype::F32, shape, chunk).unwrap()
}

#[test]
fn the_prefix_has_the_typed_bytes() {
    let spec = DatasetSpec::new("a", geometry(&[6], &[4])).with_alignment(1);
    let mut layout = TetLayout::new(&[spec], MemoryBudget::DEFAULT).unwrap();
    assert_eq!(layout.prefix_len(), 320);
    let (dataset, tile) = layout.next_tile().unwrap();
    assert_eq!((dataset, tile.byte_len()), (0, 16));
    assert_eq!(layout.place(TensorCodec::Raw, 16), Ok(320));
    assert_eq!(layout.place(TensorCodec::Raw, 8), Ok(336));
    assert_eq!((layout.next_tile(), layout.payload_end()), (None, 344));
    assert_eq!(layout.finish(false).unwrap(), two_tiles()[..320]);
}

#[test]
fn no_datasets_and_datasets_without_tiles() {
    let layout = TetLayout::new(&[], MemoryBudget::DEFAULT).unwrap();
    assert_eq!((layout.prefix_len(), layout.payload_end()), (32, 32));
    let empty = b"TETR\x01\0\0\0\0\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    assert_eq!(layout.finish(false).unwrap(), empty);

    let specs = [
        DatasetSpec::new("none", geometry(&[0], &[4])),
        DatasetSpec::new("one", geometry(&[1], &[4])),
        DatasetSpec::new("none again", geometry(&[0, 3], &[4, 1])),
    ];
    let mut layout = TetLayout::new(&specs, MemoryBudget::new(0, 7)).unwrap();
    assert_eq!(layout.next_tile().unwrap().0, 1);
    let offset = layout.place(TensorCodec::Zstd, 13).unwrap();
    assert_eq!(offset % 64, 0);
    let mut bytes = layout.finish(false).unwrap();
    bytes.resize(usize::try_from(offset).unwrap() + 13, 0);
    let file = TetView::parse(&bytes).unwrap();
    file.validate().unwrap();
    assert_eq!(file.index().memory_budget(), MemoryBudget::new(0, 7));
}

#[test]
fn each_check_has_its_message() {
    let spec = DatasetSpec::new("a", geometry(&[6], &[4]));
    let huge = DatasetSpec::new("huge", geometry(&[1 << 61], &[1]));
    #[rustfmt::skip]
    let table = [
        (&[DatasetSpec::new("", geometry(&[6], &[4]))][..], "InvalidKey in tet directory, name at byte 0: expected a name that is not blank, found a blank one"),
        (&[spec.with_alignment(0)], "InvalidArgument in tet chunk index, alignment at byte 0: expected a power of two, found 0"),
        (&[spec.with_alignment(48)], "InvalidArgument in tet chunk index, alignment at byte 0: expected a power of two, found 48"),
        (&[spec, spec], "Duplicate in tet chunk index, name at byte 0: expected a name of its own, found that of another dataset"),
        (&[huge], "Overflow in tet chunk index, entry_count at byte 0: expected rows below 2^64 bytes, found 2305843009213693952"),
    ];
    for (specs, message) in table {
        assert_eq!(TetLayout::new(specs, MemoryBudget::DEFAULT).unwrap_err().to_string(), message);
    }
    let layout = TetLayout::new(&[spec], MemoryBudget::DEFAULT).unwrap();
    assert_eq!(
        layout.clone().place(TensorCodec::Raw, 15).unwrap_err().to_string(),
        "CountMismatch in tet chunk index, stored_byte_len at byte 0: expected 16, found 15"
    );
    assert_eq!(
        layout.clone().place(TensorCodec::Zstd, u64::MAX - 300).unwrap_err().to_string(),
        "Overflow in tet chunk index, payload_offset at byte 0: expected a file below 2^64 bytes, \
         found 18446744073709551315"
    );
    assert_eq!(
        layout.clone().finish(false).unwrap_err().to_string(),
        "InvalidArgument in tet chunk index, payload at byte 0: expected a payload for each tile, found 0"
    );
    let mut full_layout = layout;
    full_layout.place(TensorCodec::Raw, 16).unwrap();
    full_layout.place(TensorCodec::Raw, 8).unwrap();
    assert_eq!(
        full_layout.place(TensorCodec::Raw, 8).unwrap_err().to_string(),
        "InvalidArgument in tet chunk index, payload at byte 0: expected no more payloads, found one more"
    );
}

proptest! {
    /// Every planned file opens, also in a strict reader, and has its payloads at the planned
    /// offsets.
    #[test]
    fn strict_readers_agree(
        grids in prop::collection::vec(prop::collection::vec((1_u64..6, 1_u64..4), 1..4), 1..5),
        sizes in prop::collection::vec(0_u64..90, 1..40),
        alignment in 0_u32..8,
    ) {
        let names = ["a", "b/c", "d e", "größe"];
        let specs: Vec<_> = names.iter().zip(&grids).map(|(name, axes)| {
            let (shape, chunk): (Vec<_>, Vec<_>) = axes.iter().copied().unzip();
            DatasetSpec::new(name, geometry(&shape, &chunk)).with_alignment(1 << alignment)
        }).collect();
        let mut layout = TetLayout::new(&specs, MemoryBudget::DEFAULT).unwrap();
        let (prefix_len, mut sizes) = (layout.prefix_len(), sizes.iter().cycle());
        let mut placed = Vec::new();
        while let Some((_, tile)) = layout.next_tile() {
            let (codec, stored) = match sizes.next() {
                Some(size) if size % 2 == 1 => (TensorCodec::Zstd, *size),
                _ => (TensorCodec::Raw, tile.byte_len()),
            };
            placed.push(layout.place(codec, stored).unwrap());
        }
        let end = usize::try_from(layout.payload_end()).unwrap();
        let mut bytes = layout.finish(false).unwrap();
        prop_assert_eq!(bytes.len(), usize::try_from(prefix_len).unwrap());
        bytes.resize(end, 0);
        let file = TetView::parse_strict(&bytes).unwrap();
        let offsets: Vec<_> = file.index().rows().iter().map(Row::payload_offset).collect();
        prop_assert!(offsets.iter().all(|offset| offset % (1 << alignment) == 0));
        prop_assert_eq!(offsets, placed);
        for id in 0..file.directory().len() {
            prop_assert!(file.lookup(id).unwrap().is_direct());
        }
    }
}
