//! Blocks that are built, encoded and decoded are the same blocks.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use zvf_format::manifest::{BlockFragments, Manifest, ManifestBuilder};

#[derive(Arbitrary, Debug)]
enum Input {
    Single(u64),
    Range(u64, u64),
    Explicit(Vec<u64>),
}

fuzz_target!(|inputs: Vec<([i64; 3], Input)>| {
    let mut builder = ManifestBuilder::new(3).unwrap();
    let mut kept = Vec::new();
    for (chunk, input) in &inputs {
        let added = match input {
            Input::Single(fragment) => builder.push_single(chunk, *fragment),
            Input::Range(start, count) => builder.push_range(chunk, *start, *count),
            Input::Explicit(fragments) => builder.push_explicit(chunk, fragments),
        };
        if added.is_ok() {
            kept.push((chunk, input));
        }
    }
    let blob = builder.encode();
    let manifest = Manifest::parse(&blob, 3).unwrap();
    assert_eq!(manifest.blocks().count(), kept.len());
    for (block, (chunk, input)) in manifest.blocks().zip(kept) {
        assert!(block.chunk.iter().map(|c| c.get()).eq(chunk.iter().copied()));
        match input {
            Input::Single(fragment) => {
                assert_eq!(block.fragments, BlockFragments::Single(*fragment));
            }
            Input::Range(start, count) => {
                let range = BlockFragments::Range { start: *start, count: *count };
                assert_eq!(block.fragments, range);
            }
            Input::Explicit(list) => {
                assert_eq!(block.fragments.iter().collect::<Vec<_>>(), *list);
            }
        }
    }
});
