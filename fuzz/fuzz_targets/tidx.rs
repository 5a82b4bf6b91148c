//! The chunk index of a `.tet` file, in a small file and in the largest there can be.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("tidx", bytes));
