//! Links across chunks of 0.6 and 0.7, and of development versions of 0.8: blobs of records.
//!
//! ```text
//! Flat      one blob, each record with the chunks of its ends
//! Leaves    a blob for each set of chunks, each record with a number for each of them
//! ```
//!
//! Blobs are read in pieces of whole records, so their length does not matter.

use zvf_error::Result;
use zvf_format::FormatError;
use zvf_format::key::ChunkKey;
use zvf_format::link::{FlatLinks, PartitionedLinks};
use zvf_format::num::to_u64;

use super::cell::is_backward;
use super::find_uses;
use super::hash::{end, pair};
use super::open::{LooseRecords, OpenFamily};
use super::segment::Uses;
use super::total::Total;
use crate::finding::Finding;
use crate::level::LevelState;
use crate::rule::Rule;
use crate::rules::{C, G};
use crate::validation::{Validation, batches};

/// Checks C16 to C18, G6: every record of the blobs of a family.
pub(super) async fn check(
    run: &mut Validation,
    levels: &[LevelState],
    level: &LevelState,
    opened: &OpenFamily,
    total: &mut Total,
) -> Result<()> {
    let (width, rank) = (opened.family.link_width(), opened.family.sid_ndim());
    let ends = Ends {
        level,
        other: level.find_at(opened.delta.0, levels),
        within: opened.delta.0 == 0,
        // Only 0.9 specifies bridges of lines and faces.
        uses: Uses { bridges: false, faces: false, ..find_uses(level, &opened.family) },
    };
    match &opened.loose {
        LooseRecords::None => return Ok(()),
        LooseRecords::Flat(path) => {
            total.begin(run, level, path, ends.uses);
            let record = to_u64(width) * (to_u64(rank) + 1) * 8;
            let parse = |bytes: &[u8]| -> Result<Vec<Record>, FormatError> {
                let links = FlatLinks::parse(bytes, width, rank)?;
                Ok(links.records().map(|link| link.endpoints().collect()).collect())
            };
            blob(run, path, record, parse, &ends, total).await?;
        }
        LooseRecords::Leaves(leaves) => {
            let first = leaves.first().map_or(opened.path.as_str(), |leaf| &leaf.path);
            total.begin(run, level, first, ends.uses);
            let record = to_u64(width) * 9;
            for leaf in leaves {
                let chunks = &leaf.chunks;
                let slot_count = u8::try_from(chunks.len()).unwrap_or(u8::MAX); // too many: more than slots can name
                let parse = |bytes: &[u8]| -> Result<Vec<Record>, FormatError> {
                    let links = PartitionedLinks::parse(bytes, width, slot_count)?;
                    let end = |(slot, row): (u8, u64)| Some((*chunks.get(usize::from(slot))?, row));
                    Ok(links
                        .records()
                        .map(|link| link.endpoints().filter_map(end).collect())
                        .collect())
                };
                blob(run, &leaf.path, record, parse, &ends, total).await?;
            }
        }
    }
    attributes(run, level, opened, total).await
}

/// The ends of a record, in the order in which they were given.
type Record = Vec<(ChunkKey, u64)>;

/// The levels that records may lead to, and the uses of the records.
struct Ends<'a> {
    level: &'a LevelState,
    other: Option<&'a LevelState>,
    within: bool,
    uses: Uses,
}

