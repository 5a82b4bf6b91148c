//! Growth: the same work on one, ten and a hundred times the data, and the exponent of the growth
//! in time.
//!
//! Chunks grow in number, not in size, as in a real store. A small box shrinks as the data grows,
//! so that it keeps its number of points; all other work visits everything. Whole scans and writing
//! are shown with one file per chunk, and in the shards that `zvf create` uses for such a grid by
//! default.

use std::path::Path;

use anyhow::Context as _;
use futures_executor::block_on_stream;
use serde_json::json;
use zvf_model::{Batch, Kind, ObjectId};
use zvf_query::{Columns, Mode, Query, Reader};

use crate::clock::measure_runs;
use crate::contest::Contender;
use crate::discard::discard;
use crate::parts::packed::{measure_answers, measure_queries};
use crate::parts::sample_data::{
    Points, box_query, make_boxes, make_walks, open_store, write_batch,
};
use crate::parts::shapes::{CORNERS, NODES, make_rings, make_trees};
use crate::peer::Other;
use crate::pyramid::grow::{measure_levels_beside_more_files, measure_levels_of_kinds};
use crate::results::Results;
use crate::row::{Amount, Role, Turn};
use crate::settings::Bench;
use crate::validate::measure_validation;

pub(crate) fn run(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
    let reference = Other::reference(bench);
    let mut times = 1;
    while times <= bench.largest.max(1) {
        let count = bench.scaled(1e5) * u64::from(times);
        let chunks = (f64::from(times).cbrt() * 4.0).round() as u32;
        measure_points(bench, results, &reference, Points { count, chunks, shard: None })?;
        measure_streamlines(bench, results, &reference, (count / 100).max(10), chunks)?;
        if times <= 10 {
            measure_levels_of_kinds(bench, results, count.max(1000), chunks)?;
        }
        // Made in memory at once, so only a tenth of the number.
        let nodes = make_trees((count / 10 / NODES as u64).max(10))?;
        let edges = nodes.elements().context("trees without edges")?.clone();
        let graph = Batch::new(Kind::Graph, nodes.positions().clone()).with_elements(edges)?;
        measure_shapes(bench, results, &reference, "graph", &graph, chunks)?;
        let mesh = make_rings((count / 10 / CORNERS as u64).max(4))?;
        measure_shapes(bench, results, &reference, "mesh", &mesh, chunks)?;
        times *= 10;
    }
    measure_levels_beside_more_files(bench, results)
}

/// Runs every workload on one number of points.
fn measure_points(
    bench: &Bench,
    results: &mut Results,
    reference: &Other,
    points: Points,
) -> anyhow::Result<()> {
    let count = points.count;
    let folder = bench.create_folder("grow")?;
    let store = points.make_store(&folder)?;
    let amount = Amount::measure(count, &store)?;
    let reader = open_store(&store)?;
    // A thousand points, however many there are in total.
    let small = make_boxes(1, (1000.0 / count as f64).min(1.0));
    let small_query = vec![box_query(&small[0])?];
    let all = vec![Query::all().columns(Columns::None).uncached()];
    let new = folder.join("new.zarrvectors");
    let ask = |work: &str| json!({"work": work, "path": store, "boxes": small, "level": 5});
    let in_shards = Points { shard: Some(SHARD), ..points };
    let sharded = open_store(&in_shards.make_store(&folder)?)?;
    let writers = vec![
        writing_contender("zvf", Role::Zvf, &new, || points.write_store(&new)),
        writing_contender(IN_SHARDS, Role::Variant, &new, || in_shards.write_store(&new)),
    ];
    let whole_in_shards = Contender::variant(IN_SHARDS, || measure_queries(&sharded, &all));
    let streamed = Contender::variant(IN_BATCHES, || measure_batches(&reader, &all[0]));
    let checker = Contender::zvf("zvf", || measure_validation(&store));
    let [some, whole] = [&small_query, &all].map(|queries| {
        let reader = &reader;
        Contender::zvf("zvf", move || measure_queries(reader, queries))
    });
    for (work, sides) in [
        ("make and write points", writers),
        ("a box of a thousand points", vec![some, reference.contender(ask("boxes"))]),
        ("all points", vec![whole, whole_in_shards, streamed, reference.contender(ask("scan"))]),
        ("validate points", vec![checker, reference.contender(ask("validate"))]),
    ] {
        results.contest_growing(
            bench,
            format!("{work}, of {count} points"),
            (work, amount),
            sides,
        )?;
    }
    Ok(())
}

