//! The step that writes the links of one share of the chunks.
//!
//! Not here: the cells of one chunk (`link_cells`), the location of a link (`zvf_format::link`),
//! and the locations of its ends (`join`).

use std::collections::BTreeSet;
use std::io::Read;
use std::ops::Range;

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use zvf_error::{Error, Result};
use zvf_format::num::{index_u32, to_u64, usize_from_u32};
use zvf_store::{Build, CellSink};

use super::cells::{ArrayCounts, CellsOutput};
use super::join::{JoinedLinks, record_width};
use super::link_cells::{ChunkLinks, OpenArrays, SplitLinks, Step};
use super::merged_slices::MergedSlices;
use super::sorted::{KWayMerge, number_u32, sort_key_u32};
use crate::error::task_error;

/// The record of the step.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct LinksRecord {
    /// Number of links within chunks, without implicit ones.
    pub(crate) inside: u64,
    /// Number of implicit links.
    pub(crate) implied: u64,
    /// Number of rows in cells between chunks.
    pub(crate) rows: u64,
    /// Whether the links of each fragment are contiguous.
    pub(crate) grouped: bool,
    /// The arrays between chunks that it wrote to.
    pub(crate) segments: Vec<Vec<Vec<i64>>>,
    pub(crate) parts: Vec<ArrayCounts>,
}

/// Writes the share, using the output of all `join` steps and of the `cells` step of the share.
/// Returns the arrays, which are still open.
pub(crate) fn run(
    merged: &MergedSlices,
    build: &Build,
    share: Range<usize>,
    cells: &CellsOutput,
    joined: &[&JoinedLinks],
) -> Result<(LinksRecord, Vec<CellSink>)> {
    let frame = merged.frame(build);
    let step = Step::new(merged, &frame, Some(cells))?;
    let mut source = LinkSource::open(merged, share.start, joined)?;
    let mut fragments = cells.fragments.reader()?;
    let mut arrays = OpenArrays::default();
    if step.elements {
        arrays.index = Some(step.index(&frame)?);
        arrays.add(&frame, &step, &step.zero, false)?;
    }
    let mut record = LinksRecord { grouped: true, ..LinksRecord::default() };
    let mut segments = BTreeSet::new();
    for window in merged.windows(share, merged.options.memory / 16) {
        let mut chunks = Vec::with_capacity(window.len());
        for at in window {
            let chunk = merged.order.chunks[at];
            let starts = if step.elements { starts(&mut fragments)? } else { Vec::new() };
            chunks.push(SplitLinks::new(chunk, starts, source.take(at)?));
        }
        chunks.par_iter_mut().try_for_each(|chunk_links| {
            frame.check_stop().and_then(|()| step.split_links(chunk_links))
        })?;
        for chunk_links in &chunks {
            record.inside += to_u64(chunk_links.intra.links.len());
            record.implied += chunk_links.implied;
            if !chunk_links.intra.links.is_empty() {
                arrays.add(&frame, &step, &step.zero, true)?;
            }
            for (offsets, rows) in &chunk_links.cross {
                record.rows += to_u64(rows.len());
                arrays.add(&frame, &step, offsets, true)?;
                segments.insert(offsets.iter().map(<[i64]>::to_vec).collect::<Vec<_>>());
            }
        }
        let by_number: FxHashMap<u32, &SplitLinks<'_>> =
            chunks.iter().map(|chunk_links| (chunk_links.chunk, chunk_links)).collect();
        let numbers: Vec<u32> = chunks.iter().map(|chunk_links| chunk_links.chunk).collect();
        let grouped = frame.par_write_chunks(&numbers, &arrays.sinks(), |chunk| {
            step.put(&frame, &arrays, by_number[&chunk])
        })?;
        record.grouped &= grouped.into_iter().all(|grouped| grouped);
    }
    record.segments = segments.into_iter().collect();
    Ok((record, arrays.into_sinks()))
}

/// The links of consecutive chunks, in writing order.
enum LinkSource<'a> {
    Held(&'a [(u32, u32)]),
    Records(KWayMerge),
}

impl<'a> LinkSource<'a> {
    /// Opens the links, starting at the chunk at position `start`.
    fn open(merged: &MergedSlices, start: usize, joined: &[&'a JoinedLinks]) -> Result<Self> {
        if let [JoinedLinks::Held(found)] = joined {
            return Ok(Self::Held(found));
        }
        let sorted = joined.iter().filter_map(|joined| match joined {
            JoinedLinks::Held(_) => None,
            JoinedLinks::Sorted(stored) => Some(stored),
        });
        let lowest = sort_key_u32(index_u32(start));
        let (width, stop) = (record_width(merged), merged.options.stop_flag());
        Ok(Self::Records(KWayMerge::from(sorted, width, &lowest, &stop)?))
    }

    /// Returns the links of the chunk at this position.
    fn take(&mut self, at: usize) -> Result<ChunkLinks<'a>> {
        match self {
            Self::Held(left) => {
                let count = left.partition_point(|(place, _)| usize_from_u32(*place) <= at);
                let (chunk_links, rest) = left.split_at(count);
                *left = rest;
                Ok(ChunkLinks::Held(chunk_links))
            }
            Self::Records(merge) => {
                let mut records = Vec::new();
                while let Some(link) =
                    merge.head().filter(|link| usize_from_u32(number_u32(link, 0)) <= at)
                {
                    records.extend_from_slice(link);
                    merge.advance()?;
                }
                Ok(ChunkLinks::Records(records))
            }
        }
    }
}

/// Reads the first rows of the fragments of the next chunk; that of the first fragment is 0.
fn starts(file: &mut impl Read) -> Result<Vec<u32>> {
    let mut word = [0; 4];
    let mut next = |file: &mut dyn Read| {
        file.read_exact(&mut word).map_err(Error::scratch)?;
        Ok::<_, Error>(u32::from_le_bytes(word))
    };
    let count = next(file)?;
    let starts = (0..count).map(|_| next(file)).collect::<Result<Vec<u32>>>()?;
    if starts.first() == Some(&0) {
        return Ok(starts);
    }
    Err(task_error(
        "fragments of a chunk",
        "the first from row 0 on",
        starts.first().map_or_else(|| "none".to_owned(), ToString::to_string),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_that_do_not_begin_at_row_0_are_refused() {
        let read = |words: &[u32]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            starts(&mut bytes.as_slice()).map_err(|error| error.sentence())
        };
        assert_eq!(read(&[2, 0, 7]).unwrap(), [0, 7]);
        for (words, found) in [(&[1, 5][..], "5"), (&[0][..], "none")] {
            let expected = "fragments of a chunk: expected the first from row 0 on";
            assert_eq!(read(words).unwrap_err(), format!("{expected}, found {found}"));
        }
    }
}
