//! Coarser levels as the reference builds them.

use pyo3::prelude::*;
use tokio::runtime::Handle;
use zvf::format::Vocabulary as _;
use zvf::metadata::CrossLevelStorage;
use zvf::publish::CommitGate;
use zvf::pyramid::{LevelContent, Reference, build_reference};
use zvf::store::BuildOptions;

use crate::error::value_error;
use crate::runtime::{Job, outcome, start};

/// Builds a level for each of `factors`, of bins and of objects; the outcome of the job is how many vertices each has.
///
/// `kept` has for each level the rows of the objects that it keeps, ascending, or nothing where it keeps all; `full` levels also
/// have attributes of vertices, edges, faces and groups.
#[pyfunction]
pub(crate) fn build_levels(
    address: String,
    factors: Vec<(f64, f64)>,
    chunk_scales: Vec<u32>,
    kept: Vec<Option<Vec<usize>>>,
    depth: i64,
    storage: &str,
    full: bool,
) -> PyResult<Job> {
    let storage = CrossLevelStorage::from_word(storage).ok_or_else(|| {
        let expected = "none, implicit or explicit";
        value_error(format!("cross_level_storage: expected {expected}, found {storage:?}"))
    })?;
    let content = if full { LevelContent::Full } else { LevelContent::AsReference };
    let reference = Reference { factors, chunk_scales, kept, seed: 0, depth, storage, content };
    start(move |control| {
        control.check()?;
        let gate = CommitGate::default();
        let options = BuildOptions { gate: gate.clone(), ..BuildOptions::default() };
        control.on_stop(move || {
            // What is being published by now is published.
            let _is_in_time = gate.stop();
        });
        // Not dropped when the job is stopped: what is being published is not left half-way.
        let built = build_reference(&address, &reference, &options);
        let built = Handle::current().block_on(built)?;
        let vertices: Vec<u64> = built.iter().map(|level| level.vertices).collect();
        Ok(outcome(vertices))
    })
}
