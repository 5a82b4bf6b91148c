//! An arbitrary store, opened and asked in every way.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("store_open", bytes));
