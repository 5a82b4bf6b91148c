//! Arrays of NumPy in an archive, which is read from a file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("read_npz", bytes));
