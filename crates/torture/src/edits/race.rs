//! `race`: writers that commit to one store at the same time: in a folder, in one where three of
//! them pause at each call, and on an object store.
//!
//! Half of the commits add an object, which conflicts with nothing; half increment a column of one object, which
//! conflicts with every other increment: read with `expect`, then set. Afterwards every acknowledged commit is in the
//! log, the chain of records is complete, and both counts are exact. Then a record of another writer appears right
//! before the put of ours. The control is the same on a backend that accepts conditions and ignores them, with writers
//! that trust it: it must lose that record.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, bail, ensure};
use archives::faults::{FaultStore, Request};
use serde_json::{Value, json};
use zvf_edit::{Place, Side, diff, log};
use zvf_format::Class;
use zvf_publish::Disk;

use super::doubles::{add_counter, check_counter, plan_commit, set_counter};
use super::{NAME, commit_lines, create_backend, place_in_backend, read_store};
use crate::trees::Tree;
use crate::{Report, in_parallel};

/// Race writers that commit to one store.
#[derive(clap::Args)]
pub(crate) struct Race {
    /// Concurrent writers.
    #[arg(long, default_value_t = 8)]
    writers: usize,
    /// The number of acknowledged commits.
    #[arg(long, default_value_t = 1000)]
    commits: u64,
}

impl Race {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let (writers, commits) = (self.writers.max(1), self.commits);
        let scratch = archives::scratch();
        let files = archives::files(STORE);
        let before = scratch.path().join("before.zv");
        archives::write(&before, &files);
        let paused = Disk::default().with_pauses(LONGEST_PAUSE_MICROS);
        let folders =
            [(Disk::default(), writers, commits), (paused, 3, commits.min(PAUSED_COMMITS))];
        for (nth, (disk, writers, commits)) in folders.into_iter().enumerate() {
            let store = scratch.path().join(nth.to_string()).join(NAME);
            archives::write(&store, &files);
            let place = Place::from(store.as_path()).with_disk(disk);
            let begin = std::time::Instant::now();
            report.count(race_writers(&place, &before, writers, commits));
            let rate = commits as f64 / begin.elapsed().as_secs_f64();
            report.print_note(&format!(
                "folder: {commits} commits of {writers} writers, {rate:.0} a second"
            ));
            report.count(check_chain(&store));
        }
        let files = read_store(&before);
        let (remote, fewer) = (create_backend(&files), commits.min(REMOTE_COMMITS));
        report.count(race_writers(&place_in_backend(&remote), &before, writers, fewer));
        let is_lost = loses_commit(&files, false)?;
        report.check(!is_lost, || "an acknowledged commit was lost".to_owned());
        // The control: without conditions commits must be lost.
        let is_lost = loses_commit(&files, true)?;
        report.check(is_lost, || "without conditions nothing was lost".to_owned());
        let blind = create_backend(&files);
        blind.ignore_conditions(true);
        // A writer that does not trust the backend detects it.
        let refused = commit_lines(&place_in_backend(&blind), &[json!({"op": "group.add"})]);
        let is_refused = matches!(&refused, Err(error) if error.class == Class::Unsupported);
        report.check(is_refused, || format!("a blind backend: {refused:?}"));
        Ok(())
    }
}

/// One writer commits right before another one creates the first record; both trust the backend.
/// Returns whether an acknowledged commit is missing in the log.
fn loses_commit(files: &Tree, is_blind: bool) -> anyhow::Result<bool> {
    let trusting = |backend: &Arc<FaultStore>| place_in_backend(backend).without_probe();
    let add_group = |name: &str| vec![json!({"op": "group.add", "name": name})];
    let counted = create_backend(files);
    commit_lines(&trusting(&counted), &add_group("slow"))?;
    let is_put = |request: &Request| request.what == "put" && request.path == FIRST_RECORD;
    let nth = counted.requests().iter().position(is_put).context("no record was put")?;
    let backend = create_backend(files);
    backend.ignore_conditions(is_blind);
    let writer = Arc::new(backend.new_client());
    let fast = plan_commit(&writer, nth, trusting(&backend), add_group("fast"));
    let slow = commit_lines(&trusting(&writer), &add_group("slow"));
    fast.try_recv()??;
    Ok(log(trusting(&backend), None)?.len() < 1 + usize::from(slow.is_ok()))
}

