//! Growth: the same work on one, ten and a hundred times the data, and the exponent of the growth
//! in time.
//!
//! Chunks grow in number, not in size, as in a real store. A small box shrinks as the data grows,
//! so that it keeps its number of points; all other work visits everything. Whole scans and writing
//! are shown with one file per chunk, and in the shards that `zvf create` uses for such a grid by
//! default.

use std::path::{Path, PathBuf};

use serde_json::json;
use zvf_model::Kind;
use zvf_query::Mode;

use crate::contest::Contender;
use crate::data::{
    CORNERS, LENGTH, Points, Question, make_batch_store, make_boxes, make_linked_walks, make_rings,
    make_walks, open_store, write_batch,
};
use crate::discard::discard;
use crate::limit::measure_amount;
use crate::parts::packed::measure_queries;
use crate::peer::Other;
use crate::pyramid::grow::{measure_levels_beside_more_files, measure_levels_of_kinds};
use crate::results::Results;
use crate::row::{Role, Row, Turn};
use crate::validate::measure_validation;

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let reference = Other::reference(bench);
    let mut times = 1;
    while times <= bench.largest.max(1) {
        let count = bench.scaled(1e5) * u64::from(times);
        let chunks = (f64::from(times).cbrt() * 4.0).round() as u32;
        measure_points(results, &reference, Points { count, chunks, shard: None })?;
        measure_streamlines(results, &reference, (count / 100).max(10), chunks)?;
        if times <= 10 {
            measure_levels_of_kinds(results, count.max(1000), chunks)?;
        }
        // Made in memory at once, so only a tenth of the number.
        let walks = (count / 10 / LENGTH as u64).max(10);
        let graph = make_linked_walks(Kind::Graph, walks, &[1])?;
        let mesh = make_rings((count / 10 / CORNERS as u64).max(4))?;
        for (what, batch) in [("graph", graph), ("mesh", mesh)] {
            let store = |end| format!("{what}-{}-{chunks}{end}.zarrvectors", batch.len());
            let folder = bench.create_folder("grow")?;
            let grown = Grown {
                works: ["write a", "a box of a", "all of a"].map(|work| format!("{work} {what}")),
                unit: "vertices",
                count: batch.len() as u64,
                stores: ["", "-shards"].map(|end| folder.join(store(end))),
            };
            let write = |shard, store: &Path| write_batch(&batch, chunks, shard, store);
            grown.measure(results, &reference, &write)?;
        }
        times *= 10;
    }
    measure_levels_beside_more_files(results)
}

/// Data of one size.
struct Grown {
    /// The names of writing it, of a small box, and of reading all.
    works: [String; 3],
    /// What is counted.
    unit: &'static str,
    count: u64,
    /// The stores with one file per chunk, and in shards.
    stores: [PathBuf; 2],
}

impl Grown {
    /// Runs every workload; `write` writes the data with these chunks per shard.
    fn measure(
        &self,
        results: &mut Results<'_>,
        reference: &Other<'_>,
        write: &dyn Fn(Option<u64>, &Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Self { works, unit, count, stores: [store, in_shards] } = self;
        for (store, shard) in [(store, None), (in_shards, Some(SHARD))] {
            if !store.exists() {
                write(shard, store)?;
            }
        }
        let (reader, sharded) = (open_store(store)?, open_store(in_shards)?);
        // A thousand vertices, however many there are in total. zarr-vectors returns no vertices
        // outside the box, to which links lead.
        let small = make_boxes(1, (1000.0 / *count as f64).min(1.0));
        let some = Question::boxes(&small)?.map(|query| query.mode(Mode::Inside));
        let all = Question::scan(&[]);
        let ask =
            |question: &Question| reference.contender(question.request(&json!({"path": store})));
        let new = store.with_file_name("new.zarrvectors");
        // A new store in place of the previous one.
        let writer = |name, role, shard| {
            let new = &new;
            Contender::new(name, role, move || {
                if new.exists() {
                    discard(new)?;
                }
                Ok(Turn::measure(|| write(shard, new))?.0)
            })
        };
        let reader = &reader;
        let (some_queries, all_queries) = (&some.queries, &all.queries);
        let ours = |queries| Contender::zvf("zvf", move || measure_queries(reader, queries));
        let in_shards = Contender::variant(IN_SHARDS, || measure_queries(&sharded, all_queries));
        let scans = vec![ours(all_queries), in_shards, ask(&all)];
        let writers =
            vec![writer("zvf", Role::Zvf, None), writer(IN_SHARDS, Role::Variant, Some(SHARD))];
        let amount = measure_amount(*count, store)?;
        for (work, sides) in
            works.iter().zip([writers, vec![ours(some_queries), ask(&some)], scans])
        {
            let name = format!("{work}, of {count} {unit}");
            results.contest(Row::growing(name, work, amount), sides)?;
        }
        Ok(())
    }
}

/// Runs every workload on one number of points.
fn measure_points(
    results: &mut Results<'_>,
    reference: &Other<'_>,
    points: Points,
) -> anyhow::Result<()> {
    let (folder, count) = (results.bench.create_folder("grow")?, points.count);
    let store = points.make_store(&folder)?;
    let in_shards = Points { shard: Some(SHARD), ..points }.make_store(&folder)?;
    let grown = Grown {
        works: ["make and write points", "a box of a thousand points", "all points"]
            .map(str::to_owned),
        unit: "points",
        count,
        stores: [store.clone(), in_shards],
    };
    let write = |shard, store: &Path| Points { shard, ..points }.write_store(store);
    grown.measure(results, reference, &write)?;
    let work = "validate points";
    let name = format!("{work}, of {count} points");
    let sides = vec![
        Contender::zvf("zvf", || measure_validation(&store)),
        reference.contender(json!({"work": "validate", "path": store, "level": 5})),
    ];
    results.contest(Row::growing(name, work, measure_amount(count, &store)?), sides)
}

/// Runs every workload on streamlines of a hundred vertices; they are counted by vertices.
fn measure_streamlines(
    results: &mut Results<'_>,
    reference: &Other<'_>,
    count: u64,
    chunks: u32,
) -> anyhow::Result<()> {
    let folder = results.bench.create_folder("grow")?;
    let store = folder.join(format!("lines-{count}-{chunks}.zarrvectors"));
    let store = make_batch_store(store, (chunks, None), || make_walks(count, 100))?;
    let amount = measure_amount(count * 100, &store)?;
    let reader = open_store(&store)?;
    let ids: Vec<u64> = (0..100).map(|at| at * 7919 % count).collect();
    for (work, ids) in [("one streamline", &ids[1..2]), ("100 streamlines", &ids)] {
        let question = Question::objects(ids);
        let sides = vec![
            Contender::zvf("zvf", || measure_queries(&reader, &question.queries)),
            reference.contender(question.request(&json!({"path": store}))),
        ];
        let name = format!("{work}, of {count} streamlines");
        results.contest(Row::growing(name, work, amount), sides)?;
    }
    Ok(())
}

/// The name of the contender that uses shards.
const IN_SHARDS: &str = "zvf, in shards";
/// Chunks per shard on each axis, as `zvf create` derives it for three axes.
const SHARD: u64 = 4;
