//! Runs the program on a few edits of each blob. It measures the memory of its process, so no other
//! test may run in that process.

use std::process::Command;

#[test]
fn a_few_edits_of_each_blob_hold() {
    let torture =
        Command::new(env!("CARGO_BIN_EXE_torture")).args(["mutate", "--n", "200"]).output();
    let finished = torture.unwrap();
    let output = String::from_utf8(finished.stdout).unwrap();
    assert!(finished.status.success(), "{output}{}", String::from_utf8_lossy(&finished.stderr));
    let n = output.split("\"n\":").nth(1).unwrap().split(',').next().unwrap();
    assert!(n.parse::<u64>().unwrap() > 5_000, "{output}");
    assert!(output.contains("\"failures\":0,"), "{output}");
}
