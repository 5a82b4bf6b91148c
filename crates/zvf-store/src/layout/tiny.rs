//! Chunks of families A and B: a group with one small array per chunk.
//!
//! ```text
//! <array>/zarr.json             the group, with the attributes
//! <array>/3.0.-1/zarr.json      uint8 [n]: n is the length of the payload
//! <array>/3.0.-1/c/0            the payload, encoded; not there when it is all zero
//! <array>/__shard_000007/       several payloads; attribute shard_index: {"3.0.-1": [offset, n], …}
//! ```
//!
//! There is no presence list: keys are found by listing, and reads just try. If the root states a
//! shard layout, a key without its own array is looked up in the shards, which must be listed. The
//! same small arrays contain the flat data of family A (manifests, groups, attributes).
//!
//! Not here: the content of payloads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::OnceCell;
use zvf_error::{Error, Locate as _, Result, quote};
use zvf_format::key::ChunkKey;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_format::{Class, Expected, Found};
use zvf_metadata::{ArrayDoc, DataTypeKind, Dtype, DtypeKind, Fill, Object};

use super::names::name_chunk;
use super::table::KeyTable;
use crate::codec::{Coding, Job, Packing, decode_many};
use crate::docs::document;
use crate::key::Key;
use crate::shared::Handle;
use crate::source::{Get, GetAnswer, Origin};
use crate::sync::lock;

/// One group of small arrays.
#[derive(Debug)]
pub(crate) struct Tiny {
    pub(crate) key: Key,
    rank: usize,
    packed: bool, // the root names a shard layout
    names: OnceCell<Arc<Names>>,
    slots: Mutex<HashMap<ChunkKey, u64>>,
}

/// The result of listing the group.
#[derive(Debug)]
struct Names {
    table: Arc<KeyTable>,
    shards: HashMap<ChunkKey, Packed>,
}

/// A payload in a shard.
#[derive(Debug)]
struct Packed {
    shard: Key,
    start: u64,
    len: u64,
}

impl Tiny {
    /// Returns the chunks below `key`, whose names have `rank` components.
    pub(crate) fn new(key: Key, rank: usize, packed: bool) -> Self {
        Self { key, rank, packed, names: OnceCell::new(), slots: Mutex::default() }
    }

    /// Returns a number for `key`, the same each time; `None` if there are too many to remember.
    pub(crate) fn slot(&self, key: &ChunkKey) -> Option<u64> {
        let mut slots = lock(&self.slots);
        let next = slots.len();
        match slots.get(key) {
            Some(slot) => Some(*slot),
            None if next < MAX_CACHED_CHUNKS => Some(*slots.entry(*key).or_insert(to_u64(next))),
            None => None,
        }
    }

    /// Returns the keys that have an array, which may have length 0.
    pub(crate) async fn presence(&self, shared: &Handle) -> Result<Arc<KeyTable>> {
        Ok(Arc::clone(&self.names(shared).await?.table))
    }

    async fn names(&self, shared: &Handle) -> Result<&Arc<Names>> {
        self.names.get_or_try_init(|| self.list(shared)).await
    }

    async fn list(&self, shared: &Handle) -> Result<Arc<Names>> {
        shared.check_listable(&self.key, "a listing")?;
        let (mut keys, mut packs) = (Vec::new(), Vec::new());
        for child in shared.source.children(&self.key).await? {
            if child.name.starts_with(SHARD) {
                packs.push(self.key.child(&child.name)?);
            } else if let Ok(key) = child.name.parse::<ChunkKey>() {
                keys.push(key);
            }
        }
        let mut shards = HashMap::new();
        let gets: Result<Vec<Get>> =
            packs.iter().map(|pack| Ok(Get::object(document(pack)?))).collect();
        for (pack, got) in packs.iter().zip(shared.source.read_many(&gets?).await) {
            let got = got?.ok_or_else(|| Error::missing(pack, "a listing showed this shard"))?;
            let doc = array_doc(pack, &got)?;
            for (key, packed) in shard_index(pack, &doc.attributes)? {
                shards.insert(key, packed);
            }
        }
        let all = keys.into_iter().chain(shards.keys().copied());
        let table = KeyTable::new(self.rank, all).at_key(&self.key)?;
        Ok(Arc::new(Names { table: Arc::new(table), shards }))
    }

