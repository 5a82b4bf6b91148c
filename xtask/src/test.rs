//! `test`: the test command of the README.

use std::io::{self, Write};
use std::path::PathBuf;
use std::{env, fs};

use crate::args::Args;
use crate::house::House;

pub(crate) fn run(house: &House, args: Args) -> anyhow::Result<()> {
    let mut tests = house.cargo("test").forward(args);
    let memory = ram_folder(house);
    if let Some(folder) = &memory {
        // Tests write many small files, and wait for the disk.
        tests = tests.env("TMPDIR", &folder.path.display().to_string());
    }
    let results = tests.run_keeping(|line| line.starts_with("test result:"))?;
    let mut out = io::stdout().lock();
    writeln!(out)?;
    for line in &results {
        writeln!(out, "{line}")?;
    }
    let passed: u64 = results.iter().map(|line| count(line, "passed")).sum();
    let failed: u64 = results.iter().map(|line| count(line, "failed")).sum();
    writeln!(out, "\n{passed} passed, {failed} failed, in {} runs", results.len())?;
    Ok(())
}

/// A folder in memory for temporary files, removed at the end.
struct RamFolder {
    path: PathBuf,
}

impl Drop for RamFolder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.path)); // what stays there is lost with the next start of the machine
    }
}

/// Returns a folder in memory, if the system has room for one and the environment names no folder.
fn ram_folder(house: &House) -> Option<RamFolder> {
    let free = house.program("df").words("--output=fstype,avail /dev/shm").output()?;
    let mut words = free.split_whitespace().skip(2);
    let (kind, kib) = (words.next()?, words.next()?.parse::<u64>().ok()?);
    if env::var_os("TMPDIR").is_some() || kind != "tmpfs" || kib < ROOM_KIB {
        return None;
    }
    let path = PathBuf::from(format!("/dev/shm/zvf-test-{}", std::process::id()));
    fs::create_dir(&path).ok()?;
    Some(RamFolder { path })
}

/// The space that concurrent tests may need.
const ROOM_KIB: u64 = 4 << 20;

/// Returns the number before `what` in `test result: ok. 12 passed; 0 failed; …`.
pub(crate) fn count(line: &str, what: &str) -> u64 {
    let parts = line.split([';', '.']).map(str::trim);
    parts.filter_map(|part| part.strip_suffix(what)?.trim().parse().ok()).next().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_closing_line() {
        let line = "test result: ok. 12 passed; 3 failed; 0 ignored; finished in 0.02s";
        assert_eq!((count(line, "passed"), count(line, "failed"), count(line, "lost")), (12, 3, 0));
    }
}
