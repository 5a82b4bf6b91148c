//! Keys and segments print as they parse, both orders are those of numbers and of text, and a position
//! lies in the chunk and in the grid that it should.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("key_grid", bytes));
