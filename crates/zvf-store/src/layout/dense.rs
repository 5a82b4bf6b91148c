//! Standalone arrays of items of one size: object and group attributes, ids, parametric objects.
//!
//! ```text
//! B1, C    one Zarr array; chunks that are not stored hold the fill value
//! A, B0    a group: data (a small array of bytes), attributes shape and dtype, and present_mask, one
//!          byte for each row, where some rows are absent
//! ```
//!
//! What is handed out is little-endian and in C order, whichever way it is stored. Rows of an
//! uncompressed array are read by range when few are wanted; everything else goes through the cache by
//! chunk.
//!
//! What documents state of items, rows and chunks is compared with the caps before memory is taken for it; then it fits.
//!
//! Not here: what a value means, and which of them say "absent".

use async_recursion::async_recursion as boxed;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OnceCell;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::num::{checked_usize, saturating_usize, to_u64};
use zvf_format::{Class, Expected};
use zvf_metadata::{ArrayDoc, DataTypeKind, Dtype, DtypeKind, Fill, GroupDoc, Object};

use super::fill::fill_item;
use super::grid::{Grid, count_bytes, fill_buffer};
use super::packed::PackedDense;
use super::shard::Shards;
use super::span::length;
use super::tiny::read_flat;
use super::utf32::widen_text;
use super::zarr::{Place, Stored, ZarrArray};
use crate::cache::Caching;
use crate::codec::{Caps, Coding, Packing, cancelled_error, swap, untranspose};
use crate::key::Key;
use crate::shared::Shared;
use crate::source::{Get, Source};

/// A standalone array of numbers, booleans or texts of a fixed width.
///
/// Cheap to clone; clones share what was read.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/three.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// let objects = store.nodes().dense("parametric/objects").await?.expect("the store has some");
/// assert_eq!((objects.shape(), objects.dtype().to_string().as_str()), (&[1, 5][..], "float64"));
/// assert_eq!(objects.rows(0..1).await?[32..], (-2.5_f64).to_le_bytes());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DenseArray {
    shared: Arc<Shared>,
    core: Arc<DenseCore>,
}

/// What all handles of one array share.
#[derive(Debug)]
pub(crate) struct DenseCore {
    key: Key,
    attributes: Object,
    dtype: Dtype,             // as handed out
    grid: Grid,               // as stored
    fill: Box<[u8]>,          // one item, as stored
    texts: Option<Box<[u8]>>, // where items are padded bytes: the fill as handed out, in UTF-32
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// Or why its codecs cannot be decoded.
    Chunked(Result<Chunked>),
    Flat {
        data: Key,
        mask: Option<Key>,
        big_endian: bool,
        content: OnceCell<Bytes>,
    },
    Packed(PackedDense),
}

#[derive(Debug)]
struct Chunked {
    array: ZarrArray,
    id: u32,
    order: Option<Box<[usize]>>,
    big_endian: bool,
}

impl DenseCore {
    /// Returns the array of `doc` under `key`.
    pub(crate) fn from_array(shared: &Shared, key: &Key, doc: &ArrayDoc) -> Result<Self> {
        let (dtype, width) = match doc.data_type.kind() {
            DataTypeKind::Fixed(dtype) => (*dtype, dtype.size),
            DataTypeKind::PaddedBytes(size) => (padded_text(key, doc, *size)?, *size),
            DataTypeKind::VariableLengthBytes | DataTypeKind::Other(_) => {
                return Err(Error::new(
                    Class::BadTag,
                    "data_type of a standalone array",
                    "items of one size",
                    "another data type",
                )
                .at_key(key));
            }
        };
        check_item(shared, key, dtype.size)?; // at least `width`
        let grid = Grid::new(doc.shape.as_slice().into(), doc.inner_chunk_shape(), width);
        let grid = grid.ok_or_else(|| chunk_shape_error(key))?;
        let mut fill = fill_item(doc.fill_value.fill(), dtype);
        let texts = (width != dtype.size).then(|| {
            let stored = vec![0; saturating_usize(width)].into();
            std::mem::replace(&mut fill, stored)
        });
        if let Source::Pack(pack) = &shared.source {
            let body = Body::Packed(PackedDense::open(pack, key, &grid)?);
            let (key, attributes) = (key.clone(), doc.attributes.clone());
            return Ok(Self { key, attributes, dtype, grid, fill, texts, body });
        }
        let body = Coding::from_doc(doc)
            .and_then(|coding| {
                let Packing::Items { big_endian, order } = coding.packing else {
                    return Err(Error::unsupported("codec of numbers", "vlen-bytes"));
                };
                let shards = Shards::from_doc(doc, coding.index)?;
                let (key, names) = (key.clone(), doc.chunk_key_encoding);
                let array = ZarrArray { key, names, chain: coding.chain, shards };
                Ok(Chunked { array, id: shared.new_id(), order, big_endian })
            })
            .at_key(key);
        Ok(Self {
            key: key.clone(),
            attributes: doc.attributes.clone(),
            dtype,
            grid,
            fill,
            texts,
            body: Body::Chunked(body),
        })
    }

