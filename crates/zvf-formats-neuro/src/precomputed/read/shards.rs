//! Shards of a precomputed folder: many small files packed into few.
//!
//! ```text
//! HEX.shard    2^minishard_bits x (start, end) u64: the range of each index, relative to the end of this table
//! index        u64[3][n]: ids (delta encoded), starts (relative to the previous end), sizes
//! ```
//!
//! The numbers of the shard and the minishard are bits of a hash of the id. The order of the parts in a file is
//! unspecified, so only offsets are followed. An id in a wrong minishard is refused, because a lookup by id would not
//! find it.

use serde_json::Value as Json;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::usize_from_u32;
use zvf_formats::RecordNumbers;

use crate::precomputed::read::folder::{Folder, gunzip, spot};
use crate::precomputed::read::show_member;

/// The mapping of ids to shards.
#[derive(Clone, Copy)]
pub(crate) struct Sharding {
    preshift_bits: u32,
    is_hashed: bool,
    minishard_bits: u32,
    shard_bits: u32,
    index_is_gzip: bool,
    data_is_gzip: bool,
}

/// The location of an object in a shard.
pub(crate) struct ShardEntry {
    pub(crate) id: u64,
    pub(crate) key: String,
    pub(crate) start: u64,
    pub(crate) size: u64,
}

impl Sharding {
    /// Creates a mapping by a hash of the id, without compression.
    pub(crate) const fn from_bits(shard_bits: u32, minishard_bits: u32) -> Self {
        Self {
            preshift_bits: 0,
            is_hashed: true,
            minishard_bits,
            shard_bits,
            index_is_gzip: false,
            data_is_gzip: false,
        }
    }

    /// Returns the JSON of `info`.
    pub(crate) fn to_json(self) -> Json {
        let encoding = |is_gzip: bool| if is_gzip { "gzip" } else { "raw" };
        serde_json::json!({
            "@type": "neuroglancer_uint64_sharded_v1",
            "preshift_bits": self.preshift_bits,
            "hash": if self.is_hashed { "murmurhash3_x86_128" } else { "identity" },
            "minishard_bits": self.minishard_bits,
            "shard_bits": self.shard_bits,
            "minishard_index_encoding": encoding(self.index_is_gzip),
            "data_encoding": encoding(self.data_is_gzip),
        })
    }

    /// Parses the JSON of `info`. Returns `None` if it is null or missing.
    pub(crate) fn parse(value: &Json, place: &str) -> Result<Option<Self>> {
        if value.is_null() {
            return Ok(None);
        }
        let place = format!("{place}.sharding");
        let text = |key: &str| value[key].as_str();
        let bits = |key: &str| {
            value[key]
                .as_u64()
                .filter(|bits| *bits <= 64)
                .and_then(|bits| u32::try_from(bits).ok())
                .ok_or_else(|| {
                    let found = show_member(value.get(key));
                    spot(format!("{place}.{key}")).error(Class::OutOfBounds, "0 to 64", found)
                })
        };
        if text("@type") != Some("neuroglancer_uint64_sharded_v1") {
            let found = show_member(value.get("@type"));
            return spot(&place).refuse(Class::BadTag, "neuroglancer_uint64_sharded_v1", found);
        }
        let is_hashed = match text("hash") {
            Some("identity") => false,
            Some("murmurhash3_x86_128") => true,
            hash => {
                let expected = "identity or murmurhash3_x86_128";
                let found = format!("{hash:?}");
                return spot(&format!("{place}.hash")).refuse(Class::BadTag, expected, found);
            }
        };
        let is_gzip = |key: &str| match text(key) {
            None | Some("raw") => Ok(false),
            Some("gzip") => Ok(true),
            Some(encoding) => {
                let place = format!("{place}.{key}");
                spot(&place).refuse(Class::BadTag, "raw or gzip", format!("{encoding:?}"))
            }
        };
        let sharding = Self {
            preshift_bits: bits("preshift_bits")?,
            is_hashed,
            minishard_bits: bits("minishard_bits")?,
            shard_bits: bits("shard_bits")?,
            index_is_gzip: is_gzip("minishard_index_encoding")?,
            data_is_gzip: is_gzip("data_encoding")?,
        };
        if sharding.minishard_bits > 32 || sharding.minishard_bits + sharding.shard_bits > 64 {
            let expected = "at most 32 bits for minishards, and 64 with those of shards";
            let found = format!("{} and {}", sharding.minishard_bits, sharding.shard_bits);
            return spot(&place).refuse(Class::OutOfBounds, expected, found);
        }
        Ok(Some(sharding))
    }

