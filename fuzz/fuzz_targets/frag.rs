//! A fragment index, and whether its rows are those of a payload.
#![no_main]

use hostile::Kind;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|blob: &[u8]| {
    zvf_fuzz::decode(&Kind::FragmentIndex { rows: Some(28) }, blob);
});
