//! `times`: the seconds of the two builds of the README, and those of a calibration build in the
//! same run.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::Command;
use crate::args::Args;
use crate::house::{House, say};

pub(crate) const COMMAND: Command = Command {
    name: "times",
    help: "seconds of both builds of the README, beside a calibration build

usage: cargo xtask times [--keep]

Builds the command and then the tests in an empty folder below the target folder, and prints seconds of the clock and of
the processors. Seconds are comparable between machines and days as multiples of the calibration: one fixed source file
is compiled before and after. --keep leaves the folder, so that the next run shows what a second build takes.",
    run,
};

fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    let keep = args.flag("--keep");
    args.end()?;
    let folder = house.target().join("times");
    let before = calibrate(house)?;
    let mut rows = vec![("calibration", before)];
    for (name, words) in [("demo", "build -p zvf-cli"), ("test", "test --no-run")] {
        let build = house.cargo(words).env("CARGO_TARGET_DIR", &folder.display().to_string());
        let clock = Clock::start()?;
        build.run()?;
        rows.push((name, clock.stop()?));
    }
    rows.push(("calibration", calibrate(house)?));
    say(&format!("\n{:12} {:>8} {:>10} {:>8}", "", "seconds", "processors", "multiple"));
    for (name, spent) in rows {
        say(&format!("{name:12} {}", spent.row(before)));
    }
    if keep { Ok(()) } else { Ok(fs::remove_dir_all(&folder)?) }
}

/// Wall-clock time, and processor time of finished programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) clock: Duration,
    pub(crate) processors: Duration,
}

impl Spent {
    /// Returns both in seconds, and the second as a multiple of the calibration.
    pub(crate) fn row(&self, calibration: Self) -> String {
        let [clock, processors, unit] = [self.clock, self.processors, calibration.processors];
        let multiple = processors.as_secs_f64() / unit.as_secs_f64().max(0.01);
        format!("{:8.1} {:10.1} {multiple:8.1}", clock.as_secs_f64(), processors.as_secs_f64())
    }
}

/// A running measurement.
pub(crate) struct Clock {
    start: Instant,
    processors: Duration,
}

impl Clock {
    pub(crate) fn start() -> anyhow::Result<Self> {
        Ok(Self { start: Instant::now(), processors: processor_time()? })
    }

    pub(crate) fn stop(&self) -> anyhow::Result<Spent> {
        let processors = processor_time()?.saturating_sub(self.processors);
        Ok(Spent { clock: self.start.elapsed(), processors })
    }
}

/// Returns the processor time of this program and of the child processes that it waited for.
fn processor_time() -> anyhow::Result<Duration> {
    let text = fs::read_to_string("/proc/self/stat").context("the system counts no time")?;
    // The name of the program, in parentheses, may contain anything.
    let (_, fields) = text.rsplit_once(')').context("/proc/self/stat")?;
    let ticks = fields.split_whitespace().skip(11).take(4);
    let ticks: u64 = ticks.map(str::parse::<u64>).sum::<Result<_, _>>()?;
    Ok(Duration::from_millis(ticks * 10)) // Linux counts in hundredths of a second
}

/// Compiles a fixed source file with optimisation.
pub(crate) fn calibrate(house: &House) -> anyhow::Result<Spent> {
    let mut source = String::new();
    for i in 0..40 {
        writeln!(
            source,
            "pub fn f{i}(words: &[String]) -> Vec<(usize, String)> {{ let mut found: Vec<(usize, String)> = words.iter()\
             .enumerate().filter(|(at, word)| (at + word.len()) % {} != 0).map(|(at, word)| (at, format!(\"{i} {{word}}\")))\
             .collect(); found.sort_by(|a, b| b.1.cmp(&a.1)); found }}",
            i + 2
        )?;
    }
    let folder = house.target();
    fs::create_dir_all(&folder)?;
    let file = folder.join("calibration.rs");
    fs::write(&file, source)?;
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let out = folder.join("libcalibration.rlib");
    let words = "--edition=2024 --crate-type=lib -Copt-level=1 -Ccodegen-units=1 -o";
    let clock = Clock::start()?;
    let compiled = house.program(rustc).words(words).args(&[out, file]).output();
    ensure!(compiled.is_some(), "rustc does not compile the calibration");
    clock.stop()
}
