//! The document of an array: read, validated, printed, and read again.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("array_json", bytes));
