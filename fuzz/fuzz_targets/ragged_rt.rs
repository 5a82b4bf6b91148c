//! Groups that are encoded and decoded are the same groups.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zvf_format::ragged::{self, Ragged};

fuzz_target!(|input: (u8, u8, Vec<Vec<u8>>)| {
    let (itemsize, ncols, groups) = input;
    let itemsize = 1 << (itemsize % 4);
    let ncols = u32::from(ncols % 9);
    let slices: Vec<&[u8]> = groups.iter().map(Vec::as_slice).collect();
    let row = usize::from(itemsize) * ncols as usize;
    let Ok(blob) = ragged::encode(&slices, itemsize, ncols) else {
        assert!(row == 0 || groups.iter().any(|group| group.len() % row != 0));
        return;
    };
    let view = Ragged::parse_strict(&blob, itemsize, ncols).unwrap();
    assert!(view.groups().eq(slices.iter().copied()));
    assert_eq!(view.rows().len(), groups.concat().len() / row);
});
