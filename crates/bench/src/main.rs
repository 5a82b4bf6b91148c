//! Measures zvf against what else does the same work, side by side in one run.
//!
//! Peers are installed into throw-away environments, data is made once, and every piece of work is done
//! by all of them in turns, so that a slow moment of the machine meets each; what is kept are medians. All
//! must count the same, or the work fails. The parts are in `parts`, one file each; writing and validating
//! have commands of their own.

mod clock;
mod contest;
mod limit;
mod ours;
mod page;
mod parts;
mod peer;
mod plot;
mod pyramid;
mod report;
#[cfg(feature = "remote")]
mod server;
mod tensor;
mod validate;
mod write;

use std::path::PathBuf;

use anyhow::ensure;
use clap::Parser;

use crate::ours::Ours;
use crate::page::Page;
use crate::parts::{Bench, work};
use crate::peer::Environment;
use crate::report::median;

/// Measures zvf against its peers, side by side in one run.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Where the environment of the peers and the stores are kept between runs.
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    folder: PathBuf,
    /// How large the stores are; 1 is a million points.
    #[arg(long)]
    scale: Option<f64>,
    /// Turns for each workload.
    #[arg(long)]
    turns: Option<usize>,
    /// Smaller data and fewer turns: five minutes.
    #[arg(long)]
    quick: bool,
    /// Only these parts.
    #[arg(long, value_name = "NAME")]
    part: Vec<String>,
    /// Write the tables and plots to this file and the folder of the same name, when all parts ran.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Do nothing but our own side of each workload, in a loop: for a profiler.
    #[arg(long)]
    profile: bool,
    /// Validate whole stores instead of asking them.
    #[arg(long)]
    validate: bool,
    /// Slices of dense arrays instead, beside tetration and python-blosc2.
    #[arg(long)]
    tensor: bool,
    /// With --tensor: how many threads each side has.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Build levels instead, of copies in this folder: one of a memory file system.
    #[arg(long, value_name = "DIR")]
    pyramid: Option<PathBuf>,
    #[command(flatten)]
    write: write::Options,
    /// Only workloads whose name contains this.
    filter: Option<String>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let turns = arguments.turns.unwrap_or(if arguments.quick { 3 } else { 7 });
    if !arguments.write.write.is_empty() {
        let Arguments { write, folder, filter, profile, .. } = &arguments;
        return write::run(write, folder, turns, filter.as_deref(), *profile);
    }
    if arguments.tensor {
        let Arguments { folder, scale, threads, filter, profile, .. } = &arguments;
        let scale = scale.unwrap_or(if arguments.quick { 0.1 } else { 1.0 });
        return tensor::run(folder, turns, scale, *threads, filter.as_deref(), *profile);
    }
    let bench = Bench {
        folder: arguments.folder.clone(),
        scale: arguments.scale.unwrap_or(if arguments.quick { 0.2 } else { 1.0 }),
        largest: if arguments.quick { 10 } else { 100 },
        turns,
        alone: false,
        filter: arguments.filter.clone(),
    };
    if arguments.validate || arguments.profile || arguments.pyramid.is_some() {
        return by_hand(&bench, &arguments);
    }
    for name in &arguments.part {
        let known = parts::ALL.iter().any(|part| part.name == name);
        let all: Vec<&str> = parts::ALL.iter().map(|part| part.name).collect();
        ensure!(known, "there is no part {name:?}: there is {}", all.join(", "));
    }
    let mut page = Page::default();
    for part in parts::ALL {
        if arguments.part.is_empty() || arguments.part.iter().any(|name| name == part.name) {
            eprintln!("== {}", part.title);
            (part.run)(&bench, &mut page)?;
        }
    }
    println!("{}", page.tables());
    match &arguments.page {
        Some(file) if arguments.part.is_empty() && bench.filter.is_none() => {
            let turns = bench.turns;
            let how = format!("* data: scale {}, {turns} turns", bench.scale);
            page.write(file, &how)
        }
        _ => Ok(()),
    }
}

/// Validating, building levels, and our own side for a profiler.
fn by_hand(bench: &Bench, arguments: &Arguments) -> anyhow::Result<()> {
    let environment = Environment::installed(&bench.folder)?;
    let stores = bench.stores();
    environment.make(&stores, bench.scale)?;
    let filter = bench.filter.as_deref();
    if let Some(place) = &arguments.pyramid {
        return pyramid::run(&environment, &stores, place, bench.turns, filter);
    }
    match (arguments.validate, arguments.profile) {
        (true, true) => validate::profile(&stores, bench.turns, filter),
        (true, false) => validate::run(&environment, &stores, bench.turns, filter),
        (false, _) => profile(&mut Ours::new(&stores), bench),
    }
}

/// Our side alone, each workload for its number of turns.
fn profile(ours: &mut Ours, bench: &Bench) -> anyhow::Result<()> {
    for work in work::all(bench.scale).into_iter().filter(|work| bench.wants(work.name)) {
        ours.warm(&work)?;
        let times: Result<Vec<f64>, _> = (0..bench.turns).map(|_| ours.run(&work)).collect();
        let times = times?;
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        println!(
            "{}: median {:.3} ms, least {:.3} ms",
            work.name,
            median(times) * 1e3,
            least * 1e3
        );
    }
    Ok(())
}
