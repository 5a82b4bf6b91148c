//! `zvf sql`: runs the program beside it, or prints what to install if there is none.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the command in a folder without other programs.
fn run_isolated(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(folder.join("zvf"));
    command.args(args).env("PATH", folder).output().unwrap()
}

#[test]
fn passes_all_arguments_and_returns_the_exit_code() {
    let binary = Path::new(env!("CARGO_BIN_EXE_zvf"));
    // Beside the built program, so that no copy is needed.
    let folder = tempfile::tempdir_in(binary.parent().unwrap()).unwrap();
    fs::hard_link(binary, folder.path().join("zvf")).unwrap();
    let missing = run_isolated(folder.path(), &["sql", "SELECT 1"]);
    let stderr = String::from_utf8(missing.stderr).unwrap();
    assert_eq!(missing.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("zvf-sql") && stderr.contains("cargo install --path crates/zvf-sql"),
        "{stderr}"
    );

    let program = folder.path().join("zvf-sql");
    // Written by another process: a file that this process has open cannot be executed.
    let script = "#!/bin/sh\nfor word in \"$@\"; do echo \"$word\"; done\nexit 4\n";
    let write = "printf '%s' \"$1\" > \"$2\" && chmod 755 \"$2\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", write, "sh", script]).arg(&program);
    assert!(shell.status().unwrap().success());
    let args = ["sql", "--json", "--table", "a=b c", "SELECT 1", "-o", "x.csv", "--explain"];
    let output = run_isolated(folder.path(), &args);
    assert_eq!(output.status.code(), Some(4));
    let expected = "--json\n--table\na=b c\nSELECT 1\n-o\nx.csv\n--explain\n";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}
