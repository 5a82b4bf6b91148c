//! Links across chunks of 0.6 and 0.7: one blob of records that carry the chunks of their ends.
//!
//! The blob is read in pieces of whole records, so that its length does not matter.

use zvf_format::key::ChunkKey;
use zvf_format::link::FlatLinks;

use super::open::Opened;
use crate::finding::Finding;
use crate::level::LevelState;
use crate::num::to_u64;
use crate::rules::consistency::{C2, C14, C16, C17, C18, C20, C36};
use crate::run::{Run, Stop};

/// C16 to C18, and C14: every record of the blob.
pub(crate) async fn check(
    run: &mut Run,
    levels: &[LevelState],
    level: &LevelState,
    opened: &Opened,
) -> Result<(), Stop> {
    let path = format!("{}/data", opened.path);
    let data = match run.store.dense(&path).await {
        Ok(Some(data)) => data,
        Ok(None) => return Ok(()),
        Err(error) => return run.blame(&C2, &path, &error),
    };
    let (width, rank) = (opened.family.link_width(), opened.family.sid_ndim());
    let record = to_u64(width).saturating_mul(to_u64(rank).saturating_add(1)).saturating_mul(8);
    if !data.len().is_multiple_of(record) {
        let expected = format!("a multiple of {record}");
        run.add(Finding::new(&C36, &path).told("bytes of the records", expected, data.len()));
        return Ok(());
    }
    let bytes = match data.whole().await {
        Ok(bytes) => bytes,
        Err(error) => return run.blame(&C2, &path, &error),
    };
    let links = match FlatLinks::parse(&bytes, width, rank) {
        Ok(links) => links,
        Err(error) => {
            run.add(Finding::of_format(&C36, &path, &error));
            return Ok(());
        }
    };
    run.checked.links = run.checked.links.saturating_add(to_u64(links.len()));
    if let Some(said) = opened.doc.num_links.filter(|said| *said != to_u64(links.len())) {
        let right = to_u64(links.len());
        run.add(Finding::new(&C14, &opened.path).counted("num_links", right, said));
    }
    let number = i64::from(level.node.number()).saturating_add(opened.delta.0.into());
    let other = levels.iter().find(|other| i64::from(other.node.number()) == number);
    for (at, link) in (0_u64..).zip(links.records()) {
        for (end, (chunk, row)) in link.endpoints().enumerate() {
            let there = if end == 0 { Some(level) } else { other };
            let Some(there) = there.filter(|level| level.vertices.is_some()) else { continue };
            fits(run, &path, at, opened.delta.0 == 0, there, &chunk, row);
        }
    }
    attributes(run, level, opened, to_u64(links.len())).await
}

fn fits(
    run: &mut Run,
    path: &str,
    at: u64,
    within: bool,
    level: &LevelState,
    chunk: &ChunkKey,
    row: u64,
) {
    let finding = |rule| Finding::new(rule, path).in_row(at).in_cell(chunk);
    match level.chunks.find(chunk.components()) {
        None => {
            let rule = if within { &C16 } else { &C17 };
            run.add(finding(rule).told("end", "a chunk of its level", chunk));
        }
        Some(place) => {
            if let Some(rows) = level.chunks.rows(place).filter(|rows| row >= *rows) {
                let expected = format!("below {rows}, the rows of its chunk");
                run.add(finding(&C18).told("vi", expected, row));
            }
        }
    }
}

/// C20: a row of values for each record.
async fn attributes(
    run: &mut Run,
    level: &LevelState,
    opened: &Opened,
    links: u64,
) -> Result<(), Stop> {
    let group = level.path("cross_chunk_link_attributes");
    let names = match run.store.children(&group).await {
        Ok(listing) => listing.names,
        Err(error) => return run.blame(&C2, &group, &error),
    };
    for name in names {
        let path = format!("{group}/{name}/{}", opened.delta);
        let values = match run.store.dense(&path).await {
            Ok(Some(values)) => values,
            Ok(None) => continue,
            Err(error) => {
                run.blame(&C2, &path, &error)?;
                continue;
            }
        };
        if values.len() != links {
            run.add(Finding::new(&C20, &path).told("rows", links, values.len()));
        } else if let Err(error) = values.whole().await {
            run.blame(&C2, &path, &error)?;
        }
    }
    Ok(())
}
