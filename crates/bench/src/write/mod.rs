//! Writing: zarr-vectors, zvf, and a plain program that creates the same files, in turns.
//!
//! ```text
//! in shards        as `zvf create` derives them for such a grid
//! one file per cell    one object for each cell, as the reference writes
//! plain            the files of the latter, created from memory with the same syncs, and nothing else
//! cp -r            the latter, copied by the system's command, without syncs
//! ```
//!
//! Each side writes a new store, which is removed outside the measured time. The input is in
//! memory. The store of zarr-vectors must have as many vertices as that of zvf, as read by zvf.

pub(crate) mod data;
mod plain;

use std::path::{Path, PathBuf};
use std::time::Instant;

use futures_executor::block_on;
use serde_json::json;
use zvf_model::Batch;
use zvf_query::{Columns, Query};

use crate::contest::Contender;
use crate::discard::discard;
use crate::limit;
use crate::parts::sample_data::{open_store, write_batch};
use crate::peer::Other;
use crate::results::Results;
use crate::row::{Role, Turn};
use crate::settings::{Bench, Place};
use data::Work;

pub(crate) fn run(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
    let inputs = data::write_inputs(&bench.folder, bench.scale)?;
    let reference = Other::from_reference_script(bench, "write_reference", &inputs);
    let places = bench.list_places()?;
    for place in &places {
        remove_leftovers(&place.path)?;
    }
    for work in data::list_work(bench.scale) {
        let selected: Vec<&Place> = places
            .iter()
            .filter(|place| bench.is_selected(&format!("{}, {}", work.name, place.name)))
            .collect();
        if selected.is_empty() {
            continue;
        }
        let batch = work.read_batch(&inputs)?;
        for place in selected {
            let name = format!("{}, {}", work.name, place.name);
            let sides = make_contenders(&work, &batch, &place.path, &reference);
            results.contest_ahead(bench, name, work.bar, sides)?;
        }
    }
    Ok(())
}

/// Removes the output of a stopped run from a folder: each store is written to a new path.
fn remove_leftovers(folder: &Path) -> anyhow::Result<()> {
    for name in LEFTOVERS {
        let path = folder.join(name);
        if path.exists() {
            discard(&path)?;
        }
    }
    Ok(())
}

/// Returns all contenders that write into a folder.
fn make_contenders<'a>(
    work: &'a Work,
    batch: &'a Batch,
    to: &'a Path,
    reference: &Other,
) -> Vec<Contender<'a>> {
    let theirs = to.join("bench-theirs.zarrvectors");
    let request = json!({"work": work.id, "to": theirs});
    let model = to.join("bench-model.zarrvectors");
    let copy = to.join("bench-copy.zarrvectors");
    vec![
        Contender::zvf("zvf, in shards", || write_and_count(batch, to, true)),
        Contender::variant("zvf, file per cell", || write_and_count(batch, to, false)),
        reference
            .contender(request)
            .and_then(move |turn| Ok(turn.with_count(count_vertices(&theirs)?))),
        Contender::new("creating the files of its cells", Role::Limit, || {
            Ok(Turn::from_seconds(plain::write_same_files(batch, to)?))
        }),
        Contender::new("cp -r of the same", Role::Limit, move || {
            write_store(batch, &model, false)?;
            let seconds = limit::measure_copy(&model, &copy)?;
            discard(&model)?;
            Ok(Turn::from_seconds(seconds))
        }),
    ]
}

/// Returns the number of vertices of a store, as read by zvf; the store is removed.
pub(crate) fn count_vertices(store: &Path) -> anyhow::Result<u64> {
    let all = Query::all().columns(Columns::None).uncached();
    let answer = block_on(open_store(store)?.run(&all))?;
    discard(store)?;
    Ok(answer.batch.len() as u64)
}

/// Writes the store with zvf and counts its vertices; the store is removed.
fn write_and_count(batch: &Batch, to: &Path, shard: bool) -> anyhow::Result<Turn> {
    let store: PathBuf = to.join("bench-ours.zarrvectors");
    let seconds = write_store(batch, &store, shard)?;
    Ok(Turn::from_seconds(seconds).with_count(count_vertices(&store)?))
}

/// Writes the new store `store`.
fn write_store(batch: &Batch, store: &Path, shard: bool) -> anyhow::Result<f64> {
    let start = Instant::now();
    write_batch(batch, 8, shard.then_some(4), store)?;
    Ok(start.elapsed().as_secs_f64())
}

/// The names of the written stores.
const LEFTOVERS: [&str; 6] = [
    "bench-ours.zarrvectors",
    "bench-theirs.zarrvectors",
    "bench-model.zarrvectors",
    "bench-copy.zarrvectors",
    "bench-plain.tmp",
    "bench-plain",
];
