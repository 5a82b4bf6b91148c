//! The hashes that are used to compare links.

use zvf_format::key::ChunkKey;

use crate::chunks::{hash, row_id};
use crate::splitmix::splitmix64_all;

/// Returns the hash of a row of a chunk.
pub(super) fn end(chunk: &ChunkKey, row: u64) -> u64 {
    row_id(hash(chunk.components()), row)
}

/// Returns the hash of a link between levels, the same from both sides.
pub(super) fn pair(mut ends: impl Iterator<Item = u64>, source_is_finer: bool) -> u64 {
    let (source, others) = (splitmix64_all(ends.next()), splitmix64_all(ends));
    splitmix64_all(if source_is_finer { [source, others] } else { [others, source] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_of_a_link_have_the_same_hash() {
        let [fine, coarse] =
            [(2, 7), (1, 3)].map(|(chunk, row)| end(&ChunkKey::new(&[chunk]).unwrap(), row));
        let up = pair([fine, coarse].into_iter(), true);
        assert_eq!(up, pair([coarse, fine].into_iter(), false));
        assert_ne!(up, pair([coarse, fine].into_iter(), true));
    }
}
