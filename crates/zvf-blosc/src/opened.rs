//! A decoded range from which parts are copied.
//!
//! A block whose last decoding step is a shuffle stays shuffled: a few of its items can be read
//! quickly, and all of them are copied directly to their destination.

use crate::filter;

/// Decoded bytes whose parts are unshuffled on access: the result of [`Decoder::open_range`].
///
/// ```
/// use zvf_blosc::{Chunk, Decoder};
///
/// // Blosc 1, one block of 4 items of 2 bytes, shuffled and not compressed.
/// let bytes = b"\x02\x01\x31\x02\x08\0\0\0\x08\0\0\0\x20\0\0\0\x14\0\0\0\x08\0\0\0acegbdfh";
/// let chunk = Chunk::parse(bytes)?;
/// let mut decoder = Decoder::new(1024);
/// let opened = decoder.open_range(chunk.layout(), &chunk.stored_parts(), 0..8)?;
/// let mut item = [0; 2];
/// assert_eq!((opened.copy(4, &mut item), &item), (true, b"ef"));
/// assert!(!opened.copy(7, &mut item), "past the end");
/// # Ok::<(), zvf_blosc::BloscError>(())
/// ```
///
/// [`Decoder::open_range`]: crate::Decoder::open_range
#[derive(Clone, Copy, Debug)]
pub struct OpenedRange<'a> {
    bytes: &'a [u8],
    width: usize, // of the items that are still shuffled, otherwise 1
}

impl<'a> OpenedRange<'a> {
    pub(crate) const fn new(bytes: &'a [u8], width: usize) -> Self {
        Self { bytes, width }
    }

    /// Returns the number of bytes.
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Fills `out` with the bytes from `at` on; returns `false`, without a change, when there are
    /// fewer.
    pub fn copy(&self, at: usize, out: &mut [u8]) -> bool {
        let end = at.checked_add(out.len()).filter(|end| *end <= self.bytes.len());
        if end.is_some() {
            filter::undo_shuffle_part(self.width, self.bytes, at, out);
        }
        end.is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::{Chunk, Decoder, Encoder, Settings, Shuffle};

    proptest! {
        #[test]
        fn parts_of_what_is_opened(
            plain in prop::collection::vec(any::<u8>(), 1..2000),
            typesize in 1_u8..20,
            block_size in 1_u32..700,
            filter in prop::sample::select(vec![Shuffle::None, Shuffle::Bytes, Shuffle::Bits]),
            ends: [prop::sample::Index; 2],
            part: [prop::sample::Index; 2],
        ) {
            // Followed by zeros, so that something is gained and there are blocks.
            let plain = [&plain[..], &vec![0; 3000]].concat();
            let settings = Settings { typesize, block_size, filter, ..Settings::default() };
            let bytes = Encoder::default().encode(&plain, &settings).unwrap();
            let chunk = Chunk::parse(&bytes).unwrap();
            let size = chunk.header().blocksize() as usize;
            let mut ends = ends.map(|end| end.index(plain.len() + 1));
            ends.sort();
            let block = ends[0] / size * size;
            let mut decoder = Decoder::new(1 << 20);
            for range in [ends[0]..ends[1], block..(block + size).min(plain.len())] {
                let byte_range = range.start as u64..range.end as u64;
                let opened =
                    decoder.open_range(chunk.layout(), &chunk.stored_parts(), byte_range).unwrap();
                prop_assert_eq!(opened.len(), range.len());
                let mut part = part.map(|end| end.index(range.len() + 1));
                part.sort();
                let mut out = vec![1; part[1] - part[0]];
                prop_assert!(opened.copy(part[0], &mut out));
                prop_assert_eq!(&out[..], &plain[range][part[0]..part[1]]);
                prop_assert!(!opened.copy(opened.len(), &mut [0]));
            }
        }
    }
}
