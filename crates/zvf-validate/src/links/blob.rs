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

use super::cell::LinkReport;
use super::find_uses;
use super::open::{LooseRecords, OpenFamily};
use super::segment::Uses;
use super::total::Total;
use crate::chunks::{hash, row_id};
use crate::finding::Finding;
use crate::findings::Findings;
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
    let whole = match &opened.loose {
        LooseRecords::None => return Ok(()),
        LooseRecords::Flat(path) => {
            total.begin(run, level, path, ends.uses);
            let record = to_u64(width) * (to_u64(rank) + 1) * 8;
            let parse = |bytes: &[u8]| -> Result<Vec<Record>, FormatError> {
                let links = FlatLinks::parse(bytes, width, rank)?;
                Ok(links.records().map(|link| link.endpoints().collect()).collect())
            };
            blob(run, path, record, parse, &ends, total).await?
        }
        LooseRecords::Leaves(leaves) => {
            let first = leaves.first().map_or(opened.path.as_str(), |leaf| &leaf.path);
            total.begin(run, level, first, ends.uses);
            let (record, mut whole) = (to_u64(width) * 9, true);
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
                whole &= blob(run, &leaf.path, record, parse, &ends, total).await?;
            }
            whole
        }
    };
    if !whole {
        total.mark_lost();
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

/// Checks every record of one blob, of `record` bytes each; returns false if some could not be
/// read.
async fn blob(
    run: &mut Validation,
    path: &str,
    record: u64,
    parse: impl Fn(&[u8]) -> Result<Vec<Record>, FormatError>,
    ends: &Ends<'_>,
    total: &mut Total,
) -> Result<bool> {
    let Some(data) = run.dense(path).await?.flatten() else { return Ok(false) };
    if !data.len().is_multiple_of(record) {
        let expected = format!("a multiple of {record}");
        run.add(C[36].at(path).expects("bytes of the records", expected, data.len()));
        return Ok(false);
    }
    let piece = BATCH_BYTES.checked_div(record).unwrap_or(1).max(1) * record;
    for batch in batches(data.len(), piece) {
        let start = batch.start;
        run.step(path, start, data.len())?;
        let Some(bytes) = run.take(C[2], path, data.rows(batch).await)? else { return Ok(false) };
        let records = match parse(&bytes) {
            Ok(records) => records,
            Err(mut error) => {
                error.offset = error.offset.saturating_add(start); // a byte of the blob
                run.add(Finding::from_format(C[36], path, &error));
                return Ok(false);
            }
        };
        let mut report = LinkReport {
            found: run.found.new_empty(),
            rows: Some(to_u64(records.len())),
            two_widths: Some(to_u64(records.len())),
            bytes: to_u64(bytes.len()),
            copies: (1, 0),
            ..LinkReport::default()
        };
        let first = start.checked_div(record).unwrap_or(0); // records have bytes
        for (at, link) in (first..).zip(&records) {
            check_record(&mut report, path, at, link, ends);
        }
        total.take(run, report, true);
    }
    Ok(true)
}

/// Checks one record.
fn check_record(
    report: &mut LinkReport,
    path: &str,
    at: u64,
    link: &[(ChunkKey, u64)],
    ends: &Ends<'_>,
) {
    let mut places = Vec::with_capacity(link.len());
    for (end, (chunk, row)) in link.iter().enumerate() {
        let end_level = if end == 0 { Some(ends.level) } else { ends.other };
        let end_level = end_level.filter(|level| level.vertices.is_some());
        places.push(end_level.and_then(|level| {
            find_end_chunk(&mut report.found, path, at, ends.within, level, chunk, *row)
        }));
    }
    let table = &*ends.level.chunks;
    let first = places.first().copied().flatten().zip(link.first());
    if ends.uses.child
        && let Some((chunk, (key, row))) = first
    {
        let parent = link.get(1).filter(|(other, _)| other == key).map(|(_, row)| *row);
        if let Some(parent) = report.add_child((table, chunk), *row, parent) {
            let expected = format!("a row before {row}, its child in the same fragment");
            let finding = G[6].at(path).expects("parent", expected, parent);
            report.found.add(finding.in_row(at).in_cell(key));
        }
    }
    if let Some(finer) = ends.uses.between {
        let source = first.and_then(|(chunk, (_, row))| table.row(chunk, *row));
        let all = link.iter().map(|(chunk, row)| row_id(hash(chunk.components()), *row));
        report.add_between(source, all, finer);
    }
}

/// Returns the place of the chunk of an end, if it exists and has the row.
fn find_end_chunk(
    found: &mut Findings,
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
        found.add(finding(rule).expects("end", "a chunk of its level", chunk));
        return None;
    };
    if let Some(rows) = level.chunks.rows(place).filter(|rows| row >= *rows) {
        found.add(finding(C[18]).expects(
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
