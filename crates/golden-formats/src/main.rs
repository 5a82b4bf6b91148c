//! Checks folders of golden files: `golden-formats DIR... [--only TEXT]`.

use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let (mut dirs, mut only) = (Vec::new(), None);
    while let Some(word) = words.next() {
        if word == "--only" {
            only = words.next().and_then(|text| text.into_string().ok());
        } else {
            dirs.push(word);
        }
    }
    let mut all = golden_formats::Outcome::default();
    for dir in dirs {
        match golden_formats::check_folder(dir.as_ref(), only.as_deref()) {
            Ok(outcome) => all.extend(outcome),
            Err(error) => all.failures.push(format!("{error:#}")),
        }
    }
    let mut out = std::io::stdout().lock();
    let lines = all.failures.iter().map(|line| format!("FAILED  {line}"));
    let skipped = all.skipped.iter().map(|line| format!("skipped {line}"));
    for line in skipped.chain(lines) {
        drop(writeln!(out, "{line}"));
    }
    let (passed, failed, skipped) = (all.passed, all.failures.len(), all.skipped.len());
    drop(writeln!(out, "{passed} passed, {failed} failed, {skipped} skipped"));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
