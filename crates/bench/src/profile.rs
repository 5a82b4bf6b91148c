//! Where the time of work in this process goes: it is done again and again while `perf` listens.
//!
//! ```text
//! record    `perf record` listens to this process, its threads and the commands that it starts, for a while
//! report    `perf report` counts the samples of each function
//! words     the share of the system with its two largest functions, and the four largest of ours
//! ```

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::contest::Turn;

/// The profile in words, or why there is none.
pub(crate) fn take(
    time: Duration,
    run: &mut dyn FnMut() -> anyhow::Result<Turn>,
) -> Result<String, String> {
    let mut listened = || {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("perf.data");
        record(&file, time, run)?;
        anyhow::Ok(describe(&report(&file)?))
    };
    listened().map_err(|error| format!("no profile: {error:#}"))
}

fn record(
    file: &Path,
    time: Duration,
    run: &mut dyn FnMut() -> anyhow::Result<Turn>,
) -> anyhow::Result<()> {
    let mut perf = Command::new("perf");
    perf.args(["record", "--quiet", "--freq", "997", "--pid", &std::process::id().to_string()]);
    perf.arg("--output").arg(file).args(["--", "sleep", &time.as_secs_f64().to_string()]);
    let mut perf = perf.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("perf")?;
    let begun = Instant::now();
    let status = loop {
        run()?;
        if let Some(status) = perf.try_wait()? {
            break status;
        }
        // It stops by itself; who cannot be stopped must not hold up the run.
        if begun.elapsed() > 10 * time + PATIENCE {
            perf.kill()?;
            break perf.wait()?;
        }
    };
    ensure!(status.success(), "perf record: {status}");
    Ok(())
}

/// The lines of `perf report`: a share, whether it is of the system, and the function.
fn report(file: &Path) -> anyhow::Result<Vec<Share>> {
    let mut perf = Command::new("perf");
    perf.args(["report", "--stdio", "--quiet", "--no-children", "--sort", "symbol"]);
    perf.args(["--field-separator", "\t", "--input"]).arg(file);
    let output = perf.output().context("perf")?;
    ensure!(output.status.success(), "perf report: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let shares: Vec<Share> = text.lines().filter_map(parse).collect();
    ensure!(!shares.is_empty(), "perf took no samples");
    Ok(shares)
}

/// What one function took.
#[derive(Clone, Debug, PartialEq)]
struct Share {
    percent: f64,
    in_system: bool,
    name: String,
}

/// A line: a share such as `12.34%`, a tab, and a function such as `[k] clear_page_erms`.
fn parse(line: &str) -> Option<Share> {
    let (percent, rest) = line.trim().split_once('\t')?;
    let percent = percent.trim().trim_end_matches('%').parse().ok()?;
    // Some releases have more columns, which are empty.
    let rest = rest.split('\t').next().unwrap_or(rest);
    let (space, name) = rest.trim().split_once(' ')?;
    Some(Share { percent, in_system: space != "[.]", name: shorten(name.trim()) })
}

/// The name without what the compiler adds to tell instances apart, and without generic parameters; the last three
/// parts of its path.
fn shorten(name: &str) -> String {
    let name = match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 => name,
        _ => name,
    };
    let (mut depth, mut bare) = (0_usize, String::new());
    for (at, letter) in name.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' if !name[..at].ends_with('-') => depth = depth.saturating_sub(1),
            // A path that begins with a type in angles keeps that type.
            letter if depth == 0 || (depth == 1 && name.starts_with('<')) => bare.push(letter),
            _ => {}
        }
    }
    let parts: Vec<&str> = bare.split("::").filter(|part| !part.is_empty()).collect();
    parts[parts.len().saturating_sub(3)..].join("::")
}

fn describe(shares: &[Share]) -> String {
    let largest = |in_system: bool, count: usize| {
        let mut some: Vec<&Share> =
            shares.iter().filter(|share| share.in_system == in_system).collect();
        some.sort_by(|a, b| b.percent.total_cmp(&a.percent));
        let some = some.into_iter().take(count).filter(|share| share.percent >= 1.0);
        let some: Vec<String> =
            some.map(|share| format!("`{}` {:.0} %", share.name, share.percent)).collect();
        some.join(", ")
    };
    let system: f64 =
        shares.iter().filter(|share| share.in_system).fold(0.0, |all, share| all + share.percent);
    let within = Some(largest(true, 2)).filter(|text| !text.is_empty());
    let within = within.map(|text| format!(" ({text})")).unwrap_or_default();
    let ours = Some(largest(false, 4)).filter(|text| !text.is_empty());
    let ours = ours.map(|text| format!("; {text}")).unwrap_or_default();
    format!("the system {system:.0} %{within}{ours}")
}

/// Longer than any piece of work.
const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short() {
        for (name, short) in [
            ("clear_page_erms", "clear_page_erms"),
            ("zvf_query::run::gather::rows::h0123456789abcdef", "run::gather::rows"),
            ("core::slice::sort<alloc::vec::Vec<u8>>::merge", "slice::sort::merge"),
            ("<zvf_store::Store as core::fmt::Debug>::fmt", "fmt::Debug::fmt"),
        ] {
            assert_eq!(shorten(name), short, "{name}");
        }
    }

    #[test]
    fn samples_become_words() {
        let text = " 40.25%\t[k] copy_page_to_iter\n 9.75%\t[k] clear_page\n\n 30.00%\t[.] memcpy\n\
                    19.60%\t[.] a::b::c::d::h0123456789abcdef\n 0.40%\t[.] small\n# comment\n";
        let shares: Vec<Share> = text.lines().filter_map(parse).collect();
        assert_eq!(shares.len(), 5);
        assert_eq!(
            describe(&shares),
            "the system 50 % (`copy_page_to_iter` 40 %, `clear_page` 10 %); `memcpy` 30 %, `b::c::d` 20 %"
        );
        assert_eq!(describe(&shares[2..3]), "the system 0 %; `memcpy` 30 %");
    }
}
