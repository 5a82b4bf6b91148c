//! The document of a root group: read, validated, printed, and read again.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("root_json", bytes));
