//! `signals`: each command that writes gets a signal at a random moment, and its exit code is
//! compared with the resulting state.
//!
//! ```text
//! 130, or ended by the signal    nothing is there
//! 0                              all is there, and the report says so
//! CommitUnknown                  all or nothing, and only after a second signal
//! ```
//!
//! A commit that is durable and not yet applied counts as present. The commands are those of
//! `rerun`, and those that commit to a store with a journal, write a store from one, or edit a
//! pack. A second signal ends a command at once, and so does the first one if the script of an edit
//! comes from a terminal.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::json;
use zvf_edit::Place;

use archives::peers::wait_for;
use archives::random::Random;

use crate::Report;
use crate::commands::{Case, Rounds, Zvf, listed, prepare_cases, says_changed};
use crate::edits::apply_committed;
use crate::kill9::send_signal;
use crate::rerun::{FaultFreeRun, run_rounds};
use crate::trees::{Expected, read_tree};

/// Sends signals to each command that writes.
pub(crate) fn run(rounds: &Rounds, report: &mut Report) -> anyhow::Result<()> {
    let scratch = archives::scratch();
    let (zvf, mut random) = (report.zvf(&scratch.path().join("place"))?, report.random());
    let mut all = prepare_cases(&zvf, SIZE)?;
    // A repair changes documents one by one.
    all.retain(|case| !case.is_stepwise);
    let edited = prepare_edited(&zvf, scratch.path())?;
    let case = |[name, target, line]: [_; 3]| Case { target, ..Case::new(name, &edited, line) };
    all.extend(listed("commits").map(case));
    all.retain(|case| case.is_selected(rounds.what.as_deref()));
    let loops = rounds.loops.unwrap_or(1000);
    run_rounds(report, &zvf, &all, loops, |fault_free, case| match case.line.ends_with(" -") {
        true => interrupt_prompt(&zvf, case, &mut random),
        false => fault_free.interrupt(&zvf, case, &mut random),
    })
}

impl FaultFreeRun {
    /// Sends one signal, sometimes two.
    fn interrupt(&self, zvf: &Zvf, case: &Case, random: &mut Random) -> anyhow::Result<()> {
        let signal = random.choose(&SIGNALS);
        let moment = self.time.as_micros() as u64;
        let moment = Duration::from_micros(random.next() % (moment + moment / 8));
        let is_repeated = random.next_below(4) == 0;
        let mut child = zvf.start(&case.line)?;
        std::thread::sleep(moment);
        let mut sent = format!("{signal} after {moment:?}");
        let mut wait = END;
        if child.try_wait()?.is_none() {
            send_signal(&child, signal)?;
            if is_repeated && child.try_wait()?.is_none() {
                std::thread::sleep(TAKEN); // of two that wait at once the system keeps one
                send_signal(&child, signal)?;
                sent += ", twice";
                wait = END_OF_SECOND;
            }
        }
        let Some(status) = wait_for_end(&mut child, wait)? else {
            bail!("{sent}: it goes on");
        };
        let ended = child.wait_with_output()?;
        let store = zvf.place.join(case.target);
        if case.target.ends_with(".zv")
            && store.with_extension("zv.zvf").exists()
            && let Err(error) = apply_committed(&Place::from(store.as_path()))
        {
            bail!("{sent}: {status}, then {error}");
        }
        let (found, Expected { before, after, .. }) = (read_tree(&store), &self.expected);
        let (is_old, is_new) = (found == *before, found.as_ref() == Some(after));
        let text = String::from_utf8_lossy(&ended.stderr);
        let is_unsure = is_repeated && status.code() == Some(6);
        let is_right = match status.code() {
            Some(0) => is_new && says_changed(&ended) == self.reports,
            None | Some(CANCELLED) => is_old,
            _ => is_unsure && (is_old || is_new),
        };
        let there = match (is_old, is_new) {
            (true, _) => "nothing is there",
            (_, true) => "all is there",
            _ => "neither the old nor the new is there",
        };
        ensure!(is_right, "{sent}: {status}, and {there}: {}", text.trim());
        Ok(())
    }
}

/// Sends one signal to an edit that waits for the next line of its script.
fn interrupt_prompt(zvf: &Zvf, case: &Case, random: &mut Random) -> anyhow::Result<()> {
    let (store, signal) = (zvf.place.join(case.target), random.choose(&SIGNALS));
    let before = read_tree(&store);
    let mut child = zvf.command(&case.line).stdin(Stdio::piped()).spawn()?;
    let mut script = child.stdin.take().context("a script")?;
    writeln!(script, "{}", json!({"op": "object.remove", "objects": [0]}))?;
    child.stdout.as_mut().context("replies")?.read_exact(&mut [0])?;
    send_signal(&child, signal)?;
    let status = wait_for_end(&mut child, END_OF_SECOND)?;
    drop(script);
    drop(child.wait_with_output()?);
    apply_committed(&Place::from(store.as_path()))?;
    let is_old = read_tree(&store) == before;
    let code = status.with_context(|| format!("it goes on after {signal}"))?.code();
    ensure!(code == Some(CANCELLED) && is_old, "ended with {code:?}, nothing is there: {is_old}");
    Ok(())
}

/// Waits for the end of a child; `None` when it does not end in time, and is killed.
fn wait_for_end(child: &mut Child, wait: Duration) -> anyhow::Result<Option<ExitStatus>> {
    let ended = wait_for(wait, || Ok(child.try_wait()?))?;
    if ended.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok(ended.filter(|status| status.signal() != Some(SIGKILL)))
}

/// Creates a store with a journal, outdated levels and garbage, and the inputs of the commands.
fn prepare_edited(zvf: &Zvf, scratch: &Path) -> anyhow::Result<PathBuf> {
    let before = scratch.join("before/edited");
    let lines = [
        "create -q ../chains.csv a.zv --kind polyline --per-chunk 100",
        "create -q ../chains.csv b.zv --kind polyline --per-chunk 100",
        "pack -q b.zv a.tet",
        "pyramid -q --in-place a.zv --levels 1",
        "edit rm -q a.zv --objects 3",
        "edit rm -q a.zv --objects 5",
        // A merge uses the rest of it; a task has not built a level of it yet.
        "edit rm -q b.zv --objects 4",
        "task plan pyramid -q b.zv --work-dir plan --levels 1 --in-place",
        "task run -q plan --all",
    ];
    zvf.make_folder(&before, &lines)?;
    let moved = json!({"op": "vertex.move", "vertices": {"all": true}, "by": [1, 1]});
    fs::write(before.join("script.jsonl"), format!("{moved}\n"))?;
    fs::write(before.join("table.csv"), "id,type\n0,3\n1,4\n")?;
    fs::write(before.join("more.csv"), "x,y,object\n1,2,900\n3,4,900\n")?;
    Ok(before)
}

const SIGNALS: [&str; 2] = ["-INT", "-TERM"];
/// The exit code of a command that was interrupted.
const CANCELLED: i32 = 130;
const SIGKILL: i32 = 9;
/// How long a command may continue after one signal, and after two.
const END: Duration = Duration::from_secs(60);
const END_OF_SECOND: Duration = Duration::from_secs(5);
/// The time after which a signal has been received.
const TAKEN: Duration = Duration::from_millis(100);
/// The number of points of the stores.
const SIZE: u64 = 2000;