    /// Returns the number of minishards of a shard.
    pub(crate) const fn minishard_count(&self) -> u64 {
        1 << self.minishard_bits
    }

    /// Returns the shard and the minishard of an id.
    pub(crate) fn locate(&self, id: u64) -> (u64, u64) {
        let shifted = id.checked_shr(self.preshift_bits).unwrap_or(0); // a shift by 64 leaves no bits
        let hash = if self.is_hashed { hash_murmur3(shifted) } else { shifted };
        let mask = |bits: u32| if bits >= 64 { u64::MAX } else { (1_u64 << bits) - 1 };
        let rest = hash.checked_shr(self.minishard_bits).unwrap_or(0); // as above
        (rest & mask(self.shard_bits), hash & mask(self.minishard_bits))
    }

    /// Returns the file name of a shard.
    pub(crate) fn file_name(&self, shard: u64) -> String {
        let digits = usize_from_u32(self.shard_bits.div_ceil(4).max(1));
        format!("{shard:0digits$x}.shard")
    }

    /// Lists the objects in the shards of `folder` in order of id.
    pub(crate) fn list(&self, folder: &Folder) -> Result<Vec<ShardEntry>> {
        let mut entries = Vec::new();
        for name in folder.list()? {
            let Some(hex) = name.strip_suffix(".shard") else { continue };
            let Ok(shard) = u64::from_str_radix(hex, 16) else { continue };
            let expected = "a name in the digits of shard_bits";
            let found = "another";
            let here = spot(&name);
            here.ensure(self.file_name(shard) == name, Class::InvalidKey, expected, found)?;
            self.list_shard(folder, &name, shard, &mut entries)?;
        }
        entries.sort_by_key(|entry: &ShardEntry| entry.id);
        if let Some([_, entry]) = entries.array_windows().find(|[a, b]| a.id == b.id) {
            return spot(&entry.key).refuse(Class::Duplicate, "each id once", entry.id);
        }
        Ok(entries)
    }

