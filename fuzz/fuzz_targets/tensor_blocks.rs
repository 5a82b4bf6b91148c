//! A frame of Caterva or B2ND as the library opens it: read whole and in part.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("tensor_blocks", bytes));
