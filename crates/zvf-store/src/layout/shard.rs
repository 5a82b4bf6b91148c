//! Shards: several chunks of an array in one object, with an index of spans.
//!
//! ```text
//! chunk index          7.2           of the array
//! shard index          3.1           chunk index / chunks in a shard, along each axis
//! inner                1.0 -> 2      the remainders, in C order: where the span stands in the index
//! ```
//!
//! The index of a shard is fetched once per handle, checked whole (checksum, then every span
//! against the size of the object), and cached with the version of its object, so that a rewritten
//! shard is detected and not read with old spans.
//!
//! Not here: the bytes of an index (`zvf_format::shard`), and the codecs of its chunks.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::OnceCell;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::Class;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_format::shard::{IndexLocation, ShardIndex};
use zvf_metadata::ArrayDoc;

use crate::codec::IndexCoding;
use crate::key::Key;
use crate::source::{Get, GetAnswer, Origin, Version};
use crate::sync::lock;

/// The division of the chunks of one array into shards.
#[derive(Debug)]
pub(crate) struct Shards {
    /// Chunks of one shard along each axis; their product does not overflow.
    per: Box<[NonZeroU64]>,
    cells: u64,
    location: IndexLocation,
    checksum: bool,
    indexes: Mutex<IndexCache>,
}

/// The most recently read indexes, by object. All have the same size.
#[derive(Debug, Default)]
struct IndexCache {
    indexes: HashMap<Key, Arc<OnceCell<Option<Arc<Spans>>>>>,
    oldest_first: VecDeque<Key>,
}

/// The spans of the chunks of one shard, checked against the size of the object.
#[derive(Debug)]
pub(crate) struct Spans {
    spans: Box<[Option<Range<u64>>]>,
    pub(crate) version: Version,
    /// A bit per chunk: its frame was read, and the payload fills the rest of the chunk.
    framed: Box<[AtomicU64]>,
}

impl Spans {
    /// Returns the bytes of chunk `inner`, if it exists.
    pub(crate) fn get(&self, inner: usize) -> Option<Range<u64>> {
        self.spans[inner].clone()
    }

    /// Returns whether the frame of chunk `inner` of this version was read, and the payload fills
    /// the rest of the chunk.
    pub(crate) fn is_framed(&self, inner: usize) -> bool {
        self.framed[inner / 64].load(Ordering::Relaxed) >> (inner % 64) & 1 == 1
    }

    /// Marks the frame as read.
    pub(crate) fn mark_framed(&self, inner: usize) {
        self.framed[inner / 64].fetch_or(1 << (inner % 64), Ordering::Relaxed);
    }

    /// Returns the existing chunks, by their position in the shard.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Range<u64>)> + '_ {
        let spans = self.spans.iter().enumerate();
        spans.filter_map(|(inner, span)| Some((inner, span.clone()?)))
    }
}

impl Shards {
    /// Returns shards of `per` chunks along each axis; `None` if that is not a valid number of
    /// chunks.
    pub(crate) fn new(per: &[u64], location: IndexLocation, checksum: bool) -> Option<Self> {
        let per: Box<[NonZeroU64]> =
            per.iter().map(|&axis| NonZeroU64::new(axis)).collect::<Option<_>>()?;
        let cells = per.iter().try_fold(1_u64, |cells, axis| cells.checked_mul(axis.get()))?;
        Some(Self { per, cells, location, checksum, indexes: Mutex::default() })
    }

    /// Returns the shards of the array of `doc`, whose index is encoded as `index`; `None` if it
    /// has none.
    pub(crate) fn from_doc(doc: &ArrayDoc, index: Option<IndexCoding>) -> Result<Option<Self>> {
        let Some(IndexCoding { at_start, checksum }) = index else { return Ok(None) };
        let shard = doc.chunk_shape.iter().zip(doc.inner_chunk_shape());
        let per: Option<Vec<u64>> = shard.map(|(shard, inner)| shard.checked_div(*inner)).collect();
        let location = if at_start { IndexLocation::Start } else { IndexLocation::End };
        match per.and_then(|per| Self::new(&per, location, checksum)) {
            Some(shards) => Ok(Some(shards)),
            None => Err(Error::new(
                Class::BadShape,
                "chunks of a shard",
                "a number of chunks",
                "more than 64 bits count",
            )),
        }
    }

    /// Returns the shard that contains chunk `index`, and the position of the chunk in it.
    pub(crate) fn locate(&self, index: &[u64]) -> (Vec<u64>, usize) {
        let mut shard = Vec::with_capacity(index.len());
        let inner = self.locate_into(index, &mut shard);
        (shard, inner)
    }

    /// Like [`locate`](Self::locate), writing the shard to `shard`.
    pub(crate) fn locate_into(&self, index: &[u64], shard: &mut Vec<u64>) -> usize {
        let mut inner = 0_u64;
        shard.clear();
        shard.extend(index.iter().zip(&self.per).map(|(&index, &per)| {
            // Does not saturate: the number stays below `cells`.
            inner = inner.saturating_mul(per.get()).saturating_add(index % per);
            index / per
        }));
        saturating_usize(inner)
    }

