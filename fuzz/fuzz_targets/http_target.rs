//! A request target: whatever it is spelt like, what is looked up has segments that lead nowhere else.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("http_target", bytes));
