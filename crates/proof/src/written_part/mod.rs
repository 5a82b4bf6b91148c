//! The part that writes stores and has other software read them.
//!
//! ```text
//! cases   every kind with every option: the reference opens each, validates it at level 5, answers boxes,
//!         objects and groups as brute force does; zarr-python opens every array and every cell
//! twins   the inputs of new stores of the reference, written by us with `compat`: each
//!         cell, fragment index, manifest and link cell is the same, byte for byte
//! ```

pub(crate) mod cases;
mod twins;

use std::path::Path;

use crate::input::Input;
use crate::peers;
use crate::report::Run;

/// Writes every case, and has it read.
pub(crate) fn run(run: &mut Run<'_>) -> anyhow::Result<()> {
    let folder = archives::scratch();
    let mut written = 0_usize;
    for (name, case) in cases::list_cases() {
        if run.is_wanted(&name) {
            run.runtime.block_on(case.write(folder.path(), &name));
            written += 1;
        }
    }
    let mut reader = peers::reference_script("read_stores.py")?;
    let output = peers::run_command(reader.arg(folder.path()))?;
    let (read, facts) = run.verdicts("written", &output, async |_, _| Ok(()))?;
    anyhow::ensure!(read == written, "{read} of {written} stores were read");
    run.print_line(&format!("written: {written} stores, {facts} facts that the reference reads"))
}

/// Rewrites the stores of `folder`, which the reference wrote.
pub(crate) fn check_twins(
    folder: &Path,
    inputs: &[Input],
    run: &mut Run<'_>,
) -> anyhow::Result<()> {
    // What Draco makes of the same mesh is up to each encoder.
    for input in inputs.iter().filter(|input| !input.is_draco()) {
        run.case(format!("twin/{}", input.id), async |report| {
            twins::compare_twin(report, &folder.join(&input.id), input).await
        })?;
    }
    Ok(())
}
