//! From a selection to its items: fronts of chunks, then blocks, many chunks at once.
//!
//! ```text
//! place of each chunk -> front: header and block table -> spans of the blocks that are needed
//!                     -> decoded, each chunk by itself -> runs copied into the result
//! ```
//!
//! Only the blocks of the selection are decoded, and block 0 of a chunk where a filter needs it. Chunks go in
//! waves of a fixed number of decoded bytes.

use std::ops::Range;

use bytes::Bytes;
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use zvf_blosc::{Decoder, Layout, Stored};
use zvf_format::caterva::{ChunkHeader, ChunkPart, ChunkPlace, Frame, Selection};
use zvf_format::{Class, Expected};
use zvf_store::RangedFile;

use super::frame::BlockArray;
use crate::error::TensorError;
use crate::num::to_usize;

/// The items of `selection`, in C order.
pub(super) async fn selection(
    array: &BlockArray,
    selection: &Selection<'_>,
    most: u64,
) -> Result<Vec<u8>, TensorError> {
    let mut out = vec![0; to_usize(selection.bytes())];
    if out.is_empty() {
        return Ok(out);
    }
    let frame = array.frame()?;
    let mut places = array.places();
    let (mut wave, mut held) = (Vec::new(), 0_u64);
    for part in selection.chunks() {
        let place = places.get(&frame, part.number())?;
        let bytes = part.blocks_touched().saturating_mul(array.geometry().block_size().into());
        if bytes > most {
            let (class, expected) = (Class::LimitExceeded, Expected::AtMost(most.into()));
            let found = zvf_format::Found::from(bytes);
            return Err(TensorError::refused(class, "bytes of blocks", expected, found));
        }
        held = held.saturating_add(bytes);
        wave.push((part, place));
        if held >= WAVE {
            flush(array, &frame, &wave, most, &mut out).await?;
            wave.clear();
            held = 0;
        }
    }
    flush(array, &frame, &wave, most, &mut out).await?;
    Ok(out)
}

/// What a chunk is read from.
struct Source<'w, 'g> {
    part: &'w ChunkPart<'g>,
    file: Option<RangedFile>, // of its own
    start: u64,               // in its file
    room: u64,
}

/// A chunk whose front was read.
struct Ready<'w, 'g> {
    part: &'w ChunkPart<'g>,
    layout: Layout,
    spans: Vec<(u64, Bytes)>, // counted from the start of the chunk
}

async fn flush(
    array: &BlockArray,
    frame: &Frame<'_>,
    wave: &[(ChunkPart<'_>, ChunkPlace)],
    most: u64,
    out: &mut [u8],
) -> Result<(), TensorError> {
    let mut sources = Vec::new();
    for (part, place) in wave {
        match *place {
            ChunkPlace::Frame(at) => {
                let start = array.start().saturating_add(at);
                sources.push(Source { part, file: None, start, room: frame.room(at) });
            }
            ChunkPlace::File(name) => {
                let file = array.chunk_file(&name.to_string()).await?;
                let room = file.len();
                sources.push(Source { part, file: Some(file), start: 0, room });
            }
            ChunkPlace::Nan => fill(array, part, out),
            ChunkPlace::Zeros | ChunkPlace::Unwritten => {} // the result begins as zeros
        }
    }
    let fronts = |source: &Source<'_, '_>| {
        let end = source.start.saturating_add(frame.chunk_front(source.room));
        std::iter::once(source.start..end).collect::<Vec<_>>()
    };
    let fronts = read(array, &sources, &sources.iter().map(fronts).collect::<Vec<_>>()).await?;
    let mut layouts = Vec::with_capacity(sources.len());
    let mut wanted = Vec::with_capacity(sources.len());
    for (source, front) in sources.iter().zip(&fronts) {
        let front = front.first().cloned().unwrap_or_default();
        frame.check_chunk(&ChunkHeader::parse(&front)?, source.room)?;
        let layout = Layout::parse(&front)?;
        let at = |from: u64| source.start.saturating_add(from);
        let spans = needed(array, source.part, &layout);
        wanted.push(spans.iter().map(|span| at(span.start)..at(span.end)).collect::<Vec<_>>());
        layouts.push((layout, spans));
    }
    let read = read(array, &sources, &wanted).await?;
    let ready: Vec<Ready<'_, '_>> = sources
        .iter()
        .zip(layouts)
        .zip(read)
        .map(|((source, (layout, spans)), bytes)| {
            let spans = spans.into_iter().map(|span| span.start).zip(bytes).collect();
            Ready { part: source.part, layout, spans }
        })
        .collect();
    for (ready, blocks) in ready.iter().zip(decode(array, &ready, most)?) {
        copy(array, ready.part, &blocks, out);
    }
    Ok(())
}

/// The spans of a chunk that its blocks take.
fn needed(array: &BlockArray, part: &ChunkPart<'_>, layout: &Layout) -> Vec<Range<u64>> {
    let mut spans: Vec<Range<u64>> = Vec::new();
    for block in part.blocks() {
        spans.extend(layout.spans_needed(decoded(array, block.number())));
    }
    spans.sort_by_key(|span| (span.start, span.end));
    spans.dedup();
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => merged.push(span),
        }
    }
    merged
}

