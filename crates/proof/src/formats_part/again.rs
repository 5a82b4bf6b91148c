//! Random files of stock libraries, read and rewritten by zvf, and compared by the library that
//! wrote them.
//!
//! A difference is an error of zvf's reader, its writer, or their combination.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde_json::Value as Json;
use zvf_convert::Format;
use zvf_convert::read::{self, Input, ReadOptions};

use super::{list_paths, write_copy};
use crate::peers;
use crate::report::{Report, Run};

/// Exchanges `count` files of each format; `seed` starts the random numbers.
pub(crate) fn run(seed: u64, count: u32, run: &mut Run<'_>) -> anyhow::Result<()> {
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
    let mut report = Report::new(format!("formats/{seed}"));
    for path in list_paths(&from)? {
        let name = path.file_name().expect("a listed path has a name");
        if let Err(error) = write_again(&path, &to.join(name)) {
            report.fail(&name.to_string_lossy(), format!("{error:#}"));
        }
    }
    for line in peers::run_command(script().arg("compare").arg(folder.path()))?.lines() {
        let line: Json = serde_json::from_str(line).context("a line that is no JSON")?;
        let (name, fault) = (line["name"].as_str().unwrap_or_default(), line["fault"].as_str());
        report.check(name, fault.is_none(), fault.unwrap_or_default());
    }
    run.add(report)
}

/// Rewrites a file or folder in its format.
fn write_again(from: &Path, to: &Path) -> anyhow::Result<()> {
    let format = Format::from_path(from).context("no format is recognised")?;
    let reader = read::open(Input::path(from), None, &ReadOptions::default())?;
    let as_folder = format.capabilities().is_folder && from.is_dir();
    write_copy(reader, format, to, as_folder).map(drop)
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
