//! Groups that are encoded and decoded are the same groups.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("ragged_rt", bytes));
