//! Parts of Blosc chunks: reads only the blocks that contain the requested bytes.
//!
//! ```text
//! stage 1    16 bytes: the header        -> how long the table is
//! stage 2    the header and the table    -> which spans hold the frame and the ranges
//! stage 3    those spans                 -> blocks, decoded, cut
//! ```
//!
//! Each stage is one batch over all chunks. The block with the frame is always included, so that a
//! part is refused whenever the whole would be.
//!
//! Not here: parts of uncompressed chunks ([`super::part`]).

use std::iter;
use std::ops::Range;

use bytes::Bytes;
use zvf_error::{Error, Result};
use zvf_format::num::to_u64;
use zvf_format::vlen::VlenCell;

use super::array::{Located, answer_each};
use super::part::{PartRequest, past_end_error, past_payload_error, shift_past_frame};
use super::span::{FRAME_BYTES, length};
use crate::codec::{Blocks, Scratch, header_len, spread};
use crate::shared::Handle;
use crate::source::{Get, GetAnswer, Version};

/// Returns the bytes that each of `asks` requests, counted from the start of the payload.
pub(super) async fn read_by_block<'a>(
    shared: &Handle,
    asks: &[PartRequest<'a>],
) -> Vec<Result<Option<Vec<Bytes>>>> {
    let header = iter::once(0..Blocks::HEADER_BYTES);
    let begin = |&(place, ranges): &PartRequest<'a>| {
        let asked = header.clone().collect();
        Ok(Some(Chunk { place, ranges, asked, version: None, state: () }))
    };
    let headers = fetch(shared, asks.iter().map(begin).collect()).await;
    let fronts = advance(headers, |_, (), front| {
        let front = header_len(front)?;
        Ok((iter::once(0..front).collect(), ()))
    });
    let fronts = fetch(shared, fronts).await;
    let spans = advance(fronts, |(place, ranges), (), front| {
        let blocks = Blocks::parse(front)?;
        let requested = shift_ranges(place, ranges, &blocks)?;
        Ok((blocks.spans(&requested), (blocks, requested)))
    });
    let mut jobs = Vec::new();
    let placed = fetch(shared, spans).await.into_iter().map(|read| {
        let Some((chunk, parts)) = read? else { return Ok(None) };
        let (blocks, requested) = chunk.state;
        let starts = chunk.asked.iter().map(|span| span.start);
        jobs.push(Job { blocks, requested, parts: starts.zip(parts).collect() });
        Ok(Some((chunk.place, chunk.ranges)))
    });
    let placed: Vec<Result<Option<PartRequest<'_>>>> = placed.collect();
    let work = jobs.iter().flat_map(|job| &job.parts).map(|(_, part)| to_u64(part.len())).sum();
    let cap = shared.chunk_cap();
    let decoded = spread(jobs, work, move |job: Job, scratch| job.decode(scratch, cap)).await;
    answer_each(placed, decoded, |(place, ranges), decoded| {
        check_frame(place, ranges, place.locate(decoded)?).map(Some)
    })
}

/// A chunk between two stages.
struct Chunk<'a, T> {
    place: &'a Located,
    ranges: &'a [Range<u64>],
    /// The spans to read next.
    asked: Vec<Range<u64>>,
    /// The version that was read first.
    version: Option<Version>,
    state: T,
}

/// A chunk and what is asked of it.
type Planned<'a, T> = (Chunk<'a, T>, Vec<Get>);

/// A chunk with the bytes of the spans that were asked for; `None` for an absent one.
type Fetched<'a, T> = Result<Option<(Chunk<'a, T>, Vec<Bytes>)>>;

/// Reads the spans of all chunks. All that is read of a chunk must be of one version.
async fn fetch<'a, T>(
    shared: &Handle,
    chunks: Vec<Result<Option<Chunk<'a, T>>>>,
) -> Vec<Fetched<'a, T>> {
    let planned = chunks.into_iter().map(|chunk| {
        let Some(chunk) = chunk? else { return Ok(None) };
        let gets: Option<Vec<Get>> =
            chunk.asked.iter().map(|part| chunk.place.part(part)).collect();
        let gets = gets.ok_or_else(|| {
            let end = chunk.asked.iter().map(|part| part.end).max().unwrap_or(0); // for the message
            past_end_error(chunk.place, &(0..end))
        });
        Ok(Some((chunk, gets?)))
    });
    let planned: Vec<Result<Option<Planned<'a, T>>>> = planned.collect();
    let gets: Vec<Get> =
        planned.iter().flatten().flatten().flat_map(|(_, gets)| gets).cloned().collect();
    let mut answers = shared.source.read_many(&gets).await.into_iter();
    let mut take = |(chunk, gets): Planned<'a, T>| chunk.take(gets.len(), &mut answers);
    planned.into_iter().map(|planned| planned?.map_or(Ok(None), &mut take)).collect()
}

