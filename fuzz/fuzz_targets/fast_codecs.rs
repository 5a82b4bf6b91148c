//! LZ4 and shuffle of Blosc beside a decoder in safe code and the definition: with the feature `fast-codecs` they are
//! C and vectors.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zvf_fuzz_targets::run("fast_codecs", bytes));
