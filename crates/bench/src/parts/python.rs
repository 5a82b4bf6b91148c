//! The Python package: the cost of a call beside the same call of the library, and zarr-vectors in
//! one process.
//!
//! ```text
//! zvf            the library, in this process
//! zvf, Python    the release wheel: words of a query, a thread, the answer, its array of positions
//! zarr-vectors   the reference, in the same process of Python
//! ```
//!
//! The figures include the cost of Python: a turn ends when the array exists. The process compares
//! addresses to check that arrays of 1 MB or more are views of the library's memory; a copy fails
//! the work. The package is required to keep these differences within bounds.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use futures_executor::block_on;
use serde_json::json;
use zvf_format::grid::ChunkShape;
use zvf_metadata::Axis;
use zvf_model::{Batch, Bounds};
use zvf_query::{Columns, Query};
use zvf_write::{Schema, WriteOptions, Writer};

use crate::contest::Contender;
use crate::discard::discard;
use crate::parts::packed::measure_queries;
use crate::parts::sample_data::{Points, SIDE, make_boxes, open_store, to_address};
use crate::peer::{Environment, NAME, Other, PACKAGE};
use crate::results::Results;
use crate::row::{Role, Turn};
use crate::settings::Bench;

const PART: &str = "python";
const PYTHON: &str = "zvf, Python";
const TWO: &str = "zvf, Python, two threads";

pub(crate) fn run(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
    let count = bench.scaled(1e6);
    let folder = std::path::absolute(bench.create_folder("from-python")?)?;
    let store = Points { count, chunks: 8, shard: None }.make_store(&folder)?;
    let peer = start_peer(bench, &folder);
    let reader = open_store(&store)?;
    let reads = [
        (format!("a small box, of {count} points"), make_boxes(1, 1e-5)),
        // Enough boxes to keep two threads busy for a while: the system moves threads that woke up
        // on the same core apart only after some milliseconds.
        (format!("512 boxes of 0.2 %, of {count} points"), make_boxes(512, 0.002)),
        (format!("all {count} positions as an array"), Vec::new()),
    ];
    for (work, asked) in reads {
        let queries = match asked.as_slice() {
            [] => vec![Query::all().columns(Columns::None)],
            boxes => boxes.iter().map(build_query).collect::<anyhow::Result<Vec<_>>>()?,
        };
        let ask = |work: &str, who: &str| json!({"work": work, "who": who, "store": store, "boxes": asked});
        let mut sides = vec![
            Contender::zvf("zvf", || measure_queries(&reader, &queries)),
            peer.contender_as(PYTHON, Role::Variant, ask("read", "zvf")),
        ];
        if asked.len() > 1 {
            sides.push(peer.contender_as(TWO, Role::Variant, ask("two threads", "zvf")));
        }
        sides.push(peer.contender_as(NAME, Role::Reference, ask("read", "reference")));
        results.contest(bench, work, sides)?;
    }
    measure_create(bench, results, &peer, &folder)
}

/// Creates points from an array in memory.
fn measure_create(
    bench: &Bench,
    results: &mut Results,
    peer: &Other,
    folder: &Path,
) -> anyhow::Result<()> {
    let count = bench.scaled(2e6);
    let work = format!("{count} points from an array");
    if !bench.is_selected(&work) {
        return Ok(());
    }
    let source = Points { count, chunks: 8, shard: None }.make_store(folder)?;
    let batch = block_on(open_store(&source)?.run(&Query::all().columns(Columns::None)))?.batch;
    let positions = folder.join(format!("positions-{count}.f32"));
    std::fs::write(&positions, batch.positions().bytes())?;
    let (ours, theirs) = (folder.join("made-ours.zarrvectors"), folder.join("made.zarrvectors"));
    let request =
        |who: &str| json!({"work": "create", "who": who, "positions": positions, "to": theirs});
    let discarded = |turn| discard(&theirs).map(|()| turn);
    results.contest(
        bench,
        work,
        vec![
            Contender::zvf("zvf", || {
                let seconds = write_store(&batch, &ours)?;
                discard(&ours)?;
                Ok(Turn::from_seconds(seconds).with_count(count))
            }),
            peer.contender_as(PYTHON, Role::Variant, request("zvf")).and_then(discarded),
            peer.contender_as(NAME, Role::Reference, request("reference")).and_then(discarded),
        ],
    )
}

/// Starts the Python process, with the wheel of this run instead of one from an earlier run.
fn start_peer(bench: &Bench, folder: &Path) -> Other {
    Other::start(bench, PYTHON, Role::Variant, || {
        let wheel = find_wheel(&bench.folder);
        let wheel = wheel.context("there is no wheel: `cargo xtask bench` builds it")?;
        let environment = Environment::install(&bench.folder, PART, &[PACKAGE, "numpy"])?;
        let mut pip = Command::new(environment.python());
        pip.args(["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps"]);
        ensure!(pip.arg(&wheel).status()?.success(), "the wheel cannot be installed");
        environment.start_script(PART, folder)
    })
}

/// Returns the path of the wheel that was built for this run.
fn find_wheel(folder: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(std::path::absolute(folder).ok()?.join("wheel")).ok()?;
    let mut found: Vec<PathBuf> = files.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.retain(|path| path.extension().is_some_and(|ending| ending == "whl"));
    found.sort();
    found.pop()
}

fn build_query([low, high]: &[[f64; 3]; 2]) -> anyhow::Result<Query> {
    Ok(Query::all().in_region(Bounds::new(low, high)?).columns(Columns::None))
}

/// Writes a store of these points and opens it again, as Python does.
fn write_store(batch: &Batch, store: &Path) -> anyhow::Result<f64> {
    let axes = Axis::spatial(3).context("three axes")?;
    let schema = Schema::new(batch.kind(), axes, ChunkShape::new(&[SIDE / 8.0; 3])?)?;
    let begun = Instant::now();
    block_on(async {
        let mut writer =
            Writer::create(to_address(store)?, schema, WriteOptions::default()).await?;
        writer.push(batch)?;
        writer.finish().await?;
        anyhow::Ok(())
    })?;
    drop(open_store(store)?);
    Ok(begun.elapsed().as_secs_f64())
}
