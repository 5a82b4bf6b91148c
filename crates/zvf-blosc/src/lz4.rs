//! LZ4 blocks, decoded and encoded.
//!
//! ```text
//! token       upper half: literals; lower half: match length - 4; 15 in a half: more follow
//! 255 .. n    more literals, until a byte below 255
//! ..          literals
//! 2           distance of the match, u16, not 0            none of this and the next in the last sequence
//! 255 .. n    more of the match length
//! ```
//!
//! Little-endian. The last five bytes of a block are literals, and the last match begins at least
//! twelve bytes before the end.
//!
//! The codec is safe code, or with the feature `fast-codecs` the C library. Both decode
//! identically: data that the C library refuses is decoded by the safe code, which is less strict
//! about the end of a block. They do not encode to the same bytes.

#[cfg(feature = "fast-codecs")]
mod c;
#[cfg(any(test, not(feature = "fast-codecs")))]
mod hc;

/// Decodes a block into `out`, and returns the number of bytes; `None` when the data is damaged, or
/// longer than `out`.
pub(crate) fn decode(data: &[u8], out: &mut [u8]) -> Option<usize> {
    #[cfg(feature = "fast-codecs")]
    if let Some(n) = c::decode(data, out) {
        return Some(n);
    }
    lz4_flex::block::decompress_into(data, out).ok()
}

/// Decodes a block as [`decode`] does, with the text `dictionary` before it.
pub(crate) fn decode_after(dictionary: &[u8], data: &[u8], out: &mut [u8]) -> Option<usize> {
    lz4_flex::block::decompress_into_with_dict(data, out, dictionary).ok()
}

/// Encodes into `out`, and returns the number of bytes; `None` if they do not fit, and possibly if
/// they barely fit.
pub(crate) fn encode(bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let room = append_room(bytes.len(), out)?;
    #[cfg(feature = "fast-codecs")]
    return c::encode(bytes, room);
    #[cfg(not(feature = "fast-codecs"))]
    lz4_flex::block::compress_into(bytes, room).ok()
}

/// Appends room for any block of `len` bytes, and returns it.
fn append_room(len: usize, out: &mut Vec<u8>) -> Option<&mut [u8]> {
    let start = out.len();
    out.resize(start.checked_add(lz4_flex::block::get_maximum_output_size(len))?, 0);
    out.get_mut(start..)
}

/// Appends a block with a longer search for longer matches: 1 shortest, 9 longest.
#[cfg(feature = "fast-codecs")]
pub(crate) fn encode_hc(bytes: &[u8], level: u8, out: &mut Vec<u8>) -> Option<usize> {
    c::encode_hc(bytes, level, append_room(bytes.len(), out)?)
}

#[cfg(not(feature = "fast-codecs"))]
pub(crate) use self::hc::encode as encode_hc;

#[cfg(test)]
mod tests;
