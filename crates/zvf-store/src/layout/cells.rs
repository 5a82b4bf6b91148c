//! The chunks of one spatial array, for any layout version.
//!
//! ```text
//! Cells  ->  family C: one array over the chunk grid     c/4/0/0, or a span of a shard, or a row of a pack
//!        ->  families A, B: one small array per chunk    (tiny)
//! stored ->  codecs decoded                              u32 1, u32 n, n bytes: the payload
//! ```
//!
//! A chunk is identified by its absolute key. Callers get its payload: decoded, without framing. A
//! chunk without bytes is absent; a chunk that the presence list names but that does not exist is
//! an error.
//!
//! Not here: the content of payloads.

use async_recursion::async_recursion as boxed;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::Class;
use zvf_format::grid::Grid;
use zvf_format::key::{ChunkKey, ChunkPath};
use zvf_format::num::to_u64;
use zvf_format::vlen::VlenCell;
use zvf_metadata::{ArrayDoc, LayoutFamily, Object};

use super::array::{ChunkArray, Located, Stored, answer_each};
use super::names::{chunk_folder, parse_chunk_name};
use super::packed::PackedCells;
use super::part::slices;
use super::presence::{ChunkRequest, Presence, Recorded, chunk_grid, complete, missing_chunk};
use super::span::length;
use super::table::KeyTable;
use super::tiny::Tiny;
use super::{blocks, part};
use crate::cache::Caching;
use crate::codec::{Coding, Packing, Partial};
use crate::docs::Outline;
use crate::key::Key;
use crate::notice::Notice;
use crate::shared::Handle;
use crate::source::Origin;

/// The chunks of one array of a level.
///
/// Cheap to clone; clones share metadata and cached data.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/three.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// use zvf_format::key::ChunkKey;
/// use zvf_store::Partial;
///
/// let vertices = store.level(0).await?.required_cells("vertices").await?;
/// assert_eq!((vertices.presence().await?.len(), vertices.part_cost()), (3, Partial::Ranges));
///
/// // The second coordinate of the first vertex of chunk -1.0, and nothing else of it.
/// let ask = ("-1.0".parse::<ChunkKey>()?, vec![4..8]);
/// let parts = vertices.read_parts(&[ask]).await.remove(0)?.expect("the chunk is listed");
/// assert_eq!(parts[0], 4_f32.to_le_bytes()[..]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Cells {
    shared: Arc<Handle>,
    core: Arc<CellsCore>,
}

/// The state shared by all handles of one array.
#[derive(Debug)]
struct CellsCore {
    key: Key,
    attributes: Object,
    rank: usize,
    id: u32,
    body: Body,
}

/// The location of the chunks.
#[derive(Debug)]
enum Body {
    /// In objects, or the reason why their codecs cannot be decoded.
    Array(Box<Presence>, Result<ChunkArray>),
    Packed(Box<Presence>, PackedCells),
    /// In small arrays, of families A and B.
    Tiny(Tiny),
}

impl CellsCore {
    /// Returns the presence of the chunks of family C.
    fn presence(&self) -> Option<&Presence> {
        match &self.body {
            Body::Array(presence, _) | Body::Packed(presence, _) => Some(presence),
            Body::Tiny(_) => None,
        }
    }
}

impl Cells {
    /// Returns the chunks of the array `doc` under `key`, in the layout of family C.
    pub(crate) fn from_array(shared: &Arc<Handle>, key: &Key, doc: &ArrayDoc) -> Result<Self> {
        Self::from_document(shared, key, doc, Recorded::Keys(doc.nonempty_chunks.clone()))
    }

    /// The same for an array whose presence list is read on request.
    pub(crate) fn from_outline(
        shared: &Arc<Handle>,
        key: &Key,
        outline: &Arc<Outline>,
    ) -> Result<Self> {
        Self::from_document(shared, key, outline.doc(), Recorded::Unread(Arc::clone(outline)))
    }

