//! Queries: boxes, objects and whole scans of stores that zarr-vectors wrote, on open handles:
//! documents and indexes are loaded, no cells are cached.
//!
//! zarr-vectors answers one request at a time in a separate process. The limit is reading the files
//! of the cells that must be touched, each with one call into fresh memory, and nothing else.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use archives::random::Random;
use futures_executor::block_on;
use serde_json::json;
use zvf_format::key::ChunkKey;
use zvf_model::{LevelId, LevelReader, ObjectId};
use zvf_query::{Columns, Mode, Query, Reader};

use crate::contest::Contender;
use crate::data::{Cuboid, Question, open_store, query_all, random_boxes};
use crate::parts::packed::{count_rows, list_touched_cells, measure_queries};
use crate::peer::{Other, make_reference_stores};
use crate::results::Results;
use crate::row::{Cost, Row, Turn};

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let stores = make_reference_stores(bench)?;
    let reference = Other::reference(bench);
    for work in list_work(bench.scale).into_iter().filter(|work| bench.is_selected(work.name)) {
        let store = stores.join(format!("{}.zarrvectors", work.store));
        let (reader, question) = (open_store(&store)?, work.question()?);
        let queries = &question.queries;
        count_rows(&reader, queries)?; // loads documents and indexes
        let files = work.list_files(&reader, &store)?;
        let contenders = vec![
            Contender::zvf("zvf", || match work.overlaps() {
                true => measure_uncached(&reader, queries),
                false => measure_queries(&reader, queries),
            }),
            reference.contender(question.request(&json!({"path": store}))),
            Contender::reading("reading the same files", &files),
        ];
        results.contest(Row::ahead(work.name, work.bar), contenders)?;
    }
    Ok(())
}

/// Runs queries that may reuse what earlier ones read, once: decoded cells are dropped before the
/// clock starts, and what planning needs is read again.
fn measure_uncached(reader: &Reader, queries: &[Query]) -> anyhow::Result<Turn> {
    reader.store().clear_cache();
    for query in queries {
        block_on(reader.plan(query))?;
    }
    let before = reader.store().io_stats();
    let (turn, count) = Turn::measure(|| count_rows(reader, queries))?;
    Ok(turn.with_count(count).with_cost(Cost::from_stats(&before, &reader.store().io_stats())))
}

/// One workload, which both sides run.
struct Work {
    name: &'static str,
    store: &'static str,
    ask: Ask,
    /// The required speed-up over zarr-vectors.
    bar: f64,
}

enum Ask {
    /// The vertices in each box, or whole objects.
    Boxes(Mode, Vec<Cuboid>),
    /// The vertices of objects.
    Objects(Vec<u64>),
    /// All vertices with these attributes.
    Scan(&'static [&'static str]),
}

impl Work {
    /// Returns whether its queries read the same cells.
    fn overlaps(&self) -> bool {
        matches!(&self.ask, Ask::Boxes(_, boxes) if boxes.len() > 1)
    }

    fn question(&self) -> anyhow::Result<Question> {
        match &self.ask {
            Ask::Boxes(mode, boxes) => {
                // A single query leaves nothing behind.
                let cached = Query::all().columns(Columns::None);
                let all = if self.overlaps() { cached } else { query_all() };
                Question::boxes_of(&all.mode(*mode), boxes)
            }
            Ask::Objects(ids) => Ok(Question::objects(ids)),
            Ask::Scan(names) => Ok(Question::scan(names)),
        }
    }

    /// Returns the files of the cells that the workload touches, which every reader must read.
    fn list_files(&self, reader: &Reader, store: &Path) -> anyhow::Result<Vec<PathBuf>> {
        let level = block_on(LevelReader::open(reader.store(), LevelId(0)))?;
        let mut arrays = vec!["vertices".to_owned()];
        let chunks: Vec<ChunkKey> = match &self.ask {
            Ask::Objects(ids) => {
                let index = block_on(level.objects())?.context("a store without objects")?;
                let ids: Vec<ObjectId> = ids.iter().map(|id| ObjectId(*id as i64)).collect();
                let rows: Vec<u64> = block_on(index.find(&ids))?.into_iter().flatten().collect();
                let followed = block_on(level.follow(&index, &rows))?;
                followed.chunks.iter().map(|chunk| *chunk.chunk()).collect()
            }
            Ask::Scan(names) => {
                arrays.extend(names.iter().map(|name| format!("vertex_attributes/{name}")));
                block_on(level.chunks())?.iter().collect()
            }
            Ask::Boxes(_, boxes) => return Ok(list_touched_cells(store, boxes)),
        };
        let in_array = |array: String| {
            let folder = store.join("0").join(array).join("c");
            chunks.iter().map(move |key| folder.join(key.to_string().replace('.', "/")))
        };
        Ok(arrays.into_iter().flat_map(in_array).collect())
    }
}

/// Returns all workloads, for stores of one scale.
fn list_work(scale: f64) -> Vec<Work> {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    let mut boxes = |count, share| random_boxes(&mut random, count, share);
    let (thousandth, hundredths) = (boxes(1, 0.001), boxes(200, 0.01));
    let [lines, graph] = [(); 2].map(|()| boxes(1, 0.001));
    // Around a point of the sheet: z = 50 + 25 sin(x / 7) cos(y / 9), as in the data script. It has
    // 1/1000 of the volume.
    let (x, y) = (30.0_f64, 40.0_f64);
    let point = [x, y, 50.0 + 25.0 * (x / 7.0).sin() * (y / 9.0).cos()];
    let mesh = vec![[point.map(|x| x - 5.0), point.map(|x| x + 5.0)]];
    let objects = ((10_000.0 * scale) as u64).max(10);
    let ids: Vec<u64> = (0..2_000).map(|_| random.next() % objects).collect();
    let inside = |boxes| Ask::Boxes(Mode::Inside, boxes);
    let work = |name, store, ask, bar| Work { name, store, ask, bar };
    vec![
        work("one box of 1/1000, points", "points", inside(thousandth), 50.0),
        work("200 boxes of 1 %, points", "attributes", inside(hundredths), 15.0),
        work(
            "one box of 1/1000, streamlines",
            "streamlines",
            Ask::Boxes(Mode::Cells, lines),
            150.0,
        ),
        work("one box of 1/1000, mesh", "mesh", inside(mesh), 100.0),
        work("one box of 1/1000, graph", "graph", inside(graph), 100.0),
        work("one object", "objects", Ask::Objects(ids[..1].to_vec()), 80.0),
        work("2000 objects", "objects", Ask::Objects(ids), 25.0),
        work("full scan, two attributes", "attributes", Ask::Scan(&["intensity", "label"]), 4.0),
    ]
}
