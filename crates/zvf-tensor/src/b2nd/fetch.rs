//! Reading a selection: chunk headers, then blocks, many chunks at once.
//!
//! ```text
//! place of each chunk -> front: header and block table -> spans of the selected blocks
//!                     -> decoded, many blocks at once -> runs copied into the result
//! ```
//!
//! Only the blocks of the selection are decoded, and block 0 of a chunk if a filter needs it.
//! Chunks are read in waves of a fixed number of decoded bytes. If blocks fill disjoint parts of
//! the result, each task copies its runs there itself; otherwise they are collected and copied at
//! the end.
//!
//! The length of the result was checked against the memory limit, and the geometry keeps every run
//! inside it.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use zvf_b2nd::{BlockPart, BlockSelection, ChunkHeader, ChunkPart, ChunkPlace, Frame};
use zvf_blosc::{Decoder, Layout, StoredParts, merge_spans};
use zvf_error::{Error, Result};
use zvf_format::num::{saturating_usize, to_u64};
use zvf_format::{Class, Expected};
use zvf_store::RangedFile;

use super::frame::{BlockArray, lock_shared};

/// Reads the items of `selection`, in C order.
pub(super) async fn selection(
    array: &BlockArray,
    selection: &BlockSelection<'_>,
    max_bytes: u64,
) -> Result<Vec<u8>> {
    let mut out = vec![0; saturating_usize(selection.bytes())];
    if out.is_empty() {
        return Ok(out);
    }
    let frame = array.frame()?;
    let mut places = array.places();
    let (mut wave, mut held) = (Vec::new(), 0_u64);
    for part in selection.chunks() {
        let place = places.get(&frame, part.number())?;
        let bytes = part.blocks_touched() * u64::from(array.geometry().block_size()); // of one chunk
        if bytes > max_bytes {
            return Err(Error::limit("bytes of blocks", max_bytes, bytes));
        }
        held += bytes;
        wave.push((part, place));
        if held >= WAVE {
            flush(array, &frame, &wave, &mut out).await?;
            wave.clear();
            held = 0;
        }
    }
    flush(array, &frame, &wave, &mut out).await?;
    Ok(out)
}

/// The source of the bytes of a chunk.
struct ChunkSource<'w, 'g> {
    part: &'w ChunkPart<'g>,
    file: Option<RangedFile>, // `None` in a frame
    start: u64,               // in its file
    room: u64,
}

impl ChunkSource<'_, '_> {
    /// Returns the position in the file of a byte of the chunk. Saturates to a position beyond the
    /// end.
    fn position(&self, at: u64) -> u64 {
        self.start.saturating_add(at)
    }
}

/// A chunk whose front was read; its blocks can be fetched.
struct Ready<'w, 'g> {
    part: &'w ChunkPart<'g>,
    layout: Layout,
    spans: Vec<(u64, Bytes)>, // relative to the start of the chunk
}

