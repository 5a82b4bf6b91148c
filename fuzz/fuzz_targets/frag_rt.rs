//! Fragments that are built, encoded and decoded are the same fragments.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use zvf_format::fragment::{Fragment, FragmentIndex, FragmentIndexBuilder, RankTable};

#[derive(Arbitrary, Debug)]
enum Input {
    Range(u64, u64),
    Rows(Vec<u64>),
}

fuzz_target!(|inputs: Vec<Input>| {
    let mut builder = FragmentIndexBuilder::new();
    let mut kept = Vec::new();
    for input in &inputs {
        let (added, allowed) = match input {
            Input::Range(start, count) => {
                let end = start.checked_add(*count);
                (
                    builder.push_range(*start, *count),
                    end.is_some_and(|end| i64::try_from(end).is_ok()),
                )
            }
            Input::Rows(rows) => {
                (builder.push_rows(rows), rows.iter().all(|row| i64::try_from(*row).is_ok()))
            }
        };
        // A list that becomes a range must end like one: a row of i64::MAX alone cannot.
        if added.is_ok() {
            assert!(allowed);
            kept.push(input);
        } else if let Input::Range(..) = input {
            assert!(!allowed);
        }
    }
    let blob = builder.encode();
    let index = FragmentIndex::parse_strict(&blob).unwrap();
    let table = RankTable::new(&index);
    assert_eq!(index.len(), kept.len() as u64);
    for ((f, fragment), input) in (0..).zip(index.iter()).zip(kept) {
        assert_eq!((index.get(f), table.get(&index, f)), (Some(fragment), Some(fragment)));
        match input {
            Input::Range(start, count) => {
                assert_eq!(fragment, Fragment::Range { start: *start, count: *count });
            }
            Input::Rows(rows) => assert_eq!(fragment.rows().collect::<Vec<_>>(), *rows),
        }
    }
});