impl<'a, T> Chunk<'a, T> {
    /// Takes `count` answers, even after an error: the next ones belong to another chunk.
    fn take(
        mut self,
        count: usize,
        answers: &mut impl Iterator<Item = Result<Option<GetAnswer>>>,
    ) -> Fetched<'a, T> {
        let got: Vec<_> = answers.take(count).collect();
        let got: Result<Option<Vec<GetAnswer>>> = got.into_iter().collect();
        let Some(got) = self.place.locate(got)? else {
            return match self.version {
                None => self.place.locate(self.place.check_absent()).map(|()| None),
                Some(_) => Err(self.place.locate_error(Error::replaced())),
            };
        };
        let first = self.version.take().or_else(|| got.first().map(|got| got.version.clone()));
        if got.iter().any(|got| Some(&got.version) != first.as_ref()) {
            return Err(self.place.locate_error(Error::replaced()));
        }
        self.version = first;
        Ok(Some((self, got.into_iter().map(|got| got.bytes).collect())))
    }
}

/// Takes each chunk to its next stage: `step` gives the spans to read, and what else is known by
/// then, from the first of the spans that were read.
fn advance<'a, T, U>(
    chunks: Vec<Fetched<'a, T>>,
    step: impl Fn(PartRequest<'a>, T, &[u8]) -> Result<(Vec<Range<u64>>, U)>,
) -> Vec<Result<Option<Chunk<'a, U>>>> {
    let next = |(chunk, parts): (Chunk<'a, T>, Vec<Bytes>)| {
        let Chunk { place, ranges, version, state, .. } = chunk;
        let front = parts.first().map_or(&[][..], |front| front);
        let (asked, state) = place.locate(step((place, ranges), state, front))?;
        Ok(Chunk { place, ranges, asked, version, state })
    };
    chunks.into_iter().map(|chunk| chunk?.map(next).transpose()).collect()
}

/// Returns the spans of a chunk that hold the frame and each of the ranges.
fn shift_ranges(
    place: &Located,
    ranges: &[Range<u64>],
    blocks: &Blocks,
) -> Result<Vec<Range<u64>>> {
    let total = blocks.decoded_len();
    let mut requested: Vec<Range<u64>> = iter::once(0..FRAME_BYTES.min(total)).collect();
    for range in ranges {
        let shifted = shift_past_frame(place, range)?;
        if shifted.end > total {
            // A chunk that is shorter than its frame has no payload.
            let payload = total.saturating_sub(FRAME_BYTES);
            return Err(past_payload_error(place, payload, range.end));
        }
        requested.push(shifted);
    }
    Ok(requested)
}

/// The blocks of a chunk, to be decoded.
struct Job {
    blocks: Blocks,
    requested: Vec<Range<u64>>,
    parts: Vec<(u64, Bytes)>,
}

/// The requested bytes, without the frame.
struct Decoded {
    pieces: Vec<Vec<u8>>,
    total: u64, // bytes of the chunk
}

impl Job {
    fn decode(self, scratch: &mut Scratch, cap: u64) -> Result<Decoded> {
        let parts = self.parts.iter().map(|(at, part)| (*at, &**part)).collect();
        let pieces = self.blocks.decode(scratch.blosc(cap), parts, &self.requested)?;
        Ok(Decoded { pieces, total: self.blocks.decoded_len() })
    }
}

/// Returns the decoded ranges, after comparing them with the frame before them.
fn check_frame(place: &Located, ranges: &[Range<u64>], decoded: Decoded) -> Result<Vec<Bytes>> {
    let mut pieces = decoded.pieces.into_iter();
    let frame = pieces.next().expect("the frame is asked for first");
    let payload = place.locate(VlenCell::payload_span(&frame, decoded.total))?;
    if let Some(range) = ranges.iter().find(|range| range.end > length(&payload)) {
        return Err(past_payload_error(place, length(&payload), range.end));
    }
    Ok(pieces.map(Bytes::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    #[test]
    fn a_fault_takes_no_answer_of_the_next_chunk() {
        let place = Located::object(Key::root().child("a").unwrap(), false);
        let chunk = Chunk { place: &place, ranges: &[], asked: vec![], version: None, state: () };
        let fault = || Err(Error::replaced());
        let mut answers = vec![fault(), Ok(None), fault()].into_iter();
        assert!(chunk.take(2, &mut answers).is_err());
        assert_eq!(answers.len(), 1);
    }
}
