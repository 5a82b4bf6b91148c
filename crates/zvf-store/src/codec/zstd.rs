//! Zstandard frames, decoded into a buffer that grows up to a limit.
//!
//! A frame may state its decoded size. This is only a hint: the first allocation follows it as far
//! as the input makes it plausible, and grows only as data is decoded. Consecutive frames form one
//! stream. The window is limited to 2^27 bytes.
//!
//! Not here: dictionaries, which the Zarr codec does not have.

use zstd::zstd_safe::{self, DCtx, DParameter, ErrorCode, InBuffer, OutBuffer};
use zvf_format::num::saturating_usize;
use zvf_format::{Class, Expected, FormatError};

use super::{check_cap, stream_error};

/// A decoder that keeps its context from one stream to the next.
#[derive(Default)]
pub(crate) struct Zstd {
    context: Option<DCtx<'static>>,
}

impl Zstd {
    /// Decodes all of `input`, if the result is at most `cap` bytes.
    pub(crate) fn decode(&mut self, input: &[u8], cap: u64) -> Result<Vec<u8>, FormatError> {
        let context = match &mut self.context {
            Some(context) => context,
            empty => empty.insert(limited_context()?),
        };
        let done = decode_with(context, input, cap);
        if done.is_err() {
            self.context = None; // left in the middle of a frame
        }
        done
    }
}

fn limited_context() -> Result<DCtx<'static>, FormatError> {
    let Some(mut context) = DCtx::try_create() else {
        return Err(refuse(Class::LimitExceeded, 0, "memory for a decoder", "none left"));
    };
    match context.set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG)) {
        Ok(_) => Ok(context),
        Err(code) => Err(zstd_error(code, 0)),
    }
}

fn decode_with(context: &mut DCtx<'_>, input: &[u8], cap: u64) -> Result<Vec<u8>, FormatError> {
    let mut decoded = Vec::with_capacity(first_capacity(input, cap));
    let mut source = InBuffer::around(input);
    loop {
        let (before_in, before_out) = (source.pos(), decoded.len());
        let mut sink = OutBuffer::around_pos(&mut decoded, before_out);
        let missing = context
            .decompress_stream(&mut sink, &mut source)
            .map_err(|code| zstd_error(code, source.pos()))?;
        check_cap("zstd", decoded.len(), cap)?;
        let full = decoded.len() == decoded.capacity();
        if missing == 0 && source.pos() == input.len() {
            return Ok(decoded);
        }
        if full {
            let more = decoded.capacity().max(MIN_BUFFER_BYTES);
            decoded.reserve_exact(more.min(room(cap, decoded.len())));
        } else if source.pos() == before_in && decoded.len() == before_out {
            // The input ends inside a frame.
            return Err(refuse(Class::Truncated, input.len(), "the rest of a frame", "the end"));
        }
    }
}

/// Returns the initial capacity: the stated size, as far as the input and the limit make that
/// plausible.
fn first_capacity(input: &[u8], cap: u64) -> usize {
    let plausible = input.len().saturating_mul(PLAUSIBLE_RATIO).saturating_add(MIN_BUFFER_BYTES);
    let stated = zstd_safe::get_frame_content_size(input).ok().flatten().unwrap_or(0); // not stated
    saturating_usize(stated).min(plausible).min(room(cap, 0))
}

/// Returns how many bytes may still be decoded: one more than the limit, so that exceeding it is
/// detected.
fn room(cap: u64, used: usize) -> usize {
    saturating_usize(cap).saturating_add(1).saturating_sub(used).max(1)
}

fn zstd_error(code: ErrorCode, at: usize) -> FormatError {
    refuse(Class::Codec, at, "zstd frames", zstd_safe::get_error_name(code))
}

fn refuse(class: Class, at: usize, expected: &'static str, found: &'static str) -> FormatError {
    let at = zvf_format::num::to_u64(at);
    stream_error(class, "zstd", at, Expected::Rule(expected), found)
}

const MAX_WINDOW_LOG: u32 = 27;
/// The largest compression ratio of ordinary data; more is decoded in growing steps.
const PLAUSIBLE_RATIO: usize = 64;
const MIN_BUFFER_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// One raw block: magic, single segment with a one byte size, last block of three bytes.
    const ABC: &[u8] = b"\x28\xb5\x2f\xfd\x20\x03\x19\0\0abc";

    #[test]
    fn frames_typed_by_hand() {
        let two_frames = [ABC, ABC].concat();
        for (name, input, decoded) in
            [("one frame", ABC, &b"abc"[..]), ("two frames", &two_frames, b"abcabc")]
        {
            assert_eq!(Zstd::default().decode(input, 100).unwrap(), decoded, "{name}");
        }
    }

    #[test]
    fn each_check_has_its_message() {
        let zeros = zstd::bulk::compress(&[0; 1 << 20], 3).unwrap();
        let cut_in_second = [ABC, &ABC[..6]].concat();
        #[rustfmt::skip]
        let table: [(&str, &[u8], u64, &str); 6] = [
            ("not a frame", b"plain bytes", 99,
             "Codec in codec stream, zstd at byte 0: expected zstd frames, found Unknown frame descriptor"),
            ("cut in a block", &ABC[..10], 99,
             "Truncated in codec stream, zstd at byte 10: expected the rest of a frame, found the end"),
            ("cut in a header", &cut_in_second, 99,
             "Truncated in codec stream, zstd at byte 18: expected the rest of a frame, found the end"),
            ("nothing", b"", 99,
             "Truncated in codec stream, zstd at byte 0: expected the rest of a frame, found the end"),
            ("one byte over the cap", ABC, 2,
             "LimitExceeded in codec stream, zstd at byte 0: expected at most 2, found 3"),
            ("a bomb", &zeros, 70_000,
             "LimitExceeded in codec stream, zstd at byte 0: expected at most 70000, found 70001"),
        ];
        let mut zstd = Zstd::default();
        for (name, input, cap, message) in table {
            assert_eq!(zstd.decode(input, cap).unwrap_err().to_string(), message, "{name}");
            assert_eq!(zstd.decode(ABC, 3).unwrap(), b"abc", "the decoder is usable after: {name}");
        }
    }

    #[test]
    fn buffers_grow_for_frames_without_a_size() {
        use std::io::Write as _;
        for len in [0_u32, 1, 65_535, 65_536, 65_537, 1 << 20] {
            let content: Vec<u8> = (0..len).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
            let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
            encoder.write_all(&content).unwrap();
            let packed = encoder.finish().unwrap();
            let cap = u64::from(len);
            assert!(Zstd::default().decode(&packed, cap).unwrap() == content, "{len}");
            if len > 0 {
                let error = Zstd::default().decode(&packed, cap - 1).unwrap_err();
                assert_eq!(error.class, Class::LimitExceeded, "{len}");
            }
        }
    }
}
