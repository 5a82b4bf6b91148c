//! `ci`: every check that a change must pass, in order.

use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{bail, ensure};

use crate::args::Args;
use crate::house::{House, say};
use crate::{
    api, clippy, conformance, counts, deny, docs, features, fixtures, no_std, parts, publish,
    python, test, tidy, torture, viewer, walk,
};

type Step = (&'static str, fn(&House, Args) -> anyhow::Result<()>, &'static [&'static str]);

pub(crate) fn run(house: &House, args: Args) -> anyhow::Result<()> {
    let names: Vec<_> = args.into_words().collect();
    let house = &house.for_ci();
    if names.is_empty() {
        let (first, rest) = STEPS.split_at(10);
        let (own, beside) = rest.split_at(4);
        run_steps(house, first)?;
        let (program, log) = (env::current_exe()?, house.target().join("beside.log"));
        let beside = Vec::from_iter(beside.iter().map(|step| step.0)).join(" ");
        let line = format!("\"$0\" ci {beside} >\"$1\" 2>&1");
        let mut beside = house.line("sh -c {} {} {}", &[&line, &program, &log]).start()?;
        let own = run_steps(house, own);
        let status = beside.wait()?;
        say(&fs::read_to_string(log)?);
        ensure!(status.success(), "a step beside the others failed");
        return own;
    }
    if let Some(name) = names.iter().find(|name| STEPS.iter().all(|step| *name != step.0)) {
        bail!("no step {}: `cargo xtask ci --help`", name.display());
    }
    let selected = STEPS.iter().filter(|step| names.iter().any(|name| name == step.0));
    run_steps(house, &Vec::from_iter(selected.copied()))
}

/// Runs these steps up to the first that fails, and prints their times.
fn run_steps(house: &House, steps: &[Step]) -> anyhow::Result<()> {
    let mut times = Vec::new();
    let mut verdict = Ok(());
    for (name, run, words) in steps {
        say(&format!("\n== {name}"));
        let begun = Instant::now();
        verdict = run(house, Args::from_words(words));
        times.push((*name, begun.elapsed(), verdict.is_ok()));
        if verdict.is_err() {
            break;
        }
    }
    summary(&times);
    parts::summary();
    verdict
}

fn summary(times: &[(&str, Duration, bool)]) {
    say("\n== seconds per step");
    for (name, time, passed) in times {
        let verdict = if *passed { "ok" } else { "FAILED" };
        say(&format!("{:8.1}  {name:12} {verdict}", time.as_secs_f64()));
    }
}

/// Runs the formatter on both workspaces.
fn format(house: &House, args: Args) -> anyhow::Result<()> {
    args.end()?;
    house.cargo("fmt --all --check").run()?;
    house.cargo("fmt --manifest-path fuzz/Cargo.toml --check").run()
}

/// The steps: the name, the command, and its arguments.
const STEPS: [Step; 18] = [
    // The command of the README. The Python package has no tests for cargo, and `conformance --sql`
    // tests the crates with an SQL engine.
    ("test", test::run, &[]),
    ("fmt", format, &[]),
    ("fixtures", fixtures::run, &["--check"]),
    ("tidy", tidy::run, &[]),
    ("counts", counts::run, &[]),
    ("walk", walk::run, &[]),
    ("clippy", clippy::run, &[]),
    ("deny", deny::run, &[]),
    ("no-std", no_std::run, &["--run"]),
    // Builds the programs that the steps below run.
    ("docs", docs::run, &["--check"]),
    // These four compile,
    ("api", api::run, &[]),
    ("publish", publish::run, &["--check"]),
    ("viewer", viewer::run, &["check"]),
    ("features", features::run_all, &[]),
    // and these run beside them.
    ("commands", docs::run, &["--run"]),
    ("conformance", conformance::run, &[]),
    ("python", python::run, &[]),
    ("torture", torture::run_bounded, &[]),
];
