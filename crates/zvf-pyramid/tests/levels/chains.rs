//! Chains of levels that are larger than memory.

use std::path::Path;

use zvf_metadata::CrossLevelStorage;
use zvf_pyramid::Options;

use crate::made::{build, store, walks, with_objects};

/// Some bytes of the document of a store name the moment at which it was written; levels have nothing of that kind.
fn levels(address: &str) -> Vec<(String, Vec<u8>)> {
    let files = archives::tree(Path::new(address)).into_iter();
    files.filter(|(name, _)| !name.starts_with("zarr.json")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn chains_beyond_memory_become_the_same_levels() {
    // Chains that leave chunks and come back to them, some of which share a name with no vertex.
    let batch = walks(400, 30);
    let of = |links, sparsity| Options {
        levels: Some(2),
        size: Some(0.2),
        links,
        sparsity,
        ..Options::default()
    };
    for options in [
        of(CrossLevelStorage::None, 1.0),
        of(CrossLevelStorage::None, 3.0),
        of(CrossLevelStorage::Explicit, 1.0),
    ] {
        let mut known: Option<Vec<(String, Vec<u8>)>> = None;
        // All at once, and one at a time.
        for memory in [512 << 20, 1 << 14] {
            let dir = archives::scratch();
            let address = store(dir.path(), 7.0, &batch, with_objects(410)).await;
            build(&address, &Options { memory, ..options.clone() }).await;
            let found = levels(&address);
            assert!(found == *known.get_or_insert_with(|| found.clone()), "{options:?} {memory}");
        }
    }
}
