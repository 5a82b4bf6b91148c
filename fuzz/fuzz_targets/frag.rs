//! A fragment index, and whether its rows are those of a payload.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("frag", bytes));
