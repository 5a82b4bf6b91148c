//! The part that lets a backend fail: the right answer or an error with a class, whatever fails and when.
//!
//! A store is read whole from memory once, which counts the operations. Then, for each operation and each
//! fault, it is read again with that one operation failing. Time is virtual, so that timeouts and
//! backoff cost nothing; a run that never ends is one that takes longer than [`MOST_TIME`] of it.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fault_store::{Fault, FaultStore};
use object_store::path::Path as Prefix;
use tokio::runtime::Builder;
use zvf_store::{OpenOptions, Store};

use crate::corpus;
use crate::everything::{Refusal, everything};
use crate::report::Report;
use crate::tally::Tally;

/// Sweeps the stores of `folder` that have something of their own to fail at.
pub(crate) fn run(
    folder: &Path,
    only: Option<&str>,
    every: usize,
    tally: &mut Tally<impl Write>,
) -> anyhow::Result<()> {
    for golden in corpus::goldens(folder)? {
        let asked = match only {
            Some(only) => golden.id.contains(only),
            None => SWEPT.contains(&golden.id.as_str()),
        };
        if !asked {
            continue;
        }
        let unpacked = corpus::unpack(&golden.archive)?;
        let files = corpus::files(&unpacked.path().join(&golden.store))?;
        let mut report = Report::new(format!("faults/{}", golden.id));
        sweep(&mut report, &files, every);
        tally.add(report)?;
    }
    Ok(())
}

/// Each operation with each fault, or every `every`th of these pairs.
fn sweep(report: &mut Report, files: &[(String, Vec<u8>)], every: usize) {
    let (told, operations) = match one(files, None) {
        (Some(Ok(lines)), asked) => (lines, asked.len()),
        (Some(Err(error)), _) => return report.fail("sound", error),
        (None, _) => return report.fail("sound", "never done"),
    };
    let faults = faults();
    let pairs = (0..operations).flat_map(|nth| faults.iter().map(move |fault| (nth, fault)));
    for (nth, fault) in pairs.step_by(every) {
        let what = format!("{nth} {fault:?}");
        let (found, asked) = one(files, Some((nth, fault.clone())));
        match found {
            Some(Ok(lines)) if lines != told => {
                let absent = *fault == Fault::Missing;
                let known = if absent { without(files, asked.get(nth)) } else { Vec::new() };
                let right =
                    absent && lines.iter().all(|line| told.contains(line) || known.contains(line));
                report.holds(&what, right, format!("a wrong answer: {}", differing(&lines, &told)));
            }
            Some(_) => report.passed += 1,
            None => report.fail(&what, format!("not done after {MOST_TIME:?}")),
        }
    }
}

/// What a store says that really lacks the object at `path`. Some are optional, and a chunk of an array
/// that is not there is one of fill values: a backend that denies it says just that.
fn without(files: &[(String, Vec<u8>)], path: Option<&String>) -> Vec<String> {
    let rest: Vec<_> = files.iter().filter(|(name, _)| Some(name) != path).cloned().collect();
    one(&rest, None).0.and_then(Result::ok).unwrap_or_default()
}

/// The first line that only one of two answers has.
fn differing(found: &[String], told: &[String]) -> String {
    let extra = found.iter().find(|line| !told.contains(line));
    let lost = told.iter().find(|line| !found.contains(line));
    format!(
        "{} instead of {}",
        extra.map_or("nothing", |line| line),
        lost.map_or("nothing", |line| line)
    )
}

/// Reads everything with one fault; `None` when that never ends. Also what was asked of the backend.
fn one(
    files: &[(String, Vec<u8>)],
    fault: Option<(usize, Fault)>,
) -> (Option<Result<Vec<String>, Refusal>>, Vec<String>) {
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
            everything(&store).await
        };
        let found = tokio::time::timeout(MOST_TIME, read).await.ok();
        (found, backend.asked().into_iter().map(|asked| asked.path).collect())
    })
}

fn faults() -> [Fault; 13] {
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
        Fault::Missing,
        Fault::Changed(Bytes::from_static(b"other content")),
    ]
}

const MOST_TIME: Duration = Duration::from_secs(3600);

/// Stores that differ in how they are read: plain, sharded, compressed, checksummed, every layout family.
const SWEPT: [&str; 8] = [
    "pc3_blosc",
    "pc3_objects_bins",
    "pc3_sharded_zstd",
    "pc3_zstd_crc",
    "sl3_sharded_blosc",
    "v060_pc3_objects",
    "v070early_sl3",
    "v080_gr3_edges",
];
