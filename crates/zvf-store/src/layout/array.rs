//! One array of chunks: from the index of a chunk to its bytes.
//!
//! A chunk is a separate object or a span of a shard; both are read in batches, in the requested
//! order, and decoded in batches. Cells, rows and fixed-size items are views of the array that
//! interpret its bytes.
//!
//! Not here: presence, framing.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures_util::future::join_all;
use zvf_error::{Error, Result};
use zvf_format::num::to_u64;
use zvf_metadata::{ArrayDoc, ChunkKeyEncoding};

use super::names::{name_chunk, spelling};
use super::shard::{Shards, Spans};
use super::span::{FRAME_BYTES, length};
use crate::cache::Answer;
use crate::cache::Caching;
use crate::codec::{Caps, Chain, Coding, Items, Job, Packing, decode_many};
use crate::key::Key;
use crate::shared::Handle;
use crate::source::{Get, GetAnswer, Origin, Version};

/// The locations and the coding of the chunks of one array.
#[derive(Debug)]
pub(crate) struct ChunkArray {
    key: Key,
    id: u32, // of the array in the cache
    pub(crate) names: ChunkKeyEncoding,
    pub(crate) chain: Arc<Chain>,
    pub(crate) shards: Option<Shards>,
    required: OnceLock<u64>, // the chunks from the first on that must be stored
}

/// The location of the bytes of a chunk.
pub(crate) struct Located {
    pub(crate) key: Key,
    /// The span of the object, and the version that it belongs to; `None` for the whole object.
    pub(crate) span: Option<(Range<u64>, Version)>,
    /// The index of its shard, and its position there.
    indexed: Option<(Arc<Spans>, usize)>,
    required: bool,
}

impl Located {
    /// Returns the location of a whole object.
    pub(super) fn object(key: Key, required: bool) -> Self {
        Self { key, span: None, indexed: None, required }
    }

    /// Returns a request for the whole chunk.
    pub(crate) fn get_all(&self) -> Get {
        match &self.span {
            None => Get::object(self.key.clone()),
            Some((span, version)) => self.get(span, version),
        }
    }

    /// Returns a request for bytes `part` of the chunk; `None` if its span is shorter.
    pub(crate) fn part(&self, part: &Range<u64>) -> Option<Get> {
        let len = part.end.checked_sub(part.start)?;
        match &self.span {
            None => Some(Get::range(self.key.clone(), part.start, len)),
            Some((span, version)) => {
                let start = span.start.checked_add(part.start)?;
                let end = start.checked_add(len).filter(|end| *end <= span.end)?;
                Some(self.get(&(start..end), version))
            }
        }
    }

    /// Returns the length of the payload and its version, if the frame was read before.
    pub(crate) fn known_payload(&self) -> Option<(u64, &Version)> {
        let (spans, inner) = self.indexed.as_ref()?;
        let (span, version) = self.span.as_ref().filter(|_| spans.is_framed(*inner))?;
        Some((span.end.checked_sub(span.start)?.checked_sub(FRAME_BYTES)?, version))
    }

    /// Records the payload length that the frame states, if the payload fills the chunk.
    pub(crate) fn remember_payload(&self, payload: u64, payload_version: &Version) {
        if let (Some((spans, inner)), Some((span, version))) = (&self.indexed, &self.span)
            && payload.checked_add(FRAME_BYTES) == span.end.checked_sub(span.start)
            && version == payload_version
        {
            spans.mark_framed(*inner);
        }
    }

    /// Returns the length of the chunk, given one answer about its object.
    pub(crate) fn total(&self, got: &GetAnswer) -> u64 {
        match &self.span {
            None => got.size,
            Some((span, _)) => length(span),
        }
    }

    /// Checks that the object may be absent: not if an index of the object was read, or its rows
    /// cannot all equal the fill value.
    pub(crate) fn check_absent(&self) -> Result<()> {
        match &self.span {
            None if self.required => Err(Error::missing(&self.key, ROWS_STATED)),
            None => Ok(()),
            Some(_) => Err(Error::missing(&self.key, "a shard index was read")),
        }
    }

    /// Adds the location of these bytes to the error.
    pub(crate) fn locate_error(&self, error: impl Into<Error>) -> Error {
        let error = error.into().at_key(&self.key);
        match &self.span {
            None => error,
            Some((span, _)) => error.at_span(span.start, span.end),
        }
    }