    /// Returns the array that families A and B0 keep in the group `doc` under `key`.
    pub(crate) fn from_group(shared: &Shared, key: &Key, doc: &GroupDoc) -> Result<Self> {
        let attributes = doc.attributes.clone();
        let text = attributes.get("dtype").and_then(serde_json::Value::as_str);
        let is_links = key.name().is_some_and(|name| name.starts_with("links_"));
        let stored = match text {
            Some(text) => text.parse::<Dtype>().at_key(key)?,
            // Links of composite stores never state their type.
            None if is_links => Dtype::INT64,
            // Writers that leave out the type of an attribute mean this one.
            None => Dtype::FLOAT32,
        };
        let Some(shape) = flat_shape(&attributes) else {
            return Err(Error::new(
                Class::BadTag,
                "node",
                "an array, or a group that says its shape",
                "a group",
            )
            .at_key(key));
        };
        let masked = attributes.get("has_present_mask").and_then(serde_json::Value::as_bool);
        let mask = if masked == Some(true) { Some(key.child("present_mask")?) } else { None };
        let dtype = Dtype { big_endian: false, ..stored };
        check_item(shared, key, dtype.size)?;
        // All rows are one chunk; an array without rows has a chunk all the same.
        let chunk: Vec<u64> = shape.iter().map(|&extent| extent.max(1)).collect();
        let grid = Grid::new(shape.into(), &chunk, dtype.size);
        let grid = grid.ok_or_else(|| chunk_shape_error(key))?;
        Ok(Self {
            key: key.clone(),
            attributes,
            dtype,
            grid,
            fill: vec![0; saturating_usize(dtype.size)].into(),
            texts: None,
            body: Body::Flat {
                data: key.child("data")?,
                mask,
                big_endian: stored.big_endian,
                content: OnceCell::new(),
            },
        })
    }
}

impl DenseArray {
    pub(crate) fn new(shared: &Arc<Shared>, core: Arc<DenseCore>) -> Self {
        Self { shared: Arc::clone(shared), core }
    }

    /// Returns its path below the root of the store.
    #[must_use]
    pub fn path(&self) -> &Key {
        &self.core.key
    }

    /// Returns the attributes of its node.
    #[must_use]
    pub fn attributes(&self) -> &Object {
        &self.core.attributes
    }

