//! Payloads of `.tet` files: decoded in pieces that are dropped, to check that they can be decoded.
//!
//! The codec keeps tables and a window, which the budget of a case does not include; a reader
//! limits the window instead ([`CODEC_HOLDS`]). Decoding stops at most one piece after the length
//! in the index.

use std::io::Read;

use ruzstd::decoding::StreamingDecoder;
use zvf_format::Class;
use zvf_tet::{DECODED_CAP, Row, TensorCodec};

use super::fault::Fault;

/// Decodes the payload of one row.
pub(super) fn decode(file: &[u8], row: &Row) -> Result<(), Fault> {
    let claimed = row.decoded_len(DECODED_CAP)?;
    if row.codec() == TensorCodec::Raw {
        return Ok(()); // as long as it claims: the index checked that
    }
    let from = usize::try_from(row.payload_offset());
    let to = usize::try_from(row.payload_end());
    let stored = from.ok().zip(to.ok()).and_then(|(from, to)| file.get(from..to));
    let stored = stored.ok_or(Fault::Payload(Class::OutOfBounds, "outside the file"))?;
    frames(stored, claimed)
}

/// Decodes frames until the stored bytes end.
fn frames(mut stored: &[u8], claimed: u64) -> Result<(), Fault> {
    let mut decoded = 0;
    while !stored.is_empty() {
        let frame = StreamingDecoder::new(&mut stored);
        let mut frame = frame.map_err(|_source| Fault::Payload(Class::Codec, "no zstd frame"))?;
        // The length in the header is checked and never allocated. 0 means that none is stated.
        if frame.decoder.content_size() > claimed {
            return Err(Fault::Payload(
                Class::CountMismatch,
                "promises more than the index claims",
            ));
        }
        loop {
            let mut piece = [0; 4096];
            let read = frame.read(&mut piece);
            match read.map_err(|_source| Fault::Payload(Class::Codec, "the frame breaks off"))? {
                0 => break,
                n => decoded += u64::try_from(n).unwrap(),
            }
            if decoded > claimed {
                return Err(Fault::Payload(Class::CountMismatch, "decodes to more than it claims"));
            }
        }
    }
    if decoded == claimed {
        Ok(())
    } else {
        Err(Fault::Payload(Class::CountMismatch, "decodes to less than it claims"))
    }
}

/// The memory limit of the codec in bytes: the largest window a reader allows, and tables.
pub(super) const CODEC_HOLDS: usize = (1 << 27) + (1 << 20);
