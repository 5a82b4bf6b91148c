//! `ci`: every check that a change must pass, in order.

use anyhow::bail;

use crate::args::Args;
use crate::house::{House, say};
use crate::times::{self, Clock, Spent};
use crate::{
    Command, api, clippy, conformance, counts, deny, docs, features, fixtures, no_std, parts,
    publish, python, test, tidy, torture, viewer, walk,
};

pub(crate) const COMMAND: Command = Command {
    name: "ci",
    help: "run everything that CI runs, in order, and say how long each step took

usage: cargo xtask ci [STEP...]

Without names, all steps. Stops at the first step that fails. A missing tool is a failure; the few parts that a machine may
leave out are listed at the end, each with its condition and whether it ran.",
    run,
};

struct Step {
    name: &'static str,
    run: fn(&House) -> anyhow::Result<()>,
}

fn run(house: &House, args: Args) -> anyhow::Result<()> {
    let names: Vec<_> = args.into_words().collect();
    let house = &house.for_ci();
    let is_selected = |step: &Step| names.is_empty() || names.iter().any(|name| name == step.name);
    if let Some(name) = names.iter().find(|name| STEPS.iter().all(|step| *name != step.name)) {
        bail!("no step {}: `cargo xtask ci --help`", name.display());
    }
    let mut times = Vec::new();
    let mut verdict = Ok(());
    for step in STEPS.iter().filter(|step| is_selected(step)) {
        say(&format!("\n== {}", step.name));
        let clock = Clock::start()?;
        verdict = (step.run)(house);
        times.push((step.name, clock.stop()?, verdict.is_ok()));
        if verdict.is_err() {
            break;
        }
    }
    summary(&times, times::calibrate(house)?, STEPS.iter().filter(|step| is_selected(step)));
    parts::summary();
    verdict
}

fn summary<'a>(
    times: &[(&str, Spent, bool)],
    calibration: Spent,
    steps: impl Iterator<Item = &'a Step>,
) {
    say("\n== seconds per step: clock, processors, and these as multiples of a calibration build");
    for (name, spent, passed) in times {
        let verdict = if *passed { "ok" } else { "FAILED" };
        say(&format!("{}  {name:12} {verdict}", spent.row(calibration)));
    }
    for step in steps.skip(times.len()) {
        say(&format!("{:28}  {:12} not run", "", step.name));
    }
    let clock = times.iter().map(|(_, spent, _)| spent.clock).sum();
    let processors = times.iter().map(|(_, spent, _)| spent.processors).sum();
    say(&format!("{}  in all", Spent { clock, processors }.row(calibration)));
}

const STEPS: [Step; 18] = [
    // The command of the README. The Python package has no tests for cargo, and `conformance --sql`
    // tests the crates with an SQL engine.
    Step { name: "test", run: |house| test::run(house, Args::default()) },
    Step {
        name: "fmt",
        run: |house| {
            house.cargo("fmt --all --check").run()?;
            house.cargo("fmt --manifest-path fuzz/Cargo.toml --check").run()
        },
    },
    Step { name: "fixtures", run: |house| fixtures::run(house, Args::from_words(&["--check"])) },
    Step { name: "tidy", run: |house| tidy::run(house, Args::default()) },
    Step { name: "counts", run: |house| counts::run(house, Args::default()) },
    Step { name: "walk", run: |house| walk::run(house, Args::default()) },
    Step { name: "clippy", run: |house| clippy::run(house, Args::default()) },
    Step { name: "deny", run: |house| deny::run(house, Args::default()) },
    Step { name: "no-std", run: |house| no_std::run(house, Args::from_words(&["--run"])) },
    Step { name: "docs", run: |house| docs::run(house, Args::from_words(&["--check"])) },
    Step { name: "commands", run: |house| docs::run(house, Args::from_words(&["--run"])) },
    Step { name: "api", run: |house| api::run(house, Args::default()) },
    Step { name: "publish", run: |house| publish::run(house, Args::from_words(&["--check"])) },
    Step { name: "viewer", run: viewer::check },
    Step { name: "conformance", run: |house| conformance::run(house, Args::default()) },
    Step {
        name: "features",
        run: |house| {
            features::run(house, Args::default())?;
            features::test_all(house)
        },
    },
    Step { name: "python", run: |house| python::run(house, Args::default()) },
    Step { name: "torture", run: torture::run_bounded },
];