    /// Adds the place to an error.
    pub(crate) fn locate<T>(&self, found: Result<T, impl Into<Error>>) -> Result<T> {
        found.map_err(|error| self.locate_error(error))
    }

    fn get(&self, span: &Range<u64>, version: &Version) -> Get {
        Get::range(self.key.clone(), span.start, length(span)).with_version(version.clone())
    }
}

/// A chunk that was read: its location and its stored bytes.
pub(crate) type Stored = Option<(Located, Bytes)>;

impl ChunkArray {
    /// Returns the array of `doc`, whose chunks contain variable-length items; `what` is their
    /// codec.
    pub(crate) fn of_frames(
        key: &Key,
        doc: &ArrayDoc,
        id: u32,
        what: &'static str,
    ) -> Result<Self> {
        let coding = Coding::from_doc(doc)?;
        if coding.packing != Packing::Vlen {
            return Err(Error::unsupported(what, "bytes"));
        }
        Self::new(key, doc, id, coding)
    }

    /// Returns the array of `doc`, whose chunks contain fixed-size items, and their packing.
    pub(crate) fn of_items(key: &Key, doc: &ArrayDoc, id: u32) -> Result<(Self, Items)> {
        let coding = Coding::from_doc(doc)?;
        let items = Items::new(&coding.packing, doc);
        let items = items.ok_or_else(|| Error::unsupported("codec of numbers", "vlen-bytes"))?;
        Ok((Self::new(key, doc, id, coding)?, items))
    }

    fn new(key: &Key, doc: &ArrayDoc, id: u32, coding: Coding) -> Result<Self> {
        let shards = Shards::from_doc(doc, coding.index)?;
        let names = doc.chunk_key_encoding;
        let required = OnceLock::new();
        Ok(Self { key: key.clone(), id, names, chain: coding.chain, shards, required })
    }

    /// From now on, refuses that a chunk of `chunk` rows is absent where at most `absent` of the
    /// array's `rows` equal the fill value.
    pub(super) fn require(&self, chunk: NonZeroU64, rows: u64, absent: u64) {
        let stored = rows.saturating_sub(absent); // at least
        let chunks = if absent < chunk.get() { stored.div_ceil(chunk.get()) } else { 0 };
        self.required.get_or_init(|| chunks);
    }

    /// Returns the chunks `indexes`, each converted by `finish` after decoding; from the cache, for
    /// those with a slot in `slots`.
    pub(crate) async fn get_many(
        &self,
        shared: &Handle,
        (indexes, slots): (&[Vec<u64>], &[Option<u64>]),
        caps: Caps,
        finish: impl Fn(Located, Bytes) -> Result<Bytes>,
    ) -> Vec<Answer> {
        let finish = &finish;
        let fetch = |missing: Vec<usize>| async move {
            let missing: Vec<&[u64]> = missing.iter().map(|&at| indexes[at].as_slice()).collect();
            let chunks = self.chunks(&shared.source, &missing, caps, Caching::Keep).await;
            let finished = |(place, bytes)| finish(place, bytes);
            chunks.into_iter().map(|chunk| chunk?.map(finished).transpose()).collect()
        };
        shared.cache.read_many(self.id, slots, Caching::Keep, fetch).await
    }

