//! Writer of uncompressed shards.
//!
//! ```text
//! HEX.shard    2^minishard_bits x (start, end) u64, from the end of this table on; data; the index of each minishard
//! index        u64[3][n]: delta-encoded ids, starts as differences from the previous end, sizes
//! ```
//!
//! Not here: the hash of an id to its shard ([`crate::precomputed::read::shards`]).

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use zvf_error::Result;

use crate::precomputed::read::shards::Sharding;
use crate::precomputed::write::Folder;

/// Numbered entries of a folder: a file for each, or shards.
pub(crate) struct Index<'a> {
    folder: &'a Folder,
    key: Option<&'a str>, // the folder below
    shards: Option<Shards>,
    info: Json, // what describes the entries
}

impl<'a> Index<'a> {
    /// Creates an index of files directly in the folder, which `info` describes.
    pub(crate) fn new(folder: &'a Folder, sharding: Option<Sharding>, mut info: Json) -> Self {
        if let Some(sharding) = sharding {
            info["sharding"] = sharding.to_json();
        }
        Self { folder, key: None, shards: sharding.map(Shards::new), info }
    }

    /// Creates an index of files below the folder.
    pub(crate) fn below(folder: &'a Folder, key: &'a str, sharding: Option<Sharding>) -> Self {
        Self { key: Some(key), ..Self::new(folder, sharding, json!({"key": key})) }
    }

    pub(crate) fn push(&mut self, number: u64, name: &str, bytes: Vec<u8>) -> Result<()> {
        match (&mut self.shards, self.key) {
            (Some(shards), _) => shards.push(number, bytes, Vec::new()),
            (None, Some(key)) => self.folder.write(&format!("{key}/{name}"), &bytes)?,
            (None, None) => self.folder.write(name, &bytes)?,
        }
        Ok(())
    }

    /// Adds a manifest and what it describes.
    pub(crate) fn push_manifest(
        &mut self,
        id: u64,
        manifest: Vec<u8>,
        data: Vec<u8>,
    ) -> Result<()> {
        match &mut self.shards {
            Some(shards) => shards.push(id, manifest, data),
            None => {
                self.folder.write(&id.to_string(), &data)?;
                self.folder.write(&format!("{id}.index"), &manifest)?;
            }
        }
        Ok(())
    }

    /// Writes the shards, and returns what describes the entries.
    pub(crate) fn finish(self) -> Result<Json> {
        if let Some(shards) = self.shards {
            shards.write(self.folder, self.key)?;
        }
        Ok(self.info)
    }
}

/// The entries of a minishard: an id, its bytes, and the bytes before them that have no entry.
type Minishard = Vec<(u64, Vec<u8>, Vec<u8>)>;

/// The entries of the shards of a folder, by shard and minishard.
struct Shards {
    sharding: Sharding,
    shards: BTreeMap<u64, BTreeMap<u64, Minishard>>,
}

impl Shards {
    const fn new(sharding: Sharding) -> Self {
        Self { sharding, shards: BTreeMap::new() }
    }

    /// Adds the bytes of `id`, directly after `before`: a manifest after its fragments, which readers find by their size.
    fn push(&mut self, id: u64, bytes: Vec<u8>, before: Vec<u8>) {
        let (shard, minishard) = self.sharding.locate(id);
        let minishards = self.shards.entry(shard).or_default();
        minishards.entry(minishard).or_default().push((id, bytes, before));
    }

    /// Writes all shards below a key of the folder, or directly below the folder.
    fn write(self, folder: &Folder, below: Option<&str>) -> Result<()> {
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
