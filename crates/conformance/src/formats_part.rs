//! Files of other formats, compared with what stock libraries read from them: see the crate `golden-formats`.

use std::io::Write;
use std::path::Path;

use crate::tally::Tally;

/// Checks the files of `folder`, or those with `only` in their names.
pub(crate) fn run(
    folder: &Path,
    only: Option<&str>,
    tally: &mut Tally<impl Write>,
) -> anyhow::Result<()> {
    let outcome = golden_formats::check_folder(folder, only)?;
    for _ in 0..outcome.passed {
        tally.pass();
    }
    for failure in outcome.failures {
        tally.fail(&[failure])?;
    }
    for why in outcome.skipped {
        tally.skip_because(why);
    }
    Ok(())
}
