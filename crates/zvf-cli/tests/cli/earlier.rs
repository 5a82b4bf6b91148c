//! Stores with journals and task folders that an earlier version left, opened by this one: see
//! `testdata/journals/README.md`.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs the command lines of every archive, in order, and compares exit codes and answers.
#[test]
fn what_an_earlier_program_left_gives_the_same_answers() {
    let folder = archives::folder().join("../journals");
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let archive = entry.unwrap().path();
        if archive.extension().is_some_and(|extension| extension == "zst") {
            let scratch = archives::scratch();
            archives::unpack(&archive, scratch.path());
            run_lines(&archive, scratch.path());
            count += 1;
        }
    }
    assert!(count >= 9, "only {count} archives");
}

/// Each line has an exit code, a file of the expected output or `-`, and the arguments.
fn run_lines(archive: &Path, folder: &Path) {
    let lines = fs::read_to_string(folder.join("commands.txt")).unwrap();
    for line in lines.lines() {
        let mut words = line.split(' ');
        let code: i32 = words.next().unwrap().parse().unwrap();
        let expected = words.next().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zvf"));
        let output = command.args(words).current_dir(folder).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{}: {line}: {stderr}", archive.display());
        if expected != "-" {
            let stdout = String::from_utf8(output.stdout).unwrap();
            let expected = fs::read_to_string(folder.join(expected)).unwrap();
            assert_eq!(stdout, expected, "{}: {line}", archive.display());
        }
    }
}
