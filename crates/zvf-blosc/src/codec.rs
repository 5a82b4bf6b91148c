//! Decoding of one stream of codec data into a buffer of the right length.
//!
//! LZ4 is a bare block, zlib a stream of RFC 1950, Zstandard one frame. For LZ4 a dictionary is the
//! text before the data; for Zstandard it is a Zstandard dictionary; each stream starts with it
//! again. The buffer is the limit: no decoder writes beyond it or allocates what the data claims.
//! Zstandard decodes in one call, so that not even a window takes memory.

use zvf_b2nd::BloscCodec;

use crate::blosclz;
use crate::error::BloscError;
use crate::lz4;

/// The codec of one chunk, and states that are reused.
#[derive(Default)]
pub(crate) struct CodecState {
    current: Option<BloscCodec>,
    dictionary: Vec<u8>,
    zlib: Option<flate2::Decompress>,
    zstd: zstd_frame::LibraryState,
}

impl core::fmt::Debug for CodecState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Codecs").field("current", &self.current).finish_non_exhaustive()
    }
}

impl CodecState {
    /// Prepares for the streams of one chunk.
    pub(crate) fn start(&mut self, codec: BloscCodec, dictionary: &[u8]) -> Result<(), BloscError> {
        match codec {
            BloscCodec::BloscLz | BloscCodec::Lz4 | BloscCodec::Zlib => {}
            BloscCodec::Zstd => self.zstd.start(dictionary)?,
            BloscCodec::Snappy => return Err(BloscError::Unsupported("the codec snappy")),
            BloscCodec::Other(_) | BloscCodec::Reserved(_) => {
                return Err(BloscError::Unsupported("a codec that is not one of Blosc's own"));
            }
        }
        self.current = Some(codec);
        self.dictionary.clear();
        self.dictionary.extend(dictionary);
        Ok(())
    }

    /// Decodes `data` into `out` and returns the number of bytes; `None` when the data is damaged,
    /// or longer than `out`.
    pub(crate) fn decode(&mut self, data: &[u8], out: &mut [u8]) -> Option<usize> {
        match self.current? {
            BloscCodec::BloscLz => blosclz::decode(data, out),
            BloscCodec::Lz4 if self.dictionary.is_empty() => lz4::decode(data, out),
            BloscCodec::Lz4 => lz4::decode_after(&self.dictionary, data, out),
            BloscCodec::Zlib => zlib(&mut self.zlib, data, out),
            BloscCodec::Zstd => self.zstd.decode(data, out),
            BloscCodec::Snappy | BloscCodec::Other(_) | BloscCodec::Reserved(_) => None, // refused by `start`
        }
    }
}

fn zlib(state: &mut Option<flate2::Decompress>, data: &[u8], out: &mut [u8]) -> Option<usize> {
    let state = state.get_or_insert_with(|| flate2::Decompress::new(true));
    state.reset(true);
    match state.decompress(data, out, flate2::FlushDecompress::Finish) {
        Ok(flate2::Status::StreamEnd) => usize::try_from(state.total_out()).ok(),
        Ok(flate2::Status::Ok | flate2::Status::BufError) | Err(_) => None,
    }
}

/// Zstandard through its C library.
#[cfg(feature = "zstd")]
mod zstd_frame {
    use zstd::bulk::Decompressor;

    use crate::error::BloscError;

    #[derive(Default)]
    pub(super) struct LibraryState {
        plain: Option<Decompressor<'static>>,
        with_dictionary: Option<Decompressor<'static>>, // of the current chunk only
    }

    impl LibraryState {
        pub(super) fn start(&mut self, dictionary: &[u8]) -> Result<(), BloscError> {
            self.with_dictionary = None;
            if !dictionary.is_empty() {
                self.with_dictionary = Some(decompressor(dictionary)?);
            } else if self.plain.is_none() {
                self.plain = Some(decompressor(&[])?);
            }
            Ok(())
        }

        pub(super) fn decode(&mut self, data: &[u8], out: &mut [u8]) -> Option<usize> {
            let state = self.with_dictionary.as_mut().or(self.plain.as_mut())?;
            state.decompress_to_buffer(data, out).ok()
        }
    }

    fn decompressor(dictionary: &[u8]) -> Result<Decompressor<'static>, BloscError> {
        Decompressor::with_dictionary(dictionary)
            .map_err(|_source| BloscError::Unsupported("this dictionary of Zstandard"))
    }
}

/// Zstandard in Rust.
#[cfg(all(feature = "ruzstd", not(feature = "zstd")))]
mod zstd_frame {
    use ruzstd::decoding::FrameDecoder;

    use crate::error::BloscError;

    #[derive(Default)]
    pub(super) struct LibraryState {
        decoder: Option<FrameDecoder>,
    }

    impl LibraryState {
        pub(super) fn start(&mut self, dictionary: &[u8]) -> Result<(), BloscError> {
            if !dictionary.is_empty() {
                return Err(BloscError::Unsupported("dictionaries of Zstandard in this build"));
            }
            self.decoder.get_or_insert_with(FrameDecoder::new);
            Ok(())
        }

        pub(super) fn decode(&mut self, data: &[u8], out: &mut [u8]) -> Option<usize> {
            self.decoder.as_mut()?.decode_all(data, out).ok()
        }
    }
}

/// No Zstandard.
#[cfg(not(any(feature = "ruzstd", feature = "zstd")))]
mod zstd_frame {
    use crate::error::BloscError;

    #[derive(Default)]
    pub(super) struct LibraryState;

    impl LibraryState {
        pub(super) fn start(&mut self, _dictionary: &[u8]) -> Result<(), BloscError> {
            Err(BloscError::Unsupported("Zstandard in this build"))
        }

        pub(super) fn decode(&mut self, _data: &[u8], _out: &mut [u8]) -> Option<usize> {
            None
        }
    }
}

#[cfg(test)]
mod tests;