    fn from_document(
        shared: &Arc<Handle>,
        key: &Key,
        doc: &ArrayDoc,
        recorded: Recorded,
    ) -> Result<Self> {
        let inner = doc.inner_chunk_shape();
        if inner.iter().any(|&extent| extent != 1) {
            let (what, found) = ("chunk_shape of cells", "several cells in one chunk");
            let error = Error::new(Class::BadShape, what, "1 along each axis", found);
            return Err(error.at_key(key));
        }
        let presence = Box::new(Presence::new(key.clone(), chunk_grid(key, doc)?, recorded));
        // Cells in a pack are already decoded; a known codec only frames them.
        let body = if let Origin::Pack(pack) = &shared.source
            && Coding::from_doc(doc).map_or(true, |coding| coding.packing == Packing::Vlen)
        {
            Body::Packed(presence, PackedCells::open(pack, key, doc.rank())?)
        } else {
            let array = ChunkArray::of_frames(key, doc, shared.new_id(), "codec of cells");
            Body::Array(presence, array.at_key(key))
        };
        Ok(Self::new(shared, key, doc.attributes.clone(), doc.rank(), body))
    }

    /// Returns the chunks that families A and B store below the group `key`; their names have
    /// `rank` components.
    pub(crate) fn from_group(
        shared: &Arc<Handle>,
        key: &Key,
        attributes: Object,
        rank: usize,
    ) -> Self {
        let packed = shared.root.shard_layout.is_some();
        let body = Body::Tiny(Tiny::new(key.clone(), rank, packed));
        Self::new(shared, key, attributes, rank, body)
    }

    fn new(shared: &Arc<Handle>, key: &Key, attributes: Object, rank: usize, body: Body) -> Self {
        let core = CellsCore { key: key.clone(), attributes, rank, id: shared.new_id(), body };
        Self { shared: Arc::clone(shared), core: Arc::new(core) }
    }

    /// Returns its path below the root of the store.
    pub fn path(&self) -> &Key {
        &self.core.key
    }

    /// Returns the attributes of the array, or of the group that replaces it, without the presence
    /// list.
    pub fn attributes(&self) -> &Object {
        &self.core.attributes
    }

    /// Returns the number of components of its keys.
    pub fn rank(&self) -> usize {
        self.core.rank
    }

    /// Returns the shape of the chunk grid; `None` in the older families, whose arrays do not state
    /// it.
    pub fn grid(&self) -> Option<&Grid> {
        self.core.presence().map(|presence| &presence.grid)
    }

    /// Returns the layout family of the store.
    pub fn family(&self) -> LayoutFamily {
        self.shared.family
    }

    /// Returns the cost of reading a part of a chunk.
    pub fn part_cost(&self) -> Partial {
        match &self.core.body {
            Body::Array(_, Ok(array)) => array.chain.part_cost(),
            Body::Packed(_, packed) if packed.reads_ranges() => Partial::Ranges,
            Body::Array(_, Err(_)) | Body::Packed(..) | Body::Tiny(_) => Partial::Whole,
        }
    }

    /// Returns the keys of the non-empty chunks, in numeric order.
    ///
    /// They come from the presence list, if there is one. Otherwise they are listed, which a notice
    /// reports, and may include chunks that turn out to be empty.
    ///
    /// # Errors
    ///
    /// When a recorded key is invalid or outside the grid of the array; [`Class::Unsupported`] when
    /// there is no presence list and the backend cannot list.
    #[boxed]
    pub async fn presence(&self) -> Result<Arc<KeyTable>> {
        let Some(presence) = self.core.presence() else { return self.list_keys().await };
        if let Some(recorded) = presence.recorded(&self.shared).await {
            return recorded;
        }
        let table = self.list_keys().await?;
        self.shared.notices.add(Notice::MissingPresence { key: self.core.key.clone() });
        Ok(table)
    }