    /// Items along each axis.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.core.grid.shape
    }

    /// Returns the type of an item as it is handed out: never big-endian.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.core.dtype
    }

    /// Returns the number of rows along the first axis; a `u64`, because they are not in memory.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.core.grid.rows()
    }

    /// Returns whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the item that stands for what was never stored.
    #[must_use]
    pub fn fill(&self) -> &[u8] {
        self.core.texts.as_deref().unwrap_or(&self.core.fill)
    }

    /// Reads all rows, back to back.
    ///
    /// # Errors
    ///
    /// As [`rows`](Self::rows).
    #[boxed]
    pub async fn read_all(&self) -> Result<Bytes> {
        self.rows(0..self.len()).await
    }

    /// Returns the rows `range`, back to back.
    ///
    /// # Errors
    ///
    /// [`Class::OutOfBounds`] when there are fewer rows; [`Class::LimitExceeded`] when they are more than
    /// the budget; [`Class::Unsupported`] when a codec is unknown; otherwise when a chunk cannot be read
    /// or does not decode to what the shape says.
    #[boxed]
    pub async fn rows(&self, range: Range<u64>) -> Result<Bytes> {
        let bytes = self.check(&range)?;
        let stored = self.stored_rows(&range, bytes).await?;
        if self.core.texts.is_none() {
            return Ok(stored);
        }
        widen_text(&stored, saturating_usize(self.core.grid.width))
            .map(Bytes::from)
            .map_err(|item| self.not_text_error(range.start, item))
    }

    /// Returns the rows `range` as they are stored, which are `bytes` bytes.
    async fn stored_rows(&self, range: &Range<u64>, bytes: u64) -> Result<Bytes> {
        match &self.core.body {
            Body::Flat { .. } => self.flat_rows(range).await,
            Body::Packed(packed) => packed.rows(range, bytes).await,
            Body::Chunked(Err(error)) => Err(error.clone()),
            Body::Chunked(Ok(chunked)) => self.chunked_rows(chunked, range, bytes).await,
        }
    }

    /// Returns the rows at `places`, back to back, in that order.
    ///
    /// # Errors
    ///
    /// As [`rows`](Self::rows).
    #[boxed]
    pub async fn take(&self, places: &[u64]) -> Result<Bytes> {
        if places.is_empty() {
            return Ok(Bytes::new());
        }
        let row = self.check_total(self.row_bytes()?.checked_mul(self.expansion()))?;
        let total = self.check_total(row.checked_mul(to_u64(places.len())))?;
        if let Some(&past) = places.iter().find(|&&place| place >= self.len()) {
            // no range ends beyond 2^64 - 1
            return Err(self.past_end_error(past.saturating_add(1)));
        }
        if let Body::Chunked(Ok(chunked)) = &self.core.body
            && self.is_read_by_range(chunked)
            && let Some(chunk_bytes) = self.core.grid.chunk_bytes()
            && chunk_bytes > MAX_WHOLE_CHUNK_BYTES
        {
            return self.take_by_range(chunked, places, (row, total), chunk_bytes).await;
        }
        let mut out = Vec::with_capacity(saturating_usize(total));
        let mut held: Option<(u64, Bytes)> = None; // a run of rows that was read, from its first
        // The rows of a chunk, or as many of them as may be held at once: any number where a row has no bytes.
        let max_rows = self.shared.chunk_cap().checked_div(row).unwrap_or(u64::MAX);
        let chunk_rows = self.core.grid.chunk_rows();
        let step = NonZeroU64::new(max_rows).map_or(NonZeroU64::MIN, |max| chunk_rows.min(max));
        for &place in places {
            let start = place.saturating_sub(place % step); // never below 0
            let bytes = match &held {
                Some((first, bytes)) if *first == start => bytes.clone(),
                _ => {
                    let end = start.saturating_add(step.get()).min(self.len()); // the last chunk may reach beyond 2^64
                    let bytes = self.rows(start..end).await?;
                    held = Some((start, bytes.clone()));
                    bytes
                }
            };
            let rows = place..place.saturating_add(1); // `place` is below the count of rows
            out.extend_from_slice(&self.slice_rows(&bytes, row, start, &rows)?);
        }
        Ok(out.into())
    }

    /// Returns one byte for each row, zero where it is absent; `None` where no mask is kept and the fill value
    /// says it.
    ///
    /// # Errors
    ///
    /// When the mask cannot be read, or does not have one byte for each row.
    #[boxed]
    pub async fn present_mask(&self) -> Result<Option<Bytes>> {
        let Body::Flat { mask: Some(mask), .. } = &self.core.body else { return Ok(None) };
        let bytes = read_flat(&self.shared, mask.clone()).await?;
        let bytes = bytes.ok_or_else(|| Error::missing(mask, "has_present_mask is set"))?;
        self.check_len(mask, to_u64(bytes.len()), self.len())?;
        Ok(Some(bytes))
    }
}

impl DenseArray {
    fn row_bytes(&self) -> Result<u64> {
        self.core.grid.row_bytes().ok_or_else(|| {
            Error::limit("bytes of a row", self.shared.chunk_cap(), u64::MAX).at_key(&self.core.key)
        })
    }

