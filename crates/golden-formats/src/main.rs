//! Checks folders of golden files: `golden-formats DIR... [--only TEXT]`; or writes all files of one folder again to
//! another: `golden-formats --again FROM TO`; or damages them: `golden-formats --damage DIR ROUNDS SEED`.

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
    if let [mode, from, to] = &dirs[..]
        && mode == "--again"
    {
        match golden_formats::write_folder_again(from.as_ref(), to.as_ref()) {
            Ok(outcome) => all.extend(outcome),
            Err(error) => all.failures.push(format!("{error:#}")),
        }
        dirs.clear();
    }
    if let [mode, dir, rounds, seed] = &dirs[..]
        && mode == "--damage"
    {
        let number = |word: &std::ffi::OsString| word.to_str().and_then(|word| word.parse().ok());
        let (rounds, seed) = (number(rounds).unwrap_or(10), number(seed).unwrap_or(1));
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
        match golden_formats::check_damaged(dir.as_ref(), rounds, seed) {
            Ok(outcome) => all.extend(outcome),
            Err(error) => all.failures.push(format!("{error:#}")),
        }
        dirs.clear();
    }
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
