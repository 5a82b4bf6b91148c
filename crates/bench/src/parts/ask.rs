//! Questions: boxes, objects and whole scans of stores that the reference wrote, on handles that stay open.
//!
//! The reference answers one request at a time from a process of its own. The limit is reading the files
//! of the cells that must be touched, each with one call into fresh memory, and nothing else.

use serde_json::json;

use crate::contest::{Contender, run_contest_with_bar};
use crate::limit;
use crate::page::Page;
use crate::parts::work;
use crate::peer::{Environment, Reference};
use crate::row::{Cost, Role, Turn};
use crate::settings::Bench;
use crate::zvf_side::Ours;

pub(crate) fn run(bench: &Bench, page: &mut Page) -> anyhow::Result<()> {
    if bench.alone {
        return Ok(()); // its stores are made by the reference
    }
    let stores = bench.stores_folder();
    if bench.own.is_none() {
        Environment::install_reference(&bench.folder)?.make_stores(&stores, bench.scale)?;
    }
    let mut ours = Ours::new(&stores);
    let mut reference = Reference::for_bench(bench);
    for work in work::list_work(bench.scale) {
        if !bench.is_selected(work.name) {
            continue;
        }
        ours.warm_up(&work)?;
        let ((count, cost), files) = (ours.count_rows(&work)?, ours.list_files(&work)?);
        let bytes = files.iter().filter_map(|file| file.metadata().ok()).map(|file| file.len());
        let limit = Cost {
            requests: Some(files.len() as u64),
            bytes: Some(bytes.sum()),
            ..Cost::default()
        };
        let mut ask = work.request();
        ask["path"] = json!(stores.join(format!("{}.zarrvectors", work.store)));
        let contenders = vec![
            Contender::new("zvf", Role::Zvf, || {
                Ok(Turn { cost, ..Turn::from_seconds(ours.run(&work)?).with_count(count) })
            }),
            reference.contender(ask),
            Contender::new("reading the same files", Role::Limit, || {
                Ok(Turn { cost: limit, ..Turn::from_seconds(limit::measure_read(&files)?) })
            }),
        ];
        page.add_row(run_contest_with_bar(bench, "ask", work.name, Some(work.bar), contenders)?);
    }
    Ok(())
}
