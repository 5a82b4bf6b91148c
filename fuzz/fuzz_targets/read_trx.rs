//! Streamlines with groups in an archive, which is read from a file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zvf_convert::read::{Format, Input};

fuzz_target!(|blob: &[u8]| {
    // A name of its own for each process that searches; the file is overwritten by each input.
    let path = std::env::temp_dir().join(format!("zvf-fuzz-{}.trx", std::process::id()));
    std::fs::write(&path, blob).expect("a folder for temporary files");
    zvf_fuzz::read(Input::path(&path), Format::Trx);
});
