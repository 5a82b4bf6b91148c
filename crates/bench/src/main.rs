//! Measures zvf against the Python reference on the reference's own stores, side by side in one run; with
//! `--tensor` against tetration and python-blosc2 on dense arrays.
//!
//! The reference is installed into a throw-away virtual environment, makes the stores once, and then
//! answers one request at a time from a process that keeps its handles open. Every workload is run in
//! turns, ours and theirs, so that a slow moment of the machine meets both; what is printed are
//! medians, the ratio, and how far we are from the plain cost of opening and reading the same files.
//! Both sides must count the same rows, or the workload fails.

mod clock;
mod limit;
mod ours;
mod peer;
mod pyramid;
mod report;
mod tensor;
mod validate;
mod work;
mod write;

use std::path::PathBuf;

use clap::Parser;

use crate::ours::Ours;
use crate::peer::{Environment, Peer};
use crate::report::{Row, median};

/// Measures zvf against its peers, side by side in one run.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Where the environment of the peers and the stores are kept between runs.
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    folder: PathBuf,
    /// How large the stores are; 1 is a million points.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Turns for each workload.
    #[arg(long, default_value_t = 7)]
    turns: usize,
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
    if !arguments.write.write.is_empty() {
        let Arguments { write, folder, turns, filter, profile, .. } = &arguments;
        return write::run(write, folder, *turns, filter.as_deref(), *profile);
    }
    if arguments.tensor {
        let Arguments { folder, turns, scale, threads, filter, profile, .. } = &arguments;
        return tensor::run(folder, *turns, *scale, *threads, filter.as_deref(), *profile);
    }
    let environment = Environment::installed(&arguments.folder)?;
    let stores = arguments.folder.join(format!("stores-{}", arguments.scale));
    environment.make(&stores, arguments.scale)?;
    if let Some(place) = &arguments.pyramid {
        let filter = arguments.filter.as_deref();
        return pyramid::run(&environment, &stores, place, arguments.turns, filter);
    }
    if arguments.validate {
        let filter = arguments.filter.as_deref();
        return match arguments.profile {
            true => validate::profile(&stores, arguments.turns, filter),
            false => validate::run(&environment, &stores, arguments.turns, filter),
        };
    }

    let mut ours = Ours::new(&stores);
    if arguments.profile {
        return profile(&mut ours, &arguments);
    }
    let mut peer = Peer::start(&environment, &stores)?;
    let mut rows = Vec::new();
    for work in work::all(arguments.scale) {
        if arguments.filter.as_ref().is_some_and(|part| !work.name.contains(part.as_str())) {
            continue;
        }
        ours.warm(&work)?;
        let agreed = (peer.run(&work)?.count, ours.count(&work)?);
        anyhow::ensure!(
            agreed.0 == agreed.1,
            "{}: they count {}, we {}",
            work.name,
            agreed.0,
            agreed.1
        );
        let files = ours.files(&work)?;
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..arguments.turns {
            times[0].push(peer.run(&work)?.seconds);
            times[1].push(ours.run(&work)?);
            times[2].push(limit::read(&files)?);
        }
        let [theirs, own, limit] = times.map(median);
        rows.push(Row { work, theirs, ours: own, limit, count: agreed.0 });
        report::print_last(&rows);
    }
    report::print_all(&rows);
    Ok(())
}

/// Our side alone, each workload for its number of turns.
fn profile(ours: &mut Ours, arguments: &Arguments) -> anyhow::Result<()> {
    for work in work::all(arguments.scale) {
        if arguments.filter.as_ref().is_some_and(|part| !work.name.contains(part.as_str())) {
            continue;
        }
        ours.warm(&work)?;
        let times: Result<Vec<f64>, _> = (0..arguments.turns).map(|_| ours.run(&work)).collect();
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
