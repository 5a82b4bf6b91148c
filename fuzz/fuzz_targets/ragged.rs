//! A ragged blob, for several widths of a row.
#![no_main]

use hostile::Kind;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|blob: &[u8]| {
    for (itemsize, ncols) in [(8, 2), (8, 3), (4, 2), (1, 1)] {
        zvf_fuzz::decode(&Kind::Ragged { itemsize, ncols }, blob);
    }
});
