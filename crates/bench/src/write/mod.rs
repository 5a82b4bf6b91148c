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

use std::fs::{self, File};
use std::path::Path;

use anyhow::Context as _;
use futures_executor::block_on;
use rayon::prelude::*;
use serde_json::json;
use zvf_model::Batch;

use crate::contest::Contender;
use crate::discard::discard;
use crate::limit;
use crate::parts::sample_data::{open_store, query_all, write_batch};
use crate::peer::Other;
use crate::results::{Results, Workload};
use crate::row::Turn;

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let inputs = bench.create_folder(format!("inputs-{}", bench.scale))?;
    let reference = Other::from_reference_script(bench, "write_reference", &inputs);
    let places = bench.list_places()?;
    // The output of a stopped run: each store is written to a new path.
    let left = places.iter().flat_map(|place| OUTPUTS.map(|name| place.path.join(name)));
    left.filter(|path| path.exists()).try_for_each(|path| discard(&path))?;
    for work in data::list_work(bench.scale) {
        let name = |place: &str| format!("{}, {place}", work.name);
        if !places.iter().any(|place| bench.is_selected(&name(&place.name))) {
            continue;
        }
        let batch = work.make_input(&inputs)?;
        for place in &places {
            let [ours, theirs, model, copy, ..] = OUTPUTS.map(|name| place.path.join(name));
            let request = json!({"work": work.id, "to": theirs});
            let sides = vec![
                Contender::zvf("zvf, in shards", || write_and_count(&batch, &ours, true)),
                Contender::variant("zvf, file per cell", || write_and_count(&batch, &ours, false)),
                reference
                    .contender(request)
                    .and_then(|turn| Ok(turn.with_count(count_vertices(&theirs)?))),
                Contender::limit("creating the files of its cells", || {
                    write_same_files(&batch, &place.path)
                }),
                Contender::limit("cp -r of the same", || {
                    write_store(&batch, &model, false)?;
                    let turn = limit::measure_copy(&model, &copy)?;
                    discard(&model)?;
                    Ok(turn)
                }),
            ];
            results.contest(Workload::ahead(name(&place.name), work.bar), sides)?;
        }
    }
    Ok(())
}

/// Returns the number of vertices of a store, as read by zvf; the store is removed.
pub(crate) fn count_vertices(store: &Path) -> anyhow::Result<u64> {
    let answer = block_on(open_store(store)?.run(&query_all()))?;
    discard(store)?;
    Ok(answer.batch.len() as u64)
}

/// Writes the store with zvf and counts its vertices; the store is removed.
fn write_and_count(batch: &Batch, store: &Path, shard: bool) -> anyhow::Result<Turn> {
    Ok(write_store(batch, store, shard)?.with_count(count_vertices(store)?))
}

/// Writes the new store `store`.
fn write_store(batch: &Batch, store: &Path, shard: bool) -> anyhow::Result<Turn> {
    Ok(Turn::measure(|| write_batch(batch, 8, shard.then_some(4), store))?.0)
}

/// Creates the files of a store from memory, on all cores, syncs them once, and renames.
fn write_same_files(batch: &Batch, to: &Path) -> anyhow::Result<Turn> {
    let model = to.join("bench-model.zarrvectors");
    write_store(batch, &model, false)?;
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    for path in limit::list_files(&model)? {
        let below = path.strip_prefix(&model)?.to_owned();
        folders.push(below.parent().context("a file is in a folder")?.to_owned());
        files.push((below, fs::read(path)?));
    }
    folders.sort();
    folders.dedup();
    discard(&model)?;
    let (scratch, done) = (to.join("bench-plain.tmp"), to.join("bench-plain"));
    let (turn, ()) = Turn::measure(|| {
        for folder in &folders {
            fs::create_dir_all(scratch.join(folder))?;
        }
        files.par_iter().try_for_each(|(path, bytes)| fs::write(scratch.join(path), bytes))?;
        rustix::fs::syncfs(File::open(&scratch)?)?;
        fs::rename(&scratch, &done)?;
        Ok(File::open(to)?.sync_all()?)
    })?;
    discard(&done)?;
    Ok(turn)
}

/// The names of the written stores.
const OUTPUTS: [&str; 6] = [
    "bench-ours.zarrvectors",
    "bench-theirs.zarrvectors",
    "bench-model.zarrvectors",
    "bench-copy.zarrvectors",
    "bench-plain.tmp",
    "bench-plain",
];
