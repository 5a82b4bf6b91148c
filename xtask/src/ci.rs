//! `ci`: every check that a change must pass, in order.

use std::time::{Duration, Instant};

use anyhow::bail;

use crate::args::Args;
use crate::cargo_toml::HEAVY;
use crate::house::{House, say};
use crate::{
    Command, api, clippy, conformance, deny, docs, features, fixtures, no_std, publish, python,
    test, tidy, torture, viewer,
};

pub(crate) const COMMAND: Command = Command {
    name: "ci",
    help: "run everything that CI runs, in order, and say how long each step took

usage: cargo xtask ci [STEP...]

Without names, all steps. Stops at the first step that fails. Steps that need a tool which is optional (an emulator, the
advisory database) say so when they skip it.",
    run,
};

struct Step {
    name: &'static str,
    run: fn(&House) -> anyhow::Result<()>,
}

fn run(house: &House, args: Args) -> anyhow::Result<()> {
    let names: Vec<_> = args.into_words().collect();
    let is_selected = |step: &Step| names.is_empty() || names.iter().any(|name| name == step.name);
    if let Some(name) = names.iter().find(|name| STEPS.iter().all(|step| *name != step.name)) {
        bail!("no step {}: `cargo xtask ci --help`", name.display());
    }
    let mut times = Vec::new();
    let mut verdict = Ok(());
    for step in STEPS.iter().filter(|step| is_selected(step)) {
        say(&format!("\n== {}", step.name));
        let start = Instant::now();
        verdict = (step.run)(house);
        times.push((step.name, start.elapsed(), verdict.is_ok()));
        if verdict.is_err() {
            break;
        }
    }
    summary(&times, STEPS.iter().filter(|step| is_selected(step)));
    verdict
}

fn summary<'a>(times: &[(&str, Duration, bool)], steps: impl Iterator<Item = &'a Step>) {
    say("\n== time per step");
    for (name, time, passed) in times {
        let verdict = if *passed { "ok" } else { "FAILED" };
        say(&format!("{:7.1} s  {name:12} {verdict}", time.as_secs_f64()));
    }
    for step in steps.skip(times.len()) {
        say(&format!("      -    {:12} not run", step.name));
    }
    let total: Duration = times.iter().map(|(_, time, _)| *time).sum();
    say(&format!("{:7.1} s  in all", total.as_secs_f64()));
}

const STEPS: [Step; 16] = [
    // The test programs are tested too. The Python package has its own step, and `conformance --sql` tests the crates
    // with an SQL engine.
    Step {
        name: "test",
        run: |house| {
            let mut words = vec!["--workspace", "--exclude", "zvf-py"];
            words.extend(HEAVY.iter().flat_map(|name| ["--exclude", *name]));
            test::run(house, Args::from_words(&words))
        },
    },
    Step {
        name: "fmt",
        run: |house| {
            house.cargo(&["fmt", "--all", "--check"]).run()?;
            house.cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]).run()
        },
    },
    Step { name: "clippy", run: |house| clippy::run(house, Args::default()) },
    Step { name: "docs", run: |house| docs::run(house, Args::from_words(&["--check"])) },
    Step { name: "api", run: |house| api::run(house, Args::default()) },
    Step { name: "commands", run: |house| docs::run(house, Args::from_words(&["--run"])) },
    Step { name: "features", run: |house| features::run(house, Args::default()) },
    Step { name: "no-std", run: |house| no_std::run(house, Args::from_words(&["--run"])) },
    Step { name: "deny", run: |house| deny::run(house, Args::default()) },
    Step { name: "fixtures", run: |house| fixtures::run(house, Args::from_words(&["--check"])) },
    Step { name: "publish", run: |house| publish::run(house, Args::from_words(&["--check"])) },
    Step { name: "tidy", run: |house| tidy::run(house, Args::default()) },
    Step { name: "viewer", run: viewer::check },
    Step { name: "python", run: |house| python::run(house, Args::default()) },
    Step { name: "conformance", run: |house| conformance::run(house, Args::default()) },
    Step { name: "torture", run: torture::run_bounded },
];
