//! An object manifest, for each number of axes that is usual.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("manifest", bytes));
