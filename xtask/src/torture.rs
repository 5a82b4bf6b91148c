//! `torture`: starts the program that tests guarantees under faults.

use std::sync::Mutex;
use std::thread;

use crate::Command;
use crate::args::Args;
use crate::house::House;
use crate::parts::SMALL_DISKS;

pub(crate) const COMMAND: Command = Command {
    name: "torture",
    help: "try to break what the library promises

usage: cargo xtask torture PART [OPTIONS]
       cargo xtask torture cluster [--rounds N] [--moments N]

`cargo xtask torture help` lists the parts, `cargo xtask torture PART --help` lists the options of one.
Each subcommand prints one JSON line, {\"name\",\"n\",\"failures\",\"seed\"}, and fails on any failure.",
    run,
};

pub(crate) fn run(house: &House, args: Args) -> anyhow::Result<()> {
    if args.peek("cluster") {
        return crate::sql::torture(house, args);
    }
    // The command that these kill and measure is in the same folder.
    if NEEDS_COMMAND.iter().any(|word| args.peek(word)) {
        let zvf = "-p zvf-cli --bin zvf --features reference";
        house.cargo("build --quiet --release").words(zvf).run()?;
    }
    house.cargo("run --quiet --release -p torture --").forward(args).run()
}

/// Runs the tests of CI: a bounded part of each, with the programs built for tests.
pub(crate) fn run_bounded(house: &House, args: Args) -> anyhow::Result<()> {
    args.end()?;
    // The command that some of these kill and measure is in the same folder.
    let torture = house.build_programs(&["torture"])?.join("torture");
    // Most tests use one processor, so two run at a time.
    let rest = Mutex::new(BOUNDED.iter());
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
    for words in BOUNDED_AS_ROOT {
        house.program(&torture).words(words).run()?;
    }
    Ok(())
}

/// Subcommands that need the command `zvf`.
const NEEDS_COMMAND: [&str; 12] = [
    "--what",
    "roles",
    "signals",
    "rerun",
    "clean",
    "diskfull",
    "memory",
    "edit-script",
    "http",
    "slow",
    "load",
    "soak",
];
/// Short runs for busy machines: rates and times are not checked. Each takes about half a minute of
/// one processor; the full sizes are the defaults of the subcommands.
const BOUNDED: [&str; 33] = [
    "race-remote --loops 200",
    "faults --every 199 --then-random 8",
    "cancel --every 5",
    "disk-faults --every 61",
    "disk-cancel --every 5",
    "sigbus --n 60",
    "powerloss --states 3000",
    "kill9 --what edit --loops 8",
    "kill9 --what gc --loops 10",
    "kill9 --what undo --loops 5",
    "kill9 --what refresh --loops 4",
    "powerloss --edits --states 250",
    "faults --edits --every 1997 --then-random 3",
    "faults --edits --small --every 397",
    "cancel --edits --every 997",
    "race --writers 4 --commits 60",
    "doubles --every 40 --rounds 20",
    "roles --rounds 20",
    "roles --rounds 5 --form link --only edit",
    "roles --rounds 5 --form pack --only edit",
    "signals --loops 2",
    "edit-model --n 4000",
    "edit-model --n 1000 --levels 2",
    "edit-script testdata/edits",
    "rerun --loops 2",
    "clean --loops 2",
    "memory --size 200000 --limit 48 --every 4",
    "memory --pairs --size 50000 --limit 32 --every 6",
    "scale",
    "http --n 500",
    "slow --conns 70 --secs 10 --factor 1000",
    "load --conns 16 --secs 3 --min-rate 0 --p99-ms 60000",
    "soak --secs 9 --slope-kib 100000000",
];
/// Tests that require root.
const BOUNDED_AS_ROOT: [&str; 2] = [
    "diskfull --from 256 --step 1024 --disks 3",
    "diskfull --edits --from 1024 --to 4096 --step 1024",
];
