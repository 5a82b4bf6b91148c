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

use std::ops::Range;
use std::{iter, mem};

use bytes::Bytes;
use zvf_error::{Error, Result};
use zvf_format::num::to_u64;
use zvf_format::vlen::VlenCell;

use super::array::Place;
use super::part::{PartRequest, past_end_error, past_payload_error, shift_past_frame};
use super::span::{FRAME_BYTES, length};
use crate::codec::{Blocks, Scratch, header_len, spread};
use crate::shared::Shared;
use crate::source::{Get, GetAnswer, Version};

/// Returns the bytes that each of `asks` requests from Blosc chunks, counted from the start of the
/// payload.
pub(super) async fn read_by_block(
    shared: &Shared,
    asks: &[PartRequest<'_>],
) -> Vec<Result<Option<Vec<Bytes>>>> {
    let mut chunks: Vec<Blosc<'_>> = asks.iter().copied().map(Blosc::new).collect();
    for _ in 0..STAGES {
        let gets: Vec<Get> = chunks.iter_mut().flat_map(Blosc::plan_gets).collect();
        let mut answers = shared.source.read_many(&gets).await.into_iter();
        chunks.iter_mut().for_each(|chunk| chunk.take(&mut answers));
    }
    let work = chunks.iter().map(Blosc::fetched_bytes).sum::<u64>();
    let cap = shared.chunk_cap();
    let (jobs, finish): (Vec<_>, Vec<_>) =
        chunks.into_iter().map(|chunk| (chunk.state, (chunk.place, chunk.ranges))).unzip();
    let decoded = spread(jobs, work, move |state, scratch| state.decode(scratch, cap)).await;
    let finish = decoded.into_iter().zip(finish).map(|(decoded, (place, ranges))| {
        match place.locate(decoded)? {
            None => Ok(None),
            Some(decoded) => check_frame(place, ranges, decoded).map(Some),
        }
    });
    finish.collect()
}

/// Checks the frame against the ranges, and returns the pieces after it.
fn check_frame(place: &Place, ranges: &[Range<u64>], decoded: Decoded) -> Result<Vec<Bytes>> {
    let mut pieces = decoded.pieces.into_iter();
    let frame = pieces.next().expect("the frame is asked for first");
    let payload = place.locate(VlenCell::payload_span(&frame, decoded.total))?;
    if let Some(range) = ranges.iter().find(|range| range.end > length(&payload)) {
        return Err(past_payload_error(place, length(&payload), range.end));
    }
    Ok(pieces.map(Bytes::from).collect())
}

/// A Blosc chunk between its place and its parts.
struct Blosc<'a> {
    place: &'a Place,
    ranges: &'a [Range<u64>],
    asked: Vec<Range<u64>>,
    state: State,
}

/// The known parts of a chunk.
enum State {
    Start,
    /// It does not exist.
    Absent,
    /// The length of the front.
    Header {
        front: u64,
        version: Version,
    },
    /// The blocks, and the requested bytes, the frame first.
    Front {
        blocks: Blocks,
        requested: Vec<Range<u64>>,
        version: Version,
    },
    /// The stored bytes of these blocks, each with its offset.
    Ready {
        blocks: Blocks,
        requested: Vec<Range<u64>>,
        parts: Vec<(u64, Bytes)>,
    },
    Failed(Error),
}

/// The frame of a chunk and its parts.
struct Decoded {
    pieces: Vec<Vec<u8>>,
    total: u64, // bytes of the chunk
}

impl<'a> Blosc<'a> {
    fn new((place, ranges): PartRequest<'a>) -> Self {
        Self { place, ranges, asked: Vec::new(), state: State::Start }
    }

    /// Returns the requests of the next stage.
    fn plan_gets(&mut self) -> Vec<Get> {
        let place = self.place;
        self.asked = match &self.state {
            State::Start => iter::once(0..Blocks::HEADER_BYTES).collect(),
            State::Header { front, .. } => iter::once(0..*front).collect(),
            State::Front { blocks, requested, .. } => blocks.spans(requested),
            State::Absent | State::Ready { .. } | State::Failed(_) => Vec::new(),
        };
        let gets: Option<Vec<Get>> = self.asked.iter().map(|part| place.part(part)).collect();
        gets.unwrap_or_else(|| {
            let end = self.asked.iter().map(|part| part.end).max().unwrap_or(0); // for the message
            self.asked.clear();
            self.state = State::Failed(past_end_error(place, &(0..end)));
            Vec::new()
        })
    }