    /// Returns how many bytes the rows `range` are, when they exist and may be held.
    fn check(&self, range: &Range<u64>) -> Result<u64> {
        if range.end > self.core.grid.rows() {
            return Err(self.past_end_error(range.end));
        }
        let Some(rows) = range.end.checked_sub(range.start) else {
            return Err(Error::new(
                Class::InvalidArgument,
                "end of a range of rows",
                Expected::AtLeast(range.start.into()),
                range.end,
            )
            .at_key(&self.core.key));
        };
        let stored = self.row_bytes()?.checked_mul(rows);
        self.check_total(stored.and_then(|bytes| bytes.checked_mul(self.expansion())))?;
        self.check_total(stored)
    }

    /// Returns how many bytes are handed out for each that is stored.
    fn expansion(&self) -> u64 {
        if self.core.texts.is_some() { UTF32_BYTES } else { 1 }
    }

    /// Returns the fault of item `item` of the rows from `first`.
    fn not_text_error(&self, first: u64, item: usize) -> Error {
        let mut extents = self.core.grid.shape.iter().skip(1);
        let row_items = extents.try_fold(1_u64, |items, extent| items.checked_mul(*extent));
        let row = row_items.and_then(|items| first.checked_add(to_u64(item).checked_div(items)?));
        let error = Error::new(
            Class::BadTag,
            "text of a row",
            "text in UTF-8, padded with zero bytes",
            "other bytes",
        );
        let error = error.at_key(&self.core.key);
        let span = row.zip(self.core.grid.row_bytes()).and_then(|(row, bytes)| {
            let start = row.checked_mul(bytes)?;
            Some((start, start.checked_add(bytes)?))
        });
        match span {
            Some((start, end)) => error.at_span(start, end),
            None => error,
        }
    }

    fn check_total(&self, bytes: Option<u64>) -> Result<u64> {
        let cap = self.shared.chunk_cap();
        match bytes {
            Some(bytes) if bytes <= cap => Ok(bytes),
            other => {
                let found = other.unwrap_or(u64::MAX); // more than 64 bits count
                Err(Error::limit("bytes of rows", cap, found).at_key(&self.core.key))
            }
        }
    }

    /// Returns the `rows` in `bytes`, which are rows of `row` bytes from row `first` on.
    fn slice_rows(&self, bytes: &Bytes, row: u64, first: u64, rows: &Range<u64>) -> Result<Bytes> {
        let at = |place: u64| checked_usize(place.checked_sub(first)?.checked_mul(row)?);
        let span = at(rows.start).zip(at(rows.end));
        let span = span.filter(|(start, end)| start <= end && *end <= bytes.len());
        span.map(|(start, end)| bytes.slice(start..end)).ok_or_else(|| self.missing_rows())
    }

    /// Returns the fault of rows that do not hold what their shape says.
    fn missing_rows(&self) -> Error {
        Error::new(Class::CountMismatch, "bytes of rows", "all rows of the shape", "fewer")
            .at_key(&self.core.key)
    }

    fn past_end_error(&self, end: u64) -> Error {
        Error::new(
            Class::OutOfBounds,
            "end of a range of rows",
            Expected::AtMost(self.core.grid.rows().into()),
            end,
        )
        .at_key(&self.core.key)
    }

