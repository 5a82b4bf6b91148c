//! Building levels from more and more data of each kind, in constant memory.
//!
//! The command builds three levels in a separate process, of a store with the stated number of
//! chunks. And it builds one level of constant size from more and more files of level 0, on disk:
//! the cost should depend on the new level only.

use anyhow::Context as _;
use zvf_metadata::Dtype;
use zvf_model::{Batch, Column, Elements, Kind};

use super::measure_levels;
use crate::contest::Contender;
use crate::parts::sample_data::{make_walks, write_batch};
use crate::results::Results;
use crate::row::Amount;
use crate::settings::Bench;
use crate::write::data::make_sheet;

/// Builds levels of about this many vertices of each kind.
pub(crate) fn measure_levels_of_kinds(
    bench: &Bench,
    results: &mut Results,
    count: u64,
    chunks: u32,
) -> anyhow::Result<()> {
    for kind in [Kind::PointCloud, Kind::Streamline, Kind::Skeleton, Kind::Graph, Kind::Mesh] {
        let work = format!("three levels of a {kind}, within {LIMIT}");
        let name = format!("{work}, of {count} vertices");
        let words = ["--levels", "3", "--memory-limit", LIMIT];
        measure_store(bench, results, [&work, &name], (kind, count, chunks), (false, &words))?;
    }
    Ok(())
}

/// Builds one level of the same vertices in more and more chunks, one file each; its chunks and
/// cells are the same each time.
pub(crate) fn measure_levels_beside_more_files(
    bench: &Bench,
    results: &mut Results,
) -> anyhow::Result<()> {
    let count = bench.scaled(1e6).max(1000);
    for (kind, size) in [(Kind::PointCloud, "2"), (Kind::Streamline, "0.5")] {
        for chunks in chunks_on_axis(bench.largest) {
            let work = format!("new levels beside more files of a {kind}, on disk");
            let name = format!("{work}, of {count} vertices in {} chunks", chunks.pow(3));
            // Two chunks of the level on each axis, whatever level 0 has.
            let scale = (chunks / 2).to_string();
            let words = ["--levels", "1", "--chunk-scale", &scale, "--cell-size", size];
            let data = (kind, count, *chunks);
            measure_store(bench, results, [&work, &name], data, (true, &words))?;
        }
    }
    Ok(())
}

/// Builds levels of one store by the command, in memory if possible, or on disk `beside` more
/// files, which then grow.
fn measure_store(
    bench: &Bench,
    results: &mut Results,
    [work, name]: [&str; 2],
    (kind, count, chunks): (Kind, u64, u32),
    (beside, words): (bool, &[&str]),
) -> anyhow::Result<()> {
    if bench.alone || bench.own.is_some() || !bench.is_selected(name) {
        return Ok(()); // it needs the command, which has a process of its own
    }
    let store = bench.create_folder("grow")?.join(format!("{kind}-{count}-{chunks}.zarrvectors"));
    if !store.exists() {
        write_batch(&make_batch(kind, count)?, chunks, None, &store)?;
    }
    let place = bench.list_places()?.into_iter().next().context("nowhere to write")?;
    let path = if beside { bench.create_folder("place")? } else { place.path.clone() };
    let mut amount = Amount::measure(count, &store)?;
    if let Some(files) = amount.files.filter(|_| beside) {
        amount.elements = files;
    }
    let zvf = Contender::zvf("zvf", || measure_levels(&store, &path, words));
    results.contest_growing(bench, name, (work, amount), vec![zvf])
}

/// Returns the numbers of chunks per axis; each step has about ten times the chunks of the previous
/// one.
fn chunks_on_axis(largest: u32) -> &'static [u32] {
    match largest {
        0..10 => &[2],
        10..100 => &[8, 18],
        _ => &[8, 18, 38],
    }
}

/// Makes walks of a hundred vertices as streamlines, as trees without forks or as a graph; or a
/// sheet.
fn make_batch(kind: Kind, count: u64) -> anyhow::Result<Batch> {
    let lines = make_walks(count / 100, 100)?;
    Ok(match kind {
        Kind::Streamline => lines,
        Kind::PointCloud => Batch::new(kind, lines.positions().clone()),
        Kind::Mesh => {
            let (corners, faces) = make_sheet((count as f64).sqrt() as usize);
            let faces = faces.as_chunks::<8>().0.iter();
            let rows = faces.map(|row| i64::from_le_bytes(*row) as usize).collect();
            let corners = Column::new(Dtype::FLOAT32, 3, corners.into())?;
            Batch::new(kind, corners).with_elements(Elements::new(3, rows)?)?
        }
        _ => {
            let rows = (1..lines.len()).filter(|at| at % 100 > 0).flat_map(|at| [at, at - 1]);
            let edges = Elements::new(2, rows.collect())?;
            Batch::new(kind, lines.positions().clone()).with_elements(edges)?
        }
    })
}

/// The memory limit of the command.
const LIMIT: &str = "64MiB";