/// Checks every record of one blob, of `record` bytes each.
async fn blob(
    run: &mut Validation,
    path: &str,
    record: u64,
    parse: impl Fn(&[u8]) -> Result<Vec<Record>, FormatError>,
    ends: &Ends<'_>,
    total: &mut Total,
) -> Result<()> {
    let Some(data) = run.dense(path).await?.flatten() else {
        total.mark_lost();
        return Ok(());
    };
    if !data.len().is_multiple_of(record) {
        total.mark_lost();
        let expected = format!("a multiple of {record}");
        run.add(C[36].at(path).expects("bytes of the records", expected, data.len()));
        return Ok(());
    }
    let piece = BATCH_BYTES.checked_div(record).unwrap_or(1).max(1) * record;
    for batch in batches(data.len(), piece) {
        let start = batch.start;
        run.step(path, start, data.len())?;
        let Some(bytes) = run.take(C[2], path, data.rows(batch).await)? else {
            total.mark_lost();
            return Ok(());
        };
        let records = match parse(&bytes) {
            Ok(records) => records,
            Err(mut error) => {
                total.mark_lost();
                error.offset = error.offset.saturating_add(start); // a byte of the blob
                run.add(Finding::from_format(C[36], path, &error));
                return Ok(());
            }
        };
        let first = start.checked_div(record).unwrap_or(0); // records have bytes
        total.count(run, to_u64(records.len()));
        for (at, link) in (first..).zip(&records) {
            check_record(run, path, at, link, ends, total);
        }
        run.checked.bytes += to_u64(bytes.len());
    }
    Ok(())
}

/// Checks one record.
fn check_record(
    run: &mut Validation,
    path: &str,
    at: u64,
    link: &[(ChunkKey, u64)],
    ends: &Ends<'_>,
    total: &mut Total,
) {
    let mut places = Vec::with_capacity(link.len());
    for (end, (chunk, row)) in link.iter().enumerate() {
        let end_level = if end == 0 { Some(ends.level) } else { ends.other };
        let end_level = end_level.filter(|level| level.vertices.is_some());
        places.push(
            end_level
                .and_then(|level| find_end_chunk(run, path, at, ends.within, level, chunk, *row)),
        );
    }
    let place = |end: usize| places.get(end).copied().flatten();
    let table = &ends.level.chunks;
    if ends.uses.child
        && let (Some(chunk), Some((key, row))) = (place(0), link.first())
    {
        total.child(table, chunk, *row);
        let parent = link.get(1).filter(|(other, _)| other == key);
        if let Some((_, parent)) =
            parent.filter(|(_, parent)| is_backward(table, chunk, *row, *parent))
        {
            let expected = format!("a row before {row}, its child in the same fragment");
            run.add(G[6].at(path).expects("parent", expected, parent).in_row(at).in_cell(key));
        }
    }
    if let Some(finer) = ends.uses.between {
        let sum = pair(link.iter().map(|(chunk, row)| end(chunk, *row)), finer);
        let source = place(0).zip(link.first());
        total.link_between(sum, source.and_then(|(chunk, (_, row))| table.row(chunk, *row)));
    }
}

/// Returns the place of the chunk of an end, if it exists and has the row.
fn find_end_chunk(
    run: &mut Validation,
    path: &str,
    at: u64,
    within: bool,
    level: &LevelState,
    chunk: &ChunkKey,
    row: u64,
) -> Option<usize> {
    let finding = |rule: &'static Rule| rule.at(path).in_row(at).in_cell(chunk);
    let Some(place) = level.chunks.find(chunk.components()) else {
        let rule = if within { C[16] } else { C[17] };
        run.add(finding(rule).expects("end", "a chunk of its level", chunk));
        return None;
    };
    if let Some(rows) = level.chunks.rows(place).filter(|rows| row >= *rows) {
        run.add(finding(C[18]).expects("vi", format!("below {rows}, the rows of its chunk"), row));
        return None;
    }
    Some(place)
}

/// Checks C20: a row of values for each record.
async fn attributes(
    run: &mut Validation,
    level: &LevelState,
    opened: &OpenFamily,
    total: &Total,
) -> Result<()> {
    let group = level.path("cross_chunk_link_attributes");
    for name in run.names(C[20], &group).await? {
        let path = format!("{group}/{name}/{}", opened.delta);
        let Some(values) = run.dense(&path).await?.flatten() else { continue };
        match total.counted_rows().filter(|links| *links != values.len()) {
            Some(links) => run.add(C[20].at(&path).expects("rows", links, values.len())),
            None => run.read_rows(&path, &values).await?,
        }
    }
    Ok(())
}

/// Approximate number of bytes that are read at once.
const BATCH_BYTES: u64 = 8 << 20;
