//! Streamlines of MRtrix.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zvf_convert::read::{Format, Input};

fuzz_target!(|blob: &[u8]| {
    // A valid header in front, so that the body is searched as well.
    let bytes = match blob.split_first() {
        Some((0..128, body)) => {
            [&b"mrtrix tracks\ndatatype: Float32LE\nfile: . 49\nEND\n"[..], body].concat()
        }
        _ => blob.to_vec(),
    };
    zvf_fuzz::read(Input::reader(std::io::Cursor::new(bytes)), Format::Tck);
});
