//! `zvf sql`: runs the program next to it, and prints what to install without one.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the command in a folder without other programs.
fn alone(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(folder.join("zvf"));
    command.args(words).env("PATH", folder).output().unwrap()
}

#[test]
fn the_program_gets_every_word_and_its_code_is_ours() {
    let own = Path::new(env!("CARGO_BIN_EXE_zvf"));
    // Next to the built program, so that no copy is needed.
    let folder = tempfile::tempdir_in(own.parent().unwrap()).unwrap();
    fs::hard_link(own, folder.path().join("zvf")).unwrap();
    let without = alone(folder.path(), &["sql", "SELECT 1"]);
    let stderr = String::from_utf8(without.stderr).unwrap();
    assert_eq!(without.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("zvf-sql") && stderr.contains("cargo install zvf-sql"), "{stderr}");

    let program = folder.path().join("zvf-sql");
    // Written by another process: a file that this process has open cannot be executed.
    let script = "#!/bin/sh\nfor word in \"$@\"; do echo \"$word\"; done\nexit 4\n";
    let write = "printf '%s' \"$1\" > \"$2\" && chmod 755 \"$2\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", write, "sh", script]).arg(&program);
    assert!(shell.status().unwrap().success());
    let words = ["sql", "--json", "--table", "a=b c", "SELECT 1", "-o", "x.csv", "--explain"];
    let done = alone(folder.path(), &words);
    assert_eq!(done.status.code(), Some(4));
    let passed = "--json\n--table\na=b c\nSELECT 1\n-o\nx.csv\n--explain\n";
    assert_eq!(String::from_utf8(done.stdout).unwrap(), passed);
}