    /// Reads the payloads of `keys`.
    pub(crate) async fn read(
        &self,
        shared: &Handle,
        keys: &[ChunkKey],
    ) -> Vec<Result<Option<Bytes>>> {
        let arrays: Vec<_> = keys.iter().map(|key| self.key.child(&key.to_string())).collect();
        let mut payloads = read_flat_many(shared, arrays).await;
        for (key, payload) in keys.iter().zip(&mut payloads) {
            if self.packed && matches!(payload, Ok(None)) {
                *payload = self.unpack(shared, key).await;
            }
            match payload {
                Ok(Some(bytes)) if bytes.is_empty() => *payload = Ok(None),
                Ok(None) if self.was_listed(key) => *payload = self.vanished_error(key),
                _ => {}
            }
        }
        payloads
    }

    /// Returns whether a listing included the array of `key`.
    fn was_listed(&self, key: &ChunkKey) -> bool {
        self.names.get().is_some_and(|names| names.table.find(key).is_some())
    }

    fn vanished_error<T>(&self, key: &ChunkKey) -> Result<Option<T>> {
        Err(Error::missing(&self.key.child(&key.to_string())?, "a listing showed this array"))
    }

    /// Returns a payload from a shard.
    async fn unpack(&self, shared: &Handle, key: &ChunkKey) -> Result<Option<Bytes>> {
        let names = self.names(shared).await?;
        let Some(Packed { shard, start, len }) = names.shards.get(key) else { return Ok(None) };
        let Some(bytes) = read_flat(shared, shard.clone()).await? else {
            return Err(Error::missing(shard, "its shard index was read"));
        };
        let end = start.checked_add(*len).filter(|end| *end <= to_u64(bytes.len()));
        let Some(end) = end else {
            let found = Found::from(start.saturating_add(*len)); // as far as one can say it
            let (what, max) = ("end of a span in shard_index", to_u64(bytes.len()).into());
            let error = Error::new(Class::OutOfBounds, what, Expected::AtMost(max), found);
            return Err(error.at_key(shard));
        };
        Ok(Some(bytes.slice(saturating_usize(*start)..saturating_usize(end))))
    }
}

/// Returns the content of the small array under `key`, or `None` if there is no such array.
pub(crate) async fn read_flat(shared: &Handle, key: Key) -> Result<Option<Bytes>> {
    read_flat_many(shared, vec![Ok(key)]).await.pop().expect("one array has one content")
}

/// Returns the content of each small array.
pub(crate) async fn read_flat_many(
    shared: &Handle,
    arrays: Vec<Result<Key>>,
) -> Vec<Result<Option<Bytes>>> {
    if let Origin::Pack(pack) = &shared.source {
        let content =
            |array: Result<Key>| async move { super::packed::read_flat(pack, &array?).await };
        return futures_util::future::join_all(arrays.into_iter().map(content)).await;
    }
    let keys = |array: &Result<Key>| -> Result<[Key; 2]> {
        let array = array.clone()?;
        Ok([document(&array)?, array.join("c/0")?])
    };
    let keys: Vec<_> = arrays.iter().map(keys).collect();
    let gets: Vec<Get> = keys.iter().flatten().flatten().cloned().map(Get::object).collect();
    let mut answers = shared.source.read_many(&gets).await.into_iter();
    let mut next = || answers.next().expect("every get has an answer");
    let stored: Vec<Result<Option<Flat>>> = keys
        .into_iter()
        .zip(arrays)
        .map(|(keys, array)| {
            keys?;
            let (doc, data) = (next(), next());
            let Some(doc) = doc? else { return Ok(None) };
            Flat::new(shared, &array?, &doc, data?).map(Some)
        })
        .collect();
    let jobs = stored.iter().flatten().flatten().filter_map(|flat| flat.job(shared));
    let mut decoded = decode_many(jobs.collect()).await.into_iter();
    let content = |stored: Result<Option<Flat>>| {
        let Some(flat) = stored? else { return Ok(None) };
        let bytes = flat.stored.is_some().then(|| decoded.next().expect("every job has an answer"));
        flat.content(bytes.transpose()?).map(Some)
    };
    stored.into_iter().map(content).collect()
}

