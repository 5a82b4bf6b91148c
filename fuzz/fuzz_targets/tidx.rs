//! The chunk index of a `.tet` file, in a small file and in the largest there can be.
#![no_main]

use hostile::Kind;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|blob: &[u8]| {
    for file_len in [4096, u64::MAX] {
        zvf_fuzz::decode(&Kind::Tidx { file_len }, blob);
    }
});
