//! Writes an array over the chunk grid: cells in any order, from any thread.
//!
//! ```text
//! cell       u32 1, u32 length, payload                      then the chain of codecs
//! object     c/I/J of the array: one cell, or a shard of them
//! document   shape and origin from the range of the plan;
//!            nonempty_chunks: the keys that were put, sorted as texts
//! ```
//!
//! A cell is encoded on the calling thread and written at once, unless it belongs to a shard. An
//! empty payload is not stored, as the format requires.
//!
//! Not here: the contents of a payload; shards ([`super::shards`]).

use async_recursion::async_recursion as boxed;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use zvf_error::{Error, Locate as _, Result, quote};
use zvf_format::grid::Grid;
use zvf_format::key::{ChunkKey, ChunkPath};
use zvf_format::num::to_u64;
use zvf_format::vlen::cell_header;
use zvf_format::{Class, Expected};
use zvf_metadata::{ArrayDoc, ChunkKeyEncoding, CodecSpec, DataType, KeyList, Object};

use super::Build;
use super::chunk_sink::{ArrayReport, ChunkSink};
use super::shards::Shards;
use crate::codec::CodecPipeline;
use crate::key::Key;
use crate::sync::lock;

/// The description of an array over the chunk grid.
///
/// ```
/// use zvf_store::{CellPlan, CodecPipeline};
///
/// let plan = CellPlan { shard: Some(vec![8, 8]), ..CellPlan::new(vec![-4, 0], vec![90, 7]) };
/// assert_eq!((plan.rank, plan.codecs), (2, CodecPipeline::empty()));
/// ```
#[derive(Clone, Debug, Default)]
pub struct CellPlan {
    /// Number of components of a key.
    pub rank: usize,
    /// The lowest possible key, which is the origin of the grid.
    pub low: Vec<i64>,
    /// The highest possible key.
    pub high: Vec<i64>,
    /// The attributes, without presence list and origin.
    pub attributes: Object,
    /// The codecs of cells.
    pub codecs: CodecPipeline,
    /// Cells per shard on each axis; `None` for one object per cell.
    pub shard: Option<Vec<u64>>,
}

impl CellPlan {
    /// Returns the plan of an array of unencoded cells, one object each, with keys from `low` to
    /// `high`, inclusive.
    pub fn new(low: Vec<i64>, high: Vec<i64>) -> Self {
        Self { rank: low.len(), low, high, ..Self::default() }
    }
}

/// An array over the chunk grid that is being written. Clones write the same array.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # use zvf_store::{Build, BuildOptions, CellPlan};
/// use zvf_format::key::ChunkKey;
/// # let dir = tempfile::tempdir().unwrap();
/// # let build = Build::begin(dir.path().join("x").to_str().unwrap(), BuildOptions::default()).await?;
///
/// let cells = build.cells("0/vertices", CellPlan::new(vec![0, 0], vec![9, 9]))?;
/// std::thread::scope(|scope| {
///     for x in 0..10 {
///         let cells = cells.clone();
///         scope.spawn(move || cells.put(&ChunkKey::new(&[x, 9 - x])?, vec![1; 8].into()));
///     }
/// });
/// assert_eq!(cells.finish(|_| ()).await?.items, 10);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CellSink(Arc<Core>);

#[derive(Debug)]
struct Core {
    sink: ChunkSink,
    plan: CellPlan,             // its corners have the rank
    keys: Mutex<Vec<Box<str>>>, // of the cells that were put
    inner: Vec<CodecSpec>,      // of one cell, with that of the frame
    extras: Object,             // other keys of the document
}

impl CellSink {
    pub(super) fn begin(build: Build, key: Key, plan: CellPlan) -> Result<Self> {
        let refused = |expected, found| {
            let error = Error::new(Class::InvalidArgument, "range of keys", expected, found);
            Err(error.at_key(&key))
        };
        if [&plan.low, &plan.high].iter().any(|corner| corner.len() != plan.rank) {
            return refused("as many components as the rank", "another count");
        }
        if plan.low.iter().zip(&plan.high).any(|(low, high)| low > high) {
            return refused("a highest key above the lowest", "one below");
        }
        ChunkKey::new(&vec![0; plan.rank]).at_key(&key)?;
        let shards = plan.shard.as_deref().map(|shape| Shards::new(shape, plan.rank)).transpose();
        let shards = shards.at_key(&key)?;
        let codecs = plan.codecs.clone();
        let mut inner = vec![CodecSpec::vlen_bytes()];
        inner.extend(codecs.metadata());
        let sink = ChunkSink::new(build, key, codecs, ChunkKeyEncoding::Default, shards);
        let (keys, extras) = (Mutex::default(), Object::new());
        Ok(Self(Arc::new(Core { sink, plan, keys, inner, extras })))
    }