    /// Reads the payloads of the chunks `keys`, in order; `None` for absent chunks.
    ///
    /// Each answer has its own error: [`Class::NotFound`] if the presence list names a chunk that
    /// does not exist, [`Class::Unsupported`] for an unknown codec, otherwise the error of reading
    /// or decoding.
    #[boxed]
    pub async fn read_many(
        &self,
        keys: &[ChunkKey],
        caching: Caching,
    ) -> Vec<Result<Option<Bytes>>> {
        let requests = self.plan(keys.iter()).await;
        let existing: Vec<&ChunkRequest> = requests.iter().flatten().flatten().collect();
        let payloads = if let Body::Packed(_, packed) = &self.core.body
            && packed.is_resident()
        {
            self.fetch(&existing, Caching::Once).await
        } else {
            let slots: Vec<Option<u64>> = existing.iter().map(|request| request.slot).collect();
            let existing = &existing;
            let fetch = |missing: Vec<usize>| async move {
                let missing: Vec<&ChunkRequest> =
                    missing.into_iter().map(|at| existing[at]).collect();
                self.fetch(&missing, caching).await
            };
            self.shared.cache.read_many(self.core.id, &slots, caching, fetch).await
        };
        answer_each(requests, payloads, |_, payload| payload)
    }

    /// Prefetches the locations of the chunks `keys` in the shards of a remote store, which saves
    /// one round trip when they are read. Errors are reported when the chunks are read.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> zvf_error::Result<()> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/three.zarrvectors");
    /// # let store = zvf_store::Store::open(path, Default::default()).await?;
    /// use zvf_format::key::ChunkKey;
    ///
    /// let vertices = store.level(0).await?.required_cells("vertices").await?;
    /// let before = store.io_stats();
    /// vertices.locate(&["-1.0".parse::<ChunkKey>()?]).await;
    /// assert_eq!(store.io_stats(), before); // a folder of this machine
    /// # Ok(())
    /// # }
    /// ```
    #[boxed]
    pub async fn locate(&self, keys: &[ChunkKey]) {
        let Body::Array(presence, Ok(array)) = &self.core.body else { return };
        if array.shards.is_none() || !self.shared.source.is_remote() {
            return;
        }
        let requests = presence.plan_reads(&self.shared, keys.iter()).await;
        let indexes = presence.indexes(requests.iter().flatten().flatten());
        // The shard indexes stay cached; an error is not cached, and is reported when chunks are
        // read.
        drop(array.places(&self.shared.source, &presence.split(&indexes)).await);
    }

    /// Reads the payload of one chunk; `None` if it is absent.
    ///
    /// # Errors
    ///
    /// As for each answer of [`read_many`](Self::read_many).
    #[boxed]
    pub async fn read(&self, key: &ChunkKey, caching: Caching) -> Result<Option<Bytes>> {
        only(self.read_many(std::slice::from_ref(key), caching).await)
    }

