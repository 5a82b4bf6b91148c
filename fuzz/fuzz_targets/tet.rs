//! A whole `.tet` file, its payloads and its names.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("tet", bytes));