    fn check_len(&self, key: &Key, found: u64, expected: u64) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        Err(Error::new(Class::CountMismatch, "bytes", expected, found).at_key(key))
    }

    /// Returns rows of the group form, all of which are read at once.
    async fn flat_rows(&self, range: &Range<u64>) -> Result<Bytes> {
        let Body::Flat { data, big_endian, content, .. } = &self.core.body else {
            return Ok(Bytes::new());
        };
        let whole = content.get_or_try_init(|| async {
            let bytes = read_flat(&self.shared, data.clone()).await?;
            let bytes = bytes.ok_or_else(|| Error::missing(data, "its group is there"))?;
            // More than 64 bits count is more than any file has.
            let expected =
                count_bytes(&self.core.grid.shape, self.core.grid.width).unwrap_or(u64::MAX);
            self.check_len(data, to_u64(bytes.len()), expected)?;
            Ok::<_, Error>(self.to_little_endian(bytes, *big_endian))
        });
        self.slice_rows(whole.await?, self.row_bytes()?, 0, range)
    }

    async fn chunked_rows(
        &self,
        chunked: &Chunked,
        range: &Range<u64>,
        bytes: u64,
    ) -> Result<Bytes> {
        if bytes == 0 {
            return Ok(Bytes::new());
        }
        let Some(touched) = self.core.grid.touched_chunks(range, MAX_READ_CHUNKS) else {
            let max = MAX_READ_CHUNKS;
            return Err(Error::limit("chunks of one read", max, u64::MAX).at_key(&self.core.key));
        };
        let Some(chunk_bytes) = self.core.grid.chunk_bytes() else {
            let max = self.shared.chunk_cap();
            return Err(Error::limit("bytes of a chunk", max, u64::MAX).at_key(&self.core.key));
        };
        // Both are only compared.
        let held = chunk_bytes.saturating_mul(to_u64(touched.len()));
        let few = bytes.saturating_mul(4) < held;
        let too_large = chunk_bytes > self.shared.chunk_cap();
        if (few || too_large) && self.is_read_by_range(chunked) {
            return self.rows_by_range(chunked, range, bytes, &touched, chunk_bytes).await;
        }
        if let ([index], true) = (touched.as_slice(), self.core.grid.is_row_wise()) {
            let chunk = self.chunks(chunked, &touched, chunk_bytes).await.pop();
            let Some(chunk) = chunk.unwrap_or_else(|| Err(cancelled_error()))? else {
                return Ok(fill_buffer(bytes, &self.core.fill).into());
            };
            let number = index.first().copied().unwrap_or(0); // without axes, the only chunk
            let first = number.checked_mul(self.core.grid.chunk_rows().get());
            let first = first.ok_or_else(|| self.missing_rows())?;
            return self.slice_rows(&chunk, self.row_bytes()?, first, range);
        }
        let mut out = fill_buffer(bytes, &self.core.fill);
        // Chunks may hold much beside the rows asked for.
        let batch = self.shared.chunk_cap().checked_div(chunk_bytes); // there are bytes of rows, so of chunks
        let batch = batch.map_or(1, |chunks| saturating_usize(chunks).max(1));
        for some in touched.chunks(batch) {
            for (index, chunk) in some.iter().zip(self.chunks(chunked, some, chunk_bytes).await) {
                if let Some(chunk) = chunk? {
                    let pasted = self.core.grid.paste(&chunk, index, range, &mut out);
                    pasted.ok_or_else(|| self.missing_rows())?;
                }
            }
        }
        Ok(out.into())
    }

    /// Returns whether rows are runs of bytes of what is stored, so that they can be read without their chunk.
    fn is_read_by_range(&self, chunked: &Chunked) -> bool {
        self.core.grid.is_row_wise() && chunked.order.is_none() && chunked.array.chain.is_empty()
    }

    /// Returns the rows at `places`, each by its range: of large chunks that are stored as they are.
    async fn take_by_range(
        &self,
        chunked: &Chunked,
        places: &[u64],
        (row, total): (u64, u64),
        chunk_bytes: u64,
    ) -> Result<Bytes> {
        let grid = &self.core.grid;
        let step = grid.chunk_rows();
        let mut touched: Vec<u64> = places.iter().map(|place| *place / step).collect();
        touched.sort_unstable();
        touched.dedup();
        // A chunk holds whole rows: it is the first along every other axis.
        let index = |first: &u64| {
            let axes = grid.shape.iter().enumerate();
            axes.map(|(axis, _)| if axis == 0 { *first } else { 0 }).collect()
        };
        let indexes: Vec<Vec<u64>> = touched.iter().map(index).collect();
        let found = chunked.array.places(&self.shared.source, &indexes).await;
        let mut gets = Vec::with_capacity(places.len());
        let mut asked = Vec::with_capacity(places.len()); // the chunk of each row that is stored
        for place in places {
            let at = touched.partition_point(|first| *first < *place / step);
            let chunk = found.get(at).ok_or_else(cancelled_error)?.as_ref();
            let chunk = chunk.map_err(Clone::clone)?.as_ref();
            if let Some(chunk) = chunk {
                let start = (*place % step).checked_mul(row);
                let part = start.and_then(|start| Some(start..start.checked_add(row)?));
                let get = part.and_then(|part| chunk.part(&part));
                gets.push(get.ok_or_else(|| Self::short_chunk_error(chunk, chunk_bytes))?);
            }
            asked.push(chunk);
        }
        let mut answers = self.shared.source.read_many(&gets).await.into_iter();
        let mut out = Vec::with_capacity(saturating_usize(total));
        for chunk in asked {
            let got = match chunk {
                Some(chunk) => {
                    answers.next().ok_or_else(|| Self::short_chunk_error(chunk, chunk_bytes))??
                }
                None => None,
            };
            match (chunk, got) {
                (Some(chunk), Some(got)) => {
                    self.check_len(&chunk.key, chunk.total(&got), chunk_bytes)?;
                    out.extend_from_slice(&self.to_little_endian(got.bytes, chunked.big_endian));
                }
                (chunk, _) => {
                    chunk.map_or(Ok(()), Place::check_absent)?;
                    out.extend_from_slice(&fill_buffer(row, &self.core.fill));
                }
            }
        }
        Ok(out.into())
    }

    /// Returns the fault of a chunk that is shorter than the `chunk_bytes` that its shape says.
    fn short_chunk_error(place: &Place, chunk_bytes: u64) -> Error {
        place.locate_error(Error::new(
            Class::CountMismatch,
            "bytes of a chunk",
            chunk_bytes,
            "fewer",
        ))
    }

    /// Returns what each of the chunks holds, little-endian and in C order, through the cache.
    async fn chunks(
        &self,
        chunked: &Chunked,
        touched: &[Vec<u64>],
        chunk_bytes: u64,
    ) -> Vec<Result<Option<Bytes>>> {
        let slots: Vec<Option<u64>> =
            touched.iter().map(|index| self.core.grid.slot(index)).collect();
        let fetch = |missing: Vec<usize>| async move {
            let missing: Vec<Vec<u64>> =
                missing.iter().filter_map(|&i| touched.get(i).cloned()).collect();
            // The shape says how much each chunk holds, and the caller asks for few enough of them.
            let caps = self.shared.caps(chunk_bytes.min(self.shared.chunk_cap()));
            let caps = Caps { batch: u64::MAX, ..caps };
            let chunks =
                chunked.array.chunks(&self.shared.source, &missing, caps, Caching::Keep).await;
            chunks.into_iter().map(|chunk| self.to_c_order(chunked, chunk, chunk_bytes)).collect()
        };
        self.shared.read_through_cache(chunked.id, &slots, Caching::Keep, fetch).await
    }

    fn to_c_order(
        &self,
        chunked: &Chunked,
        chunk: Result<Stored>,
        chunk_bytes: u64,
    ) -> Result<Option<Bytes>> {
        let Some((place, bytes)) = chunk? else { return Ok(None) };
        self.check_len(&place.key, to_u64(bytes.len()), chunk_bytes)?;
        let bytes = match &chunked.order {
            None => bytes,
            Some(order) => {
                let shape: Vec<usize> =
                    self.core.grid.chunk.iter().map(|n| saturating_usize(n.get())).collect();
                untranspose(&bytes, &shape, order, saturating_usize(self.core.grid.width)).into()
            }
        };
        Ok(Some(self.to_little_endian(bytes, chunked.big_endian)))
    }

    fn to_little_endian(&self, bytes: Bytes, big_endian: bool) -> Bytes {
        // Text has units of four bytes; everything else is one unit.
        let unit = if self.core.dtype.kind == DtypeKind::Text {
            4
        } else {
            saturating_usize(self.core.dtype.size)
        };
        if !big_endian || unit == 1 {
            return bytes;
        }
        let mut items = Vec::from(bytes);
        swap(&mut items, unit);
        items.into()
    }

    /// Returns few rows of chunks that are stored as they are.
    async fn rows_by_range(
        &self,
        chunked: &Chunked,
        range: &Range<u64>,
        bytes: u64,
        touched: &[Vec<u64>],
        chunk_bytes: u64,
    ) -> Result<Bytes> {
        let (row, step) = (self.row_bytes()?, self.core.grid.chunk_rows());
        let part = |index: &Vec<u64>| {
            let first = index.first().map_or(Some(0), |index| index.checked_mul(step.get()))?;
            let end = range.end.min(first.saturating_add(step.get())); // the last may reach beyond 2^64
            let (low, high) = (range.start.max(first).checked_sub(first)?, end.checked_sub(first)?);
            Some(low.checked_mul(row)?..high.checked_mul(row)?)
        };
        let parts: Option<Vec<Range<u64>>> = touched.iter().map(part).collect();
        let parts = parts.ok_or_else(|| self.missing_rows())?;
        let places = chunked.array.places(&self.shared.source, touched).await;
        let mut gets = Vec::with_capacity(touched.len());
        for (place, part) in places.iter().zip(&parts) {
            let Some(place) = place.as_ref().map_err(Clone::clone)? else { continue };
            let get: Option<Get> = place.part(part);
            gets.push(get.ok_or_else(|| Self::short_chunk_error(place, chunk_bytes))?);
        }
        let mut answers = self.shared.source.read_many(&gets).await.into_iter();
        let mut out = fill_buffer(bytes, &self.core.fill);
        let mut rest = out.as_mut_slice();
        for (place, part) in places.into_iter().zip(&parts) {
            // What does not fit is longer than the rest.
            let split = rest.split_at_mut_checked(saturating_usize(length(part)));
            let (target, after) = split.ok_or_else(|| self.missing_rows())?;
            rest = after;
            if let Some(place) = place? {
                let short = || Self::short_chunk_error(&place, chunk_bytes);
                if let Some(got) = answers.next().ok_or_else(short)?? {
                    self.check_len(&place.key, place.total(&got), chunk_bytes)?;
                    let bytes = self.to_little_endian(got.bytes, chunked.big_endian);
                    if bytes.len() != target.len() {
                        return Err(short());
                    }
                    target.copy_from_slice(&bytes);
                } else {
                    place.check_absent()?;
                }
            }
        }
        Ok(out.into())
    }
}