    /// Returns the same array with other keys in its document, and with cells that are already
    /// encoded if `inner` has their codecs.
    pub(super) fn with_encoded_cells(self, inner: Option<Vec<CodecSpec>>, extras: Object) -> Self {
        let mut core = Arc::into_inner(self.0).expect("nobody shares a sink that just began");
        core.extras = extras;
        if let Some(inner) = inner {
            core.inner = inner;
        }
        Self(Arc::new(core))
    }

    /// Returns the plan.
    pub(super) fn plan(&self) -> &CellPlan {
        &self.0.plan
    }

    /// Writes the stored bytes of a cell; the plan has no codecs.
    pub(super) fn put_stored(&self, key: &ChunkKey, stored: Bytes) -> Result<()> {
        self.0.put(key, vec![stored], 0)
    }

    /// Returns the path of the array.
    pub fn path(&self) -> &str {
        self.0.sink.key.as_str()
    }

    /// Writes the cell under `key`, or keeps it until its shard is complete. May be called from any
    /// thread; an empty payload means no cell.
    ///
    /// # Errors
    ///
    /// [`Class::OutOfBounds`] outside the range of the plan; [`Class::LimitExceeded`] when cells of
    /// incomplete shards fill the budget; [`Class::Duplicate`] when the cell was put before;
    /// otherwise when it cannot be encoded or written.
    pub fn put(&self, key: &ChunkKey, payload: Bytes) -> Result<()> {
        if payload.is_empty() {
            return Ok(());
        }
        let bytes = to_u64(payload.len());
        let header = cell_header(bytes).at_key(&self.0.sink.key)?;
        self.0.put(key, vec![Bytes::copy_from_slice(&header), payload], bytes)
    }

    /// Returns the first cell of the shard that contains `key`, so that cells can be grouped by
    /// shard; without shards, returns `key`.
    ///
    /// # Errors
    ///
    /// When `key` is outside the range of the plan.
    pub fn shard_key(&self, key: &ChunkKey) -> Result<ChunkKey> {
        let index = self.0.index(key)?;
        let first: Vec<i64> = match &self.0.plan.shard {
            None => return Ok(*key),
            Some(shape) => {
                let axes = key.components().iter().zip(index.index().iter().zip(shape));
                let first = axes.map(|(&component, (index, cells))| {
                    component.saturating_sub_unsigned(index % cells) // not below the lowest key
                });
                first.collect()
            }
        };
        Ok(ChunkKey::new(&first)?)
    }

    /// Writes the shard that contains `key`, when all its cells have been put. Does nothing without
    /// shards.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn close_shard(&self, key: &ChunkKey) -> Result<()> {
        let index = self.0.index(key)?;
        self.0.sink.close_shard(index.index())
    }

    /// Writes the remaining shards and ends this process's part of the array. Returns the counts
    /// and the keys that were written. The array may be begun again.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn finish_part(self) -> Result<(ArrayReport, Vec<Box<str>>)> {
        let sink = &self.0.sink;
        let report = sink.close()?;
        sink.build.0.nodes.release(&sink.key);
        Ok((report, self.0.sorted_keys()))
    }

    /// Counts cells that another process wrote, as returned by its
    /// [`finish_part`](Self::finish_part).
    ///
    /// # Errors
    ///
    /// When one of `keys` is not a key of the array.
    pub fn record_external(&self, keys: &[Box<str>]) -> Result<()> {
        for key in keys {
            let key = key.parse::<ChunkKey>()?;
            self.0.index(&key).at_key(&self.0.sink.key)?;
            lock(&self.0.keys).push(key.to_string().into());
        }
        Ok(())
    }

    /// Returns which of the cells that another process wrote, as returned by its
    /// [`finish_part`](Self::finish_part), are in missing objects. Must be called before the array
    /// is finished.
    ///
    /// # Errors
    ///
    /// When one of `keys` is not a key of the array, or the objects cannot be listed.
    #[boxed]
    pub async fn find_missing(&self, keys: &[Box<str>]) -> Result<Vec<Box<str>>> {
        let core = &self.0;
        if !core.sink.build.0.place.is_shared() {
            return Ok(Vec::new()); // this process wrote them all
        }
        core.find_missing(keys).await.at_key(&core.sink.key)
    }

    /// Writes the remaining shards, then the document with the presence list; `attributes` may add
    /// to those of the plan.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub async fn finish(self, attributes: impl FnOnce(&mut Object)) -> Result<ArrayReport> {
        let Core { sink, .. } = &*self.0;
        let report = sink.close()?;
        let keys = self.0.sorted_keys();
        let items = to_u64(keys.len());
        let doc = self.0.document(&keys, attributes).at_key(&sink.key)?;
        sink.build.array(&sink.key, &doc).at_key(&sink.key)?;
        Ok(ArrayReport { items, ..report })
    }
}

