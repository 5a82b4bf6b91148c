//! Building levels from more and more data of each kind, in constant memory.
//!
//! The command builds three levels in a separate process, of a store with the stated number of
//! chunks. And it builds one level of constant size from more and more files of level 0, on disk:
//! the cost should depend on the new level only.

use zvf_model::{Batch, Kind};

use super::{measure_pyramid, on_copy};
use crate::contest::Contender;
use crate::data::{LENGTH, make_batch_store, make_linked_walks, make_sheet, make_walks};
use crate::limit::measure_amount;
use crate::results::{Needs, Results};
use crate::row::Row;

/// Builds levels of about this many vertices of each kind.
pub(crate) fn measure_levels_of_kinds(
    results: &mut Results<'_>,
    count: u64,
    chunks: u32,
) -> anyhow::Result<()> {
    for kind in [Kind::PointCloud, Kind::Streamline, Kind::Skeleton, Kind::Graph, Kind::Mesh] {
        let work = format!("three levels of a {kind}, within {LIMIT}");
        let name = format!("{work}, of {count} vertices");
        let words = ["--levels", "3", "--memory-limit", LIMIT];
        measure_store(results, [&work, &name], (kind, count, chunks), (false, &words))?;
    }
    Ok(())
}

/// Builds one level of the same vertices in more and more chunks, one file each; its chunks and
/// cells are the same each time.
pub(crate) fn measure_levels_beside_more_files(results: &mut Results<'_>) -> anyhow::Result<()> {
    let count = results.bench.scaled(1e6).max(1000);
    // Each step has about ten times the chunks of the one before.
    let chunks_on_axis: &[u32] = match results.bench.largest {
        0..10 => &[2],
        10..100 => &[8, 18],
        _ => &[8, 18, 38],
    };
    for (kind, size) in [(Kind::PointCloud, "2"), (Kind::Streamline, "0.5")] {
        for chunks in chunks_on_axis {
            let work = format!("new levels beside more files of a {kind}, on disk");
            let name = format!("{work}, of {count} vertices in {} chunks", chunks.pow(3));
            // Two chunks of the level on each axis, whatever level 0 has.
            let scale = (chunks / 2).to_string();
            let words = ["--levels", "1", "--chunk-scale", &scale, "--cell-size", size];
            measure_store(results, [&work, &name], (kind, count, *chunks), (true, &words))?;
        }
    }
    Ok(())
}

/// Builds levels of one store by the command, in memory if possible, or on disk `beside` more
/// files, which then grow.
fn measure_store(
    results: &mut Results<'_>,
    [work, name]: [&str; 2],
    (kind, count, chunks): (Kind, u64, u32),
    (beside, words): (bool, &[&str]),
) -> anyhow::Result<()> {
    let bench = results.bench;
    if !Needs::Processes.are_met(bench) || !bench.is_selected(name) {
        return Ok(());
    }
    let store = bench.create_folder("grow")?.join(format!("{kind}-{count}-{chunks}.zarrvectors"));
    let store = make_batch_store(store, (chunks, None), || make_batch(kind, count))?;
    let place = bench.first_place()?;
    let path = if beside { bench.create_folder("place")? } else { place.path.clone() };
    let mut amount = measure_amount(count, &store)?;
    if beside {
        amount.elements = amount.files.unwrap_or(count);
    }
    let build = || on_copy(&store, &path, |copy| measure_pyramid(copy, words));
    results.contest(Row::growing(name, work, amount), vec![Contender::zvf("zvf", build)])
}

/// Makes walks of a hundred vertices as streamlines, as trees without forks or as a graph; or a
/// sheet.
fn make_batch(kind: Kind, count: u64) -> anyhow::Result<Batch> {
    let walks = count / LENGTH as u64;
    match kind {
        Kind::Mesh => make_sheet((count as f64).sqrt() as usize),
        Kind::Streamline => make_walks(walks, LENGTH),
        Kind::PointCloud => make_linked_walks(kind, walks, &[]),
        _ => make_linked_walks(kind, walks, &[1]),
    }
}

/// The memory limit of the command.
const LIMIT: &str = "64MiB";
