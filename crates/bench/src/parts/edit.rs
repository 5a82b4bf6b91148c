//! Edits: one vertex moved in a store of ten thousand objects, and a hundred thousand random edits
//! as one commit.
//!
//! The bytes are those that the process read and wrote, journal included; the cost of one edit
//! should depend on the touched data, not on the size of the store. There is no peer for this work.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use zvf_edit::{CommitOptions, Editor};

use crate::contest::Contender;
use crate::discard::discard;
use crate::parts::sample_data::{make_walks, write_batch};
use crate::results::Results;
use crate::row::{Cost, Turn};
use crate::settings::Bench;

pub(crate) fn run(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
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
    let moved = format!("move one of {} vertices", objects * LENGTH as u64);
    let random = format!("{many} random edits in one commit");
    let mut seed = 1_u64;
    let mut choose = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    let mut lines = |count: u64| -> Vec<Value> {
        (0..count)
            .map(|_| format_edit(choose(objects), choose(LENGTH as u64), choose(100)))
            .collect()
    };
    let (single, all) = (lines(64), lines(many));
    for (work, count, batch) in [(moved, 1, &single), (random, all.len(), &all)] {
        let mut next = batch.chunks(count).cycle();
        let next = std::cell::RefCell::new(&mut next);
        let run = || match next.borrow_mut().next() {
            Some(lines) => commit_edits(&store, lines),
            None => Ok(Turn::from_seconds(0.0)),
        };
        let zvf = Contender::zvf("zvf", run);
        results.contest(bench, work, vec![zvf])?;
    }
    Ok(())
}

/// Formats one edit: a vertex moves slightly.
fn format_edit(object: u64, index: u64, amount: u64) -> Value {
    let vertices = json!({"object": object, "index": index});
    json!({"op": "vertex.move", "vertices": vertices, "by": [amount as f64 / 1000.0, 0.001, -0.001]})
}

/// Commits these lines as one transaction.
fn commit_edits(store: &Path, lines: &[Value]) -> anyhow::Result<Turn> {
    let texts: Vec<String> = lines.iter().map(Value::to_string).collect();
    let before = count_io_bytes()?;
    let begun = Instant::now();
    let mut editor = Editor::open(store, Path::new("."), CommitOptions::default())?;
    for (number, text) in (1..).zip(&texts) {
        editor.line(number, text)?;
    }
    editor.finish()?;
    let seconds = begun.elapsed().as_secs_f64();
    let cost = Cost { bytes: Some(count_io_bytes()? - before), ..Cost::default() };
    Ok(Turn { cost, ..Turn::from_seconds(seconds).with_count(lines.len() as u64) })
}

/// Returns the number of bytes that this process has read and written.
fn count_io_bytes() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    Ok(number("rchar:") + number("wchar:"))
}

/// The number of vertices per object.
const LENGTH: usize = 100;
/// The number of chunks per axis.
const CHUNKS: u32 = 10;
