//! An arbitrary store, opened and asked in every way.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| zvf_fuzz::ask(bytes));
