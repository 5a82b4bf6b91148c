//! Links across chunks of 0.6 and 0.7, and of the versions on the way to 0.8: blobs of records.
//!
//! ```text
//! Flat      one blob, each record with the chunks of its ends
//! Leaves    a blob for each set of chunks, each record with a number for each of them
//! ```
//!
//! Blobs are read in pieces of whole records, so that their length does not matter.

use zvf_format::FormatError;
use zvf_format::key::ChunkKey;
use zvf_format::link::{FlatLinks, PartitionedLinks};
use zvf_format::num::to_u64;
use zvf_store::DenseArray;

use super::cell::is_backward;
use super::find_uses;
use super::hash::{end, pair};
use super::open::{LooseRecords, OpenFamily};
use super::segment::Uses;
use super::total::Total;
use crate::finding::Finding;
use crate::level::LevelState;
use crate::rules::consistency::{C2, C16, C17, C18, C20, C36};
use crate::rules::geometry::G6;
use crate::stop::Stop;
use crate::validation::Validation;

/// Checks C16 to C18, G6: every record of the blobs of a family.
pub(super) async fn check(
    run: &mut Validation,
    levels: &[LevelState],
    level: &LevelState,
    opened: &OpenFamily,
    total: &mut Total,
) -> Result<(), Stop> {
    let number = i64::from(level.node.number()) + i64::from(opened.delta.0);
    let (width, rank) = (opened.family.link_width(), opened.family.sid_ndim());
    let ends = Ends {
        level,
        other: levels.iter().find(|other| i64::from(other.node.number()) == number),
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
) -> Result<(), Stop> {
    let data: DenseArray = match run.store.nodes().dense(path).await {
        Ok(Some(data)) => data,
        Ok(None) => {
            total.mark_lost();
            return Ok(());
        }
        Err(error) => {
            total.mark_lost();
            return run.add_store_error(&C2, path, &error);
        }
    };
    if !data.len().is_multiple_of(record) {
        total.mark_lost();
        let expected = format!("a multiple of {record}");
        run.add(Finding::new(&C36, path).with_details(
            "bytes of the records",
            expected,
            data.len(),
        ));
        return Ok(());
    }
    let piece = BATCH_BYTES.checked_div(record).unwrap_or(1).max(1) * record;
    let mut start = 0_u64;
    while start < data.len() {
        run.step(path, start, data.len())?;
        let stop = start.saturating_add(piece).min(data.len()); // at most the bytes
        let bytes = match data.rows(start..stop).await {
            Ok(bytes) => bytes,
            Err(error) => {
                total.mark_lost();
                return run.add_store_error(&C2, path, &error);
            }
        };
        let records = match parse(&bytes) {
            Ok(records) => records,
            Err(mut error) => {
                total.mark_lost();
                error.offset = error.offset.saturating_add(start); // a byte of the blob
                run.add(Finding::from_format(&C36, path, &error));
                return Ok(());
            }
        };
        let first = start.checked_div(record).unwrap_or(0); // records have bytes
        total.count(run, to_u64(records.len()));
        for (at, link) in (first..).zip(&records) {
            check_record(run, path, at, link, ends, total);
        }
        run.checked.bytes += to_u64(bytes.len());
        start = stop;
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
            let finding = Finding::new(&G6, path).in_row(at).in_cell(key);
            let expected = format!("a row before {row}, its child in the same fragment");
            run.add(finding.with_details("parent", expected, parent));
        }
    }
    if let Some(finer) = ends.uses.between {
        let sum = pair(link.iter().map(|(chunk, row)| end(chunk, *row)), finer);
        let source = place(0).zip(link.first());
        total.link_between(sum, source.and_then(|(chunk, (_, row))| table.row(chunk, *row)));
    }
}

/// Returns the place of the chunk of an end, when it is there and has the row.
fn find_end_chunk(
    run: &mut Validation,
    path: &str,
    at: u64,
    within: bool,
    level: &LevelState,
    chunk: &ChunkKey,
    row: u64,
) -> Option<usize> {
    let finding = |rule| Finding::new(rule, path).in_row(at).in_cell(chunk);
    let Some(place) = level.chunks.find(chunk.components()) else {
        let rule = if within { &C16 } else { &C17 };
        run.add(finding(rule).with_details("end", "a chunk of its level", chunk));
        return None;
    };
    if let Some(rows) = level.chunks.rows(place).filter(|rows| row >= *rows) {
        run.add(finding(&C18).with_details(
            "vi",
            format!("below {rows}, the rows of its chunk"),
            row,
        ));
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
) -> Result<(), Stop> {
    let group = level.path("cross_chunk_link_attributes");
    for name in run.names(&C20, &group).await? {
        let path = format!("{group}/{name}/{}", opened.delta);
        let values = match run.store.nodes().dense(&path).await {
            Ok(Some(values)) => values,
            Ok(None) => continue,
            Err(error) => {
                run.add_store_error(&C2, &path, &error)?;
                continue;
            }
        };
        if let Some(links) = total.counted_rows().filter(|links| *links != values.len()) {
            run.add(Finding::new(&C20, &path).with_details("rows", links, values.len()));
            continue;
        }
        let mut at = 0_u64;
        while at < values.len() {
            let stop = at.saturating_add(BATCH_ROWS).min(values.len()); // at most the rows
            if let Err(error) = values.rows(at..stop).await {
                run.add_store_error(&C2, &path, &error)?;
                break;
            }
            at = stop;
        }
    }
    Ok(())
}

/// Bytes that are read at once, about.
const BATCH_BYTES: u64 = 8 << 20;
/// Rows of values that are read at once.
const BATCH_ROWS: u64 = 1 << 16;
