//! The index of a shard, with and without its checksum, for every number of cells that fits.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("shard_index", bytes));
