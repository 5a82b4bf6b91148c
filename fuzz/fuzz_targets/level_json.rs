//! The document of a level group: read, validated, printed, and read again.
#![no_main]

use hostile::{Document, Kind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    zvf_fuzz::decode(&Kind::Document(Document::Level), text);
});