/// A small array, read but not decoded.
struct Flat {
    key: Key,
    len: u64,
    chunk: u64,
    fill: u8,
    coding: Coding,
    stored: Option<Bytes>,
}

impl Flat {
    fn new(shared: &Handle, key: &Key, doc: &GetAnswer, data: Option<GetAnswer>) -> Result<Self> {
        let doc = array_doc(key, doc)?;
        let bytes =
            DataTypeKind::Fixed(Dtype { kind: DtypeKind::UInt, size: 1, big_endian: false });
        let fill = if let Fill::UInt(fill) = doc.fill_value.fill() { *fill } else { 0 };
        let fill = u8::try_from(fill).unwrap_or(0); // the document fits its type
        // Both objects are requested at once, before the document can state where the second one
        // is.
        if !doc.chunk_key_encoding.is_usual() {
            let name = name_chunk(doc.chunk_key_encoding, &[0]);
            let error = Error::unsupported("chunk_key_encoding of a small array: chunk", &name);
            return Err(error.at_key(&document(key)?));
        }
        let coding = Coding::from_doc(&doc).at_key(key)?;
        let one_piece = coding.index.is_none() && matches!(coding.packing, Packing::Items { .. });
        let (&[len], &[chunk]) = (doc.shape.as_slice(), doc.chunk_shape.as_slice()) else {
            return Err(not_flat_error(key, "an array of one axis"));
        };
        if *doc.data_type.kind() != bytes || !one_piece || chunk < len {
            return Err(not_flat_error(key, "bytes in one chunk"));
        }
        if len > shared.chunk_cap() {
            return Err(Error::limit("bytes of one chunk", shared.chunk_cap(), len).at_key(key));
        }
        let stored = data.map(|got| got.bytes).filter(|_| len > 0);
        Ok(Self { key: key.clone(), len, chunk, fill, coding, stored })
    }

    fn job(&self, shared: &Handle) -> Option<Job> {
        let stored = self.stored.clone()?;
        Some(Job { chain: Arc::clone(&self.coding.chain), stored, caps: shared.caps(self.chunk) })
    }

    /// Returns the content from the decoded stored bytes.
    fn content(self, decoded: Option<Bytes>) -> Result<Bytes> {
        let Some(mut bytes) = decoded else {
            return Ok(vec![self.fill; saturating_usize(self.len)].into()); // at most the cap of a chunk
        };
        if to_u64(bytes.len()) != self.chunk {
            let (what, found) = ("bytes of the chunk", bytes.len());
            let error = Error::new(Class::CountMismatch, what, self.chunk, found);
            return Err(error.at_key(&self.key.join("c/0")?));
        }
        bytes.truncate(saturating_usize(self.len));
        Ok(bytes)
    }
}

fn array_doc(key: &Key, got: &GetAnswer) -> Result<ArrayDoc> {
    let document = document(key)?;
    ArrayDoc::parse(&got.bytes).at_key(&document)
}

fn shard_index(shard: &Key, attributes: &Object) -> Result<Vec<(ChunkKey, Packed)>> {
    let rule = "an offset and a length for each chunk key";
    let odd =
        |found: &str| Error::new(Class::BadTag, "shard_index", rule, quote(found)).at_key(shard);
    let Some(index) = attributes.get("shard_index") else { return Err(odd("nothing")) };
    let index = index.as_object().ok_or_else(|| odd("another value"))?;
    let packed = index.iter().map(|(name, span)| {
        let key = name.parse::<ChunkKey>().map_err(|_no_key| odd(name))?;
        let numbers = span.as_array().filter(|numbers| numbers.len() == 2);
        let numbers = numbers.and_then(|both| both[0].as_u64().zip(both[1].as_u64()));
        let (start, len) = numbers.ok_or_else(|| odd(name))?;
        Ok((key, Packed { shard: shard.clone(), start, len }))
    });
    packed.collect()
}

fn not_flat_error(key: &Key, rule: &'static str) -> Error {
    Error::new(Class::BadShape, "array of a chunk", rule, "another array").at_key(key)
}

/// Prefix of the names of shards.
const SHARD: &str = "__shard_";
/// Number of chunks of one array that can be cached.
const MAX_CACHED_CHUNKS: usize = 1 << 18;
