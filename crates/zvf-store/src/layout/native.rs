//! Chunks of family C: one vlen-bytes array over the chunk grid.
//!
//! ```text
//! key 3.0.-1  -  origin of this array  ->  index 4.0.0  ->  c/4/0/0, or a span of a shard
//! stored      ->  codecs decoded        ->  u32 1, u32 n, n bytes: the payload
//! ```
//!
//! Grid and origin are this array's own; nothing is concluded from a neighbour. `nonempty_chunks` is
//! the record of presence: a key that is not in it is absent without being looked at, one that
//! is in it must be there. Where it is missing, keys are found by listing, and reads just try.
//!
//! Not here: caches ([`super::cells`]).

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::OnceCell;
use zvf_error::{Error, Result, quote};
use zvf_format::key::{ChunkKey, ChunkPath};
use zvf_format::num::to_u64;
use zvf_format::vlen::VlenCell;
use zvf_format::{Class, FormatError};
use zvf_metadata::{KeyList, Node};

use super::array::{ChunkArray, Place, Stored, answer_each};
use super::names::{chunk_folder, parse_chunk_name};
use super::packed::PackedCells;
use super::span::length;
use super::table::KeyTable;
use super::{blocks, part};
use crate::cache::Caching;
use crate::codec::Partial;
use crate::docs::Outline;
use crate::key::Key;
use crate::notice::Notice;
use crate::shared::Shared;

/// One chunk array.
#[derive(Debug)]
pub(crate) struct Native {
    key: Key,
    body: Body,
    grid: Box<[u64]>,   // chunks along each axis
    origin: Box<[i64]>, // the key of chunk 0, as many components
    recorded: Recorded,
    listed: OnceLock<Result<Arc<KeyTable>>>,
    found: OnceCell<Arc<KeyTable>>,
}

/// Where the chunks are.
#[derive(Debug)]
pub(crate) enum Body {
    /// In objects, or why their codecs cannot be decoded.
    Array(Result<ChunkArray>),
    Packed(PackedCells),
}

/// The presence list, as the document has it.
#[derive(Debug)]
pub(crate) enum Recorded {
    Keys(Option<KeyList>),
    /// A list that is not read yet.
    Unread(Arc<Outline>),
}

/// A chunk to be read: inside the grid, and not known to be absent.
#[derive(Clone, Debug)]
pub(crate) struct ChunkRequest {
    pub(crate) key: ChunkKey,
    /// A number of its own within the array, where there is one.
    pub(crate) slot: Option<u64>,
    listed: bool,
}

impl ChunkRequest {
    /// Returns the request for a chunk that may be absent.
    pub(crate) const fn unlisted(key: ChunkKey, slot: Option<u64>) -> Self {
        Self { key, slot, listed: false }
    }
}

impl Native {
    /// Returns the chunks of `body` over `grid`, of which those in `recorded` hold something.
    pub(crate) fn new(
        key: Key,
        body: Body,
        grid: Box<[u64]>,
        origin: Box<[i64]>,
        recorded: Recorded,
    ) -> Self {
        let (listed, found) = (OnceLock::new(), OnceCell::new());
        Self { key, body, grid, origin, recorded, listed, found }
    }

    fn array(&self) -> Result<&ChunkArray> {
        match &self.body {
            Body::Array(array) => array.as_ref().map_err(Clone::clone),
            Body::Packed(_) => {
                Err(Error::unsupported("stored bytes of chunks in a", "pack").at_key(&self.key))
            }
        }
    }

    /// Returns whether chunks are handed out where they lie.
    pub(crate) fn is_resident(&self) -> bool {
        if let Body::Packed(packed) = &self.body { packed.is_resident() } else { false }
    }

    /// Reads the encoded bytes of each of the chunks `keys`; `None` where nothing is stored.
    pub(crate) async fn read_stored(
        &self,
        shared: &Shared,
        keys: &[ChunkKey],
    ) -> Result<Vec<Option<Bytes>>> {
        let mut indexes = Vec::with_capacity(keys.len());
        for key in keys {
            indexes.push(ChunkPath::from_key(key, &self.origin)?.index().to_vec());
        }
        let stored = self.array()?.read_stored(&shared.source, &indexes, Caching::Once).await;
        stored.into_iter().map(|stored| Ok(stored?.map(|(_, bytes)| bytes))).collect()
    }

