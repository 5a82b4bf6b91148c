//! The part that validates: valid stores have no errors, damaged ones have some.
//!
//! ```text
//! golden              no finding is an error; edited stores are only counted, since the leftovers of an edit
//!                     really exist
//! broken, error       some finding is an error that the undamaged store does not have, or the store is refused
//! broken, accept      no more errors than the undamaged store has
//! broken, either      no crash
//! ```

use std::path::Path;

use archives::Unpacked;
use zvf_store::OpenOptions;
use zvf_validate::{Checks, Observer, Severity, validate_at};

use crate::corpus;
use crate::report::{Report, Run};

/// Validates every store of `folder`, valid and damaged.
pub(crate) fn run(folder: &Path, run: &mut Run<'_>) -> anyhow::Result<()> {
    run.goldens(folder, "validate/", async |report, golden, path| {
        let errors = list_errors(path).await?;
        if golden.edited && !errors.is_empty() {
            report.skip("errors of edited stores: the leftovers of an edit really exist");
        } else {
            report.check("sound", errors.is_empty(), errors.join("; "));
        }
        Ok(())
    })?;
    for fault in corpus::list_faults(folder, run.only.as_deref())? {
        run.case(format!("validate/broken/{}", fault.id), async |report| {
            let mut found = list_archive_errors(&fault.archive).await?;
            match &*fault.want {
                "error" => {
                    // Errors of the undamaged store do not count.
                    let before = list_archive_errors(&fault.base).await?;
                    found.retain(|error| !before.contains(error));
                    report.check("found", !found.is_empty(), format!("no error ({})", fault.what));
                }
                "accept" => {
                    let before = list_archive_errors(&fault.base).await?.len();
                    let more = format!("{} ({})", found.join("; "), fault.what);
                    report.check("accept", found.len() <= before, more);
                }
                _ => report.passed += 1, // it ended, which is all that is required
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Checks that a store has no errors.
pub(crate) async fn check_sound(report: &mut Report, store: &Path) -> anyhow::Result<()> {
    let errors = list_errors(store).await?;
    report.check("sound", errors.is_empty(), errors.join("; "));
    Ok(())
}

/// Returns the errors of an archived store, one line each.
async fn list_archive_errors(archive: &Path) -> anyhow::Result<Vec<String>> {
    list_errors(Unpacked::from_files(&corpus::read_archive(archive)?).path()).await
}

/// Returns the errors of a store, one line each.
pub(crate) async fn list_errors(store: &Path) -> anyhow::Result<Vec<String>> {
    let (options, observer) = (Checks::default(), Observer::default());
    let address = store.to_string_lossy();
    let report = validate_at(&address, OpenOptions::default(), &options, &observer).await?;
    let errors = report.findings.iter().filter(|finding| finding.severity == Severity::Error);
    Ok(errors.map(ToString::to_string).collect())
}
