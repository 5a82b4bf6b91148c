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

use std::fs::{self, File};
use std::path::Path;

use anyhow::Context as _;
use futures_executor::block_on;
use rayon::prelude::*;
use serde_json::json;
use zvf_model::{Batch, Kind};

use crate::contest::Contender;
use crate::data::{
    LENGTH, int64_bytes, make_clouds, make_linked_walks, make_points, make_sheet, make_walks,
    open_store, query_all, write_batch,
};
use crate::discard::discard;
use crate::limit;
use crate::peer::{NAME, Other, Peer, install_reference};
use crate::results::Results;
use crate::row::{Role, Row, Turn};

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let inputs = bench.create_folder(format!("inputs-{}", bench.scale))?;
    let reference = Other::start(bench, NAME, Role::Reference, || {
        Peer::script(&install_reference(&bench.folder)?, "write_reference", &inputs)
    });
    let places = bench.list_places()?;
    // The output of a stopped run: each store is written to a new path.
    let left = places.iter().flat_map(|place| OUTPUTS.map(|name| place.path.join(name)));
    left.filter(|path| path.exists()).try_for_each(|path| discard(&path))?;
    for Work { id, name, bar, make } in list_work(bench.scale) {
        let name = |place: &str| format!("{name}, {place}");
        if !places.iter().any(|place| bench.is_selected(&name(&place.name))) {
            continue;
        }
        let batch = make()?;
        write_numbers(&batch, id, &inputs)?;
        for place in &places {
            let [ours, theirs, model, copy, ..] = OUTPUTS.map(|name| place.path.join(name));
            let request = json!({"work": id, "to": theirs});
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
            results.contest(Row::ahead(name(&place.name), bar), sides)?;
        }
    }
    Ok(())
}

/// A workload.
struct Work {
    /// Its name, as in the script of zarr-vectors.
    id: &'static str,
    /// Its description.
    name: String,
    /// The required speed-up over zarr-vectors in memory; on disk it is 10.
    bar: f64,
    /// Makes the data.
    make: Box<dyn Fn() -> anyhow::Result<Batch>>,
}

/// Returns all workloads, for a scale.
fn list_work(scale: f64) -> [Work; 5] {
    let scaled = |amount: f64| ((amount * scale) as usize).max(10);
    let [points, objects, lines] = [2e6, 1e4, 2e4].map(scaled);
    let (side, walks) = ((500.0 * scale.sqrt()) as usize + 1, scaled(1e3) as u64);
    let (triangles, nodes) = (2 * (side - 1).pow(2), walks * LENGTH as u64);
    let clouds = format!("{} points in {objects} objects", objects * LENGTH);
    let streamlines = format!("{lines} streamlines of {LENGTH} vertices");
    // Nodes are linked to the next one and to the third after it.
    let make_graph = move || make_linked_walks(Kind::Graph, walks, &[1, 3]);
    let make_lines = move || make_walks(lines as u64, LENGTH);
    let work = |id, name, bar, make| Work { id, name, bar, make };
    [
        work(
            "points",
            format!("{points} points, two attributes"),
            10.0,
            Box::new(move || make_points(points)),
        ),
        work("objects", clouds, 20.0, Box::new(move || make_clouds(objects))),
        work("streamlines", streamlines, 15.0, Box::new(make_lines)),
        work("mesh", format!("{triangles} triangles"), 10.0, Box::new(move || make_sheet(side))),
        work("graph", format!("a graph of {nodes} nodes"), 10.0, Box::new(make_graph)),
    ]
}

/// Writes the numbers of a batch below `folder`, unless they are there.
fn write_numbers(batch: &Batch, id: &str, folder: &Path) -> anyhow::Result<()> {
    let done = folder.join(format!("{id}.done"));
    if done.exists() {
        return Ok(());
    }
    let write = |end: &str, bytes: &[u8]| fs::write(folder.join(id.to_owned() + end), bytes);
    write(".f32", batch.positions().bytes())?;
    for field in batch.fields() {
        write(&format!("_{}", field.name), field.column.bytes())?;
    }
    if let Some(owners) = batch.vertex_objects() {
        let ids = owners.iter().map(|id| id.map_or(-1, |id| id.0));
        write("_id.i64", &ids.flat_map(i64::to_le_bytes).collect::<Vec<u8>>())?;
    }
    if let Some(elements) = batch.elements() {
        write("_rows.i64", &int64_bytes(elements.rows()))?;
    }
    Ok(fs::write(done, "")?)
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