    pub(crate) fn rank(&self) -> usize {
        self.grid.len()
    }

    /// Returns the number of chunks along each axis.
    pub(crate) fn grid(&self) -> &[u64] {
        &self.grid
    }

    /// Returns the keys that hold something.
    pub(crate) async fn presence(&self, shared: &Shared) -> Result<Arc<KeyTable>> {
        match self.read_presence(shared).await {
            Some(recorded) => recorded,
            None => {
                let table = self.list_keys(shared).await?;
                shared.notices.add(Notice::MissingPresence { key: self.key.clone() });
                Ok(table)
            }
        }
    }

    /// Lists the keys in the store, whatever the presence list says.
    pub(crate) async fn list_keys(&self, shared: &Shared) -> Result<Arc<KeyTable>> {
        self.found.get_or_try_init(|| self.find(shared)).await.cloned()
    }

    /// Returns the keys of the presence list, when there is one.
    async fn read_presence(&self, shared: &Shared) -> Option<Result<Arc<KeyTable>>> {
        if let Some(listed) = self.listed.get() {
            return Some(listed.clone());
        }
        let table = |keys: &KeyList| {
            let parse = || self.parse(keys);
            let table = || shared.tables.find_or_parse(keys, &self.origin, &self.grid, parse);
            self.listed.get_or_init(table).clone()
        };
        match &self.recorded {
            Recorded::Keys(keys) => keys.as_ref().map(table),
            Recorded::Unread(outline) => match outline.node().await.as_deref() {
                Ok(Node::Array(doc)) => doc.nonempty_chunks.as_ref().map(table),
                Ok(Node::Group(_)) => None, // it has the outline of an array
                Err(error) => Some(Err(error.clone())),
            },
        }
    }

    fn parse(&self, keys: &KeyList) -> Result<Arc<KeyTable>> {
        let with_key = |error: FormatError| Error::from(error).at_key(&self.key);
        let (rank, mut misfit) = (self.rank(), None);
        // One number of each key at least is in memory as text.
        let mut coords = Vec::with_capacity(keys.len().saturating_mul(rank));
        for text in keys.iter() {
            let key = text.parse::<ChunkKey>().map_err(|error| {
                Error::new(error.class, "nonempty_chunks", "numbers with dots between", quote(text))
                    .at_key(&self.key)
            })?;
            if key.rank() != rank {
                misfit = misfit.or(Some(key)); // refused once all are known to be keys
                continue;
            }
            if !self.is_inside(key.components()) {
                let (what, rule) = ("nonempty_chunks", "keys inside the grid of the array");
                let error = Error::new(Class::OutOfBounds, what, rule, quote(text));
                return Err(error.at_key(&self.key));
            }
            coords.extend_from_slice(key.components());
        }
        KeyTable::new(rank, misfit).map_err(with_key)?;
        Ok(Arc::new(KeyTable::from_coords(rank, coords)))
    }

    async fn find(&self, shared: &Shared) -> Result<Arc<KeyTable>> {
        if let Body::Packed(packed) = &self.body {
            let mut keys = Vec::new();
            for key in packed.keys().await? {
                keys.extend(self.path(&key)?.is_some().then_some(key));
            }
            return KeyTable::new(self.rank(), keys).map(Arc::new).map_err(Error::from);
        }
        let (key, array) = (&self.key, self.array()?);
        if !shared.source.can_list() {
            shared.notices.add(Notice::CannotEnumerate { key: key.clone() });
            let name = "nonempty_chunks";
            return Err(Error::unsupported("enumeration without", name).at_key(key));
        }
        let mut indexes = Vec::new();
        let folder = match chunk_folder(array.names) {
            Some(folder) => key.child(folder)?,
            None => key.clone(),
        };
        for (object, size) in shared.source.list(&folder).await? {
            // The root has no name, and no slash after it.
            let name = object.as_str().strip_prefix(key.as_str());
            let name = name.map(|name| name.strip_prefix('/').unwrap_or(name));
            let path = name.and_then(|name| parse_chunk_name(array.names, name));
            let Some(path) = path else { continue };
            match &array.shards {
                // Eight bytes frame nothing; what is compressed is not looked into.
                None if array.chain.is_empty() && size == EMPTY_CELL_BYTES => {}
                None => indexes.push(path.index().to_vec()),
                Some(shards) => {
                    let Some(spans) = shards.spans(&shared.source, &object).await? else {
                        continue;
                    };
                    let filled = spans.iter().filter(|(_, span)| {
                        !array.chain.is_empty() || length(span) != EMPTY_CELL_BYTES
                    });
                    indexes
                        .extend(filled.filter_map(|(inner, _)| shards.chunk(path.index(), inner)));
                }
            }
        }
        // What lies outside the grid has no key in this array.
        let keys = indexes.iter().filter_map(|index| self.key(index));
        KeyTable::new(self.rank(), keys).map(Arc::new).map_err(Error::from)
    }

