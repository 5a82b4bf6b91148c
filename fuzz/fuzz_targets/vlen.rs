//! Framed byte strings, as many as the blob says.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("vlen", bytes));
