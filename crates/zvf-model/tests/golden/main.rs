//! Typed reads of stores of every format version written by other software, and of broken ones.

mod beside;
mod broken;
mod cases;
mod frontier;
mod level;
mod links;
mod objects;
mod suites;

use std::collections::BTreeMap;
use std::panic;

use cases::{LevelCase, every_level};

/// Checks one level and returns the number of comparisons.
type Check = fn(&LevelCase) -> usize;

/// Runs every check on every level; stores are unpacked once.
#[test]
fn every_level_agrees_with_the_reference() {
    let (mut counts, mut failed) = (BTreeMap::new(), Vec::new());
    every_level(|case| {
        let checks: [(&str, Check); 12] = [
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
            ("beside levels", beside::count_all),
        ];
        for (name, check) in checks {
            // A fault must not hide later ones.
            match panic::catch_unwind(panic::AssertUnwindSafe(|| check(case))) {
                Ok(count) => *counts.entry(name).or_insert(0) += count,
                Err(_) => failed.push(format!("{name} of {}", case.name)),
            }
        }
    });
    assert!(failed.is_empty(), "{failed:#?}");
    let min_counts = [
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
        ("vertex attributes", 60),
    ];
    for (check, min_counts) in min_counts {
        assert!(counts[check] >= min_counts, "{check}: {} of {min_counts} and more", counts[check]);
    }
}
