//! Fragments that are built, encoded and decoded are the same fragments.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("frag_rt", bytes));
