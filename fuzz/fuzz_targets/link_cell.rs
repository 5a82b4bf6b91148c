//! Link rows of one cell, flat and inline, for several shapes of a row.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("link_cell", bytes));
