//! Writer of uncompressed shards.
//!
//! ```text
//! HEX.shard    2^minishard_bits x (start, end) u64, from the end of this table on; data; the index of each minishard
//! index        u64[3][n]: delta-encoded ids, starts as differences from the previous end, sizes
//! ```
//!
//! Not here: the hash of an id to its shard ([`crate::read::precomputed::shards`]).

use std::collections::BTreeMap;

use zvf_error::Result;

use super::Folder;
use crate::read::precomputed::shards::Sharding;

/// The entries of a minishard: an id, its bytes, and the bytes before them that have no entry.
type Minishard = Vec<(u64, Vec<u8>, Vec<u8>)>;

/// The entries of the shards of a folder, by shard and minishard.
pub(super) struct Shards {
    sharding: Sharding,
    shards: BTreeMap<u64, BTreeMap<u64, Minishard>>,
}

impl Shards {
    pub(super) const fn new(sharding: Sharding) -> Self {
        Self { sharding, shards: BTreeMap::new() }
    }

    /// Adds the bytes of `id`.
    pub(super) fn push(&mut self, id: u64, bytes: Vec<u8>) {
        self.push_behind(id, bytes, Vec::new());
    }

    /// Adds the bytes of `id`, directly after `before`: a manifest after its fragments, which readers find by their size.
    pub(super) fn push_behind(&mut self, id: u64, bytes: Vec<u8>, before: Vec<u8>) {
        let (shard, minishard) = self.sharding.locate(id);
        let minishards = self.shards.entry(shard).or_default();
        minishards.entry(minishard).or_default().push((id, bytes, before));
    }

    /// Writes all shards below a key of the folder, or directly below the folder.
    pub(super) fn write(self, folder: &Folder, below: Option<&str>) -> Result<()> {
        for (shard, minishards) in self.shards {
            let bytes = encode_shard(self.sharding.minishard_count(), minishards);
            let name = self.sharding.file_name(shard);
            let key = below.map_or_else(|| name.clone(), |below| format!("{below}/{name}"));
            folder.write(&key, &bytes)?;
        }
        Ok(())
    }
}

fn encode_shard(count: u64, minishards: BTreeMap<u64, Minishard>) -> Vec<u8> {
    let mut data: Vec<u8> = Vec::new();
    let mut indexes = BTreeMap::new();
    for (minishard, mut entries) in minishards {
        entries.sort_by_key(|(id, ..)| *id);
        let (mut ids, mut starts, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut last_id, mut last_end) = (0_u64, 0_u64);
        for (id, bytes, before) in entries {
            data.extend(before);
            let start = data.len() as u64;
            ids.push(id - last_id);
            starts.push(start - last_end);
            sizes.push(bytes.len() as u64);
            data.extend(bytes);
            (last_id, last_end) = (id, data.len() as u64);
        }
        indexes.insert(minishard, [ids, starts, sizes].concat());
    }
    let mut table = Vec::new();
    for minishard in 0..count {
        let start = data.len() as u64;
        if let Some(index) = indexes.get(&minishard) {
            data.extend(index.iter().flat_map(|number| number.to_le_bytes()));
        }
        table.extend([start, data.len() as u64].into_iter().flat_map(u64::to_le_bytes));
    }
    table.extend(data);
    table
}
