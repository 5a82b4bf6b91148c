//! Compressed meshes and points.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zvf_convert::read::{Format, Input};

fuzz_target!(|blob: &[u8]| {
    zvf_fuzz::read(Input::reader(std::io::Cursor::new(blob.to_vec())), Format::Draco);
});
