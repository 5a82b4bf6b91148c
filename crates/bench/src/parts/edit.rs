//! Edits: one vertex moved in a store of ten thousand objects, and a hundred thousand random edits
//! as one commit.
//!
//! The bytes are those that the process read and wrote, journal included; the cost of one edit
//! should depend on the touched data, not on the size of the store. There is no peer for this work.

use std::path::Path;

use anyhow::Context as _;
use archives::peers::read_figure;
use archives::random::Random;
use serde_json::json;
use zvf_edit::{CommitOptions, Editor};

use crate::contest::Contender;
use crate::data::{LENGTH, make_walks, write_batch};
use crate::discard::discard;
use crate::results::Results;
use crate::row::{Cost, Turn};

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let objects = bench.scaled(1e4).max(10);
    let many = bench.scaled(1e5).max(100);
    let folder = bench.create_folder("edit")?;
    let store = folder.join(format!("walks-{objects}.zarrvectors"));
    for path in [store.clone(), store.with_extension("zarrvectors.zvf")] {
        if path.exists() {
            discard(&path)?; // a history of earlier runs
        }
    }
    write_batch(&make_walks(objects, LENGTH)?, CHUNKS, None, &store)?;
    let mut random = Random::new(1);
    let mut choose = move |below: u64| random.next() % below;
    // A vertex moves slightly.
    let mut edit = || {
        let vertices = json!({"object": choose(objects), "index": choose(LENGTH as u64)});
        let by = [choose(100) as f64 / 1000.0, 0.001, -0.001];
        json!({"op": "vertex.move", "vertices": vertices, "by": by}).to_string()
    };
    let mut lines = |count: u64| (0..count).map(|_| edit()).collect::<Vec<String>>();
    let (single, all) = (lines(64), lines(many));
    for (work, count, batch) in [
        (format!("move one of {} vertices", objects * LENGTH as u64), 1, &single),
        (format!("{many} random edits in one commit"), all.len(), &all),
    ] {
        let mut next = batch.chunks(count).cycle();
        let commit = || commit_edits(&store, next.next().context("a batch has lines")?);
        results.contest(work, vec![Contender::zvf("zvf", commit)])?;
    }
    Ok(())
}

/// Commits these lines as one transaction.
fn commit_edits(store: &Path, lines: &[String]) -> anyhow::Result<Turn> {
    let before = count_io_bytes()?;
    let (turn, ()) = Turn::measure(|| {
        let mut editor = Editor::open(store, Path::new("."), CommitOptions::default())?;
        for (number, text) in (1..).zip(lines) {
            editor.line(number, text)?;
        }
        Ok(editor.finish()?)
    })?;
    let cost = Cost { bytes: Some(count_io_bytes()? - before), ..Cost::default() };
    Ok(turn.with_count(lines.len() as u64).with_cost(cost))
}

/// Returns the number of bytes that this process has read and written.
fn count_io_bytes() -> anyhow::Result<u64> {
    let figure = |name| read_figure("self", "io", name).context("the system counts no bytes");
    Ok(figure("rchar:")? + figure("wchar:")?)
}

/// The number of chunks per axis.
const CHUNKS: u32 = 10;
