//! The `blosc` codec: whole chunks, and the blocks of a chunk that contain a requested part.
//!
//! ```text
//! whole    header, table and blocks at hand
//! part     16 bytes: the header    ->  the table    ->  the spans of the blocks that are needed
//! ```
//!
//! Not here: the format itself (`zvf_blosc`), and fetching.

use std::ops::Range;

use zvf_blosc::{BloscError, Chunk, Decoder, Layout, StoredParts, merge_spans, parse_header};
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::checked_usize;

/// Decodes all of `chunk`. A chunk that is shorter than it states is a fault of the chunk, not of
/// the caller.
pub(super) fn decode(decoder: &mut Decoder, chunk: &[u8]) -> Result<Vec<u8>> {
    let decoded = Chunk::parse(chunk)
        .and_then(|chunk| decoder.decode_all(chunk.layout(), &chunk.stored_parts()));
    decoded.map_err(to_store_error)
}

/// Returns the number of bytes of a chunk that contain its block table, given its first
/// [`HEADER_BYTES`] bytes.
pub(crate) fn header_len(front: &[u8]) -> Result<u64> {
    parse_header(front).map(|header| Layout::front_len(&header)).map_err(to_store_error)
}

/// The locations of the blocks of one chunk.
pub(crate) struct Blocks(Layout);

impl Blocks {
    /// Bytes of the header of every chunk.
    pub(crate) const HEADER_BYTES: u64 = 16;

    /// Parses the front of a chunk, with the length from [`header_len`].
    pub(crate) fn parse(front: &[u8]) -> Result<Self> {
        Layout::parse(front).map(Self).map_err(to_store_error)
    }

    /// Returns the decoded length of the chunk.
    pub(crate) fn decoded_len(&self) -> u64 {
        self.0.decoded_len()
    }

    /// Returns the decoded length of one block; never 0.
    fn block_len(&self) -> u64 {
        u64::from(self.0.header().blocksize()).max(1)
    }

    /// Returns the bytes of the chunk that `ranges` need, ascending and disjoint.
    pub(crate) fn spans(&self, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let runs = self.runs(ranges).into_iter();
        merge_spans(runs.flat_map(|run| self.0.spans_needed(run)).collect())
    }

    /// Returns the decoded bytes of each of `ranges`; `parts` contains the [`spans`](Self::spans)
    /// that they need. Each block is decoded once.
    pub(crate) fn decode(
        &self,
        decoder: &mut Decoder,
        parts: Vec<(u64, &[u8])>,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Vec<u8>>> {
        let (runs, stored) = (self.runs(ranges), StoredParts::new(parts));
        let mut decoded = Vec::with_capacity(runs.len());
        for run in &runs {
            decoded
                .push(decoder.decode_range(&self.0, &stored, run.clone()).map_err(to_store_error)?);
        }
        let piece = |range: &Range<u64>| {
            let at = runs.partition_point(|run| run.start <= range.start).checked_sub(1)?;
            let (run, bytes) = (runs.get(at)?, decoded.get(at)?);
            let inside = |at: u64| checked_usize(at.checked_sub(run.start)?);
            bytes.get(inside(range.start)?..inside(range.end)?).map(<[u8]>::to_vec)
        };
        let found = |range: &Range<u64>| {
            // An empty range belongs to no run.
            let found = if range.is_empty() { Some(Vec::new()) } else { piece(range) };
            found.ok_or_else(|| {
                Error::new(Class::Codec, "blosc block", "all bytes of its range", "fewer")
            })
        };
        ranges.iter().map(found).collect()
    }

    /// Returns the ranges in ascending order; those that share a block are merged.
    fn runs(&self, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let block = |at: u64| at.checked_div(self.block_len());
        let mut order: Vec<&Range<u64>> = ranges.iter().filter(|range| !range.is_empty()).collect();
        order.sort_unstable_by_key(|range| range.start);
        let mut runs: Vec<Range<u64>> = Vec::with_capacity(order.len());
        for range in order {
            match runs.last_mut() {
                Some(run) if block(range.start) <= run.end.checked_sub(1).and_then(block) => {
                    run.end = run.end.max(range.end);
                }
                _ => runs.push(range.clone()),
            }
        }
        runs
    }
}

fn to_store_error(error: BloscError) -> Error {
    Error::codec(error.class(), "blosc", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three blocks of 8 bytes, none compressed.
    const CHUNK: &[u8] = b"\x02\x01\x30\x01\x18\0\0\0\x08\0\0\0\x40\0\0\0\
        \x1c\0\0\0\x28\0\0\0\x34\0\0\0\
        \x08\0\0\0abcdefgh\x08\0\0\0ijklmnop\x08\0\0\0qrstuvwx";

    #[test]
    fn chunks_typed_by_hand() {
        assert_eq!(decode(&mut Decoder::new(24), CHUNK).unwrap(), b"abcdefghijklmnopqrstuvwx");
        let error = decode(&mut Decoder::new(23), CHUNK).unwrap_err();
        assert_eq!(error.class(), Class::LimitExceeded);
        // In the header, in the table, in a block, and in the last byte.
        for len in [9, 20, 40, 63] {
            let error = decode(&mut Decoder::new(24), &CHUNK[..len]).unwrap_err();
            assert_eq!(
                error.to_string(),
                "Truncated, blosc: the stream does not decode; \
                 the object is truncated: copy it again, or run \"zvf repair --dry-run\"",
            );
        }
    }

    /// Ranges and spans as pairs of the first byte and the byte after the last.
    type Pairs<'a> = &'a [(u64, u64)];

    fn ranges(pairs: Pairs<'_>) -> Vec<Range<u64>> {
        pairs.iter().map(|&(start, end)| start..end).collect()
    }

    fn check(
        chunk: &[u8],
        front: usize,
        requested: Pairs<'_>,
        spans: Pairs<'_>,
        decoded: &[&[u8]],
    ) {
        let blocks = Blocks::parse(&chunk[..front]).unwrap();
        let found = blocks.spans(&ranges(requested));
        assert_eq!(found, ranges(spans), "{requested:?}");
        let parts = found.iter().map(|s| (s.start, &chunk[s.start as usize..s.end as usize]));
        let mut decoder = Decoder::new(24);
        let found = blocks.decode(&mut decoder, parts.collect(), &ranges(requested)).unwrap();
        assert_eq!(found, decoded, "{requested:?}");
    }

    #[test]
    fn raw_blocks_are_fetched_as_one_span() {
        let chunk = b"\x02\x01\x02\x04\x0c\0\0\0\x0c\0\0\0\x1c\0\0\0twelve bytes";
        check(chunk, 16, &[(0, 2), (7, 12)], &[(16, 28)], &[b"tw", b"bytes"]);
    }

    #[test]
    fn parts_need_their_blocks_and_no_others() {
        assert_eq!(header_len(&CHUNK[..16]).unwrap(), 28);
        let blocks = Blocks::parse(&CHUNK[..28]).unwrap();
        assert_eq!((blocks.decoded_len(), blocks.block_len()), (24, 8));
        check(CHUNK, 28, &[(0, 3)], &[(28, 40)], &[b"abc"]);
        let expected: [&[u8]; 3] = [b"rst", b"b", b"stuvwx"];
        check(CHUNK, 28, &[(17, 20), (1, 2), (18, 24)], &[(28, 40), (52, 64)], &expected);
        check(CHUNK, 28, &[(6, 10), (5, 5)], &[(28, 52)], &[b"ghij", b""]);
        check(CHUNK, 28, &[], &[], &[]);
    }
}
