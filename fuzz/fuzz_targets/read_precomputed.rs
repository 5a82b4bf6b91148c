//! A folder of Neuroglancer: an `info`, and one object of it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("read_precomputed", bytes));