/// The decoded bytes of a chunk that are block `number`.
fn decoded(array: &BlockArray, number: u32) -> Range<u64> {
    let size = u64::from(array.geometry().block_size());
    let start = u64::from(number).saturating_mul(size);
    start..start.saturating_add(size)
}

/// What `ranges` of each source hold: one batch for all chunks of the frame.
async fn read(
    array: &BlockArray,
    sources: &[Source<'_, '_>],
    ranges: &[Vec<Range<u64>>],
) -> Result<Vec<Vec<Bytes>>, TensorError> {
    let own = |(source, ranges): (&Source<'_, '_>, &Vec<Range<u64>>)| {
        source.file.is_none().then(|| ranges.clone())
    };
    let flat: Vec<Range<u64>> = sources.iter().zip(ranges).filter_map(own).flatten().collect();
    let mut answers = array.file().read_many(&flat).await.into_iter();
    let mut all = Vec::with_capacity(sources.len());
    for (source, ranges) in sources.iter().zip(ranges) {
        let bytes: Result<Vec<Bytes>, _> = match &source.file {
            Some(file) => file.read_many(ranges).await.into_iter().collect(),
            None => answers.by_ref().take(ranges.len()).collect(),
        };
        all.push(bytes?);
    }
    Ok(all)
}

/// The blocks of each chunk that are needed, back to back.
fn decode(
    array: &BlockArray,
    ready: &[Ready<'_, '_>],
    most: u64,
) -> Result<Vec<Vec<u8>>, TensorError> {
    let decoder = || {
        let cap = most.max(array.geometry().block_size().into());
        Decoder::new(cap).with_item_size(array.item_size())
    };
    let one = |decoder: &mut Decoder, ready: &Ready<'_, '_>| {
        let parts = ready.spans.iter().map(|(at, bytes)| (*at, bytes.as_ref())).collect();
        let stored = Stored::parts(parts);
        let size = to_usize(array.geometry().block_size().into());
        let count = to_usize(ready.part.blocks_touched());
        let mut blocks = vec![0; size.saturating_mul(count)];
        for (block, target) in ready.part.blocks().zip(blocks.chunks_exact_mut(size.max(1))) {
            decoder.decode_into(&ready.layout, &stored, decoded(array, block.number()), target)?;
        }
        Ok(blocks)
    };
    if let [only] = ready {
        return one(&mut decoder(), only).map(|blocks| vec![blocks]);
    }
    ready.into_par_iter().map_init(decoder, one).collect()
}

/// Copies what the blocks of a chunk hold of the selection.
fn copy(array: &BlockArray, part: &ChunkPart<'_>, blocks: &[u8], out: &mut [u8]) {
    let size = to_usize(array.geometry().block_size().into()).max(1);
    for (block, bytes) in part.blocks().zip(blocks.chunks_exact(size)) {
        for run in block.runs() {
            let [from, to, len] = [run.from, run.to, run.len].map(to_usize);
            let source = bytes.get(from..from.saturating_add(len));
            if let (Some(source), Some(target)) = (source, out.get_mut(to..to.saturating_add(len)))
            {
                target.copy_from_slice(source);
            }
        }
    }
}

/// Fills what a chunk of NaN holds of the selection.
fn fill(array: &BlockArray, part: &ChunkPart<'_>, out: &mut [u8]) {
    let nan: &[u8] = if array.item_size() == 4 { &F32_NAN } else { &F64_NAN };
    for block in part.blocks() {
        for run in block.runs() {
            let [to, len] = [run.to, run.len].map(to_usize);
            let target = out.get_mut(to..to.saturating_add(len)).unwrap_or_default();
            for (byte, value) in target.iter_mut().zip(nan.iter().cycle()) {
                *byte = *value;
            }
        }
    }
}

const F32_NAN: [u8; 4] = [0, 0, 0xc0, 0x7f];
const F64_NAN: [u8; 8] = [0, 0, 0, 0, 0, 0, 0xf8, 0x7f];
/// Decoded bytes of one wave, but for one chunk that needs more.
const WAVE: u64 = 32 << 20;
