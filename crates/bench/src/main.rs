//! Measures zvf beside other software for the same work, in one run.
//!
//! Peers are installed into disposable environments, data is made once, and every workload is run
//! by all contenders in turns, so that a slow moment of the machine affects all of them; the
//! results are medians. All counts must be equal, or the workload fails. The parts are listed in
//! `parts`.

mod billion;
mod contest;
mod data;
mod discard;
mod limit;
mod parts;
mod peer;
mod process;
mod pyramid;
mod results;
mod row;
#[cfg(feature = "remote")]
mod server;
mod settings;
mod tensor;
mod validate;
mod write;

use std::time::Instant;

use anyhow::ensure;
use clap::Parser as _;
use serde_json::json;

use crate::results::Results;
use crate::settings::Bench;

fn main() -> anyhow::Result<()> {
    let bench = Bench::parse();
    if bench.billion {
        return billion::run(&bench);
    }
    let unknown = bench.part.iter().find(|name| parts::ALL.iter().all(|part| part.name != **name));
    let names = || parts::ALL.iter().map(|part| part.name).collect::<Vec<_>>().join(", ");
    ensure!(unknown.is_none(), "there is no part {unknown:?}: there is {}", names());
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    let load: Option<f64> = load.and_then(|text| text.split(' ').next()?.parse().ok());
    let begun = Instant::now();
    let (mut finished, mut failed) = (Vec::new(), Vec::new());
    for part in parts::ALL.iter().filter(|part| part.needs.are_met(&bench)) {
        let mut results = Results::new(&bench, part);
        if bench.own.is_some() {
            if bench.part.last().is_some_and(|name| name == part.name) {
                let ended = (part.run)(&mut results);
                if let Some(bytes) = results.held {
                    println!("{bytes}");
                    return Ok(());
                }
                ended?;
            }
            continue;
        }
        if !bench.part.is_empty() && bench.part.iter().all(|name| name != part.name) {
            continue;
        }
        if bench.resume
            && let Some(earlier) = results::load(&bench, part.name)?
        {
            finished.push(earlier);
            continue;
        }
        eprintln!("== {}, after {:.0} s", part.title, begun.elapsed().as_secs_f64());
        let ended = (part.run)(&mut results);
        if let Err(error) = &ended {
            eprintln!("{}: {error:#}", part.name);
            failed.push(part.name);
        }
        // A filter omits rows, so the results are not saved.
        let is_whole = ended.is_ok() && bench.filter.is_none();
        finished.push(results.finish(part.name, is_whole)?);
    }
    ensure!(bench.own.is_none(), "there is no work {:?}", bench.own);
    discard::remove_discarded()?;
    let is_complete = failed.is_empty() && bench.part.is_empty() && bench.filter.is_none();
    results::write_run(&bench, &finished, is_complete, begun.elapsed(), &json!({"load": load}))?;
    ensure!(
        failed.is_empty(),
        "failed: {}; the parts that are finished are taken from the folder with --resume",
        failed.join(", ")
    );
    Ok(())
}
