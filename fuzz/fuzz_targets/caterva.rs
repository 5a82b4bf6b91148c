//! Metalayers, and what lies around them: frame, chunk header, block table.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("caterva", bytes));
