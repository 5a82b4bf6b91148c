//! Many small files in few: the shards of a folder, not compressed.
//!
//! ```text
//! HEX.shard    2^minishard_bits x (start, end) u64, from the end of this table on; data; the index of each minishard
//! index        u64[3][n]: ids as differences, starts as differences from the end before, sizes
//! ```
//!
//! Not here: the hash that leads to a shard ([`crate::read::precomputed::shards`]).

use std::collections::BTreeMap;

use super::Folder;
use crate::ConvertError;
use crate::read::precomputed::shards::Sharding;

/// Ids of a minishard with their bytes, ascending.
type Minishard = Vec<(u64, Vec<u8>)>;

/// What goes into the shards of a folder, by shard and minishard, ids ascending.
pub(super) struct Shards {
    sharding: Sharding,
    shards: BTreeMap<u64, BTreeMap<u64, Minishard>>,
}

impl Shards {
    pub(super) const fn new(sharding: Sharding) -> Self {
        Self { sharding, shards: BTreeMap::new() }
    }

    /// Adds what belongs to `id`; ids come in ascending order.
    pub(super) fn push(&mut self, id: u64, bytes: Vec<u8>) {
        let (shard, minishard) = self.sharding.locate(id);
        self.shards.entry(shard).or_default().entry(minishard).or_default().push((id, bytes));
    }

    /// Writes all files.
    pub(super) fn write(self, folder: &Folder) -> Result<(), ConvertError> {
        for (shard, minishards) in self.shards {
            let bytes = encode(self.sharding.minishards(), minishards);
            folder.write(&self.sharding.file_name(shard), &bytes)?;
        }
        Ok(())
    }
}

fn encode(count: u64, minishards: BTreeMap<u64, Vec<(u64, Vec<u8>)>>) -> Vec<u8> {
    let mut data: Vec<u8> = Vec::new();
    let mut indexes = BTreeMap::new();
    for (minishard, entries) in minishards {
        let (mut ids, mut starts, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut last_id, mut last_end) = (0_u64, 0_u64);
        for (id, bytes) in entries {
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
