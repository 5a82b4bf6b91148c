//! Random files of stock libraries, read and written again here, and compared by the library that wrote them.
//!
//! A difference is a fault of our reader, of our writer, or of their combination: the files of both folders are named
//! for inspection.

use std::io::Write;
use std::process::Command;

use anyhow::Context as _;
use serde_json::Value as Json;

use crate::peers;
use crate::tally::Tally;

/// Exchanges `count` files of each format; `seed` starts the random numbers.
pub(crate) fn run(seed: u64, count: u32, tally: &mut Tally<impl Write>) -> anyhow::Result<()> {
    let python = peers::install_python("formats", PACKAGES)?;
    let folder = tempfile::tempdir()?;
    let (from, to) = (folder.path().join("in"), folder.path().join("out"));
    let (seed, count) = (seed.to_string(), count.to_string());
    let script = || {
        let mut command = Command::new(&python);
        command.arg(peers::script_path("formats.py"));
        command
    };
    peers::run_command(script().arg("write").arg(folder.path()).args([&seed, &count]))?;
    std::fs::create_dir(&to)?;
    let outcome = golden_formats::write_folder_again(&from, &to)?;
    for failure in outcome.failures {
        tally.fail(&[failure])?;
    }
    let report = peers::run_command(script().arg("compare").arg(folder.path()))?;
    for line in report.lines() {
        let line: Json = serde_json::from_str(line).context("a line that is no JSON")?;
        match line["fault"].as_str() {
            None => tally.pass(),
            Some(fault) => {
                let name = line["name"].as_str().unwrap_or_default();
                tally.fail(&[format!("{name}, seed {seed}: {fault}")])?;
            }
        }
    }
    Ok(())
}

const PACKAGES: &[&str] = &[
    "numpy",
    "nibabel",
    "laspy[lazrs]",
    "trx-python",
    "trimesh",
    "cloud-volume",
    "pyarrow",
    "vtk",
    "networkx",
    "anndata",
];
