//! Questions: boxes, objects and whole scans of stores that the reference wrote, on handles that stay open.
//!
//! The reference answers one request at a time from a process of its own. The limit is reading the files
//! of the cells that must be touched, each with one call into fresh memory, and nothing else.

use serde_json::json;

use crate::contest::{Contender, contest_for};
use crate::limit;
use crate::ours::Ours;
use crate::page::Page;
use crate::parts::work;
use crate::peer::{Environment, Reference};
use crate::row::{Cost, Role, Turn};
use crate::settings::Bench;

pub(crate) fn run(bench: &Bench, page: &mut Page) -> anyhow::Result<()> {
    if bench.alone {
        return Ok(()); // its stores are made by the reference
    }
    let stores = bench.stores();
    if bench.own.is_none() {
        Environment::installed(&bench.folder)?.make(&stores, bench.scale)?;
    }
    let mut ours = Ours::new(&stores);
    let mut reference = Reference::for_bench(bench);
    for work in work::list_work(bench.scale) {
        if !bench.wants(work.name) {
            continue;
        }
        ours.warm(&work)?;
        let ((count, cost), files) = (ours.count(&work)?, ours.files(&work)?);
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
                Ok(Turn { cost, ..Turn::from_seconds(ours.run(&work)?).counting(count) })
            }),
            reference.contender(ask),
            Contender::new("reading the same files", Role::Limit, || {
                Ok(Turn { cost: limit, ..Turn::from_seconds(limit::read(&files)?) })
            }),
        ];
        page.row(contest_for(bench, "ask", work.name, Some(work.bar), contenders)?);
    }
    Ok(())
}