    fn list_shard(
        &self,
        folder: &Folder,
        name: &str,
        shard: u64,
        to: &mut Vec<ShardEntry>,
    ) -> Result<()> {
        let size = folder.size(name)?.unwrap_or(0); // a missing file counts as empty
        let table_size = 16_u64 << self.minishard_bits;
        let expected = format_args!("a table of {table_size} bytes");
        spot(name).ensure(table_size <= size, Class::Truncated, expected, size)?;
        let table = folder.read_range(name, 0, table_size)?;
        for (minishard, pair) in (0_u64..).zip(table.chunks_exact(16)) {
            let [start, end] = [0, 8].map(|at| RecordNumbers::new(pair).u64(at));
            if start == end {
                continue;
            }
            let place = format!("{name}, minishard {minishard}");
            let range = start.checked_add(table_size).zip(end.checked_sub(start));
            let Some((at, len)) =
                range.filter(|(at, len)| at.checked_add(*len).is_some_and(|e| e <= size))
            else {
                let expected = format!("an index within {size} bytes");
                let found = format_args!("{start} to {end}");
                return spot(&place).refuse(Class::OutOfBounds, expected, found);
            };
            let mut index = folder.read_range(name, at, len)?;
            if self.index_is_gzip {
                index = gunzip(&index, folder.memory(), &place)?;
            }
            let found = format_args!("{} bytes", index.len());
            let expected = "three u64 for each id";
            spot(&place).ensure(index.len() % 24 == 0, Class::Truncated, expected, found)?;
            let (n, numbers) = (index.len() / 24, RecordNumbers::new(&index));
            let (mut id, mut next) = (0_u64, table_size);
            for row in 0..n {
                id = id.wrapping_add(numbers.u64(row * 8));
                let begin = next.checked_add(numbers.u64((n + row) * 8));
                let len = numbers.u64((2 * n + row) * 8);
                let end = begin.and_then(|begin| begin.checked_add(len)).filter(|end| *end <= size);
                let (Some(begin), Some(end)) = (begin, end) else {
                    let expected = format!("data within {size} bytes");
                    let found = format!("{len} bytes of id {id}");
                    return spot(&place).refuse(Class::OutOfBounds, expected, found);
                };
                next = end;
                if self.locate(id) != (shard, minishard) {
                    let (shard, minishard) = self.locate(id);
                    let expected = format!("ids of it; {id} is of {shard}, minishard {minishard}");
                    return spot(&place).refuse(Class::InvalidKey, expected, id);
                }
                to.push(ShardEntry { id, key: name.to_owned(), start: begin, size: len });
            }
        }
        Ok(())
    }

    /// Reads the bytes of an object.
    pub(crate) fn read(&self, folder: &Folder, entry: &ShardEntry) -> Result<Vec<u8>> {
        let bytes = folder.read_range(&entry.key, entry.start, entry.size)?;
        if !self.data_is_gzip {
            return Ok(bytes);
        }
        gunzip(&bytes, folder.memory(), &format!("{}, id {}", entry.key, entry.id))
    }
}

/// Returns the low 64 bits of `MurmurHash3_x86_128` with seed 0 over the 8 bytes of a number.
fn hash_murmur3(number: u64) -> u64 {
    let bytes = number.to_le_bytes();
    let word = |at: usize| RecordNumbers::new(&bytes).u32(at);
    let (c1, c2, c3) = (0x239b_961b_u32, 0xab0e_9789_u32, 0x38b3_4ae5_u32);
    let (mut h1, mut h2) = (0_u32, 0_u32);
    h2 ^= word(4).wrapping_mul(c2).rotate_left(16).wrapping_mul(c3);
    h1 ^= word(0).wrapping_mul(c1).rotate_left(15).wrapping_mul(c2);
    let (mut h3, mut h4) = (8_u32, 8_u32);
    h1 ^= 8;
    h2 ^= 8;
    h1 = h1.wrapping_add(h2).wrapping_add(h3).wrapping_add(h4);
    h2 = h2.wrapping_add(h1);
    h3 = h3.wrapping_add(h1);
    h4 = h4.wrapping_add(h1);
    let mix = |mut h: u32| {
        h ^= h >> 16;
        h = h.wrapping_mul(0x85eb_ca6b);
        h ^= h >> 13;
        h = h.wrapping_mul(0xc2b2_ae35);
        h ^ (h >> 16)
    };
    (h1, h2, h3, h4) = (mix(h1), mix(h2), mix(h3), mix(h4));
    h1 = h1.wrapping_add(h2).wrapping_add(h3).wrapping_add(h4);
    h2 = h2.wrapping_add(h1);
    u64::from(h1) | u64::from(h2) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_like_the_reference() {
        for (number, hash) in [
            (0, 0x4772_b084_e028_ae41),
            (1, 0xe8bd_67d6_16d4_ce9a),
            ((1 << 40) + 7, 0xf6b2_42e1_df65_37b4),
            ((1 << 63) + 9, 0x9efb_f4e7_8071_b6a9),
        ] {
            assert_eq!(hash_murmur3(number), hash, "{number}");
        }
    }
}
