//! Queries: boxes, objects and whole scans of stores that zarr-vectors wrote, on open handles.
//!
//! zarr-vectors answers one request at a time in a separate process. The limit is reading the files
//! of the cells that must be touched, each with one call into fresh memory, and nothing else.

use serde_json::json;

use crate::contest::Contender;
use crate::parts::work;
use crate::peer::{Environment, Other};
use crate::results::Results;
use crate::row::Turn;
use crate::settings::Bench;
use crate::zvf_side::Ours;

pub(crate) fn run(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
    if bench.alone {
        return Ok(()); // its stores are made by the reference
    }
    let stores = bench.stores_folder();
    if bench.own.is_none() {
        Environment::install_reference(&bench.folder)?.make_stores(&stores, bench.scale)?;
    }
    let mut ours = Ours::new(&stores);
    let reference = Other::reference(bench);
    for work in work::list_work(bench.scale) {
        if !bench.is_selected(work.name) {
            continue;
        }
        ours.warm_up(&work)?;
        let ((count, cost), files) = (ours.count_rows(&work)?, ours.list_files(&work)?);
        let mut ask = work.request();
        ask["path"] = json!(stores.join(format!("{}.zarrvectors", work.store)));
        let contenders = vec![
            Contender::zvf("zvf", || {
                Ok(Turn { cost, ..Turn::from_seconds(ours.run(&work)?).with_count(count) })
            }),
            reference.contender(ask),
            Contender::reading("reading the same files", &files),
        ];
        results.contest_ahead(bench, work.name, work.bar, contenders)?;
    }
    Ok(())
}