    /// Returns the chunk at position `inner` of `shard`: the inverse of [`locate`](Self::locate).
    /// `None` if there is no such index.
    pub(crate) fn chunk(&self, shard: &[u64], inner: usize) -> Option<Vec<u64>> {
        let mut rest = to_u64(inner);
        let mut chunk = shard.to_vec();
        for (index, &per) in chunk.iter_mut().zip(&self.per).rev() {
            *index = index.checked_mul(per.get())?.checked_add(rest % per)?;
            rest /= per;
        }
        Some(chunk)
    }

    /// Returns the spans of the shard under `key`, or `None` if there is no such object.
    pub(crate) async fn spans(&self, source: &Origin, key: &Key) -> Result<Option<Arc<Spans>>> {
        let slot = self.slot(key);
        slot.get_or_try_init(|| self.fetch(source, key)).await.cloned()
    }

    fn slot(&self, key: &Key) -> Arc<OnceCell<Option<Arc<Spans>>>> {
        let mut cache = lock(&self.indexes);
        if let Some(slot) = cache.indexes.get(key) {
            return Arc::clone(slot);
        }
        let bytes = self.cells.saturating_mul(SPAN_BYTES); // documents may state any number
        let max = MAX_INDEX_BYTES.checked_div(bytes).map_or(1, saturating_usize).max(1);
        if cache.indexes.len() == max
            && let Some(oldest) = cache.oldest_first.pop_front()
        {
            cache.indexes.remove(&oldest); // stays alive with whoever holds it
        }
        cache.oldest_first.push_back(key.clone());
        Arc::clone(cache.indexes.entry(key.clone()).or_default())
    }

    async fn fetch(&self, source: &Origin, key: &Key) -> Result<Option<Arc<Spans>>> {
        let sum = if self.checksum { SUM_BYTES } else { 0 };
        let len = self.cells.checked_mul(ENTRY_BYTES).and_then(|len| len.checked_add(sum));
        let len = len.unwrap_or(u64::MAX); // longer than any object, which is a fault below
        let get = match self.location {
            IndexLocation::End => Get::suffix(key.clone(), len),
            IndexLocation::Start => Get::range(key.clone(), 0, len),
        };
        let Some(got) = source.read_one(get).await? else { return Ok(None) };
        self.parse(&got).map(|spans| Some(Arc::new(spans))).at_key(key)
    }

    fn parse(&self, got: &GetAnswer) -> Result<Spans> {
        let at = self.location.span(self.cells, self.checksum, got.size)?;
        let with_span = |error| Error::from(error).at_span(at.start, at.end);
        let index = ShardIndex::parse(&got.bytes, self.cells, self.checksum).map_err(with_span)?;
        index.check_spans(got.size, self.location).map_err(with_span)?;
        // A chunk without bytes is empty.
        let spans: Box<[_]> =
            index.iter().map(|span| span.filter(|span| !span.is_empty())).collect();
        let framed = (0..spans.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Spans { spans, version: got.version.clone(), framed })
    }
}

/// Bytes of one span in the stored index, and in the cache.
const ENTRY_BYTES: u64 = 16;
const SPAN_BYTES: u64 = 24;
const SUM_BYTES: u64 = 4;
/// The total size of the indexes of one array above which the oldest is evicted.
const MAX_INDEX_BYTES: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_a_shard_and_a_position() {
        type Row<'a> = (&'a [u64], &'a [u64], &'a [u64], usize);
        #[rustfmt::skip]
        let table: [Row<'_>; 5] = [
            (&[2, 2], &[7, 2], &[3, 1], 2),
            (&[2, 2], &[0, 1], &[0, 0], 1),
            (&[2, 3, 4], &[5, 5, 5], &[2, 1, 1], 21),
            (&[1], &[u64::MAX], &[u64::MAX], 0),
            (&[4, 1], &[3, 9], &[0, 9], 3),
        ];
        for (cells_per_shard, chunk, shard, inner) in table {
            let shards = Shards::new(cells_per_shard, IndexLocation::End, true).unwrap();
            assert_eq!(shards.locate(chunk), (shard.to_vec(), inner));
            assert_eq!(shards.chunk(shard, inner).as_deref(), Some(chunk));
        }
        for cells_per_shard in [&[0, 2][..], &[1 << 32, 1 << 32]] {
            assert!(Shards::new(cells_per_shard, IndexLocation::End, true).is_none());
        }
    }

    #[test]
    fn a_full_cache_of_indexes_keeps_the_last_ones() {
        let shards =
            Shards::new(&[MAX_INDEX_BYTES / SPAN_BYTES / 2], IndexLocation::End, true).unwrap();
        let [first, second, third] =
            ["c/0", "c/1", "c/2"].map(|name| Key::root().join(name).unwrap());
        shards.slot(&first);
        let kept = shards.slot(&second);
        shards.slot(&third); // the third that fits only without one of the others
        assert!(Arc::ptr_eq(&kept, &shards.slot(&second)));
    }
}
