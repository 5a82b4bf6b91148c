//! The chunks of one spatial array, whichever way its format version lays them out.
//!
//! ```text
//! Cells  ->  family C: one array over the chunk grid     (native)
//!        ->  families A, B: one small array per chunk    (tiny)
//! ```
//!
//! A chunk is named by its absolute key. What is handed out is its payload: codecs decoded, framing
//! removed. A chunk without bytes is absent; one that the array says is there and is not is a
//! fault.
//!
//! Not here: what a payload holds.

use async_recursion::async_recursion as boxed;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::key::ChunkKey;
use zvf_format::{Class, Expected, Found};
use zvf_metadata::{ArrayDoc, LayoutFamily, Object};

use super::array::{ChunkArray, answer_each};
use super::native::{Body, ChunkRequest, Native, Recorded};
use super::packed::PackedCells;
use super::part::slices;
use super::table::KeyTable;
use super::tiny::Tiny;
use crate::cache::Caching;
use crate::codec::{Coding, Packing, Partial};
use crate::docs::Outline;
use crate::key::Key;
use crate::shared::Shared;
use crate::source::Source;

/// The chunks of one array of a level.
///
/// Cheap to clone; clones share what was learned and read.
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
    shared: Arc<Shared>,
    core: Arc<CellsCore>,
}

/// What all handles of one array share.
#[derive(Debug)]
pub(crate) struct CellsCore {
    key: Key,
    attributes: Object,
    rank: usize,
    id: u32,
    layout: Layout,
}

#[derive(Debug)]
enum Layout {
    Native(Box<Native>),
    Tiny(Tiny),
}

impl CellsCore {
    /// Returns the chunks of the array `doc` under `key`, as family C has them.
    pub(crate) fn from_array(shared: &Shared, key: &Key, doc: &ArrayDoc) -> Result<Self> {
        Self::from_document(shared, key, doc, Recorded::Keys(doc.nonempty_chunks.clone()))
    }

    /// Returns the same of an array whose presence list is read when it is asked for.
    pub(crate) fn from_outline(shared: &Shared, key: &Key, outline: &Arc<Outline>) -> Result<Self> {
        Self::from_document(shared, key, outline.doc(), Recorded::Unread(Arc::clone(outline)))
    }

    fn from_document(
        shared: &Shared,
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
        let origin = grid_origin(key, doc)?;
        // In a pack no codec is left to be decoded; one that is known frames cells.
        let body = if let Source::Pack(pack) = &shared.source
            && Coding::from_doc(doc).map_or(true, |coding| coding.packing == Packing::Vlen)
        {
            Body::Packed(PackedCells::open(pack, key, doc.rank())?)
        } else {
            let id = shared.new_id();
            Body::Array(ChunkArray::of_frames(key, doc, id, "codec of cells").at_key(key))
        };
        let grid = doc.shape.as_slice().into();
        let layout =
            Layout::Native(Box::new(Native::new(key.clone(), body, grid, origin, recorded)));
        Ok(Self::new(shared, key, doc.attributes.clone(), doc.rank(), layout))
    }

    /// Returns the chunks that families A and B keep below the group `key`, whose names have `rank` components.
    pub(crate) fn from_group(shared: &Shared, key: &Key, attributes: Object, rank: usize) -> Self {
        let packed = shared.root.shard_layout.is_some();
        let layout = Layout::Tiny(Tiny::new(key.clone(), rank, packed));
        Self::new(shared, key, attributes, rank, layout)
    }

    fn new(shared: &Shared, key: &Key, attributes: Object, rank: usize, layout: Layout) -> Self {
        Self { key: key.clone(), attributes, rank, id: shared.new_id(), layout }
    }
}

impl Cells {
    pub(crate) fn new(shared: &Arc<Shared>, core: Arc<CellsCore>) -> Self {
        Self { shared: Arc::clone(shared), core }
    }

    /// Returns its path below the root of the store.
    #[must_use]
    pub fn path(&self) -> &Key {
        &self.core.key
    }

    /// Returns the attributes of the array, or of the group that stands for it; without the presence list.
    #[must_use]
    pub fn attributes(&self) -> &Object {
        &self.core.attributes
    }

