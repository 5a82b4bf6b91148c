//! Parts of chunks: reads only the requested bytes.
//!
//! ```text
//! stored as it is    8 bytes of frame, then each range, shifted by 8
//! in Blosc blocks    see [`super::blocks`]
//! ```
//!
//! The frame is also read, and its length is compared with the stored length: a part equals the
//! slice of a whole read, or fails like one. For a chunk in a shard, the frame is read once per
//! version of the shard. The source coalesces neighbouring ranges.
//!
//! Not here: chunks with a checksum over the whole, or compressed in one stream; those are read
//! whole.

use std::ops::Range;

use bytes::Bytes;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::num::{saturating_usize, to_u64};
use zvf_format::vlen::VlenCell;
use zvf_format::{Class, Expected};

use super::array::Located;
use super::span::{FRAME_BYTES, length};
use crate::key::Key;
use crate::shared::Handle;
use crate::source::{Get, GetAnswer};

/// The requested parts of one chunk.
pub(super) type PartRequest<'a> = (&'a Located, &'a [Range<u64>]);

/// Returns the bytes that each of `asks` requests, counted from the start of the payload.
pub(super) async fn read_by_range(
    shared: &Handle,
    asks: &[PartRequest<'_>],
) -> Vec<Result<Option<Vec<Bytes>>>> {
    let gets: Vec<Result<Vec<Get>>> = asks.iter().map(plan_gets).collect();
    let flat: Vec<Get> = gets.iter().flatten().flatten().cloned().collect();
    let mut answers = shared.source.read_many(&flat).await.into_iter();
    let answer = |(gets, &(place, ranges)): (Result<Vec<Get>>, &PartRequest<'_>)| {
        pieces(place, ranges, answers.by_ref().take(gets?.len()).collect())
    };
    gets.into_iter().zip(asks).map(answer).collect()
}

/// Returns the length of each payload, from a span or a frame.
pub(super) async fn sizes(shared: &Handle, places: &[&Located]) -> Vec<Result<Option<u64>>> {
    let alone = places.iter().filter(|place| place.span.is_none());
    let gets: Vec<Get> = alone.map(|place| Get::range(place.key.clone(), 0, FRAME_BYTES)).collect();
    let mut answers = shared.source.read_many(&gets).await.into_iter();
    let size = |place: &&Located| match &place.span {
        Some((span, _)) => {
            let payload = length(span).checked_sub(FRAME_BYTES);
            payload.map(Some).ok_or_else(|| past_end_error(place, &(0..FRAME_BYTES)))
        }
        None => match answers.next().expect("each get has an answer")? {
            None => Ok(None),
            Some(got) => payload(place, &got).map(|payload| Some(length(&payload))),
        },
    };
    places.iter().map(size).collect()
}

/// Returns requests for the frame of a chunk, unless it is known, and for each range of its
/// payload.
fn plan_gets(&(place, ranges): &PartRequest<'_>) -> Result<Vec<Get>> {
    let shifted = ranges.iter().map(|range| shift_past_frame(place, range));
    let mut gets = Vec::with_capacity(ranges.len().saturating_add(1)); // a capacity
    let frame = place.known_payload().is_none().then_some(Ok(0..FRAME_BYTES));
    for part in frame.into_iter().chain(shifted) {
        let part = part?;
        gets.push(place.part(&part).ok_or_else(|| past_end_error(place, &part))?);
    }
    Ok(gets)
}

/// Returns the bytes of a chunk that contain bytes `range` of its payload.
pub(super) fn shift_past_frame(place: &Located, range: &Range<u64>) -> Result<Range<u64>> {
    match (range.start.checked_add(FRAME_BYTES), range.end.checked_add(FRAME_BYTES)) {
        (Some(start), Some(end)) if start <= end => Ok(start..end),
        _ => Err(reversed_range_error(place, range)),
    }
}

/// Returns the answers after the frame, if it was requested, after comparing the ranges with the
/// frame; `None` if there is no such object. All answers are of the same version.
fn pieces(
    place: &Located,
    ranges: &[Range<u64>],
    answers: Vec<Result<Option<GetAnswer>>>,
) -> Result<Option<Vec<Bytes>>> {
    let with_frame = answers.len() > ranges.len();
    let mut answers = answers.into_iter();
    let (whole, version) = match place.known_payload().filter(|_| !with_frame) {
        Some((whole, version)) => (whole, version.clone()),
        None => {
            let Some(frame) = answers.next().expect("the frame was asked for")? else {
                return place.check_absent().map(|()| None);
            };
            let whole = length(&payload(place, &frame)?);
            place.remember_payload(whole, &frame.version);
            (whole, frame.version)
        }
    };
    if let Some(range) = ranges.iter().find(|range| range.end > whole) {
        return Err(past_payload_error(place, whole, range.end));
    }
    let mut pieces = Vec::with_capacity(ranges.len());
    for answer in answers {
        match answer? {
            Some(got) if got.version == version => pieces.push(got.bytes),
            None if !with_frame => return place.check_absent().map(|()| None),
            _ => return Err(place.locate_error(Error::replaced())),
        }
    }
    Ok(Some(pieces))
}

/// Returns the location of the payload in a chunk that starts with `frame`.
fn payload(place: &Located, frame: &GetAnswer) -> Result<Range<u64>> {
    place.locate(VlenCell::payload_span(&frame.bytes, place.total(frame)))
}

/// Returns the span of bytes `range` of a payload that occupies the bytes `payload`.
pub(super) fn part_span(payload: &Range<u64>, range: &Range<u64>) -> Result<Range<u64>> {
    let whole = length(payload);
    if range.start > range.end || range.end > whole {
        return Err(outside_payload_error(whole, range.end));
    }
    let at = |from: u64| payload.start.checked_add(from);
    let span = at(range.start).zip(at(range.end)).map(|(start, end)| start..end);
    span.ok_or_else(|| outside_payload_error(whole, range.end))
}

/// Returns the slices `ranges` of a payload in memory.
pub(super) fn slices(key: &Key, payload: &Bytes, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
    let slice = |range: &Range<u64>| {
        let Range { start, end } = part_span(&(0..to_u64(payload.len())), range).at_key(key)?;
        Ok(payload.slice(saturating_usize(start)..saturating_usize(end))) // inside what is in memory
    };
    ranges.iter().map(slice).collect()
}

fn outside_payload_error(whole: u64, end: u64) -> Error {
    Error::new(Class::OutOfBounds, "end of a part", Expected::AtMost(whole.into()), end)
}

pub(super) fn past_payload_error(place: &Located, whole: u64, end: u64) -> Error {
    place.locate_error(outside_payload_error(whole, end))
}

pub(super) fn past_end_error(place: &Located, part: &Range<u64>) -> Error {
    // A chunk that is shorter than its frame has no payload.
    let whole = place.span.as_ref().map_or(0, |(span, _)| length(span)).saturating_sub(FRAME_BYTES);
    past_payload_error(place, whole, part.end.saturating_sub(FRAME_BYTES))
}

fn reversed_range_error(place: &Located, range: &Range<u64>) -> Error {
    let (class, least) = (Class::InvalidArgument, Expected::AtLeast(range.start.into()));
    place.locate_error(Error::new(class, "end of a part", least, range.end))
}
