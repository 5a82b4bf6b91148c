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

use anyhow::Context as _;
use archives::peers::{install_python, run_command};
use futures_executor::block_on;
use serde_json::json;
use zvf_query::{Columns, Query};

use crate::contest::Contender;
use crate::data::{Points, Question, make_boxes, open_store, unbounded_schema, write_batches};
use crate::discard::discard;
use crate::parts::packed::measure_queries;
use crate::peer::{NAME, Other, PACKAGE, Peer};
use crate::results::Results;
use crate::row::{Role, Turn};
use crate::settings::Bench;

const PART: &str = "python";
const PYTHON: &str = "zvf, Python";
const TWO: &str = "zvf, Python, two threads";

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let count = bench.scaled(1e6);
    let folder = std::path::absolute(bench.create_folder("from-python")?)?;
    let store = Points { count, chunks: 8, shard: None }.make_store(&folder)?;
    let peer = start_peer(bench, &folder);
    let reader = open_store(&store)?;
    for (work, boxes) in [
        (format!("a small box, of {count} points"), make_boxes(1, 1e-5)),
        // Enough boxes to keep two threads busy for a while: the system moves threads that woke up
        // on the same core apart only after some milliseconds.
        (format!("512 boxes of 0.2 %, of {count} points"), make_boxes(512, 0.002)),
        (format!("all {count} positions as an array"), Vec::new()),
    ] {
        let all = || Query::all().columns(Columns::None);
        let mut queries = Question::boxes_of(&all(), &boxes)?.queries;
        if boxes.is_empty() {
            queries.push(all());
        }
        let side = |name, role, work: &str, who: &str| {
            let request = json!({"work": work, "who": who, "store": store, "boxes": boxes});
            peer.contender_as(name, role, request)
        };
        let mut sides = vec![
            Contender::zvf("zvf", || measure_queries(&reader, &queries)),
            side(PYTHON, Role::Variant, "read", "zvf"),
        ];
        if boxes.len() > 1 {
            sides.push(side(TWO, Role::Variant, "two threads", "zvf"));
        }
        sides.push(side(NAME, Role::Reference, "read", "reference"));
        results.contest(work, sides)?;
    }
    measure_create(results, &peer, &folder)
}

/// Creates points from an array in memory.
fn measure_create(
    results: &mut Results<'_>,
    peer: &Other<'_>,
    folder: &Path,
) -> anyhow::Result<()> {
    let count = results.bench.scaled(2e6);
    let work = format!("{count} points from an array");
    if !results.bench.is_selected(&work) {
        return Ok(());
    }
    let source = Points { count, chunks: 8, shard: None }.make_store(folder)?;
    let batch = block_on(open_store(&source)?.run(&Query::all().columns(Columns::None)))?.batch;
    let positions = folder.join(format!("positions-{count}.f32"));
    std::fs::write(&positions, batch.positions().bytes())?;
    let (ours, theirs) = (folder.join("made-ours.zarrvectors"), folder.join("made.zarrvectors"));
    let side = |name, role, who: &str| {
        let request = json!({"work": "create", "who": who, "positions": positions, "to": theirs});
        let theirs = &theirs;
        peer.contender_as(name, role, request).and_then(move |turn| discard(theirs).map(|()| turn))
    };
    let schema = unbounded_schema(batch.kind(), 8)?;
    let sides = vec![
        Contender::zvf("zvf", || {
            // Opened again, as Python does.
            let (turn, _reader) = Turn::measure(|| {
                write_batches(schema.clone(), std::iter::once(Ok(&batch)), &ours)?;
                open_store(&ours)
            })?;
            discard(&ours)?;
            Ok(turn.with_count(count))
        }),
        side(PYTHON, Role::Variant, "zvf"),
        side(NAME, Role::Reference, "reference"),
    ];
    results.contest(work, sides)
}

/// Starts the Python process, with the wheel of this run instead of one from an earlier run.
fn start_peer<'a>(bench: &'a Bench, folder: &'a Path) -> Other<'a> {
    Other::start(bench, PYTHON, Role::Variant, || {
        let wheel = find_wheel(&bench.folder);
        let wheel = wheel.context("there is no wheel: `cargo xtask bench` builds it")?;
        let python = install_python(&bench.folder.join(PART), &[PACKAGE, "numpy"])?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps"]);
        run_command(pip.arg(&wheel)).context("the wheel cannot be installed")?;
        Peer::script(&python, PART, folder)
    })
}

/// Returns the path of the wheel that was built for this run.
fn find_wheel(folder: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(std::path::absolute(folder).ok()?.join("wheel")).ok()?;
    let paths = files.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "whl")).max()
}
