//! Text with commas, or with tabs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zvf_convert::read::{Format, Input};

fuzz_target!(|input: (bool, Vec<u8>)| {
    let (tabs, text) = input;
    let format = if tabs { Format::Tsv } else { Format::Csv };
    zvf_fuzz::read(Input::reader(std::io::Cursor::new(text)), format);
});
