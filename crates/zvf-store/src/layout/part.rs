//! Parts of chunks: only the bytes that hold what was asked for.
//!
//! ```text
//! stored as it is    8 bytes of frame, then each range, shifted by 8
//! ```
//!
//! The frame is always read along, and what it says is compared with the bytes there are: a part
//! equals the slice of a whole read, or is refused like one. Neighbours are merged by the source.
//!
//! Not here: chunks with a checksum over the whole or a stream in one piece; those are read whole.

use std::ops::Range;

use bytes::Bytes;
use zvf_format::vlen::VlenCell;
use zvf_format::{Class, Expected};

use super::zarr::Place;
use crate::error::{Change, Op, StoreError};
use crate::num::to_u64;
use crate::shared::Shared;
use crate::source::{Get, Got};

/// The parts asked of one chunk; no place where the chunk is absent.
pub(super) type Ask<'a> = (Option<&'a Place>, &'a [Range<u64>]);

/// The bytes that each of `asks` names, counted from the start of the payload.
pub(super) async fn by_range(
    shared: &Shared,
    asks: &[Ask<'_>],
) -> Vec<Result<Option<Vec<Bytes>>, StoreError>> {
    let gets: Vec<Result<Vec<Get>, StoreError>> = asks.iter().map(gets).collect();
    let flat: Vec<Get> = gets.iter().flatten().flatten().cloned().collect();
    let mut answers = shared.source.read_many(&flat).await.into_iter();
    let answer = |(gets, &(place, ranges)): (Result<Vec<Get>, StoreError>, &Ask<'_>)| {
        let gets = gets?;
        let answers: Vec<_> = answers.by_ref().take(gets.len()).collect();
        match place {
            None => Ok(None),
            Some(place) => {
                one_version(answers)?.map(|got| pieces(place, ranges, &got)).transpose()
            }
        }
    };
    gets.into_iter().zip(asks).map(answer).collect()
}

/// The length of each payload, from a span or a frame.
pub(super) async fn sizes(
    shared: &Shared,
    places: &[Option<&Place>],
) -> Vec<Result<Option<u64>, StoreError>> {
    let alone = |place: &&Place| place.span.is_none();
    let gets: Vec<Get> = places
        .iter()
        .filter_map(|place| place.filter(alone)?.part(&(0..FRAME)))
        .collect();
    let mut answers = shared.source.read_many(&gets).await.into_iter();
    let size = |place: &Option<&Place>| match place {
        None => Ok(None),
        Some(Place { span: Some((span, _)), .. }) => {
            Ok(Some(span.end.saturating_sub(span.start).saturating_sub(FRAME)))
        }
        Some(place) => match answers.next().unwrap_or(Ok(None))? {
            None => Ok(None),
            Some(got) => payload(place, &got).map(|payload| Some(length(&payload))),
        },
    };
    places.iter().map(size).collect()
}

/// The frame of a chunk, then each range of its payload.
fn gets(&(place, ranges): &Ask<'_>) -> Result<Vec<Get>, StoreError> {
    let Some(place) = place else { return Ok(Vec::new()) };
    let shifted = ranges.iter().map(|range| {
        match (range.start.checked_add(FRAME), range.end.checked_add(FRAME)) {
            (Some(start), Some(end)) if start <= end => Ok(start..end),
            _ => Err(backwards(place, range)),
        }
    });
    let mut gets = Vec::with_capacity(ranges.len().saturating_add(1));
    for part in std::iter::once(Ok(0..FRAME)).chain(shifted) {
        let part = part?;
        gets.push(place.part(&part).ok_or_else(|| past_the_end(place, &part))?);
    }
    Ok(gets)
}

/// All answers about one object, which must be about one version of it; `None` when there is none.
fn one_version(
    answers: Vec<Result<Option<Got>, StoreError>>,
) -> Result<Option<Vec<Got>>, StoreError> {
    let mut whole: Vec<Got> = Vec::with_capacity(answers.len());
    let mut absent = 0_usize;
    for answer in answers {
        match answer? {
            None => absent = absent.saturating_add(1),
            Some(got) => whole.push(got),
        }
    }
    let same = whole.windows(2).all(|pair| matches!(pair, [a, b] if a.version == b.version));
    match (absent, whole.is_empty()) {
        (_, true) => Ok(None),
        (0, false) if same => Ok(Some(whole)),
        _ => Err(StoreError::changed(Change::Version)),
    }
}

/// The answers after the frame, once the frame was compared with them.
fn pieces(place: &Place, ranges: &[Range<u64>], got: &[Got]) -> Result<Vec<Bytes>, StoreError> {
    let Some((frame, pieces)) = got.split_first() else { return Ok(Vec::new()) };
    let payload = payload(place, frame)?;
    for range in ranges {
        if range.end > length(&payload) {
            return Err(beyond(place, length(&payload), range.end));
        }
    }
    Ok(pieces.iter().map(|got| got.bytes.clone()).collect())
}

/// Where the payload lies in a chunk that starts with `frame`.
fn payload(place: &Place, frame: &Got) -> Result<Range<u64>, StoreError> {
    VlenCell::payload_span(&frame.bytes, place.total(frame))
        .map_err(|error| place.blame(error.into()))
}

fn length(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// The slices `ranges` of a payload that is in memory.
pub(super) fn slices(
    place: &crate::key::Key,
    payload: &Bytes,
    ranges: &[Range<u64>],
) -> Result<Vec<Bytes>, StoreError> {
    let whole = to_u64(payload.len());
    let slice = |range: &Range<u64>| {
        let span = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        match span.filter(|(start, end)| start <= end && *end <= payload.len()) {
            Some((start, end)) => Ok(payload.slice(start..end)),
            None => Err(out_of_payload(whole, range.end).with_key(place)),
        }
    };
    ranges.iter().map(slice).collect()
}

fn out_of_payload(whole: u64, end: u64) -> StoreError {
    let expected = Expected::AtMost(whole.into());
    let found = zvf_format::Found::from(end);
    StoreError::refused(Class::OutOfBounds, Op::Read, "end of a part", expected, found)
}

fn beyond(place: &Place, whole: u64, end: u64) -> StoreError {
    place.blame(out_of_payload(whole, end))
}

fn past_the_end(place: &Place, part: &Range<u64>) -> StoreError {
    let whole = place.span.as_ref().map_or(0, |(span, _)| length(span)).saturating_sub(FRAME);
    beyond(place, whole, part.end.saturating_sub(FRAME))
}

fn backwards(place: &Place, range: &Range<u64>) -> StoreError {
    let (expected, found) =
        (Expected::AtLeast(range.start.into()), zvf_format::Found::from(range.end));
    let what = "end of a part";
    place.blame(StoreError::refused(Class::InvalidArgument, Op::Read, what, expected, found))
}

/// Count and length before a payload.
const FRAME: u64 = 8;
