//! From a plan to its elements: fetching, decoding and copying.
//!
//! Chunks that are not resident in memory are processed in waves, each limited to a fixed number of
//! bytes, whatever the selection. A chunk is decoded to exactly the length in its row, which the
//! plan compared with the tile.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use zvf_error::{Error, Result};
use zvf_format::num::{saturating_usize, to_u64};
use zvf_format::{Class, Expected, FormatError, Part};
use zvf_tet::{DECODED_CAP, Row, TensorCodec, TilePlan, TouchedTile};

use super::{TetFile, copy};
use crate::codec::{Caps, Chain, Job, Step, decode_many, stream_error};

/// Returns the elements of `plan`, row-major.
pub(super) async fn selection(
    file: &TetFile,
    plan: &TilePlan<'_, '_>,
    max_bytes: u64,
) -> Result<Bytes> {
    let len = plan.selection().byte_len();
    if len > max_bytes {
        return Err(Error::limit("bytes of a selection", max_bytes, len));
    }
    let size = plan.selection().geometry().element().size();
    let whole = file.bytes().resident_bytes();
    let mut out = vec![0; saturating_usize(len)]; // at most `max_bytes`
    let (mut wave, mut held) = (Vec::new(), 0_u64);
    for touched in plan.tiles() {
        let touched = touched?;
        let row = touched.row();
        if let (Some(whole), true) = (whole, touched.is_raw()) {
            let tile = whole
                .get(saturating_usize(row.payload_offset())..saturating_usize(row.payload_end()));
            let tile = tile.ok_or_else(|| copy::missing_runs_error(row))?;
            copy::runs((tile, row), touched.runs(), size, &mut out)?;
            continue;
        }
        let bytes = if touched.is_raw() {
            0
        } else {
            row.decoded_len(DECODED_CAP.min(max_bytes.max(MIN_CHUNK_CAP_BYTES)))?
        };
        held = held.saturating_add(bytes).saturating_add(row.stored_byte_len()); // claims: more is flushed
        wave.push(touched);
        if held >= BATCH_BYTES || wave.len() >= BATCH_CHUNKS {
            flush(file, &wave, size, &mut out).await?;
            wave.clear();
            held = 0;
        }
    }
    flush(file, &wave, size, &mut out).await?;
    Ok(out.into())
}

/// Returns the content of one chunk.
pub(super) async fn chunk(file: &TetFile, row: &Row, tile: u64, max_bytes: u64) -> Result<Bytes> {
    if row.raw_byte_len() != tile {
        let (part, expected) = (Part::TetIndex, Expected::Exactly(tile.into()));
        let (class, found) = (Class::CountMismatch, row.raw_byte_len());
        return Err(FormatError::new(class, part, "raw_byte_len", 0, expected, found).into());
    }
    row.decoded_len(DECODED_CAP.min(max_bytes))?;
    let stored = file.bytes().read(row.payload_offset()..row.payload_end()).await?;
    match row.codec() {
        TensorCodec::Raw => Ok(stored),
        TensorCodec::Zstd => {
            decode_tiles(vec![(*row, stored)]).await.pop().expect("one tile was decoded")
        }
    }
}

/// Fetches, decodes and copies some chunks.
async fn flush(file: &TetFile, wave: &[TouchedTile<'_>], size: u64, out: &mut [u8]) -> Result<()> {
    let mut asks: Vec<Range<u64>> = Vec::with_capacity(wave.len());
    for touched in wave {
        match is_by_run(touched) {
            true => asks.extend(run_ranges(touched, size)),
            false => asks.push(touched.row().payload_offset()..touched.row().payload_end()),
        }
    }
    let mut fetched = file.bytes().read_many(&asks).await.into_iter();
    let mut next = || fetched.next().expect("every range has an answer");
    let mut packed = Vec::new();
    for touched in wave {
        let row = touched.row();
        if is_by_run(touched) {
            for run in touched.runs() {
                let bytes = next()?;
                let copied = copy::copy_run((&*bytes, run.src), &run, size, out);
                copied.ok_or_else(|| copy::missing_runs_error(row))?;
            }
        } else if touched.is_raw() {
            let tile = next()?;
            copy::runs((&*tile, row), touched.runs(), size, out)?;
        } else {
            packed.push((*row, next()?));
        }
    }
    let mut tiles = decode_tiles(packed).await.into_iter();
    for touched in wave.iter().filter(|touched| !touched.is_raw()) {
        let tile = tiles.next().expect("every tile has an answer")?;
        copy::runs((&*tile, touched.row()), touched.runs(), size, out)?;
    }
    Ok(())
}

/// Returns whether the runs of a tile are fetched separately: if the tile is raw and has few runs.
fn is_by_run(touched: &TouchedTile<'_>) -> bool {
    touched.is_raw() && touched.runs().nth(MAX_RUN_REQUESTS - 1).is_none()
}

/// Returns the locations of the runs of a raw tile in the file.
fn run_ranges(touched: &TouchedTile<'_>, size: u64) -> impl Iterator<Item = Range<u64>> {
    let start = touched.row().payload_offset();
    touched.runs().map(move |run| {
        let first = start.saturating_add(run.src); // no file has what lies beyond 2^64
        // A range past the tile is refused when it is cut.
        first..first.saturating_add(copy::span_bytes(&run, size))
    })
}

/// Decodes the tiles of zstd payloads, each with its row.
pub(super) async fn decode_tiles(packed: Vec<(Row, Bytes)>) -> Vec<Result<Bytes>> {
    let chain = Arc::new(Chain::new(vec![Step::Zstd]));
    let job = |(row, stored): &(Row, Bytes)| {
        let raw = row.raw_byte_len();
        Job { chain: Arc::clone(&chain), stored: stored.clone(), caps: Caps::from_chunk_len(raw) }
    };
    let decoded = decode_many(packed.iter().map(job).collect()).await;
    let checked = packed.iter().zip(decoded).map(|((row, _), decoded)| {
        let at = |error: Error| error.at_span(row.payload_offset(), row.payload_end());
        let wrong = |found: zvf_format::Found| {
            let (class, expected) = (Class::CountMismatch, row.raw_byte_len().into());
            let (what, offset) = ("zstd payload", row.payload_offset());
            at(stream_error(class, what, offset, Expected::Exactly(expected), found).into())
        };
        match decoded {
            Ok(tile) if to_u64(tile.len()) == row.raw_byte_len() => Ok(tile),
            Ok(tile) => Err(wrong(tile.len().into())),
            Err(error) if error.class() == Class::LimitExceeded => Err(wrong("more".into())),
            Err(error) => Err(at(error)),
        }
    });
    checked.collect()
}

/// Bytes that are fetched and decoded at once, except for a single larger chunk.
const BATCH_BYTES: u64 = 32 << 20;
/// Maximum number of chunks in one wave.
const BATCH_CHUNKS: usize = 4096;
/// If there are more runs, the whole tile is fetched.
const MAX_RUN_REQUESTS: usize = 64;
/// Decoded size that is allowed for a chunk, whatever the limit of the result.
const MIN_CHUNK_CAP_BYTES: u64 = 64 << 20;
