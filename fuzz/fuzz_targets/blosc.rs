//! Chunks of Blosc: any bytes decode within their bound, and what is encoded is decoded.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("blosc", bytes));
