//! Points of laser scanners, compressed or not.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("read_las", bytes));