    /// Returns the key of the chunk at `index`, when it is inside the grid.
    fn key(&self, index: &[u64]) -> Option<ChunkKey> {
        if index.len() != self.grid.len() || !index.iter().zip(&self.grid).all(|(i, n)| i < n) {
            return None;
        }
        let components: Option<Vec<i64>> = index
            .iter()
            .zip(&self.origin)
            .map(|(&index, origin)| origin.checked_add_unsigned(index))
            .collect();
        ChunkKey::new(&components?).ok()
    }

    /// Returns whether a key of these components, as many as the grid has, is inside the grid.
    fn is_inside(&self, components: &[i64]) -> bool {
        let mut axes = components.iter().zip(&self.origin).zip(&self.grid);
        axes.all(|((component, origin), n)| {
            let steps = component.checked_sub(*origin).and_then(|steps| u64::try_from(steps).ok());
            steps.is_some_and(|steps| steps < *n)
        })
    }

    /// Returns where `key` lies in this array, when it is inside the grid.
    fn path(&self, key: &ChunkKey) -> Result<Option<ChunkPath>> {
        match ChunkPath::from_key(key, &self.origin) {
            Ok(path) => {
                let inside = path.index().iter().zip(&self.grid).all(|(i, n)| i < n);
                Ok(Some(path).filter(|_| inside))
            }
            Err(error) if error.class == Class::OutOfBounds => Ok(None),
            Err(error) => Err(Error::from(error).at_key(&self.key)),
        }
    }

