//! `memory`: the memory of every command under `--memory-limit`, measured by the system.
//!
//! The peak of resident memory must stay within five quarters of the limit. It is read while the
//! command runs, from the maximum that the system records, minus file-backed pages: the code of the
//! program and mapped packs, which the system can reclaim. The commands are those that write, and
//! every command that reads a whole store, on a store of each kind; with `--pairs`, every pair of
//! commands, kinds, regions and limits is covered, within the limit plus 64 MiB. An answer that is
//! collected in memory, or an edit of more vertices than fit, may be refused instead, with the name
//! of the limit.

mod kinds;
mod pairs;

use std::time::Duration;

use anyhow::ensure;
use archives::peers::read_figure;

use crate::Report;
use crate::commands::{Zvf, prepare_cases};

/// Measure the memory of every command under a limit.
#[derive(clap::Args)]
pub(crate) struct Memory {
    /// Points of the stores [default: one million; of pairs, ten times the limit].
    #[arg(long)]
    size: Option<u64>,
    /// The limits, in MiB; without pairs only the first.
    #[arg(long, value_delimiter = ',', default_value = "64")]
    limit: Vec<u64>,
    /// Run commands in regions, each two of command, kind, region and limit together.
    #[arg(long)]
    pairs: bool,
    /// Only commands with this in their names.
    #[arg(long)]
    what: Option<String>,
    /// Run only every Nth command.
    #[arg(long, default_value_t = 1)]
    every: usize,
}

impl Memory {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let scratch = tempfile::tempdir()?;
        let zvf = report.zvf(&scratch.path().join("place"))?;
        if self.pairs {
            return pairs::run(&self, &zvf, report);
        }
        let (mib, size) = (self.limit[0], self.size.unwrap_or(1_000_000));
        let mut all = prepare_cases(&zvf, size)?;
        all.extend(kinds::prepare_cases(&zvf, scratch.path(), size)?);
        let sampled = all.iter().step_by(self.every.max(1));
        for case in sampled.filter(|case| case.is_selected(self.what.as_deref())) {
            zvf.restore(case)?;
            let held = measure_peak(&zvf, &case.line, mib)?;
            check_peak(report, &case.name, held, mib * 1024 * 5 / 4);
        }
        Ok(())
    }
}

/// Prints and checks the peak memory of a command in KiB; a refusal is right.
fn check_peak(report: &mut Report, name: &str, held: Option<u64>, max_kib: u64) {
    report.print_note(&format!("{name}: {held:?} KiB"));
    let fits = held.is_none_or(|held| held <= max_kib);
    report.check(fits, || format!("{name} held {held:?} KiB, more than {max_kib}"));
}

/// Returns the peak memory of a command under a limit of `mib` MiB, in KiB; `None` if it refused
/// because of the limit.
fn measure_peak(zvf: &Zvf, line: &str, mib: u64) -> anyhow::Result<Option<u64>> {
    // It replaces another limit of the line.
    let line = line.replace(" --memory-limit 2MiB", "");
    let mut child = zvf.start(&format!("{line} --memory-limit {mib}MiB"))?;
    let figure = |id, name| read_figure(id, "status", name);
    let (id, mut held) = (child.id(), 0);
    loop {
        if let (Some(of_files), Some(peak)) = (figure(id, "RssFile:"), figure(id, "VmHWM:")) {
            held = held.max(peak.saturating_sub(of_files)); // pages of files may have been added after the peak
        }
        if child.try_wait()?.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let ended = child.wait_with_output()?;
    let stderr = String::from_utf8_lossy(&ended.stderr);
    if stderr.contains("--memory-limit") {
        return Ok(None);
    }
    ensure!(ended.status.success(), "{line}: {stderr}");
    Ok(Some(held))
}
