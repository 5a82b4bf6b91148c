//! Blocks that are built, encoded and decoded are the same blocks.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("manifest_rt", bytes));
