//! The part that makes a backend fail: after every failure at any time the result must be the right
//! answer or an error with a class.
//!
//! A store is first read from memory, which counts the operations. Then, for each operation and
//! each fault, it is read again with that operation failing. Time is virtual, so that timeouts and
//! backoff cost nothing; a run that takes longer than [`MAX_TIME`] of virtual time counts as
//! endless.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use archives::faults::{Fault, FaultStore};
use bytes::Bytes;
use object_store::path::Path as Prefix;
use tokio::runtime::Builder;
use zvf_store::{OpenOptions, Store};

use crate::corpus;
use crate::report::{Report, Run};
use crate::store_facts::read_facts;

/// Sweeps the stores of `folder` with distinct read paths, or those with `only` in their names:
/// every `every`th of the possible failures.
pub(crate) fn run(folder: &Path, every: NonZeroUsize, run: &mut Run<'_>) -> anyhow::Result<()> {
    for golden in corpus::list_goldens(folder, run.only.as_deref())? {
        if run.only.is_some() || SWEPT.split_whitespace().any(|id| id == golden.id) {
            run.add(sweep_faults(&golden.id, &corpus::read_archive(&golden.archive)?, every))?;
        }
    }
    Ok(())
}

/// Tests each operation with each fault, or every `every`th of these pairs, on all cores.
fn sweep_faults(id: &str, files: &[(String, Vec<u8>)], every: NonZeroUsize) -> Report {
    let mut report = Report::new(format!("faults/{id}"));
    let (read, operations) = read_with_fault(files, None);
    let read = read.context("never done").flatten();
    let Some(expected) = report.ok_or_report("sound", read) else { return report };
    let faults = list_faults();
    let pairs = (0..operations.len()).flat_map(|nth| faults.iter().map(move |fault| (nth, fault)));
    let pairs: Vec<_> = pairs.step_by(every.get()).collect();
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        let sweep = |pairs| {
            let (mut report, expected) = (Report::new(format!("faults/{id}")), &expected);
            scope.spawn(move || {
                for (nth, fault) in pairs {
                    check_read_with_fault(&mut report, files, expected, nth, fault);
                }
                report
            })
        };
        let threads: Vec<_> = pairs
            .chunks(pairs.len().div_ceil(cores).max(1))
            .map(|pairs| sweep(pairs.iter().copied()))
            .collect();
        for thread in threads {
            match thread.join() {
                Ok(part) => report.add(part),
                Err(_) => report.fail("panic", "a read ended with a panic, printed above"),
            }
        }
    });
    report
}

/// Reads with one fault: the answer must be `expected`, or an error that has a class.
fn check_read_with_fault(
    report: &mut Report,
    files: &[(String, Vec<u8>)],
    expected: &[String],
    nth: usize,
    fault: &Fault,
) {
    let what = format!("{nth} {fault:?}");
    let (found, operations) = read_with_fault(files, Some((nth, fault.clone())));
    match found {
        Some(Ok(lines)) if lines != expected => {
            // The object index states its rows, so none of its chunks may be missing.
            let path = operations.get(nth);
            let path =
                path.filter(|path| !path.contains("/object_index/") || !path.contains("/c/"));
            let absent = *fault == Fault::Missing;
            let reduced = if absent { read_facts_without(files, path) } else { Vec::new() };
            let right = absent
                && lines.iter().all(|line| expected.contains(line) || reduced.contains(line));
            report.check(
                &what,
                right,
                format!("a wrong answer: {}", describe_difference(&lines, expected)),
            );
        }
        Some(_) => report.passed += 1,
        None => report.fail(&what, format!("not done after {MAX_TIME:?}")),
    }
}

/// Returns the facts of a store that really lacks `path` and everything below it. Some objects are
/// optional, and a missing chunk of an array holds fill values: if the backend returns "not found",
/// this is the right answer.
fn read_facts_without(files: &[(String, Vec<u8>)], path: Option<&String>) -> Vec<String> {
    let Some(path) = path else { return Vec::new() };
    let is_below = |name: &str| {
        name.strip_prefix(path.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let rest: Vec<_> = files.iter().filter(|(name, _)| !is_below(name)).cloned().collect();
    read_with_fault(&rest, None).0.and_then(Result::ok).unwrap_or_default()
}

/// Returns the first line that only one of two answers has.
fn describe_difference(found: &[String], expected: &[String]) -> String {
    let extra = found.iter().find(|line| !expected.contains(line));
    let lost = expected.iter().find(|line| !found.contains(line));
    format!(
        "{} instead of {}",
        extra.map_or("nothing", |line| line),
        lost.map_or("nothing", |line| line)
    )
}

/// Reads everything with one fault; `None` if that never ends. Also returns the operations of the
/// backend.
fn read_with_fault(
    files: &[(String, Vec<u8>)],
    fault: Option<(usize, Fault)>,
) -> (Option<anyhow::Result<Vec<String>>>, Vec<String>) {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.expect("a runtime needs nothing that can be missing");
    runtime.block_on(async {
        let backend = Arc::new(FaultStore::new());
        for (path, bytes) in files {
            backend.insert(path, bytes).await;
        }
        if let Some((nth, fault)) = fault {
            backend.plan(nth, fault);
        }
        let read = async {
            let (top, options) = (Prefix::default(), OpenOptions::default());
            let store = Store::from_object_store(Arc::clone(&backend) as _, &top, options).await?;
            read_facts(&store).await
        };
        let found = tokio::time::timeout(MAX_TIME, read).await.ok();
        (found, backend.requests().into_iter().map(|request| request.path).collect())
    })
}

fn list_faults() -> [Fault; 15] {
    [
        Fault::Status(500),
        Fault::Status(503),
        Fault::Status(403),
        Fault::Reset,
        Fault::Silence,
        Fault::Delay(Duration::from_secs(3)),
        Fault::ShortBody(7),
        Fault::BrokenBody(9),
        Fault::StalledBody(5),
        Fault::LongBody,
        Fault::Pieces(3),
        Fault::WrongRange,
        Fault::Missing,
        Fault::Changed(Bytes::from_static(b"other content")),
        Fault::ChangedUnseen(Bytes::from_static(b"other content")),
    ]
}

const MAX_TIME: Duration = Duration::from_secs(3600);

/// Stores that differ in how they are read: plain, sharded, compressed, with checksums, of every
/// layout family.
const SWEPT: &str = "pc3_blosc pc3_objects_bins pc3_sharded_zstd pc3_zstd_crc sl3_sharded_blosc
    v060_pc3_objects v070early_sl3 v080_gr3_edges";
