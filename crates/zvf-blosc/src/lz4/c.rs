//! LZ4 blocks through the C library.
//!
//! Its three functions take two spans of memory with their lengths, keep no references, and
//! guarantee for any content that they read only the first span and write only the second.
#![expect(unsafe_code, reason = "functions of C")]

use core::ffi::c_int;

use lz4_sys::{LZ4_compress_HC, LZ4_compress_default, LZ4_decompress_safe};

/// Decodes a block into `out`; `None` when the library refuses it.
pub(super) fn decode(data: &[u8], out: &mut [u8]) -> Option<usize> {
    let (len, room) = (c_int::try_from(data.len()).ok()?, c_int::try_from(out.len()).ok()?);
    // SAFETY: `data` is `len` readable bytes, `out` is `room` readable and writable bytes, and they
    // are disjoint, since one is mutably borrowed. The function checks `data` while decoding.
    let n =
        unsafe { LZ4_decompress_safe(data.as_ptr().cast(), out.as_mut_ptr().cast(), len, room) };
    usize::try_from(n).ok() // negative for damage
}

/// Encodes into `out`; `None` when it has too little room.
pub(super) fn encode(bytes: &[u8], out: &mut [u8]) -> Option<usize> {
    let (len, room) = (c_int::try_from(bytes.len()).ok()?, c_int::try_from(out.len()).ok()?);
    // SAFETY: `bytes` is `len` readable bytes, `out` is `room` writable bytes, and they are
    // disjoint, since one is mutably borrowed. The function writes at most `room` bytes.
    let n =
        unsafe { LZ4_compress_default(bytes.as_ptr().cast(), out.as_mut_ptr().cast(), len, room) };
    positive_count(n)
}

/// Encodes into `out` with a longer search; `None` when it has too little room.
pub(super) fn encode_hc(bytes: &[u8], level: u8, out: &mut [u8]) -> Option<usize> {
    let (len, room) = (c_int::try_from(bytes.len()).ok()?, c_int::try_from(out.len()).ok()?);
    // SAFETY: as for `encode`; any level is valid, those out of range are clamped. The state of the
    // function is its own: memory that it allocates and frees, or else the result is 0.
    let n = unsafe {
        LZ4_compress_HC(bytes.as_ptr().cast(), out.as_mut_ptr().cast(), len, room, level.into())
    };
    positive_count(n)
}

/// Returns the number of written bytes; `None` for 0.
fn positive_count(n: c_int) -> Option<usize> {
    usize::try_from(n).ok().filter(|n| *n > 0)
}
