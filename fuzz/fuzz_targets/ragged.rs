//! A ragged blob, for several widths of a row.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("ragged", bytes));
