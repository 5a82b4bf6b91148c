//! Questions: boxes, objects and whole scans of stores that the reference wrote, on handles that stay open.
//!
//! The reference answers one request at a time from a process of its own. The limit is reading the files
//! of the cells that must be touched, each with one call into fresh memory, and nothing else.

use crate::contest::{Contender, Cost, Role, Row, Turn, contest};
use crate::limit;
use crate::ours::Ours;
use crate::page::Page;
use crate::parts::{Bench, work};
use crate::peer::{Environment, Peer};

pub(crate) fn run(bench: &Bench, page: &mut Page) -> anyhow::Result<()> {
    if bench.alone {
        return Ok(()); // its stores are made by the reference
    }
    let stores = bench.stores();
    let environment = Environment::installed(&bench.folder)?;
    environment.make(&stores, bench.scale)?;
    let mut ours = Ours::new(&stores);
    let mut reference = Peer::start(&environment, &stores)?;
    for work in work::all(bench.scale) {
        if !bench.wants(work.name) {
            continue;
        }
        ours.warm(&work)?;
        let (count, files) = (ours.count(&work)?, ours.files(&work)?);
        let bytes = files.iter().filter_map(|file| file.metadata().ok()).map(|file| file.len());
        let limit =
            Cost { requests: Some(files.len() as u64), bytes: Some(bytes.sum()), memory: None };
        let contenders = vec![
            Contender::new("zvf", Role::Zvf, || Ok(Turn::of(ours.run(&work)?).counting(count))),
            Contender::new("zarr-vectors 0.9.2", Role::Reference, || {
                let turn = reference.run(&work)?;
                Ok(Turn { count: turn.count, ..Turn::of(turn.seconds) })
            }),
            Contender::new("reading the same files", Role::Limit, || {
                Ok(Turn { cost: limit, ..Turn::of(limit::read(&files)?) })
            }),
        ];
        let row = contest("ask", work.name, bench.turns, contenders)?;
        page.row(Row { wanted: Some(work.bar), ..row });
    }
    Ok(())
}
