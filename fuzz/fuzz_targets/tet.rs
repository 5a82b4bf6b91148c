//! A whole `.tet` file, its payloads and its names.
#![no_main]

use hostile::Kind;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|blob: &[u8]| {
    zvf_fuzz::decode(&Kind::Tet { export: true }, blob);
});