    /// Handles the answers to these requests.
    fn take(&mut self, answers: &mut impl Iterator<Item = Result<Option<GetAnswer>>>) {
        let place = self.place;
        // All answers for this chunk, even after an error: the next ones belong to another chunk.
        let taken: Vec<_> = answers.take(self.asked.len()).collect();
        let taken: Result<Option<Vec<GetAnswer>>> = taken.into_iter().collect();
        let state = mem::replace(&mut self.state, State::Absent);
        let next = match taken {
            Err(error) => Err(error),
            Ok(None) if matches!(state, State::Start) => {
                place.check_absent().map(|()| State::Absent)
            }
            Ok(None) => Err(Error::replaced()),
            Ok(Some(got)) => self.next(place, state, got),
        };
        self.state = next.unwrap_or_else(|error| State::Failed(place.locate_error(error)));
    }

    fn next(&self, place: &Place, state: State, got: Vec<GetAnswer>) -> Result<State> {
        let same = |version: &Version| got.iter().all(|got| got.version == *version);
        match (state, got.as_slice()) {
            (State::Start, [header]) => {
                let (front, version) = (header_len(&header.bytes)?, header.version.clone());
                Ok(State::Header { front, version })
            }
            (State::Header { version, .. }, [front]) if same(&version) => {
                let blocks = Blocks::parse(&front.bytes)?;
                let requested = self.shift_ranges(place, &blocks)?;
                Ok(State::Front { blocks, requested, version })
            }
            (State::Front { blocks, requested, version }, _) if same(&version) => {
                let starts = self.asked.iter().map(|span| span.start);
                let parts = starts.zip(got.iter().map(|got| got.bytes.clone())).collect();
                Ok(State::Ready { blocks, requested, parts })
            }
            (done @ (State::Absent | State::Ready { .. } | State::Failed(_)), _) => Ok(done),
            _ => Err(Error::replaced()),
        }
    }

    /// Returns the spans of the frame and of the ranges after it, if the chunk is long enough.
    fn shift_ranges(&self, place: &Place, blocks: &Blocks) -> Result<Vec<Range<u64>>> {
        let total = blocks.decoded_len();
        let mut requested: Vec<Range<u64>> = iter::once(0..FRAME_BYTES.min(total)).collect();
        for range in self.ranges {
            let shifted = shift_past_frame(place, range)?;
            if shifted.end > total {
                let payload = total.saturating_sub(FRAME_BYTES); // none in a chunk that is shorter than its frame
                return Err(past_payload_error(place, payload, range.end));
            }
            requested.push(shifted);
        }
        Ok(requested)
    }

    fn fetched_bytes(&self) -> u64 {
        match &self.state {
            State::Ready { parts, .. } => parts.iter().map(|(_, part)| to_u64(part.len())).sum(),
            State::Start
            | State::Absent
            | State::Header { .. }
            | State::Front { .. }
            | State::Failed(_) => 0,
        }
    }
}

impl State {
    fn decode(self, scratch: &mut Scratch, cap: u64) -> Result<Option<Decoded>> {
        match self {
            Self::Ready { blocks, requested, parts } => {
                let parts = parts.iter().map(|(at, part)| (*at, &**part)).collect();
                let pieces = blocks.decode(scratch.blosc(cap), parts, &requested)?;
                Ok(Some(Decoded { pieces, total: blocks.decoded_len() }))
            }
            Self::Failed(error) => Err(error),
            Self::Start | Self::Absent | Self::Header { .. } | Self::Front { .. } => Ok(None),
        }
    }
}

/// Header, table, blocks.
const STAGES: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    #[test]
    fn a_fault_takes_no_answer_of_the_next_chunk() {
        let place = Place::object(Key::root().child("a").unwrap());
        let mut chunk = Blosc { asked: vec![0..1, 4..5], ..Blosc::new((&place, &[])) };
        let fault = || Err(Error::replaced());
        let mut answers = vec![fault(), Ok(None), fault()].into_iter();
        chunk.take(&mut answers);
        assert!(matches!(chunk.state, State::Failed(_)));
        assert_eq!(answers.len(), 1);
    }
}
