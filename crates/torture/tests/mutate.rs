//! A few edits of each blob, by the program itself: it measures what its process holds, so nothing else
//! may run there.

use std::process::Command;

#[test]
fn a_few_edits_of_each_blob_hold() {
    let torture =
        Command::new(env!("CARGO_BIN_EXE_torture")).args(["mutate", "--n", "200"]).output();
    let ended = torture.unwrap();
    let told = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success(), "{told}{}", String::from_utf8_lossy(&ended.stderr));
    let n = told.split("\"n\":").nth(1).unwrap().split(',').next().unwrap();
    assert!(n.parse::<u64>().unwrap() > 5_000, "{told}");
    assert!(told.contains("\"failures\":0,"), "{told}");
}
