//! Growth: the same work on one, ten and a hundred times the data, and by which power of it the time
//! grows.
//!
//! Chunks grow in number, not in size, as they would in a real store. A box of a fixed size keeps the
//! number of points in it by shrinking with the data; all else looks at everything. Whole scans and writing are shown with a
//! file for each chunk, and in shards as `zvf create` writes such a grid when nobody says otherwise.

use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use futures_executor::{block_on, block_on_stream};
use serde_json::json;
use zvf_model::{Batch, Kind, ObjectId};
use zvf_query::{Columns, Mode, Query, Reader};
use zvf_validate::{Observer, Options, validate};

use crate::clock::repeated;
use crate::contest::{Contender, contest};
use crate::discard::discard;
use crate::page::Page;
use crate::parts::packed::turn;
use crate::parts::sample_data::{Points, box_query, boxes, open, walks, write, write_as};
use crate::parts::shapes::{CORNERS, NODES, rings, trees};
use crate::peer::Reference;
use crate::pyramid::grow::{levels, levels_beside_more_files};
use crate::row::{Cost, Role, Turn};
use crate::series::Amount;
use crate::settings::Bench;

pub(crate) fn run(bench: &Bench, page: &mut Page) -> anyhow::Result<()> {
    let mut reference = Reference::for_bench(bench);
    let mut times = 1;
    while times <= bench.largest.max(1) {
        let count = (1e5 * bench.scale) as u64 * u64::from(times);
        let chunks = (f64::from(times).cbrt() * 4.0).round() as u32;
        points(bench, page, &mut reference, Points { count, chunks, shard: None })?;
        streamlines(bench, page, &mut reference, (count / 100).max(10), chunks)?;
        if times <= 10 {
            levels(bench, page, count.max(1000), chunks)?;
        }
        // Made in memory at once: a tenth of that.
        let nodes = trees((count / 10 / NODES as u64).max(10))?;
        let edges = nodes.elements().context("trees without edges")?.clone();
        let graph = Batch::new(Kind::Graph, nodes.positions().clone()).with_elements(edges)?;
        shapes(bench, page, &mut reference, "graph", &graph, chunks)?;
        let mesh = rings((count / 10 / CORNERS as u64).max(4))?;
        shapes(bench, page, &mut reference, "mesh", &mesh, chunks)?;
        times *= 10;
    }
    levels_beside_more_files(bench, page)
}

/// Every work on one number of points.
fn points(
    bench: &Bench,
    page: &mut Page,
    reference: &mut Reference,
    points: Points,
) -> anyhow::Result<()> {
    let count = points.count;
    let folder = bench.below("grow")?;
    let store = points.store(&folder)?;
    let amount = Amount::measure(count, &store)?;
    let reader = open(&store)?;
    // A thousand points, however many there are.
    let small = boxes(1, (1000.0 / count as f64).min(1.0));
    let one = vec![box_query(&small[0])?];
    let all = vec![Query::all().columns(Columns::None).uncached()];
    let new = folder.join("new.zarrvectors");
    let checked = || {
        let (mut sound, mut cost) = (0, Cost::default());
        let seconds = repeated(|| {
            let store = open(&store)?.store().clone();
            let report = block_on(validate(&store, &Options::default(), &Observer::default()))?;
            (sound, cost) = (
                u64::from(report.is_clean()),
                Cost::from_stats(&Default::default(), &store.io_stats()),
            );
            Ok(())
        })?;
        Ok(Turn { cost, ..Turn::from_seconds(seconds).counting(sound) })
    };
    let zvf = |run| Contender::new("zvf", Role::Zvf, run);
    let ask = |work: &str| json!({"work": work, "path": store, "boxes": small, "level": 5});
    let in_shards = Points { shard: Some(SHARD), ..points };
    let sharded = open(&in_shards.store(&folder)?)?;
    let writers = vec![
        zvf_writing("zvf", Role::Zvf, &new, || points.write(&new)),
        zvf_writing(IN_SHARDS, Role::Variant, &new, || in_shards.write(&new)),
    ];
    let whole_in_shards = Contender::new(IN_SHARDS, Role::Variant, || turn(&sharded, &all));
    let streamed = Contender::new(IN_BATCHES, Role::Variant, || turn_of_batches(&reader, &all[0]));
    let checker = Contender::new("zvf", Role::Zvf, checked);
    let [some, whole] = [&one, &all].map(|queries| {
        let reader = &reader;
        zvf(move || turn(reader, queries))
    });
    for (work, sides) in [
        ("make and write points", writers),
        ("a box of a thousand points", vec![some, reference.contender(ask("boxes"))]),
        ("all points", vec![whole, whole_in_shards, streamed, reference.contender(ask("scan"))]),
        ("validate points", vec![checker, reference.contender(ask("validate"))]),
    ] {
        step(bench, page, work, &format!("{count} points"), amount, sides)?;
    }
    Ok(())
}