    /// Reads parts of payloads: for each chunk the bytes of each range, counted from the start of
    /// its payload; `None` for absent chunks. [`part_cost`](Self::part_cost) is the cost.
    ///
    /// Each answer has its own error: [`Class::OutOfBounds`] if a range ends past the payload,
    /// otherwise as for [`read_many`](Self::read_many).
    #[boxed]
    pub async fn read_parts(
        &self,
        asks: &[(ChunkKey, Vec<Range<u64>>)],
    ) -> Vec<Result<Option<Vec<Bytes>>>> {
        match &self.core.body {
            Body::Packed(_, packed) if packed.reads_ranges() => {
                let requests = self.plan(asks.iter().map(|(key, _)| key)).await;
                let existing: Vec<_> = with_ranges(&requests, asks)
                    .map(|(request, ranges)| (request.key.components(), ranges))
                    .collect();
                let parts = packed.read_parts(&existing).await;
                return answer_each(requests, parts, |_, parts| parts);
            }
            Body::Array(presence, Ok(array)) if self.reads_parts(array) => {
                let requests = self.plan(asks.iter().map(|(key, _)| key)).await;
                let (existing, ranges): (Vec<_>, Vec<_>) = with_ranges(&requests, asks).unzip();
                let places = self.places(presence, array, &existing).await;
                let found: Vec<part::PartRequest<'_>> = places
                    .iter()
                    .zip(ranges)
                    .filter_map(|(place, ranges)| Some((place.as_ref().ok()?.as_ref()?, ranges)))
                    .collect();
                let parts = match array.chain.part_cost() {
                    Partial::Blocks => blocks::read_by_block(&self.shared, &found).await,
                    Partial::Ranges | Partial::Whole => {
                        part::read_by_range(&self.shared, &found).await
                    }
                };
                let parts = complete(presence, array, &existing, places, parts);
                return answer_each(requests, parts, |_, parts| parts);
            }
            Body::Array(..) | Body::Packed(..) | Body::Tiny(_) => {}
        }
        let keys: Vec<ChunkKey> = asks.iter().map(|(key, _)| *key).collect();
        let payloads = self.read_many(&keys, Caching::Keep).await;
        let parts = payloads.into_iter().zip(asks).map(|(payload, (_, ranges))| {
            payload?.map(|payload| slices(&self.core.key, &payload, ranges)).transpose()
        });
        parts.collect()
    }

    /// Returns the length of each payload, `None` for absent chunks. It is read from an index or a
    /// few bytes if [`part_cost`](Self::part_cost) is [`Partial::Ranges`], otherwise by reading the
    /// payload.
    ///
    /// Each answer has its own error, as for [`read_many`](Self::read_many).
    #[boxed]
    pub async fn sizes(&self, keys: &[ChunkKey]) -> Vec<Result<Option<u64>>> {
        if self.part_cost() == Partial::Ranges {
            let requests = self.plan(keys.iter()).await;
            let existing: Vec<&ChunkRequest> = requests.iter().flatten().flatten().collect();
            let sizes = match &self.core.body {
                Body::Packed(_, packed) => {
                    packed.sizes(existing.iter().map(|request| request.key.components())).await
                }
                Body::Array(presence, Ok(array)) => {
                    let places = self.places(presence, array, &existing).await;
                    let found: Vec<&Located> = places.iter().flatten().flatten().collect();
                    let sizes = part::sizes(&self.shared, &found).await;
                    complete(presence, array, &existing, places, sizes)
                }
                Body::Array(_, Err(_)) | Body::Tiny(_) => Vec::new(), // they are read whole
            };
            return answer_each(requests, sizes, |_, size| Ok(size?.filter(|size| *size > 0)));
        }
        let payloads = self.read_many(keys, Caching::Keep).await;
        let size = |bytes: Bytes| to_u64(bytes.len());
        payloads.into_iter().map(|payload| Ok(payload?.map(size))).collect()
    }

    /// Returns the whole payload of one chunk, whether or not it is in the presence list, bypassing
    /// the cache.
    ///
    /// For checking the store.
    ///
    /// # Errors
    ///
    /// As for each answer of [`read_many`](Self::read_many), except that a missing chunk is not an
    /// error.
    #[boxed]
    pub async fn read_raw(&self, key: &ChunkKey) -> Result<Option<Bytes>> {
        only(self.read_raw_many(std::slice::from_ref(key)).await)
    }

    /// Returns the payloads of many chunks as [`read_raw`](Self::read_raw) does, in the order of
    /// `keys`.
    ///
    /// Each answer has its own error, as for `read_raw`.
    #[boxed]
    pub async fn read_raw_many(&self, keys: &[ChunkKey]) -> Vec<Result<Option<Bytes>>> {
        let plan = |key: &ChunkKey| match self.core.presence() {
            Some(presence) => presence.plan_unchecked(key),
            None => Ok(Some(ChunkRequest::unlisted(*key, None))),
        };
        let requests: Vec<_> = keys.iter().map(plan).collect();
        let existing: Vec<&ChunkRequest> = requests.iter().flatten().flatten().collect();
        let payloads = self.fetch(&existing, Caching::Once).await;
        answer_each(requests, payloads, |_, payload| payload)
    }

