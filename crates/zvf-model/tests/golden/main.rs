//! Typed reads of stores of every format version that other software wrote, and of broken ones.

mod beside;
mod broken;
mod frontier;
mod level;
mod links;
mod objects;
mod suites;
mod told;

use std::collections::BTreeMap;
use std::panic;

use told::{LevelCase, every_level};

/// What looks at one level, and how much it compared.
type Check = fn(&LevelCase) -> usize;

/// Every check of every level: stores are unpacked once.
#[test]
fn every_level_reads_as_the_reference_found_it() {
    let (mut seen, mut failed) = (BTreeMap::new(), Vec::new());
    every_level(|case| {
        let checks: [(&str, Check); 13] = [
            ("chunks, fragments and positions", level::positions),
            ("vertex attributes", level::attributes),
            ("fragment attributes", level::fragment_attributes),
            ("objects", objects::objects),
            ("object attributes", objects::attributes),
            ("owners", objects::owners),
            ("groups", objects::groups),
            ("links", links::links),
            ("link attributes", links::attributes),
            ("links of older versions", links::older),
            ("links between levels", links::levels),
            ("skeletons", links::skeletons),
            ("beside levels", beside::everything),
        ];
        for (name, check) in checks {
            // One fault should not hide those behind it.
            match panic::catch_unwind(panic::AssertUnwindSafe(|| check(case))) {
                Ok(count) => *seen.entry(name).or_insert(0) += count,
                Err(_) => failed.push(format!("{name} of {}", case.name)),
            }
        }
    });
    assert!(failed.is_empty(), "{failed:#?}");
    let least = [
        ("beside levels", 6),
        ("chunks, fragments and positions", 600),
        ("fragment attributes", 10),
        ("groups", 40),
        ("link attributes", 20),
        ("links", 54),
        ("links between levels", 20),
        ("links of older versions", 20),
        ("object attributes", 40),
        ("objects", 900),
        ("owners", 600),
        ("skeletons", 4),
        ("vertex attributes", 60),
    ];
    for (check, least) in least {
        assert!(seen[check] >= least, "{check}: {} of {least} and more", seen[check]);
    }
}
