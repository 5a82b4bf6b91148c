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

use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::peers;
use crate::report::Report;
use crate::tally::Tally;

/// Writes every case, and has it read.
pub(crate) fn run(
    only: Option<&str>,
    runtime: &Runtime,
    tally: &mut Tally<impl Write>,
) -> anyhow::Result<()> {
    let folder = archives::scratch();
    let (mut written, mut facts) = (0_usize, 0_u64);
    for (name, case) in cases::list_cases() {
        if only.is_none_or(|only| name.contains(only)) {
            runtime.block_on(case.write(folder.path(), &name));
            written += 1;
        }
    }
    let python = peers::install_python("reference-0.9.2", &["zarr-vectors==0.9.2"])?;
    let reader = &mut Command::new(python);
    let output =
        peers::run_command(reader.arg(peers::script_path("read_stores.py")).arg(folder.path()))?;
    let mut read = 0_usize;
    for line in output.lines() {
        let line: Value = serde_json::from_str(line).context("the reader says no JSON")?;
        let mut report = Report::new(format!("written/{}", line["store"].as_str().unwrap_or("?")));
        report.passed = line["passed"].as_u64().unwrap_or_default();
        for fault in line["faults"].as_array().into_iter().flatten() {
            report.fail("reference", fault.as_str().unwrap_or("?"));
        }
        (read, facts) = (read + 1, facts + report.passed);
        tally.add(report)?;
    }
    anyhow::ensure!(read == written, "{read} of {written} stores were read");
    tally.print_line(&format!("written: {written} stores, {facts} facts that the reference reads"))
}

/// Rewrites the stores of `folder`, which the reference wrote.
pub(crate) fn check_twins(
    folder: &Path,
    list: &Value,
    runtime: &Runtime,
    tally: &mut Tally<impl Write>,
) -> anyhow::Result<()> {
    let (mut stores, mut cells) = (0_usize, 0_u64);
    for about in list.as_array().into_iter().flatten() {
        let id = about["id"].as_str().context("a store without an id")?;
        let mut report = Report::new(format!("twin/{id}"));
        if let Err(error) =
            runtime.block_on(twins::compare_twin(&mut report, &folder.join(id), about))
        {
            report.fail("written", format!("{error:#}"));
        }
        (stores, cells) = (stores + 1, cells + report.passed);
        tally.add(report)?;
    }
    tally.print_line(&format!("twins: {stores} stores, {cells} cells and rows byte for byte"))
}