    /// Returns the keys of the chunks in a listing, whatever the presence list says; some may turn
    /// out to be empty.
    ///
    /// For checking the store.
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`] when the backend cannot list or a codec is unknown; otherwise when the
    /// backend fails or a shard cannot be read.
    #[boxed]
    pub async fn list_keys(&self) -> Result<Arc<KeyTable>> {
        let (presence, array) = match &self.core.body {
            Body::Tiny(tiny) => return tiny.presence(&self.shared).await,
            Body::Array(presence, array) => (presence, Ok(array.as_ref().map_err(Clone::clone)?)),
            Body::Packed(presence, packed) => (presence, Err(packed)),
        };
        presence.found.get_or_try_init(|| self.find_keys(presence, array)).await.cloned()
    }
}

impl Cells {
    /// Reads the encoded bytes of each of the chunks `keys` of a family C array.
    pub(crate) async fn read_stored(&self, keys: &[ChunkKey]) -> Result<Vec<Option<Bytes>>> {
        let what = "stored bytes of chunks in a";
        let (presence, array) = match &self.core.body {
            Body::Array(presence, array) => (presence, array.as_ref().map_err(Clone::clone)?),
            Body::Packed(..) => return Err(Error::unsupported(what, "pack").at_key(self.path())),
            Body::Tiny(_) => {
                let version = self.shared.root.zarr_vectors.zv_version.to_string();
                return Err(Error::unsupported(
                    "stored bytes of chunks in a store of version",
                    &version,
                ));
            }
        };
        let mut indexes = Vec::with_capacity(keys.len());
        for key in keys {
            indexes.push(ChunkPath::from_key(key, presence.grid.origin())?.index().to_vec());
        }
        let stored = array.read_stored(&self.shared.source, &indexes, Caching::Once).await;
        stored.into_iter().map(|stored| Ok(stored?.map(|(_, bytes)| bytes))).collect()
    }

    /// Returns the request for each of `keys`; `None` for chunks known to be absent.
    async fn plan(
        &self,
        keys: impl Iterator<Item = &ChunkKey>,
    ) -> Vec<Result<Option<ChunkRequest>>> {
        match &self.core.body {
            Body::Array(presence, _) | Body::Packed(presence, _) => {
                presence.plan_reads(&self.shared, keys).await
            }
            Body::Tiny(tiny) => {
                let plan = |key: &ChunkKey| Ok(Some(ChunkRequest::unlisted(*key, tiny.slot(key))));
                keys.map(plan).collect()
            }
        }
    }

    /// Reads the payloads of `requests`.
    async fn fetch(
        &self,
        requests: &[&ChunkRequest],
        caching: Caching,
    ) -> Vec<Result<Option<Bytes>>> {
        let shared = &self.shared;
        let (presence, array) = match &self.core.body {
            Body::Array(presence, Ok(array)) => (presence, array),
            Body::Array(_, Err(error)) => {
                return requests.iter().map(|_| Err(error.clone())).collect();
            }
            Body::Packed(_, packed) => {
                return packed.read(requests.iter().map(|request| request.key.components())).await;
            }
            Body::Tiny(tiny) => {
                let keys: Vec<ChunkKey> = requests.iter().map(|request| request.key).collect();
                return tiny.read(shared, &keys).await;
            }
        };
        let caps = shared.caps(shared.chunk_cap());
        let indexes = presence.indexes(requests.iter().copied());
        let chunks = array.chunks(&shared.source, &presence.split(&indexes), caps, caching).await;
        let payload = |(request, chunk): (&&ChunkRequest, Result<Stored>)| {
            let Some((place, bytes)) = chunk? else {
                return missing_chunk(presence, array, request);
            };
            let payload = place
                .locate(VlenCell::parse(&bytes).map(|cell| bytes.slice_ref(cell.payload())))?;
            Ok(Some(payload).filter(|payload| !payload.is_empty()))
        };
        requests.iter().zip(chunks).map(payload).collect()
    }

    /// Returns whether it is worthwhile to read parts separately. If requests are expensive, a
    /// compressed chunk of unknown length is better read whole.
    fn reads_parts(&self, array: &ChunkArray) -> bool {
        match array.chain.part_cost() {
            Partial::Ranges => true,
            Partial::Whole => false,
            Partial::Blocks => {
                let gap = self.shared.source.merge_gap();
                array.shards.is_some() || gap < EXPENSIVE_REQUEST_GAP_BYTES
            }
        }
    }

    /// Returns the locations of the chunks `requests`.
    async fn places(
        &self,
        presence: &Presence,
        array: &ChunkArray,
        requests: &[&ChunkRequest],
    ) -> Vec<Result<Option<Located>>> {
        let indexes = presence.indexes(requests.iter().copied());
        let places = array.places(&self.shared.source, &presence.split(&indexes)).await;
        let found = |(request, place): (&&ChunkRequest, Result<Option<Located>>)| {
            place?.map_or_else(|| missing_chunk(presence, array, request), |place| Ok(Some(place)))
        };
        requests.iter().zip(places).map(found).collect()
    }

    /// Lists the keys in the store, ignoring the presence list.
    async fn find_keys(
        &self,
        presence: &Presence,
        array: Result<&ChunkArray, &PackedCells>,
    ) -> Result<Arc<KeyTable>> {
        let (shared, key, grid) = (&self.shared, &self.core.key, &presence.grid);
        let array = match array {
            Ok(array) => array,
            Err(packed) => {
                let mut keys = Vec::new();
                for key in packed.keys().await? {
                    keys.extend(presence.path(&key)?.is_some().then_some(key));
                }
                return KeyTable::new(grid.rank(), keys).map(Arc::new).map_err(Error::from);
            }
        };
        shared.check_listable(key, "nonempty_chunks")?;
        let mut indexes = Vec::new();
        let folder = match chunk_folder(array.names) {
            Some(folder) => key.child(folder)?,
            None => key.clone(),
        };
        for (object, size) in shared.source.list(&folder).await? {
            // The root has no name, and no slash after it.
            let name = object.below(key);
            let path = name.and_then(|name| parse_chunk_name(array.names, name));
            let Some(path) = path else { continue };
            match &array.shards {
                // A frame of eight bytes is empty; compressed chunks are not examined.
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
        // An index outside the grid has no key in this array.
        let keys = indexes.iter().filter_map(|index| grid.key(index));
        KeyTable::new(grid.rank(), keys).map(Arc::new).map_err(Error::from)
    }
}

/// Returns the requested chunks, each with its ranges.
fn with_ranges<'a>(
    requests: &'a [Result<Option<ChunkRequest>>],
    asks: &'a [(ChunkKey, Vec<Range<u64>>)],
) -> impl Iterator<Item = (&'a ChunkRequest, &'a [Range<u64>])> {
    let all = requests.iter().zip(asks);
    all.filter_map(|(request, (_, ranges))| {
        Some((request.as_ref().ok()?.as_ref()?, ranges.as_slice()))
    })
}

/// Returns the single answer to a single request.
fn only<T>(mut answers: Vec<Result<Option<T>>>) -> Result<Option<T>> {
    answers.pop().expect("one request has one answer")
}

/// The merge gap, in bytes, from which requests are expensive: a Blosc chunk outside of a shard is then read whole.
const EXPENSIVE_REQUEST_GAP_BYTES: u64 = 64 << 10;
/// The size of an empty frame.
const EMPTY_CELL_BYTES: u64 = 8;