impl Core {
    /// Encodes and writes one cell, or hands it to its shard.
    fn put(&self, key: &ChunkKey, parts: Vec<Bytes>, payload: u64) -> Result<()> {
        let path = self.index(key).at_key(&self.sink.key)?;
        self.sink.put(path.index(), parts, payload)?;
        lock(&self.keys).push(key.to_string().into());
        Ok(())
    }

    fn sorted_keys(&self) -> Vec<Box<str>> {
        let mut keys = std::mem::take(&mut *lock(&self.keys));
        keys.sort_unstable();
        keys
    }

    fn document(
        &self,
        present: &[Box<str>],
        attributes: impl FnOnce(&mut Object),
    ) -> Result<ArrayDoc> {
        if let Some([twice, _]) = present.array_windows().find(|[key, next]| key == next) {
            return Err(Error::new(Class::Duplicate, "cell", "each cell once", quote(twice)));
        }
        let (low, high) = (&self.plan.low, &self.plan.high);
        let cells = |(low, high): (&i64, &i64)| high.abs_diff(*low).checked_add(1);
        let shape: Option<Vec<u64>> = low.iter().zip(high).map(cells).collect();
        let shape = shape.ok_or_else(|| {
            Error::new(Class::Overflow, "shape", "fewer than 2^64 cells on each axis", "more")
        })?;
        Grid::new(low, &shape)?;
        let ones = vec![1; self.plan.rank];
        let inner = self.inner.clone();
        let (chunk, codecs) = match &self.plan.shard {
            None => (ones, inner),
            Some(shard) => (shard.clone(), vec![CodecSpec::sharding(ones, inner)]),
        };
        let mut doc = ArrayDoc::new(shape, chunk, DataType::variable_length_bytes());
        doc.codecs = codecs;
        doc.nonempty_chunks = Some(present.iter().collect::<KeyList>());
        if low.iter().any(|&at| at != 0) {
            doc.attributes.insert("chunk_grid_origin".to_owned(), low.clone().into());
        }
        doc.attributes.extend(self.plan.attributes.clone());
        attributes(&mut doc.attributes);
        doc.extras = self.extras.clone();
        Ok(doc)
    }

    /// Returns the index of `key`, if it is within the plan.
    fn index(&self, key: &ChunkKey) -> Result<ChunkPath> {
        if key.rank() != self.plan.rank {
            let (what, found) = ("components of a key", key.rank());
            return Err(Error::new(Class::InvalidArgument, what, self.plan.rank, found));
        }
        let path = ChunkPath::from_key(key, &self.plan.low)?;
        for (&component, &high) in key.components().iter().zip(&self.plan.high) {
            if component > high {
                let (what, most) = ("component of a key", Expected::AtMost(high.into()));
                return Err(Error::new(Class::OutOfBounds, what, most, component));
            }
        }
        Ok(path)
    }

    async fn find_missing(&self, keys: &[Box<str>]) -> Result<Vec<Box<str>>> {
        let mut objects = BTreeSet::new();
        for key in keys {
            objects.insert(self.cell_object(key)?);
        }
        let lost = self.sink.build.0.place.find_missing(&self.sink.key, objects).await?;
        let mut missing = Vec::new();
        for key in if lost.is_empty() { &[] } else { keys } {
            if lost.contains(&self.cell_object(key)?) {
                missing.push(key.clone());
            }
        }
        Ok(missing)
    }

    /// Returns the object that contains the cell `key`.
    fn cell_object(&self, key: &str) -> Result<Key> {
        let path = self.index(&key.parse::<ChunkKey>()?)?;
        self.sink.object_of(path.index())
    }
}