/// The question, its answer taken batch by batch: no memory for all of it.
fn turn_of_batches(reader: &Reader, query: &Query) -> anyhow::Result<Turn> {
    let before = reader.store().io_stats();
    let mut rows = 0;
    let mut first = None;
    let seconds = repeated(|| {
        rows = 0;
        for batch in block_on_stream(reader.stream(query.clone())) {
            rows += std::hint::black_box(batch?).len() as u64;
        }
        first.get_or_insert_with(|| reader.store().io_stats());
        Ok(())
    })?;
    let after = first.context("no turn")?;
    Ok(Turn { seconds, count: Some(rows), cost: Cost::from_stats(&before, &after) })
}

/// Every work on so many streamlines of a hundred vertices; they are counted by vertices.
fn streamlines(
    bench: &Bench,
    page: &mut Page,
    reference: &mut Reference,
    count: u64,
    chunks: u32,
) -> anyhow::Result<()> {
    let store = bench.below("grow")?.join(format!("lines-{count}-{chunks}.zarrvectors"));
    if !store.exists() {
        write(&walks(count, 100)?, chunks, &store)?;
    }
    let amount = Amount::measure(count * 100, &store)?;
    let reader = open(&store)?;
    let query = |ids: &[u64]| {
        let ids = ids.iter().map(|id| ObjectId(*id as i64));
        vec![Query::all().of_objects(ids).columns(Columns::None).uncached()]
    };
    let ids: Vec<u64> = (0..100).map(|at| at * 7919 % count).collect();
    for (work, ids) in [("one streamline", &ids[1..2]), ("100 streamlines", &ids)] {
        let queries = query(ids);
        let sides = vec![
            Contender::new("zvf", Role::Zvf, || turn(&reader, &queries)),
            reference.contender(json!({"work": "objects", "path": store, "ids": ids})),
        ];
        step(bench, page, work, &format!("{count} streamlines"), amount, sides)?;
    }
    Ok(())
}

/// Every work on one graph or mesh; they are counted by vertices.
fn shapes(
    bench: &Bench,
    page: &mut Page,
    reference: &mut Reference,
    what: &str,
    batch: &Batch,
    chunks: u32,
) -> anyhow::Result<()> {
    let folder = bench.below("grow")?;
    let count = batch.len();
    let store = folder.join(format!("{what}-{count}-{chunks}.zarrvectors"));
    if !store.exists() {
        write(batch, chunks, &store)?;
    }
    let amount = Amount::measure(count as u64, &store)?;
    let reader = open(&store)?;
    let small = boxes(1, (1000.0 / count as f64).min(1.0));
    // The reference gives no vertices outside, to which links lead.
    let some = vec![box_query(&small[0])?.mode(Mode::Inside)];
    let all = vec![Query::all().columns(Columns::None).uncached()];
    let new = folder.join("new.zarrvectors");
    let ask =
        |work: &str| reference.contender(json!({"work": work, "path": store, "boxes": small}));
    let [boxed, scanned] = ["boxes", "scan"].map(ask);
    let in_shards = folder.join(format!("{what}-{count}-{chunks}-shards.zarrvectors"));
    if !in_shards.exists() {
        write_as(batch, chunks, Some(SHARD), &in_shards)?;
    }
    let sharded = open(&in_shards)?;
    let scanned_in_shards = Contender::new(IN_SHARDS, Role::Variant, || turn(&sharded, &all));
    let writers = vec![
        zvf_writing("zvf", Role::Zvf, &new, || write(batch, chunks, &new)),
        zvf_writing(IN_SHARDS, Role::Variant, &new, || write_as(batch, chunks, Some(SHARD), &new)),
    ];
    let reader = &reader;
    let ours = |queries| Contender::new("zvf", Role::Zvf, move || turn(reader, queries));
    for (work, sides) in [
        (format!("write a {what}"), writers),
        (format!("a box of a {what}"), vec![ours(&some), boxed]),
        (format!("all of a {what}"), vec![ours(&all), scanned_in_shards, scanned]),
    ] {
        step(bench, page, &work, &format!("{count} vertices"), amount, sides)?;
    }
    Ok(())
}

/// Writes a new store where the one before it was.
fn zvf_writing<'a>(
    name: &str,
    role: Role,
    store: &'a Path,
    mut write: impl FnMut() -> anyhow::Result<()> + 'a,
) -> Contender<'a> {
    Contender::new(name, role, move || {
        if store.exists() {
            discard(store)?;
        }
        let start = Instant::now();
        write()?;
        Ok(Turn::from_seconds(start.elapsed().as_secs_f64()))
    })
}

/// One work on one amount of data.
fn step(
    bench: &Bench,
    page: &mut Page,
    work: &str,
    size: &str,
    amount: Amount,
    sides: Vec<Contender<'_>>,
) -> anyhow::Result<()> {
    let name = format!("{work}, of {size}");
    if bench.wants(&name) {
        let row = contest(bench, "grow", name, sides)?;
        page.grown(&row, work, amount);
        page.row(row);
    }
    Ok(())
}

/// Who reads or writes shards.
const IN_SHARDS: &str = "zvf, in shards";
const IN_BATCHES: &str = "zvf, batch by batch";
/// Chunks of a shard on each axis, as `zvf create` derives it for three axes.
const SHARD: u64 = 4;
