//! `powerloss` of edits: every state that a power loss may leave during a commit in a folder.
//!
//! The next writer opens each state; it must find the old store or the new one, and after the
//! commit was acknowledged the new one. The controls leave out the syncs of bytes, or those of
//! names.

use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use zvf_edit::{EditError, Place};
use zvf_format::Class;
use zvf_publish::Disk;

use super::{NAME, STORES, Subject, apply_committed, read_store};
use crate::Report;
use crate::powerloss::model::{Counted, Omitted, Recording};
use archives::random::Random;

/// Tests `states` disks of each store, and the controls.
pub(crate) fn run(states: u64, random: &mut Random, report: &mut Report) -> anyhow::Result<()> {
    for id in STORES {
        let subject = Subject::new(id)?;
        let recording = record(&subject)?;
        recording.check(states, id, report, |omitted| {
            let crash = recording.choose_crash(random);
            check(&subject, &recording, crash, omitted, random)
                .with_context(|| format!("power lost before call {crash}"))
        });
    }
    Ok(())
}

fn record(subject: &Subject) -> anyhow::Result<Recording> {
    let prepare = |target: &Path| {
        archives::write(target, &archives::files(subject.id));
        Ok(())
    };
    let write = |target: &Path, disk: &Disk| {
        subject.edit(&Place::from(target).with_disk(disk.clone())).context(subject.id)?;
        let is_same = read_store(target) == subject.after;
        ensure!(is_same, "{}: another edit than before", subject.id);
        Ok(())
    };
    Recording::record(subject.id, Counted::Single, Disk::with_recording(), prepare, write)
}

/// Checks one disk after the power loss.
fn check(
    subject: &Subject,
    recording: &Recording,
    crash: usize,
    omitted: Option<Omitted>,
    random: &mut Random,
) -> anyhow::Result<()> {
    let scratch = archives::scratch();
    recording.lose_power(crash, omitted, random).write(scratch.path());
    let target = scratch.path().join(NAME);
    let place = Place::from(target.as_path()).with_disk(Disk::with_recording());
    apply_committed(&place)?;
    let found = read_store(&target);
    let outcome = match crash < recording.calls.len() {
        true => Err(EditError::new(Class::CommitUnknown, "no power")),
        false => Ok(Value::Null),
    };
    subject.check_state(&outcome, &found)?;
    if random.next_below(8) == 0 {
        subject.check_editable(&place, &found)?;
    }
    Ok(())
}