    /// Returns the index in this array of each of `requests`, one after the other.
    fn indexes<'a>(&self, requests: impl Iterator<Item = &'a ChunkRequest>) -> Vec<u64> {
        let index = |request: &'a ChunkRequest| {
            let axes = request.key.components().iter().zip(&self.origin);
            // Inside the grid, so that no difference is negative or leaves 64 bits.
            axes.map(|(component, origin)| component.wrapping_sub(*origin).cast_unsigned())
        };
        requests.flat_map(index).collect()
    }

    /// Splits `indexes` into those of single chunks.
    fn split<'a>(&self, indexes: &'a [u64]) -> Vec<&'a [u64]> {
        indexes.chunks_exact(self.rank().max(1)).collect()
    }

    /// Returns the request for each of `keys`; `None` for one that is known to be absent.
    pub(crate) async fn plan_reads(
        &self,
        shared: &Shared,
        keys: impl Iterator<Item = &ChunkKey>,
    ) -> Vec<Result<Option<ChunkRequest>>> {
        let recorded = self.read_presence(shared).await.transpose();
        let plan = |key: &ChunkKey| match &recorded {
            Ok(recorded) => self.plan_read(key, recorded.as_deref()),
            Err(error) => Err(error.clone()),
        };
        keys.map(plan).collect()
    }

    fn plan_read(
        &self,
        key: &ChunkKey,
        recorded: Option<&KeyTable>,
    ) -> Result<Option<ChunkRequest>> {
        if let Some(table) = recorded {
            match table.find(key) {
                // What is recorded is inside the grid.
                Some(at) => {
                    let slot = Some(to_u64(at));
                    return Ok(Some(ChunkRequest { key: *key, slot, listed: true }));
                }
                None if key.rank() == self.rank() => return Ok(None),
                None => {}
            }
        }
        let Some(path) = self.path(key)? else { return Ok(None) };
        let slot = linear_index(path.index(), &self.grid);
        Ok(Some(ChunkRequest::unlisted(*key, slot)))
    }

    /// Fetches where the chunks `keys` lie, where that takes requests of its own.
    pub(crate) async fn locate(&self, shared: &Shared, keys: &[ChunkKey]) {
        let Body::Array(Ok(array)) = &self.body else { return };
        if array.shards.is_none() || !shared.source.is_remote() {
            return;
        }
        let requests = self.plan_reads(shared, keys.iter()).await;
        let indexes = self.indexes(requests.iter().flatten().flatten());
        // The indexes of shards stay known; a fault is not kept, and shows when chunks are read.
        drop(array.places(&shared.source, &self.split(&indexes)).await);
    }

    /// Plans as [`plan_reads`](Self::plan_reads) does, without trust in presence.
    pub(crate) fn plan_unchecked(&self, key: &ChunkKey) -> Result<Option<ChunkRequest>> {
        let inside = self.path(key)?.is_some();
        Ok(inside.then_some(ChunkRequest::unlisted(*key, None)))
    }

    /// Reads the payloads of `requests`.
    pub(crate) async fn read(
        &self,
        shared: &Shared,
        requests: &[&ChunkRequest],
        caching: Caching,
    ) -> Vec<Result<Option<Bytes>>> {
        if let Body::Packed(packed) = &self.body {
            return packed.read(requests.iter().map(|request| request.key.components())).await;
        }
        let array = match self.array() {
            Ok(array) => array,
            Err(error) => return requests.iter().map(|_| Err(error.clone())).collect(),
        };
        let caps = shared.caps(shared.chunk_cap());
        let indexes = self.indexes(requests.iter().copied());
        let chunks = array.chunks(&shared.source, &self.split(&indexes), caps, caching).await;
        let payload = |(request, chunk): (&&ChunkRequest, Result<Stored>)| {
            let Some((place, bytes)) = chunk? else { return self.missing_chunk(request) };
            let payload = strip_frame(&bytes).map_err(|error| place.locate_error(error.into()))?;
            Ok(Some(payload).filter(|payload| !payload.is_empty()))
        };
        requests.iter().zip(chunks).map(payload).collect()
    }

    /// Returns where the chunks `requests` are.
    async fn places(
        &self,
        shared: &Shared,
        requests: &[&ChunkRequest],
    ) -> Vec<Result<Option<Place>>> {
        let array = match self.array() {
            Ok(array) => array,
            Err(error) => return requests.iter().map(|_| Err(error.clone())).collect(),
        };
        let indexes = self.indexes(requests.iter().copied());
        let places = array.places(&shared.source, &self.split(&indexes)).await;
        let found = |(request, place): (&&ChunkRequest, Result<Option<Place>>)| {
            place?.map_or_else(|| self.missing_chunk(request), |place| Ok(Some(place)))
        };
        requests.iter().zip(places).map(found).collect()
    }

    /// Returns one answer for each of `requests`: the next of `answers` where its chunk has a place.
    fn complete<T>(
        &self,
        requests: &[&ChunkRequest],
        places: Vec<Result<Option<Place>>>,
        answers: Vec<Result<Option<T>>>,
    ) -> Vec<Result<Option<T>>> {
        let placed = places.into_iter().zip(requests);
        let placed = placed.map(|(place, request)| Ok(place?.map(|_| *request))).collect();
        answer_each(placed, answers, |request, answer| {
            answer?.map_or_else(|| self.missing_chunk(request), |answer| Ok(Some(answer)))
        })
    }

    /// Returns the answer for a chunk of which nothing is stored: an error where the presence list has it.
    fn missing_chunk<T>(&self, request: &ChunkRequest) -> Result<Option<T>> {
        if !request.listed {
            return Ok(None);
        }
        let (array, index) = (self.array()?, self.indexes(std::iter::once(request)));
        let Some(shards) = &array.shards else {
            let key = array.object(&index)?;
            return Err(Error::missing(&key, "nonempty_chunks lists this chunk"));
        };
        let key = array.object(&shards.locate(&index).0)?;
        let found = format!("none for {}", request.key);
        let (what, rule) = ("chunk in nonempty_chunks", "a span in the shard");
        Err(Error::new(Class::NotFound, what, rule, quote(&found)).at_key(&key))
    }

    /// Returns what a part of a chunk costs.
    pub(crate) fn part_cost(&self) -> Partial {
        match &self.body {
            Body::Array(array) => {
                array.as_ref().map_or(Partial::Whole, |array| array.chain.part_cost())
            }
            Body::Packed(packed) if packed.reads_ranges() => Partial::Ranges,
            Body::Packed(_) => Partial::Whole,
        }
    }

    /// Returns whether parts are worth reading by themselves. Where requests are expensive, a chunk of unknown length in
    /// compressed blocks is better read in one.
    pub(crate) fn reads_parts(&self, shared: &Shared) -> bool {
        match self.part_cost() {
            Partial::Ranges => true,
            Partial::Whole => false,
            Partial::Blocks => {
                let sharded = self.array().is_ok_and(|array| array.shards.is_some());
                sharded || shared.source.merge_gap() < EXPENSIVE_REQUEST_GAP_BYTES
            }
        }
    }

    /// Reads the bytes `ranges` of each payload; only where [`reads_parts`](Self::reads_parts).
    pub(crate) async fn read_parts(
        &self,
        shared: &Shared,
        requests: &[(&ChunkRequest, &[Range<u64>])],
    ) -> Vec<Result<Option<Vec<Bytes>>>> {
        if let Body::Packed(packed) = &self.body {
            let asks: Vec<_> = requests
                .iter()
                .map(|(request, ranges)| (request.key.components(), *ranges))
                .collect();
            return packed.read_parts(&asks).await;
        }
        let existing: Vec<&ChunkRequest> = requests.iter().map(|(request, _)| *request).collect();
        let places = self.places(shared, &existing).await;
        let asks = places.iter().zip(requests);
        let asks: Vec<part::PartRequest<'_>> = asks
            .filter_map(|(place, (_, ranges))| Some((place.as_ref().ok()?.as_ref()?, *ranges)))
            .collect();
        let parts = match self.part_cost() {
            Partial::Blocks => blocks::read_by_block(shared, &asks).await,
            Partial::Ranges | Partial::Whole => part::read_by_range(shared, &asks).await,
        };
        self.complete(&existing, places, parts)
    }

    /// Returns the lengths of the payloads where an index or a few bytes tell; `None` for absent chunks.
    pub(crate) async fn sizes(
        &self,
        shared: &Shared,
        requests: &[&ChunkRequest],
    ) -> Vec<Result<Option<u64>>> {
        if let Body::Packed(packed) = &self.body {
            return packed.sizes(requests.iter().map(|request| request.key.components())).await;
        }
        let places = self.places(shared, requests).await;
        let found: Vec<&Place> = places.iter().flatten().flatten().collect();
        let sizes = part::sizes(shared, &found).await;
        let sizes = self.complete(requests, places, sizes).into_iter();
        sizes.map(|size| Ok(size?.filter(|size| *size > 0))).collect()
    }
}

/// Returns the payload of a framed cell, without a copy.
fn strip_frame(bytes: &Bytes) -> Result<Bytes, FormatError> {
    Ok(bytes.slice_ref(VlenCell::parse(bytes)?.payload()))
}

/// Returns the place of `index` in a grid, in C order; none where 64 bits do not hold it.
fn linear_index(index: &[u64], grid: &[u64]) -> Option<u64> {
    index
        .iter()
        .zip(grid)
        .try_fold(0_u64, |sum, (&index, &extent)| sum.checked_mul(extent)?.checked_add(index))
}

/// The merge gap, in bytes, from which requests are expensive: a Blosc chunk outside of a shard is then read whole.
const EXPENSIVE_REQUEST_GAP_BYTES: u64 = 64 << 10;
/// A frame around nothing.
const EMPTY_CELL_BYTES: u64 = 8;