/// Reads and decodes the chunks of one wave into the result.
async fn flush(
    array: &BlockArray,
    frame: &Frame<'_>,
    wave: &[(ChunkPart<'_>, ChunkPlace)],
    out: &mut [u8],
) -> Result<()> {
    let mut sources = Vec::new();
    for (part, place) in wave {
        match *place {
            ChunkPlace::Frame(at) => {
                let start = array.position(at);
                sources.push(ChunkSource { part, file: None, start, room: frame.room(at) });
            }
            ChunkPlace::File(name) => {
                let file = array.chunk_file(&name.to_string()).await?;
                let room = file.len();
                sources.push(ChunkSource { part, file: Some(file), start: 0, room });
            }
            ChunkPlace::Nan => fill(array, part, out),
            ChunkPlace::Zeros | ChunkPlace::Unwritten => {} // the result is initialised with zeros
        }
    }
    let fronts = |source: &ChunkSource<'_, '_>| {
        let end = source.position(frame.chunk_front(source.room));
        std::iter::once(source.start..end).collect::<Vec<_>>()
    };
    let fronts = read(array, &sources, &sources.iter().map(fronts).collect::<Vec<_>>()).await?;
    let mut layouts = Vec::with_capacity(sources.len());
    let mut block_ranges = Vec::with_capacity(sources.len());
    for (source, front) in sources.iter().zip(&fronts) {
        let front = &front[0]; // one range of each chunk was read
        frame.check_chunk(&ChunkHeader::parse(front)?, source.room)?;
        let layout = Layout::parse(front)?;
        let at = |from: u64| source.position(from);
        let spans = needed_spans(array, source.part, &layout);
        block_ranges
            .push(spans.iter().map(|span| at(span.start)..at(span.end)).collect::<Vec<_>>());
        layouts.push((layout, spans));
    }
    let read = read(array, &sources, &block_ranges).await?;
    let ready: Vec<Ready<'_, '_>> = sources
        .iter()
        .zip(layouts)
        .zip(read)
        .map(|((source, (layout, spans)), bytes)| {
            let spans = spans.into_iter().map(|span| span.start).zip(bytes).collect();
            Ready { part: source.part, layout, spans }
        })
        .collect();
    decode(array, &ready, out)
}

/// Returns the spans of a chunk that its blocks occupy.
fn needed_spans(array: &BlockArray, part: &ChunkPart<'_>, layout: &Layout) -> Vec<Range<u64>> {
    let ranges = part.blocks().map(|block| decoded_range(array, block.number()));
    merge_spans(ranges.flat_map(|range| layout.spans_needed(range)).collect())
}

/// Returns the decoded bytes of a chunk that belong to block `number`.
fn decoded_range(array: &BlockArray, number: u32) -> Range<u64> {
    let size = u64::from(array.geometry().block_size());
    let start = u64::from(number) * size;
    start..start + size
}

/// Reads `ranges` of each source: one batch for all chunks of the frame.
async fn read(
    array: &BlockArray,
    sources: &[ChunkSource<'_, '_>],
    ranges: &[Vec<Range<u64>>],
) -> Result<Vec<Vec<Bytes>>> {
    let frame_ranges = |(source, ranges): (&ChunkSource<'_, '_>, &Vec<Range<u64>>)| {
        source.file.is_none().then(|| ranges.clone())
    };
    let flat: Vec<Range<u64>> =
        sources.iter().zip(ranges).filter_map(frame_ranges).flatten().collect();
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

/// A block to decode, and the destination of its runs.
struct Task<'r, 'g, 'o> {
    ready: &'r Ready<'r, 'g>,
    block: BlockPart<'g>,
    target: Target<'o>,
}

enum Target<'o> {
    /// A slice of the result that starts at this byte and has room for all runs.
    Result(u64, &'o mut [u8]),
    /// Contiguous runs, to be copied into the result.
    Gathered(Vec<u8>),
}

/// Decodes the blocks of `ready` chunks into the result.
fn decode(array: &BlockArray, ready: &[Ready<'_, '_>], out: &mut [u8]) -> Result<()> {
    let blocks =
        ready.iter().flat_map(|ready| ready.part.blocks().map(move |block| (ready, block)));
    let blocks: Vec<(&Ready<'_, '_>, BlockPart<'_>)> = blocks.collect();
    let mut tasks = Vec::with_capacity(blocks.len());
    if are_disjoint(&blocks) {
        let (mut rest, mut at) = (&mut *out, 0);
        for (ready, block) in blocks {
            let Range { start, end } = block.reach();
            let [skipped, len] = [start - at, end - start].map(saturating_usize);
            let (_, from) = rest.split_at_mut(skipped);
            let (target, after) = from.split_at_mut(len);
            tasks.push(Task { ready, block, target: Target::Result(start, target) });
            (rest, at) = (after, end);
        }
        return run_tasks(array, &mut tasks);
    }
    for (ready, block) in blocks {
        tasks.push(Task { ready, block, target: Target::Gathered(Vec::new()) });
    }
    run_tasks(array, &mut tasks)?;
    for task in &tasks {
        task.put(out);
    }
    Ok(())
}

/// Returns whether the blocks fill consecutive parts of the result.
fn are_disjoint(blocks: &[(&Ready<'_, '_>, BlockPart<'_>)]) -> bool {
    let mut end = 0;
    blocks.iter().all(|(_, block)| {
        let reach = block.reach();
        let apart = reach.start >= end;
        end = reach.end;
        apart
    })
}

/// Runs all tasks, in parallel if that is worth the threads. This thread takes part, and waits for
/// the others only at the end.
fn run_tasks(array: &BlockArray, tasks: &mut [Task<'_, '_, '_>]) -> Result<()> {
    let size = u64::from(array.geometry().block_size());
    let bytes = size * to_u64(tasks.len());
    let max_threads = if bytes < WORTH_A_THREAD { 1 } else { rayon::current_num_threads() };
    let others = max_threads.min(tasks.len()).saturating_sub(1); // none without tasks
    let (rest, outcome) = (Mutex::new(tasks.iter_mut()), Mutex::new(Ok(())));
    let work = || {
        array.with_decoder(|decoder| {
            loop {
                let next = lock_shared(&rest).next(); // the lock is released before the task runs
                let Some(task) = next else { return };
                if let Err(error) = task.run(array, decoder) {
                    *lock_shared(&rest) = [].iter_mut();
                    *lock_shared(&outcome) = Err(error);
                }
            }
        });
    };
    rayon::in_place_scope(|scope| {
        for _ in 0..others {
            scope.spawn(|_| work());
        }
        work();
    });
    outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Task<'_, '_, '_> {
    /// Decodes the block and copies its runs.
    fn run(&mut self, array: &BlockArray, decoder: &mut Decoder) -> Result<()> {
        let Self { ready, block, target } = self;
        let parts = ready.spans.iter().map(|(at, bytes)| (*at, bytes.as_ref())).collect();
        let stored = StoredParts::new(parts);
        let range = decoded_range(array, block.number());
        let opened = decoder.open_range(&ready.layout, &stored, range)?;
        let (start, target) = match target {
            Target::Result(start, target) => (Some(*start), &mut **target),
            Target::Gathered(bytes) => {
                bytes.resize(saturating_usize(block.bytes()), 0);
                (None, bytes.as_mut_slice())
            }
        };
        let mut gathered = 0;
        for run in block.runs() {
            let to = start.map_or(gathered, |start| run.to - start);
            gathered += run.len;
            let [from, to, len] = [run.from, to, run.len].map(saturating_usize);
            if !opened.copy(from, &mut target[to..to + len]) {
                return Err(Error::new(
                    Class::CountMismatch,
                    "bytes of a block",
                    Expected::AtLeast((run.from + run.len).into()),
                    opened.len(),
                ));
            }
        }
        Ok(())
    }

    /// Copies collected runs into the result.
    fn put(&self, out: &mut [u8]) {
        let Target::Gathered(bytes) = &self.target else { return };
        let mut rest = bytes.as_slice();
        for run in self.block.runs() {
            let [to, len] = [run.to, run.len].map(saturating_usize);
            let (bytes, after) = rest.split_at(len);
            out[to..to + len].copy_from_slice(bytes);
            rest = after;
        }
    }
}

/// Fills the selected items of a chunk of NaN.
fn fill(array: &BlockArray, part: &ChunkPart<'_>, out: &mut [u8]) {
    let nan: &[u8] = if array.item_size() == 4 { &F32_NAN } else { &F64_NAN };
    for block in part.blocks() {
        for run in block.runs() {
            let [to, len] = [run.to, run.len].map(saturating_usize);
            for (byte, value) in out[to..to + len].iter_mut().zip(nan.iter().cycle()) {
                *byte = *value;
            }
        }
    }
}

const F32_NAN: [u8; 4] = [0, 0, 0xc0, 0x7f];
const F64_NAN: [u8; 8] = [0, 0, 0, 0, 0, 0, 0xf8, 0x7f];
/// Total decoded length in bytes of one wave; a single chunk may exceed it.
const WAVE: u64 = 32 << 20;
/// With fewer bytes to decode, no further thread is started.
const WORTH_A_THREAD: u64 = 128 << 10;
