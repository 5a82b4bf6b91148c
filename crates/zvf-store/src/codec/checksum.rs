//! The `crc32c` codec: a payload, then the CRC-32C of it as u32, little-endian.

use super::stream_error;
use zvf_format::num::to_u64;
use zvf_format::{Class, Expected, FormatError};

/// Verifies the checksum at the end of `stored`, and returns the length of the payload.
pub(crate) fn verify_checksum(stored: &[u8]) -> Result<usize, FormatError> {
    let at = to_u64(stored.len().saturating_sub(CHECKSUM_BYTES)); // of less than a sum, from its first byte
    let Some((payload, sum)) = stored.split_last_chunk::<CHECKSUM_BYTES>() else {
        let expected = Expected::Bytes(4);
        return Err(stream_error(Class::Truncated, "crc32c", at, expected, stored.len()));
    };
    let (stated, computed) = (u32::from_le_bytes(*sum), crc32c::crc32c(payload));
    if stated != computed {
        let expected = Expected::Exactly(computed.into());
        return Err(stream_error(Class::Checksum, "crc32c", at, expected, stated));
    }
    Ok(payload.len())
}

const CHECKSUM_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of CRC-32C is that of the nine digits.
    const DIGITS: &[u8] = b"123456789\x83\x92\x06\xe3";

    #[test]
    fn sums_typed_by_hand() {
        assert_eq!(verify_checksum(DIGITS).unwrap(), 9);
        assert_eq!(verify_checksum(b"\0\0\0\0").unwrap(), 0, "nothing has the sum 0");
        let mut corrupted = DIGITS.to_vec();
        corrupted[9] = 0x84;
        #[rustfmt::skip]
        let table: [(&[u8], &str); 2] = [
            (&corrupted, "Checksum in codec stream, crc32c at byte 9: expected 3808858755, found 3808858756"),
            (b"abc", "Truncated in codec stream, crc32c at byte 0: expected 4 bytes, found 3"),
        ];
        for (stored, message) in table {
            assert_eq!(verify_checksum(stored).unwrap_err().to_string(), message);
        }
    }
}
