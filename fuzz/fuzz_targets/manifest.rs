//! An object manifest, for each number of axes that is usual.
#![no_main]

use hostile::Kind;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|blob: &[u8]| {
    for axes in 1..=4 {
        let grid = vec![4; usize::try_from(axes).unwrap()];
        zvf_fuzz::decode(&Kind::Manifest { axes, level: Some((grid, 8)) }, blob);
    }
});