/// Runs the query and reads its answer batch by batch, so that it needs no memory for the whole
/// answer.
fn measure_batches(reader: &Reader, query: &Query) -> anyhow::Result<Turn> {
    measure_answers(reader, || {
        let mut rows = 0;
        for batch in block_on_stream(reader.stream(query.clone())) {
            rows += std::hint::black_box(batch?).len() as u64;
        }
        Ok(rows)
    })
}

/// Runs every workload on streamlines of a hundred vertices; they are counted by vertices.
fn measure_streamlines(
    bench: &Bench,
    results: &mut Results,
    reference: &Other,
    count: u64,
    chunks: u32,
) -> anyhow::Result<()> {
    let store = bench.create_folder("grow")?.join(format!("lines-{count}-{chunks}.zarrvectors"));
    if !store.exists() {
        write_batch(&make_walks(count, 100)?, chunks, None, &store)?;
    }
    let amount = Amount::measure(count * 100, &store)?;
    let reader = open_store(&store)?;
    let query = |ids: &[u64]| {
        let ids = ids.iter().map(|id| ObjectId(*id as i64));
        vec![Query::all().of_objects(ids).columns(Columns::None).uncached()]
    };
    let ids: Vec<u64> = (0..100).map(|at| at * 7919 % count).collect();
    for (work, ids) in [("one streamline", &ids[1..2]), ("100 streamlines", &ids)] {
        let queries = query(ids);
        let sides = vec![
            Contender::zvf("zvf", || measure_queries(&reader, &queries)),
            reference.contender(json!({"work": "objects", "path": store, "ids": ids})),
        ];
        results.contest_growing(
            bench,
            format!("{work}, of {count} streamlines"),
            (work, amount),
            sides,
        )?;
    }
    Ok(())
}

/// Runs every workload on one graph or mesh; it is counted by vertices.
fn measure_shapes(
    bench: &Bench,
    results: &mut Results,
    reference: &Other,
    what: &str,
    batch: &Batch,
    chunks: u32,
) -> anyhow::Result<()> {
    let folder = bench.create_folder("grow")?;
    let count = batch.len();
    let store = folder.join(format!("{what}-{count}-{chunks}.zarrvectors"));
    if !store.exists() {
        write_batch(batch, chunks, None, &store)?;
    }
    let amount = Amount::measure(count as u64, &store)?;
    let reader = open_store(&store)?;
    let small = make_boxes(1, (1000.0 / count as f64).min(1.0));
    // zarr-vectors returns no vertices outside the box, to which links lead.
    let some = vec![box_query(&small[0])?.mode(Mode::Inside)];
    let all = vec![Query::all().columns(Columns::None).uncached()];
    let new = folder.join("new.zarrvectors");
    let ask =
        |work: &str| reference.contender(json!({"work": work, "path": store, "boxes": small}));
    let [boxed, scanned] = ["boxes", "scan"].map(ask);
    let in_shards = folder.join(format!("{what}-{count}-{chunks}-shards.zarrvectors"));
    if !in_shards.exists() {
        write_batch(batch, chunks, Some(SHARD), &in_shards)?;
    }
    let sharded = open_store(&in_shards)?;
    let scanned_in_shards = Contender::variant(IN_SHARDS, || measure_queries(&sharded, &all));
    let writers = vec![
        writing_contender("zvf", Role::Zvf, &new, || write_batch(batch, chunks, None, &new)),
        writing_contender(IN_SHARDS, Role::Variant, &new, || {
            write_batch(batch, chunks, Some(SHARD), &new)
        }),
    ];
    let reader = &reader;
    let ours = |queries| Contender::zvf("zvf", move || measure_queries(reader, queries));
    for (work, sides) in [
        (format!("write a {what}"), writers),
        (format!("a box of a {what}"), vec![ours(&some), boxed]),
        (format!("all of a {what}"), vec![ours(&all), scanned_in_shards, scanned]),
    ] {
        results.contest_growing(
            bench,
            format!("{work}, of {count} vertices"),
            (&work, amount),
            sides,
        )?;
    }
    Ok(())
}

/// Writes a new store in place of the previous one.
fn writing_contender<'a>(
    name: &str,
    role: Role,
    store: &'a Path,
    mut write: impl FnMut() -> anyhow::Result<()> + 'a,
) -> Contender<'a> {
    Contender::new(name, role, move || {
        if store.exists() {
            discard(store)?;
        }
        Ok(Turn::from_seconds(measure_runs(1, &mut write)?))
    })
}

/// The name of the contender that uses shards.
const IN_SHARDS: &str = "zvf, in shards";
const IN_BATCHES: &str = "zvf, batch by batch";
/// Chunks per shard on each axis, as `zvf create` derives it for three axes.
const SHARD: u64 = 4;
