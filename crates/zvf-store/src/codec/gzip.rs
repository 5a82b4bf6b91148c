//! Gzip members, decoded under a cap; their own checksums are verified.

use std::io::{self, ErrorKind, Read as _};

use flate2::read::MultiGzDecoder;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_format::{Class, Expected, FormatError};

use super::{check_cap, stream_error};

/// Decodes all of `input`, if the result is at most `cap` bytes.
pub(crate) fn decode(input: &[u8], cap: u64) -> Result<Vec<u8>, FormatError> {
    let (mut stream, mut decoded) = (MultiGzDecoder::new(input), Vec::new());
    loop {
        // One byte more than the limit, so that exceeding it is detected.
        let room = saturating_usize(cap).saturating_add(1).saturating_sub(decoded.len());
        let step = decoded.len().clamp(MIN_BUFFER_BYTES, MAX_BUFFER_BYTES).min(room);
        decoded.reserve_exact(step);
        let read = stream.by_ref().take(to_u64(step)).read_to_end(&mut decoded);
        match read {
            Ok(read) if read < step => return Ok(decoded),
            Ok(_) => check_cap("gzip", decoded.len(), cap)?,
            Err(error) => return Err(refuse(&error)),
        }
    }
}

fn refuse(error: &io::Error) -> FormatError {
    let (class, found) = if error.kind() == ErrorKind::UnexpectedEof {
        (Class::Truncated, "the end")
    } else {
        (Class::Codec, "something else")
    };
    stream_error(class, "gzip", 0, Expected::Rule("whole gzip members"), found)
}

/// Step by which the buffer grows.
const MIN_BUFFER_BYTES: usize = 64 << 10;
const MAX_BUFFER_BYTES: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// Header, one stored block of three bytes, CRC-32 of `abc`, length.
    const ABC: &[u8] =
        b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x01\x03\0\xfc\xffabc\xc2\x41\x24\x35\x03\0\0\0";

    #[test]
    fn members_typed_by_hand() {
        assert_eq!(decode(ABC, 3).unwrap(), b"abc");
        assert_eq!(decode(&[ABC, ABC].concat(), 6).unwrap(), b"abcabc");
    }

    #[test]
    fn each_check_has_its_message() {
        let mut wrong_sum = ABC.to_vec();
        wrong_sum[18] ^= 1;
        #[rustfmt::skip]
        let table: [(&str, &[u8], u64, &str); 4] = [
            ("not gzip", b"plain bytes", 99,
             "Codec in codec stream, gzip at byte 0: expected whole gzip members, found something else"),
            ("cut", &ABC[..20], 99,
             "Truncated in codec stream, gzip at byte 0: expected whole gzip members, found the end"),
            ("checksum", &wrong_sum, 99,
             "Codec in codec stream, gzip at byte 0: expected whole gzip members, found something else"),
            ("over the cap", ABC, 2,
             "LimitExceeded in codec stream, gzip at byte 0: expected at most 2, found 3"),
        ];
        for (name, input, cap, message) in table {
            assert_eq!(decode(input, cap).unwrap_err().to_string(), message, "{name}");
        }
    }
}
