//! Measures zvf beside other software for the same work, in one run.
//!
//! Peers are installed into disposable environments, data is made once, and every workload is run
//! by all contenders in turns, so that a slow moment of the machine affects all of them; the
//! results are medians. All counts must be equal, or the workload fails. The parts are listed in
//! `parts`; some also have a switch that states where to write.

mod billion;
mod clock;
mod contest;
mod discard;
mod limit;
mod parts;
mod peer;
mod profile;
mod pyramid;
mod results;
mod row;
#[cfg(feature = "remote")]
mod server;
mod settings;
mod tensor;
mod validate;
mod watch;
mod write;
mod zvf_side;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Parser;
use serde_json::json;

use crate::contest::Held;
use crate::results::Results;
use crate::settings::Bench;

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
    /// How many times larger the largest data of a series is than the smallest.
    #[arg(long, hide = true)]
    largest: Option<u32>,
    /// Do what a quick run leaves out, however large the data is.
    #[arg(long, hide = true)]
    thorough: bool,
    /// Only these parts.
    #[arg(long, value_name = "NAME")]
    part: Vec<String>,
    /// Take the parts (with --billion, the stores) that an earlier run with the same settings
    /// finished from the folder, and run the others.
    #[arg(long)]
    resume: bool,
    /// Do nothing but our own sides of each workload: for a profiler.
    #[arg(long)]
    profile: bool,
    /// Do nothing but our own side of this work, once, and print the most memory that was held.
    #[arg(long, hide = true, value_name = "WORK")]
    own: Option<String>,
    /// Only the part that validates whole stores.
    #[arg(long)]
    validate: bool,
    /// Only slices of dense arrays, beside tetration and python-blosc2.
    #[arg(long)]
    tensor: bool,
    /// For dense arrays: how many threads each side has.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Only the part that builds levels, of copies in this folder: one of a memory file system.
    #[arg(long, value_name = "DIR")]
    pyramid: Option<PathBuf>,
    /// Only the part that writes, into each of these folders.
    #[arg(long, value_name = "DIR")]
    write: Vec<PathBuf>,
    /// Only stores of up to a billion vertices, from files to SQL; takes an hour, and 80 GB of the
    /// folder.
    #[arg(long)]
    billion: bool,
    /// For --billion: another number of vertices.
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000, requires = "billion")]
    points: u64,
    /// For --billion: only this data; no page is made.
    #[arg(long, value_name = "DATA", requires = "billion")]
    only: Option<billion::Data>,
    /// For --billion: nothing is asked in SQL; no page is made.
    #[arg(long, requires = "billion")]
    no_sql: bool,
    /// Folders to write into.
    #[arg(long, hide = true, value_name = "DIR")]
    place: Vec<PathBuf>,
    /// Only workloads whose name contains this.
    filter: Option<String>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let bench = arguments.to_bench();
    if arguments.billion {
        let (vertices, sql) = (arguments.points, !arguments.no_sql);
        let extent =
            billion::Extent { vertices, only: arguments.only, sql, resume: arguments.resume };
        return billion::run(&bench, extent);
    }
    let chosen = arguments.chosen_parts()?;
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    let load: Option<f64> = load.and_then(|text| text.split(' ').next()?.parse().ok());
    let begun = Instant::now();
    let (mut finished, mut failed) = (Vec::new(), Vec::new());
    for part in parts::ALL {
        if !chosen.is_empty() && !chosen.contains(&part.name) {
            continue;
        }
        if arguments.resume
            && let Some(earlier) = results::load(&bench, part.name)?
        {
            finished.push(earlier);
            continue;
        }
        if bench.own.is_none() {
            eprintln!("== {}, after {:.0} s", part.title, begun.elapsed().as_secs_f64());
        }
        let mut results = Results::new(part);
        match (part.run)(&bench, &mut results) {
            Err(error) => match error.downcast_ref::<Held>() {
                Some(Held(bytes)) => {
                    println!("{bytes}");
                    return Ok(());
                }
                None => {
                    eprintln!("{}: {error:#}", part.name);
                    failed.push(part.name);
                    finished.push(results.finish(&bench, part.name)?);
                }
            },
            // A filter omits rows, so the results are not saved.
            Ok(()) if bench.filter.is_none() => finished.push(results.save(&bench, part.name)?),
            Ok(()) => finished.push(results.finish(&bench, part.name)?),
        }
    }
    discard::remove_discarded()?;
    let is_complete = failed.is_empty() && chosen.is_empty() && bench.filter.is_none();
    let is_complete = is_complete && !bench.only_ours;
    results::write_run(&bench, &finished, is_complete, begun.elapsed(), &json!({"load": load}))?;
    ensure!(
        failed.is_empty(),
        "failed: {}; the parts that are finished are taken from the folder with --resume",
        failed.join(", ")
    );
    Ok(())
}

impl Arguments {
    fn to_bench(&self) -> Bench {
        let (turns, seconds) = if self.quick { (2, 2) } else { (7, 10) };
        let places = self.write.iter().chain(&self.pyramid).chain(&self.place);
        Bench {
            folder: self.folder.clone(),
            scale: self.scale.unwrap_or(if self.quick { 0.1 } else { 1.0 }),
            largest: self.largest.unwrap_or(if self.quick { 10 } else { 100 }),
            turns: self.turns.unwrap_or(turns),
            patience: Duration::from_secs(seconds),
            places: places.cloned().collect(),
            disk: !self.quick,
            is_thorough: self.thorough || (!self.quick && self.own.is_none()),
            threads: self.threads,
            own: self.own.clone(),
            only_ours: self.profile,
            alone: false,
            listening: Duration::from_millis(if self.quick { 500 } else { 1500 }),
            filter: self.filter.clone(),
        }
    }

    /// Returns the requested parts; empty for all.
    fn chosen_parts(&self) -> anyhow::Result<Vec<&str>> {
        let all: Vec<&str> = parts::ALL.iter().map(|part| part.name).collect();
        for name in &self.part {
            let exists = all.contains(&name.as_str());
            ensure!(exists, "there is no part {name:?}: there is {}", all.join(", "));
        }
        let mut chosen: Vec<&str> = self.part.iter().map(String::as_str).collect();
        let switches = [
            ("validate", self.validate),
            ("tensor", self.tensor),
            ("pyramid", self.pyramid.is_some()),
            ("write", !self.write.is_empty()),
        ];
        chosen.extend(switches.into_iter().filter_map(|(name, asked)| asked.then_some(name)));
        Ok(chosen)
    }
}
