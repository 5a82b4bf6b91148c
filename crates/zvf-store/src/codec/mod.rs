//! The codec chains of Zarr, undone: what one chunk of an array is once it is read.

use zvf_format::{Class, Expected, FormatError, Part};

mod checksum;
mod gzip;
mod order;
mod zstd;

/// Refuses what was decoded beyond `cap`.
fn within_cap(codec: &'static str, decoded: usize, cap: u64) -> Result<(), FormatError> {
    let decoded = crate::num::to_u64(decoded);
    if decoded <= cap {
        return Ok(());
    }
    let found = cap.saturating_add(1); // how much more there would be was not decoded
    let expected = Expected::AtMost(cap.into());
    Err(FormatError::new(Class::LimitExceeded, Part::CodecStream, codec, 0, expected, found))
}
