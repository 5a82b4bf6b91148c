//! `times`: the seconds of the two builds of the README, and those of a calibration build in the
//! same run.

use std::fmt::Write as _;
use std::fs;
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::args::Args;
use crate::house::{House, say};

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    let keep = args.flag("--keep");
    args.end()?;
    let folder = house.target().join("times");
    let mut rows = vec![("calibration", calibrate(house)?)];
    for (name, words) in [("demo", "build -p zvf-cli"), ("test", "test --no-run")] {
        let build = house.cargo(words).env("CARGO_TARGET_DIR", &folder.display().to_string());
        rows.push((name, measure(|| build.run())?));
    }
    rows.push(("calibration", calibrate(house)?));
    say(&format!("\n{:12} {:>8} {:>10} {:>8}", "", "seconds", "processors", "multiple"));
    let unit = rows[0].1[1];
    for (name, [clock, processors]) in rows {
        say(&format!("{name:12} {clock:8.1} {processors:10.1} {:8.1}", processors / unit));
    }
    if keep { Ok(()) } else { Ok(fs::remove_dir_all(&folder)?) }
}

/// Returns the seconds that `work` takes: of the clock, and of the processors in finished programs.
pub(crate) fn measure(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<[f64; 2]> {
    let (begun, before) = (Instant::now(), processor_seconds()?);
    work()?;
    Ok([begun.elapsed().as_secs_f64(), processor_seconds()? - before])
}

/// Returns the processor seconds of this program and of the child processes that it waited for.
fn processor_seconds() -> anyhow::Result<f64> {
    let text = fs::read_to_string("/proc/self/stat").context("the system counts no time")?;
    // The name of the program, in parentheses, may contain anything.
    let (_, fields) = text.rsplit_once(')').context("/proc/self/stat")?;
    let ticks = fields.split_whitespace().skip(11).take(4);
    let ticks: f64 = ticks.map(str::parse::<f64>).sum::<Result<_, _>>()?;
    Ok(ticks / 100.0) // Linux counts in hundredths of a second
}

/// Compiles a fixed source file with optimisation.
fn calibrate(house: &House) -> anyhow::Result<[f64; 2]> {
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
    let rustc = house.program(rustc).words(words).args(&[out, file]);
    measure(|| {
        ensure!(rustc.output().is_some(), "rustc does not compile the calibration");
        Ok(())
    })
}
