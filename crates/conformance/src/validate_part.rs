//! The part that validates: sound stores have no errors, damaged ones have.
//!
//! ```text
//! golden              no finding is an error; edited stores are only counted, since the leftovers of an edit
//!                     really exist
//! broken, error       some finding is an error that the undamaged store does not have, or the store is refused
//! broken, accept      no more errors than the undamaged store has
//! broken, either      no crash
//! ```

use std::io::Write;
use std::path::Path;

use archives::Unpacked;
use tokio::runtime::Runtime;
use zvf_store::OpenOptions;
use zvf_validate::{Observer, Options, Severity, validate_at};

use crate::corpus::{self, Fault, Golden};
use crate::report::Report;
use crate::tally::Tally;

/// Validates every store of `folder`, sound and damaged.
pub(crate) fn run(
    folder: &Path,
    only: Option<&str>,
    runtime: &Runtime,
    tally: &mut Tally<impl Write>,
) -> anyhow::Result<()> {
    let mut counts = Counts::default();
    for golden in corpus::list_goldens(folder, only)? {
        counts.sound += 1;
        tally.add(check_sound(&golden, runtime)?)?;
    }
    for fault in corpus::list_faults(folder, only)? {
        tally.add(check_damaged(&fault, runtime, &mut counts)?)?;
    }
    let Counts { sound, damaged, wrong, found } = counts;
    tally.print_line(&format!(
        "validate: {sound} sound stores; {damaged} damaged ones, {found} of the {wrong} that must be found"
    ))
}

/// How many stores were validated.
#[derive(Default)]
struct Counts {
    sound: u64,
    damaged: u64,
    /// Stores that must have an error, and those in which one was found.
    wrong: u64,
    found: u64,
}

fn check_sound(golden: &Golden, runtime: &Runtime) -> anyhow::Result<Report> {
    let mut report = Report::new(format!("validate/{}", golden.id));
    let errors = list_archive_errors(&golden.archive, runtime)?;
    if golden.edited && !errors.is_empty() {
        report.skip("errors of edited stores: the leftovers of an edit really exist");
    } else {
        report.check("sound", errors.is_empty(), errors.join("; "));
    }
    Ok(report)
}

fn check_damaged(fault: &Fault, runtime: &Runtime, counts: &mut Counts) -> anyhow::Result<Report> {
    let mut report = Report::new(format!("validate/broken/{}", fault.id));
    let mut found = list_archive_errors(&fault.archive, runtime)?;
    if fault.want == "error" {
        // Faults of the base are not those of the damage.
        let before = list_archive_errors(&fault.base, runtime)?;
        found.retain(|error| !before.contains(error));
    }
    counts.damaged += 1;
    if fault.want == "error" {
        counts.wrong += 1;
        counts.found += u64::from(!found.is_empty());
    }
    match &*fault.want {
        "error" => report.check("found", !found.is_empty(), format!("no error ({})", fault.what)),
        "accept" => {
            let before = list_archive_errors(&fault.base, runtime)?.len();
            let more = format!("{} ({})", found.join("; "), fault.what);
            report.check("accept", found.len() <= before, more);
        }
        _ => report.passed += 1, // it ended, which is all that is required
    }
    Ok(report)
}

/// Returns the errors of an archived store, a line each.
fn list_archive_errors(archive: &Path, runtime: &Runtime) -> anyhow::Result<Vec<String>> {
    list_errors(Unpacked::from_files(&corpus::read_archive(archive)?).path(), runtime)
}

/// Returns the errors of a store, a line each.
pub(crate) fn list_errors(store: &Path, runtime: &Runtime) -> anyhow::Result<Vec<String>> {
    let address = store.to_string_lossy().into_owned();
    let (options, observer) = (Options::default(), Observer::default());
    let validated = validate_at(&address, OpenOptions::default(), &options, &observer);
    let report = runtime.block_on(validated)?;
    let errors = report.findings.iter().filter(|finding| finding.severity == Severity::Error);
    Ok(errors.map(ToString::to_string).collect())
}
