//! One fuzz target: the program by whose name it is called, as `Cargo.toml` lists them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run(env!("CARGO_BIN_NAME"), bytes));
