//! Compressed meshes and points.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("read_draco", bytes));
