//! The part that opens and reads damaged stores: each must be refused, read, or survived, as the
//! corpus states.
//!
//! ```text
//! want     detect_at   what must happen
//! error    open        opening is refused
//! error    read        opening, or reading everything, is refused
//! error    validate    no crash; only a validator finds the fault
//! accept               the same answers as the undamaged store
//! either               an error or an answer
//! ```
//!
//! For any input: no panic, at most [`MAX_BYTES`] on the heap, and at most [`MAX_TIME`].

use std::path::Path;
use std::time::Duration;

use archives::Unpacked;
use zvf_error::Error;

use crate::HEAP;
use crate::corpus::{self, Fault};
use crate::report::{Report, Run};
use crate::store_facts::read_facts;

/// Runs every damaged store of `folder`.
pub(crate) fn run(folder: &Path, run: &mut Run<'_>) -> anyhow::Result<()> {
    for fault in corpus::list_faults(folder, run.only.as_deref())? {
        run.case(format!("broken/{}", fault.id), async |report| check_fault(report, &fault).await)?;
    }
    Ok(())
}

/// How far reading got.
enum Outcome {
    NotOpened(Error),
    NotRead(Error),
    Read(Vec<String>),
    Panicked(String),
    NotDone,
}

async fn check_fault(report: &mut Report, fault: &Fault) -> anyhow::Result<()> {
    let unpacked = Unpacked::from_files(&corpus::read_archive(&fault.archive)?);
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let outcome = read_store(unpacked.path()).await;
    let used = HEAP.peak_usage().saturating_sub(before);
    report.check("memory", used <= MAX_BYTES, format!("{used} bytes at once ({})", fault.what));

    let what = &fault.what;
    match (&*fault.want, fault.detect_at.as_deref(), &outcome) {
        (_, _, Outcome::Panicked(why)) => report.fail("panic", format!("{why} ({what})")),
        (_, _, Outcome::NotDone) => {
            report.fail("time", format!("not done in {MAX_TIME:?} ({what})"));
        }
        ("error", Some("open"), Outcome::NotOpened(_))
        | ("error", Some("read"), Outcome::NotOpened(_) | Outcome::NotRead(_)) => {
            report.passed += 1;
        }
        ("error", Some("open"), Outcome::NotRead(error)) => {
            report.fail("open", format!("opened, and refused later only: {error} ({what})"));
        }
        ("error", Some("open" | "read"), Outcome::Read(_)) => {
            report.fail("read", format!("read without an error ({what})"));
        }
        ("error", ..) => {
            report.passed += 1; // survived
            report
                .skip("broken stores whose fault is for a validator to find: survived, not judged");
        }
        ("accept", _, Outcome::NotOpened(error) | Outcome::NotRead(error)) => {
            report.fail("accept", format!("{error} ({what})"));
        }
        ("accept", _, Outcome::Read(lines)) => {
            let base = Unpacked::from_files(&corpus::read_archive(&fault.base)?);
            match read_store(base.path()).await {
                Outcome::Read(found) => {
                    report.check(
                        "accept",
                        found == *lines,
                        format!("other answers than the base ({what})"),
                    );
                }
                _ => report.fail("accept", "the undamaged store cannot be read"),
            }
        }
        ("either", ..) => report.passed += 1,
        (want, ..) => report.fail("want", format!("nothing checks {want:?}")),
    }
    Ok(())
}

/// Opens a store and reads everything, in a task, because it may panic.
async fn read_store(path: &Path) -> Outcome {
    let path = path.to_owned();
    let task = async move {
        match corpus::open(&path).await {
            Ok(store) => read_facts(&store).await.map_or_else(Outcome::NotRead, Outcome::Read),
            Err(error) => Outcome::NotOpened(error),
        }
    };
    match tokio::time::timeout(MAX_TIME, tokio::spawn(task)).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => Outcome::Panicked(error.to_string()),
        Err(_) => Outcome::NotDone,
    }
}

/// The memory budget of a handle is 256 MiB; the rest is for this program.
const MAX_BYTES: usize = 384 << 20;
const MAX_TIME: Duration = Duration::from_secs(60);