    /// Returns how many components its keys have.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.core.rank
    }

    /// Returns how many chunks there is room for along each axis; `None` in the older families, whose arrays say
    /// nothing about it.
    #[must_use]
    pub fn grid(&self) -> Option<&[u64]> {
        self.native().map(Native::grid)
    }

    /// Returns the layout family of the store.
    #[must_use]
    pub fn family(&self) -> LayoutFamily {
        self.shared.family
    }

    /// Returns what reading a part of a chunk costs.
    #[must_use]
    pub fn part_cost(&self) -> Partial {
        self.native().map_or(Partial::Whole, Native::part_cost)
    }

    /// Returns the keys of the chunks that hold something, in numeric order.
    ///
    /// They are those that the array records, where it does; otherwise they are listed, which a notice
    /// reports, and may then hold keys of chunks that turn out to be empty.
    ///
    /// # Errors
    ///
    /// When a recorded key is not one, or lies outside the grid of the array; [`Class::Unsupported`] when
    /// nothing is recorded and the backend cannot list.
    #[boxed]
    pub async fn presence(&self) -> Result<Arc<KeyTable>> {
        match &self.core.layout {
            Layout::Native(native) => native.presence(&self.shared).await,
            Layout::Tiny(tiny) => tiny.presence(&self.shared).await,
        }
    }

    /// Reads the payloads of the chunks `keys`, in their order; `None` for those that are absent.
    ///
    /// Each answer has its own fault: [`Class::NotFound`] where the array records a chunk that is not
    /// there, [`Class::Unsupported`] where a codec is unknown, otherwise what went wrong reading or
    /// decoding it.
    #[boxed]
    pub async fn read_many(
        &self,
        keys: &[ChunkKey],
        caching: Caching,
    ) -> Vec<Result<Option<Bytes>>> {
        let requests = self.plan(keys.iter()).await;
        let existing: Vec<&ChunkRequest> = requests.iter().flatten().flatten().collect();
        let payloads = if self.native().is_some_and(Native::is_resident) {
            self.fetch(&existing, Caching::Once).await
        } else {
            let slots: Vec<Option<u64>> = existing.iter().map(|request| request.slot).collect();
            let existing = &existing;
            let fetch = |missing: Vec<usize>| async move {
                let missing: Vec<&ChunkRequest> =
                    missing.into_iter().map(|at| existing[at]).collect();
                self.fetch(&missing, caching).await
            };
            self.shared.read_through_cache(self.core.id, &slots, caching, fetch).await
        };
        answer_each(requests, payloads, |_, payload| payload)
    }

    /// Fetches where the chunks `keys` lie in the shards of a store behind a network, so that reading them takes one
    /// round less. What goes wrong shows when they are read.
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
        if let Some(native) = self.native() {
            native.locate(&self.shared, keys).await;
        }
    }

    /// Reads the payload of one chunk; `None` when it is absent.
    ///
    /// # Errors
    ///
    /// As for each answer of [`read_many`](Self::read_many).
    #[boxed]
    pub async fn read(&self, key: &ChunkKey, caching: Caching) -> Result<Option<Bytes>> {
        only(self.read_many(std::slice::from_ref(key), caching).await)
    }

    /// Parts of payloads: for each chunk the bytes of each range, counted from the start of its payload;
    /// `None` for absent chunks. What that costs is [`part_cost`](Self::part_cost).
    ///
    /// Each answer has its own fault: [`Class::OutOfBounds`] where a range ends past the payload, otherwise
    /// as for [`read_many`](Self::read_many).
    #[boxed]
    pub async fn read_parts(
        &self,
        asks: &[(ChunkKey, Vec<Range<u64>>)],
    ) -> Vec<Result<Option<Vec<Bytes>>>> {
        if let Some(native) = self.native().filter(|native| native.reads_parts(&self.shared)) {
            let requests = self.plan(asks.iter().map(|(key, _)| key)).await;
            let with_ranges = requests.iter().zip(asks);
            let existing: Vec<(&ChunkRequest, &[Range<u64>])> = with_ranges
                .filter_map(|(request, (_, ranges))| {
                    Some((request.as_ref().ok()?.as_ref()?, ranges.as_slice()))
                })
                .collect();
            let parts = native.read_parts(&self.shared, &existing).await;
            return answer_each(requests, parts, |_, parts| parts);
        }
        let keys: Vec<ChunkKey> = asks.iter().map(|(key, _)| *key).collect();
        let payloads = self.read_many(&keys, Caching::Keep).await;
        let parts = payloads.into_iter().zip(asks).map(|(payload, (_, ranges))| {
            payload?.map(|payload| slices(&self.core.key, &payload, ranges)).transpose()
        });
        parts.collect()
    }

    /// Returns the length of each payload, `None` for absent chunks: from an index or a few bytes where
    /// [`part_cost`](Self::part_cost) is [`Partial::Ranges`], otherwise by reading it.
    ///
    /// Each answer has its own fault, as for [`read_many`](Self::read_many).
    #[boxed]
    pub async fn sizes(&self, keys: &[ChunkKey]) -> Vec<Result<Option<u64>>> {
        let native = self.native().filter(|native| native.part_cost() == Partial::Ranges);
        if let Some(native) = native {
            let requests = self.plan(keys.iter()).await;
            let existing: Vec<&ChunkRequest> = requests.iter().flatten().flatten().collect();
            let sizes = native.sizes(&self.shared, &existing).await;
            return answer_each(requests, sizes, |_, size| size);
        }
        let payloads = self.read_many(keys, Caching::Keep).await;
        let size = |bytes: Bytes| zvf_format::num::to_u64(bytes.len());
        payloads.into_iter().map(|payload| Ok(payload?.map(size))).collect()
    }

    /// Returns the payload of one chunk, whether the array records it or not, whole, and past the cache.
    ///
    /// For checking the store.
    ///
    /// # Errors
    ///
    /// As for each answer of [`read_many`](Self::read_many), except that nothing is promised to be there.
    #[boxed]
    pub async fn read_raw(&self, key: &ChunkKey) -> Result<Option<Bytes>> {
        only(self.read_raw_many(std::slice::from_ref(key)).await)
    }

    /// Returns the payloads of many chunks as [`read_raw`](Self::read_raw) gives them, in the order of `keys`.
    ///
    /// Each answer has its own fault, as for `read_raw`.
    #[boxed]
    pub async fn read_raw_many(&self, keys: &[ChunkKey]) -> Vec<Result<Option<Bytes>>> {
        let plan = |key: &ChunkKey| match self.native() {
            Some(native) => native.plan_unchecked(key),
            None => Ok(Some(ChunkRequest::unlisted(*key, None))),
        };
        let requests: Vec<_> = keys.iter().map(plan).collect();
        let existing: Vec<&ChunkRequest> = requests.iter().flatten().flatten().collect();
        let payloads = self.fetch(&existing, Caching::Once).await;
        answer_each(requests, payloads, |_, payload| payload)
    }

    /// Returns the keys of the chunks that a listing shows, whatever the array records; some may turn out to be
    /// empty.
    ///
    /// For checking the store.
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`] when the backend cannot list or a codec is unknown; otherwise when the
    /// backend fails or a shard cannot be read.
    #[boxed]
    pub async fn list_keys(&self) -> Result<Arc<KeyTable>> {
        match &self.core.layout {
            Layout::Native(native) => native.list_keys(&self.shared).await,
            Layout::Tiny(tiny) => tiny.presence(&self.shared).await,
        }
    }
}

impl Cells {
    /// Reads the encoded bytes of each of the chunks `keys` of a family C array.
    pub(crate) async fn read_stored(&self, keys: &[ChunkKey]) -> Result<Vec<Option<Bytes>>> {
        let Some(native) = self.native() else {
            let version = self.shared.root.zarr_vectors.zv_version.to_string();
            let what = "stored bytes of chunks in a store of version";
            return Err(Error::unsupported(what, &version));
        };
        native.read_stored(&self.shared, keys).await
    }

    /// Returns the array over the chunk grid, where there is one.
    fn native(&self) -> Option<&Native> {
        if let Layout::Native(native) = &self.core.layout { Some(native) } else { None }
    }

    /// Returns the request for each of `keys`; `None` for one that is known to be absent.
    async fn plan(
        &self,
        keys: impl Iterator<Item = &ChunkKey>,
    ) -> Vec<Result<Option<ChunkRequest>>> {
        match &self.core.layout {
            Layout::Native(native) => native.plan_reads(&self.shared, keys).await,
            Layout::Tiny(tiny) => {
                keys.map(|key| Ok(Some(ChunkRequest::unlisted(*key, tiny.slot(key))))).collect()
            }
        }
    }

    /// Reads the payloads of `requests`, past the cache.
    async fn fetch(
        &self,
        requests: &[&ChunkRequest],
        caching: Caching,
    ) -> Vec<Result<Option<Bytes>>> {
        match &self.core.layout {
            Layout::Native(native) => native.read(&self.shared, requests, caching).await,
            Layout::Tiny(tiny) => {
                let keys: Vec<ChunkKey> = requests.iter().map(|request| request.key).collect();
                tiny.read(&self.shared, &keys).await
            }
        }
    }
}

/// Returns the one answer to one request.
fn only<T>(mut answers: Vec<Result<Option<T>>>) -> Result<Option<T>> {
    answers.pop().expect("one request has one answer")
}

/// Returns the key of the first chunk of the array.
pub(crate) fn grid_origin(key: &Key, doc: &ArrayDoc) -> Result<Box<[i64]>> {
    let Some(value) = doc.attributes.get("chunk_grid_origin") else {
        return Ok(vec![0; doc.rank()].into());
    };
    let odd = |expected, found| {
        Error::new(Class::BadShape, "chunk_grid_origin", expected, found).at_key(key)
    };
    let whole = Expected::Rule("whole numbers of 64 bits");
    let Some(items) = value.as_array() else {
        return Err(odd(whole, Found::Text("another value")));
    };
    let origin: Option<Box<[i64]>> = items.iter().map(whole_number).collect();
    let Some(origin) = origin else { return Err(odd(whole, Found::Text("another value"))) };
    if origin.len() != doc.rank() {
        let expected = Expected::Exactly(zvf_format::num::to_u64(doc.rank()).into());
        return Err(odd(expected, Found::from(origin.len())));
    }
    Ok(origin)
}

/// Returns a whole number, also where it is written as a float.
fn whole_number(value: &serde_json::Value) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let text = format!("{:.0}", value.as_f64().filter(|x| x.fract() == 0.0)?);
    text.parse().ok()
}
