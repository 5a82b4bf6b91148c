//! Levels of chains that do not fit in memory.

use std::path::Path;

use zvf_metadata::CrossLevelStorage;
use zvf_pyramid::Options;

use crate::fixtures::{build, store, walks, with_objects};

/// Returns the files of a store without its root document, which holds the time of writing.
fn levels(address: &str) -> Vec<(String, Vec<u8>)> {
    let files = archives::tree(Path::new(address)).into_iter();
    files.filter(|(name, _)| !name.starts_with("zarr.json")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_of_chains_do_not_depend_on_the_memory_limit() {
    // Chains leave chunks and come back to them; some objects have no vertices.
    let batch = walks(400, 30);
    let with_links = |links, sparsity| Options {
        levels: Some(2),
        size: Some(0.2),
        links,
        sparsity,
        ..Options::default()
    };
    for options in [
        with_links(CrossLevelStorage::None, 1.0),
        with_links(CrossLevelStorage::None, 3.0),
        with_links(CrossLevelStorage::Explicit, 1.0),
    ] {
        let mut expected: Option<Vec<(String, Vec<u8>)>> = None;
        // The memory holds all chains, or one at a time.
        for memory in [512 << 20, 1 << 14] {
            let (_dir, address) = store(7.0, &batch, with_objects(410)).await;
            build(&address, &Options { memory, ..options.clone() }).await;
            let files = levels(&address);
            assert!(
                files == *expected.get_or_insert_with(|| files.clone()),
                "{options:?} {memory}"
            );
        }
    }
}