    /// Returns the location of each of the chunks `chunk_indexes`; `None` for those that are absent
    /// from their shard.
    pub(crate) async fn places(
        &self,
        source: &Origin,
        chunk_indexes: &[impl AsRef<[u64]>],
    ) -> Vec<Result<Option<Located>>> {
        let is_required = |index: &[u64]| index.first() < self.required.get();
        let Some(shards) = &self.shards else {
            let indexes = chunk_indexes.iter().map(AsRef::as_ref);
            let whole = |index| Ok(Some(Located::object(self.object(index)?, is_required(index))));
            return indexes.map(whole).collect();
        };
        // Neighbours are usually in one shard.
        let mut objects: Vec<Vec<u64>> = Vec::new();
        let mut numbers: HashMap<Vec<u64>, usize> = HashMap::new();
        let mut located: Vec<(usize, usize)> = Vec::with_capacity(chunk_indexes.len());
        let (mut shard, mut last) = (Vec::new(), None);
        for index in chunk_indexes {
            let inner = shards.locate_into(index.as_ref(), &mut shard);
            let number = match last.filter(|last: &usize| objects[*last] == shard) {
                Some(last) => last,
                None => *numbers.entry(shard.clone()).or_insert_with(|| {
                    let number = objects.len();
                    objects.push(shard.clone());
                    number
                }),
            };
            located.push((number, inner));
            last = Some(number);
        }
        let indexes = join_all(objects.iter().map(|shard| self.spans(source, shards, shard))).await;
        let place = |((shard, inner), index): (&(usize, usize), _)| {
            let (key, spans) = indexes[*shard].as_ref().map_err(Clone::clone)?;
            let span = spans.as_ref().and_then(|spans| Some((spans, spans.get(*inner)?)));
            match span {
                None if is_required(index) => Err(Error::missing(key, ROWS_STATED)),
                None => Ok(None),
                Some((spans, span)) => Ok(Some(Located {
                    key: key.clone(),
                    span: Some((span, spans.version.clone())),
                    indexed: Some((Arc::clone(spans), *inner)),
                    required: false,
                })),
            }
        };
        located.iter().zip(chunk_indexes.iter().map(AsRef::as_ref)).map(place).collect()
    }

    async fn spans(
        &self,
        source: &Origin,
        shards: &Shards,
        shard: &[u64],
    ) -> Result<(Key, Option<Arc<Spans>>)> {
        let key = self.object(shard)?;
        let spans = shards.spans(source, &key).await?;
        Ok((key, spans))
    }

    /// Returns the key of the object at `index`: a chunk or a shard.
    pub(crate) fn object(&self, index: &[u64]) -> Result<Key> {
        let (prefix, separator) = spelling(self.names);
        if separator == "/" && !index.is_empty() {
            return self.key.descend_numbers(prefix, index);
        }
        self.key.join(&name_chunk(self.names, index))
    }

    /// Reads the encoded bytes of each of the chunks `chunk_indexes`; `caching` states whether they
    /// are kept.
    pub(crate) async fn read_stored(
        &self,
        source: &Origin,
        chunk_indexes: &[impl AsRef<[u64]>],
        caching: Caching,
    ) -> Vec<Result<Stored>> {
        let places = self.places(source, chunk_indexes).await;
        let found = places.iter().flatten().flatten();
        // Pooled buffers, if nothing is kept.
        let pooled = caching == Caching::Once;
        let gets: Vec<Get> = found.map(|place| Get { pooled, ..place.get_all() }).collect();
        answer_each(places, source.read_many(&gets).await, |place, got| match got? {
            None => place.check_absent().map(|()| None),
            Some(got) => Ok(Some((place, got.bytes))),
        })
    }

    /// Returns the decoded bytes of each of the chunks `chunk_indexes`, within `caps`, and its
    /// location.
    pub(crate) async fn chunks(
        &self,
        source: &Origin,
        chunk_indexes: &[impl AsRef<[u64]>],
        caps: Caps,
        caching: Caching,
    ) -> Vec<Result<Stored>> {
        let stored = self.read_stored(source, chunk_indexes, caching).await;
        if self.chain.is_empty()
            && stored.iter().flatten().flatten().all(|(_, b)| to_u64(b.len()) <= caps.chunk)
        {
            return stored;
        }
        let jobs = stored.iter().flatten().flatten().map(|(_, stored)| Job {
            chain: Arc::clone(&self.chain),
            stored: stored.clone(),
            caps,
        });
        let decoded = decode_many(jobs.collect()).await;
        answer_each(stored, decoded, |(place, _stored), bytes| {
            let bytes = place.locate(bytes)?;
            Ok(Some((place, bytes)))
        })
    }
}

/// Calls `finish` with each of `requests` and its answer. There is one answer per non-empty
/// request, in order.
pub(super) fn answer_each<R, A, T>(
    requests: Vec<Result<Option<R>>>,
    answers: impl IntoIterator<Item = A>,
    mut finish: impl FnMut(R, A) -> Result<Option<T>>,
) -> Vec<Result<Option<T>>> {
    let mut answers = answers.into_iter();
    let mut answer = |request| finish(request, answers.next().expect("each request has an answer"));
    requests.into_iter().map(|request| request?.map_or(Ok(None), &mut answer)).collect()
}

/// Why a chunk of rows must be there.
const ROWS_STATED: &str = "its rows are stated";