/// Refuses items of more bytes than a chunk may have: of each array one item is held.
fn check_item(shared: &Shared, key: &Key, size: u64) -> Result<()> {
    let cap = shared.chunk_cap();
    if size <= cap {
        return Ok(());
    }
    Err(Error::limit("bytes of an item", cap, size).at_key(key))
}

fn chunk_shape_error(key: &Key) -> Error {
    Error::new(
        Class::BadShape,
        "chunk_shape of a standalone array",
        "at least 1 along each axis",
        "another",
    )
    .at_key(key)
}

/// Returns the type that padded bytes are handed out as: as many characters as an item has bytes.
fn padded_text(key: &Key, doc: &ArrayDoc, size: u64) -> Result<Dtype> {
    if *doc.fill_value.fill() == Fill::Other {
        return Err(Error::new(
            Class::Unsupported,
            "fill_value of padded bytes",
            "no text",
            "another",
        )
        .at_key(key));
    }
    let size = size.checked_mul(UTF32_BYTES).ok_or_else(|| {
        Error::limit("bytes of an item", u64::MAX / UTF32_BYTES, size).at_key(key)
    })?;
    Ok(Dtype { kind: DtypeKind::Text, size, big_endian: false })
}

/// Returns the shape that the attributes of a group of family A give.
fn flat_shape(attributes: &Object) -> Option<Vec<u64>> {
    let number = |key| attributes.get(key).and_then(serde_json::Value::as_u64);
    if let Some(shape) = attributes.get("shape") {
        return shape.as_array()?.iter().map(serde_json::Value::as_u64).collect();
    }
    if let (Some(rows), Some(width)) = (number("link_count"), number("link_width")) {
        return Some(vec![rows, width]);
    }
    Some(vec![number("num_objects")?, number("max_row_length")?])
}

/// A larger chunk is not read whole for single rows of it.
const MAX_WHOLE_CHUNK_BYTES: u64 = 8 << 20;
/// Chunks that one read may touch.
const MAX_READ_CHUNKS: u64 = 1 << 20;
/// Bytes of a character in UTF-32.
const UTF32_BYTES: u64 = 4;
