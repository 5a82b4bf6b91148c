//! The body of a question, and a query string: read or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("query_body", bytes));