/// The acknowledged commits.
#[derive(Default)]
struct Counts {
    added: AtomicU64,
    counted: AtomicU64,
}

fn race_writers(place: &Place, before: &Path, writers: usize, commits: u64) -> anyhow::Result<()> {
    commit_lines(place, &add_counter(&[COUNTED]))?;
    let counts = Counts::default();
    let ended = in_parallel(writers, |writer| {
        let share =
            commits / writers as u64 + u64::from((writer as u64) < commits % writers as u64);
        commit_repeatedly(place, writer, share, &counts)
    });
    ended.into_iter().collect::<anyhow::Result<()>>()?;
    let list = log(place, None)?;
    ensure!(
        list.len() as u64 == commits + 1,
        "{} commits in the log, {} were acknowledged",
        list.len(),
        commits + 1
    );
    let counted = counts.counted.load(Ordering::SeqCst);
    check_counter(place, COUNTED, counted).with_context(|| format!("counted to {counted}"))?;
    let sides =
        [Side { place: before.into(), head: None }, Side { place: place.clone(), head: None }];
    let found = diff(&sides[0], &sides[1])?;
    let added = found["objects"]["added"].as_array().map_or(0, Vec::len) as u64;
    let expected = counts.added.load(Ordering::SeqCst);
    ensure!(added == expected, "the store has {added} objects, {expected} were added");
    Ok(())
}

/// Commits `share` times; a commit refused with a conflict is repeated.
fn commit_repeatedly(
    place: &Place,
    writer: usize,
    share: u64,
    counts: &Counts,
) -> anyhow::Result<()> {
    let mut done = 0;
    let mut tries = 0_u64;
    while done < share {
        tries += 1;
        ensure!(
            tries <= share * 2000 + 10_000,
            "writer {writer}: {tries} tries for {done} commits"
        );
        let adds = (done + writer as u64).is_multiple_of(2);
        let seen = counts.counted.load(Ordering::SeqCst);
        let lines: Vec<Value> = if adds {
            let x = (writer as u64 * 100_000 + done) as f64 / 1000.0;
            vec![json!({"op": "object.add", "positions": [[x, 0.0], [x, 1.0]], "attributes": {}})]
        } else {
            set_counter(COUNTED, seen, seen + 1).into()
        };
        match commit_lines(place, &lines) {
            Ok(_) => {
                let count = if adds { &counts.added } else { &counts.counted };
                count.fetch_add(1, Ordering::SeqCst);
                done += 1;
            }
            Err(error) if AGAIN.contains(&error.class) => {}
            Err(error) => bail!("writer {writer}: {error}"),
        }
    }
    Ok(())
}

/// Checks that each record names the one before it by its checksum.
fn check_chain(store: &Path) -> anyhow::Result<()> {
    let log = store.with_file_name(format!("{NAME}.zvf")).join("log");
    let mut names: Vec<_> = std::fs::read_dir(&log)?.flatten().map(|entry| entry.path()).collect();
    names.sort();
    let mut previous = Value::Null;
    for (number, path) in (1_u64..).zip(&names) {
        let text = std::fs::read_to_string(path)?;
        let body = text.lines().next().unwrap_or_default();
        let record: Value = serde_json::from_str(body)?;
        ensure!(
            record["seq"] == number && record["previous"] == previous,
            "{}: the chain is broken",
            path.display()
        );
        previous = json!(format!("{:08x}", crc32c::crc32c(text.as_bytes())));
    }
    Ok(())
}

/// The errors of a commit that is repeated.
const AGAIN: [Class; 3] = [Class::Conflict, Class::ExpectationFailed, Class::Unavailable];
/// A store with two axes, without required columns of vertices.
const STORE: &str = "pl2_negative";
/// The commit point of the first commit.
const FIRST_RECORD: &str = "data/a.zv.zvf/log/00000000000000000001";
/// The object whose column is incremented.
const COUNTED: u64 = 0;
/// The number of commits on the object store, which has no lock to wait for.
const REMOTE_COMMITS: u64 = 200;
/// The number of commits in a folder where each call pauses, and the longest pause.
const PAUSED_COMMITS: u64 = 100;
const LONGEST_PAUSE_MICROS: u32 = 3000;
