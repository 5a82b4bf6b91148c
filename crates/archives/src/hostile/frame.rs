//! Walks a whole frame without a codec: header, metalayers, trailer, and for each stored chunk its
//! header and the spans of its blocks.

use std::hint::black_box;
use std::ops::Range;

use zvf_b2nd::{BlockTable, ChunkHeader, ChunkPlace, Container, Frame, FrameTrailer};
use zvf_format::FormatError;

/// The largest number of visited chunks: a header of a few bytes may claim any number.
const CHUNKS: u64 = 1000;

/// Opens and walks `bytes`.
pub(super) fn walk(bytes: &[u8], strict: bool) -> Result<(), FormatError> {
    let len = u64::try_from(bytes.len()).unwrap();
    let frame = Frame::open_whole(Container::File(len), bytes)?;
    let trailer = FrameTrailer::parse(slice(bytes, &frame.trailer_range()))?;
    if strict {
        frame.header().lints().into_strict()?;
        frame.metalayer().lints().into_strict()?;
        trailer.lints().into_strict()?;
    }
    for entry in frame.header().metalayers().chain(trailer.entries()) {
        black_box(entry);
    }
    let Some(head) = frame.offsets_head() else { return Ok(()) };
    let head = ChunkHeader::parse(slice(bytes, &head))?;
    frame.offsets_range(&head)?;
    for number in 0..frame.geometry().chunk_count().min(CHUNKS) {
        let Some(entry) = frame.offset_entry(&head, number) else { break };
        let Some(entry) = slice(bytes, &entry).first_chunk::<8>() else { break };
        if let ChunkPlace::Frame(at) = frame.place(*entry)? {
            let room = frame.room(at);
            chunk(&frame, slice(bytes, &(at..at.saturating_add(room))), room)?;
        }
    }
    Ok(())
}

/// Checks one chunk and the spans of its blocks.
fn chunk(frame: &Frame<'_>, bytes: &[u8], room: u64) -> Result<(), FormatError> {
    let header = ChunkHeader::parse(bytes)?;
    frame.check_chunk(&header, room)?;
    let front = usize::try_from(frame.chunk_front(room)).unwrap();
    let table = BlockTable::parse(&header, bytes.get(..front).unwrap_or(bytes))?;
    for block in 0..header.block_count().min(1000) {
        if let Some(span) = table.span(block) {
            assert!(span.start <= span.end && span.end <= room, "block {block} leaves its chunk");
        }
    }
    Ok(())
}

/// Returns the part of a range inside of `bytes`.
fn slice<'a>(bytes: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    let at = |at| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    &bytes[at(range.start)..at(range.end)]
}
