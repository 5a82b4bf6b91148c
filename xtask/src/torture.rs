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

usage: cargo xtask torture mutate [--n N] [--seed S]
       cargo xtask torture exhaust
       cargo xtask torture powerloss [--states N] [--edits] [--seed S]
       cargo xtask torture kill9 [--what build|create|overwrite|pyramid|ingest|edit|gc|undo|refresh] [--loops N]
                                 [--writers N] [--dir DIR] [--seed S]
       cargo xtask torture diskfull [--from KIB] [--to KIB] [--step KIB] [--edits] [--disks N] [--what COMMAND]
       cargo xtask torture roles [--rounds N] [--form plain|link|pack] [--only ROLE] [--hold-ms MS] [--seed S]
       cargo xtask torture signals [--loops N] [--what COMMAND] [--seed S]
       cargo xtask torture doubles [--every N] [--rounds N] [--writers N]
       cargo xtask torture race [--writers N] [--commits N]
       cargo xtask torture edit-model [--n N] [--kind KIND] [--levels N] [--transaction N] [--seed S]
       cargo xtask torture edit-script DIR [--only TEXT] [--every N]
       cargo xtask torture sigbus [--n N] [--seed S]
       cargo xtask torture stores [--n N] [--seed S]
       cargo xtask torture race-remote [--loops N] [--writers N] [--seed S]
       cargo xtask torture faults [--every N] [--then-random N] [--writer NAME] [--edits [--small]] [--seed S]
       cargo xtask torture cancel [--every N] [--edits]
       cargo xtask torture disk-faults [--every N] [--what WRITER]
       cargo xtask torture disk-cancel [--every N] [--what WRITER]
       cargo xtask torture rerun [--loops N] [--what COMMAND] [--seed S]
       cargo xtask torture clean [--loops N] [--what COMMAND] [--seed S]
       cargo xtask torture memory [--size POINTS] [--limit MIB,..] [--pairs] [--what COMMAND]
                                  [--every N] [--verbose]
       cargo xtask torture scale [--chunks N]
       cargo xtask torture http [--n N] [--seed S]
       cargo xtask torture slow [--conns N] [--secs S] [--factor F]
       cargo xtask torture load [--conns N] [--secs S] [--min-rate N] [--p99-ms MS]
       cargo xtask torture soak [--secs S] [--slope-kib KIB]
       cargo xtask torture cluster [--rounds N] [--moments N]

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
