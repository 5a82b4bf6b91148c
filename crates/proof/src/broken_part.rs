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

use crate::HEAP;
use crate::corpus::{self, DamagedStore};
use crate::report::{Report, Run};
use crate::store_facts::read_facts;

/// Runs every damaged store of `folder`.
pub(crate) fn run(folder: &Path, run: &mut Run<'_>) -> anyhow::Result<()> {
    for fault in corpus::list_faults(folder, run.only.as_deref())? {
        run.case(format!("broken/{}", fault.id), async |report| check_fault(report, &fault).await)?;
    }
    Ok(())
}

/// The facts of a store, or at which step they were refused, and why. Faults that only this
/// program sees are unnoticed.
type Outcome = Result<Vec<String>, (&'static str, String)>;

async fn check_fault(report: &mut Report, fault: &DamagedStore) -> anyhow::Result<()> {
    let what = &fault.what;
    let unpacked = Unpacked::from_files(&corpus::read_archive(&fault.archive)?);
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let outcome = read_store(unpacked.path()).await;
    let used = HEAP.peak_usage().saturating_sub(before);
    report.check("memory", used <= MAX_BYTES, format!("{used} bytes at once ({what})"));
    let steps: &[&str] = match (&*fault.want, fault.detect_at.as_deref()) {
        ("error", Some("open")) => &["open"],
        ("error", Some("read")) => &["open", "read"],
        ("error", _) => {
            report
                .skip("broken stores whose fault is for a validator to find: survived, not judged");
            &ANY
        }
        ("accept", _) => &["none"],
        ("either", _) => &ANY,
        (want, _) => anyhow::bail!("nothing checks {want:?}"),
    };
    let (step, why) = match &outcome {
        Ok(_) => ("none", ""),
        Err((step, why)) => (*step, why.as_str()),
    };
    let is_right = steps.contains(&step);
    report.check("step", is_right, format!("{step} {why}, not one of {steps:?} ({what})"));
    if fault.want == "accept" && is_right {
        let base = Unpacked::from_files(&corpus::read_archive(&fault.base)?);
        let same = read_store(base.path()).await == outcome;
        report.check("accept", same, format!("other answers than the base ({what})"));
    }
    Ok(())
}

/// Opens a store and reads everything, in a task, because it may panic.
async fn read_store(path: &Path) -> Outcome {
    let path = path.to_owned();
    let task = async move {
        let store = corpus::open(&path).await.map_err(|error| ("open", error.to_string()))?;
        read_facts(&store).await.map_err(|error| {
            let is_refused = error.is::<zvf_error::Error>() || error.is::<zvf_model::BadCode>();
            (if is_refused { "read" } else { "unnoticed" }, format!("{error:#}"))
        })
    };
    match tokio::time::timeout(MAX_TIME, tokio::spawn(task)).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => Err(("panic", error.to_string())),
        Err(_) => Err(("timeout", format!("after {MAX_TIME:?}"))),
    }
}

/// The steps after which a store is survived.
const ANY: [&str; 4] = ["open", "read", "unnoticed", "none"];
/// The memory budget of a handle is 256 MiB; the rest is for this program.
const MAX_BYTES: usize = 384 << 20;
const MAX_TIME: Duration = Duration::from_secs(60);
