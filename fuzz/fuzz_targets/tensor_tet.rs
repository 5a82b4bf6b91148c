//! A `.tet` file as the library opens it: every tensor read whole and in part, everything verified.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("tensor_tet", bytes));
