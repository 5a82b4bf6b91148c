//! Zstandard frames without a C compiler: the same guarantees as [`zstd`](super), in Rust and
//! slower.
//!
//! Consecutive frames form one stream; skippable frames, windows above 2^27 bytes and dictionaries
//! are refused. Decoded bytes are taken from the decoder piece by piece, so memory holds the window
//! and never exceeds the limit by more than one piece. Compression is not implemented.

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use zvf_format::{Class, Expected, FormatError};

use super::{check_cap, stream_error};

/// A decoder that keeps its tables from one stream to the next.
#[derive(Default)]
pub(crate) struct Zstd {
    decoder: Option<Box<FrameDecoder>>,
}

impl Zstd {
    /// Decodes all of `input`, if the result is at most `cap` bytes.
    pub(crate) fn decode(&mut self, input: &[u8], cap: u64) -> Result<Vec<u8>, FormatError> {
        let decoder = self.decoder.get_or_insert_with(|| {
            let mut decoder = Box::new(FrameDecoder::new());
            decoder.set_max_window_size(MAX_WINDOW_BYTES);
            decoder
        });
        let done = decode_with(decoder, input, cap);
        if done.is_err() {
            self.decoder = None; // left in the middle of a frame
        }
        done
    }
}

fn decode_with(decoder: &mut FrameDecoder, input: &[u8], cap: u64) -> Result<Vec<u8>, FormatError> {
    let (mut decoded, mut source) = (Vec::new(), input);
    loop {
        decoder
            .reset(&mut source)
            .map_err(|_error| refuse(input, source, "zstd frames", "another"))?;
        while !decoder.is_finished() {
            let step = BlockDecodingStrategy::UptoBytes(PIECE_BYTES);
            decoder
                .decode_blocks(&mut source, step)
                .map_err(|_error| refuse(input, source, "the rest of a frame", "something else"))?;
            collect(decoder, &mut decoded, cap)?;
        }
        collect(decoder, &mut decoded, cap)?;
        if source.is_empty() {
            return Ok(decoded);
        }
    }
}

fn collect(decoder: &mut FrameDecoder, decoded: &mut Vec<u8>, cap: u64) -> Result<(), FormatError> {
    check_cap("zstd", decoded.len() + decoder.can_collect(), cap)?;
    decoder.collect_to_writer(&mut *decoded).map(drop).map_err(|_error| {
        let expected = Expected::Rule("zstd frames");
        stream_error(Class::Codec, "zstd", 0, expected, "another")
    })
}

fn refuse(input: &[u8], rest: &[u8], expected: &'static str, found: &'static str) -> FormatError {
    let at = zvf_format::num::to_u64(input.len() - rest.len());
    let (class, found) =
        if rest.is_empty() { (Class::Truncated, "the end") } else { (Class::Codec, found) };
    stream_error(class, "zstd", at, Expected::Rule(expected), found)
}

const MAX_WINDOW_BYTES: u64 = 1 << 27;
/// Bytes that are decoded before they are taken out.
const PIECE_BYTES: usize = 256 << 10;
