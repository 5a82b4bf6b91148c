//! `torture`: starts the program that tests guarantees under faults.

use std::sync::Mutex;
use std::thread;

use anyhow::Context as _;

use crate::args::Args;
use crate::house::House;
use crate::parts::SMALL_DISKS;

pub(crate) fn run(house: &House, args: Args) -> anyhow::Result<()> {
    if args.peek("cluster") {
        return crate::sql::torture(house, args);
    }
    // The command that most parts kill and measure is in the same folder.
    let zvf = "-p zvf-cli --bin zvf --features reference";
    house.cargo("build --quiet --release").words(zvf).run()?;
    house.cargo("run --quiet --release -p torture --").forward(args).run()
}

/// Runs the tests of CI: a bounded part of each, with the programs built for tests.
pub(crate) fn run_bounded(house: &House, args: Args) -> anyhow::Result<()> {
    args.end()?;
    // The command that some of these kill and measure is in the same folder.
    let torture = house.build_programs(&["torture"])?.join("torture");
    // Most tests use one processor, so two run at a time.
    let (parts, as_root) =
        RUNS.split_once("# These require root.\n").context("no parts as root")?;
    let rest = Mutex::new(parts.lines().filter(|line| !line.starts_with('#')));
    let next = || rest.lock().expect("no holder panics").next();
    let run_parts = || -> anyhow::Result<()> {
        while let Some(words) = next() {
            house.program(&torture).words(words).run()?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let other = scope.spawn(run_parts);
        let own = run_parts();
        own.and(other.join().expect("a part is a program: it fails, and does not panic"))
    })?;
    let mount = house.program("unshare").words("--mount mount -t tmpfs tmpfs /mnt");
    if !SMALL_DISKS.settle(mount.output().is_some()) {
        return Ok(());
    }
    for words in as_root.lines() {
        house.program(&torture).words(words).run()?;
    }
    Ok(())
}

/// What CI runs: the parts, and those that require root.
const RUNS: &str = include_str!("../torture.txt");
