//! Decoders of base64 and of compressed streams with a known size.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::to_u64;

use crate::error::ByteFault;

/// Decodes base64 `text`. White space is skipped.
pub fn decode_base64(text: &[u8]) -> Result<Vec<u8>, ByteFault> {
    let has_space = text.iter().any(u8::is_ascii_whitespace);
    let decoded = if has_space {
        let dense: Vec<u8> =
            text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
        STANDARD.decode(dense)
    } else {
        STANDARD.decode(text)
    };
    decoded.map_err(|error| ByteFault::new(Class::Encoding, "base64", error.to_string()))
}

/// Encodes `bytes` as base64.
pub fn encode_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decompresses a zlib stream of exactly `size` bytes.
pub fn inflate(stream: &[u8], size: usize) -> Result<Vec<u8>, ByteFault> {
    let mut all = Vec::new();
    let mut limited = flate2::read::ZlibDecoder::new(stream).take(read_limit(size));
    limited.read_to_end(&mut all).map_err(|error| {
        let class = match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Class::Truncated,
            _ => Class::Codec,
        };
        ByteFault::new(class, "a zlib stream", error.to_string())
    })?;
    check_unpacked_length(all, size)
}

/// Decompresses an xz container of exactly `size` bytes.
#[cfg(feature = "xz")]
pub fn unpack_xz(stream: &[u8], size: usize) -> Result<Vec<u8>, ByteFault> {
    let mut all = Vec::new();
    let decoder = lzma_rust2::XzReader::new_mem_limit(stream, false, XZ_MEMORY_KIB);
    decoder
        .take(read_limit(size))
        .read_to_end(&mut all)
        .map_err(|error| ByteFault::new(Class::Codec, "a container of xz", error.to_string()))?;
    check_unpacked_length(all, size)
}

/// Refuses an xz container: this build has no decoder.
#[cfg(not(feature = "xz"))]
pub fn unpack_xz(_stream: &[u8], _size: usize) -> Result<Vec<u8>, ByteFault> {
    let expected =
        "a build with the feature xz (cargo install --path crates/zvf-cli --features xz)";
    Err(ByteFault::new(Class::Unsupported, expected, "a container of xz"))
}

/// Decompresses an LZ4 block of exactly `size` bytes.
pub fn unpack_lz4(block: &[u8], size: usize) -> Result<Vec<u8>, ByteFault> {
    // A byte of a block expands to at most 255 bytes; a saturated bound allows every size.
    if size > block.len().saturating_mul(255).saturating_add(64) {
        let found = format!("{} bytes of LZ4", block.len());
        return Err(ByteFault::new(Class::CountMismatch, format!("{size} bytes"), found));
    }
    let mut all = vec![0; size];
    let read = lz4_flex::block::decompress_into(block, &mut all)
        .map_err(|error| ByteFault::new(Class::Codec, "a block of LZ4", error.to_string()))?;
    all.truncate(read);
    check_unpacked_length(all, size)
}

/// Returns how much of a stream is unpacked: one byte more than stated shows that there are too many.
fn read_limit(size: usize) -> u64 {
    to_u64(size).saturating_add(1)
}

fn check_unpacked_length(all: Vec<u8>, size: usize) -> Result<Vec<u8>, ByteFault> {
    match all.len() {
        length if length == size => Ok(all),
        length if length > size => {
            Err(ByteFault::new(Class::CountMismatch, format!("{size} bytes"), "more when unpacked"))
        }
        length => {
            let found = format!("{length} when unpacked");
            Err(ByteFault::new(Class::Truncated, format!("{size} bytes"), found))
        }
    }
}

/// Memory limit of the xz decoder.
#[cfg(feature = "xz")]
const XZ_MEMORY_KIB: u32 = 256 << 10;

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn refuses_streams_of_another_size() {
        let mut packer =
            flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(&[7; 1000]).unwrap();
        let stream = packer.finish().unwrap();
        assert_eq!(inflate(&stream, 1000).unwrap(), [7; 1000]);
        assert_eq!(inflate(&stream, 999).unwrap_err().class, Class::CountMismatch);
        assert_eq!(inflate(&stream, 1001).unwrap_err().class, Class::Truncated);
        let mut block = [0; 2000];
        let packed = lz4_flex::block::compress_into(&[7; 1000], &mut block).unwrap();
        let block = &block[..packed];
        assert_eq!(unpack_lz4(block, 1000).unwrap(), [7; 1000]);
        assert_eq!(unpack_lz4(block, 1 << 40).unwrap_err().class, Class::CountMismatch);
    }

    #[test]
    fn decodes_base64_with_line_ends() {
        assert_eq!(decode_base64(b" aGVs\r\nbG8= ").unwrap(), b"hello");
        assert_eq!(decode_base64(b"a*==").unwrap_err().class, Class::Encoding);
    }
}
