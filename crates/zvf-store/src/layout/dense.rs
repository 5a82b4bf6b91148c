//! Standalone arrays of fixed-size items: object and group attributes, ids, parametric objects.
//!
//! ```text
//! B1, C    one Zarr array; chunks that are not stored hold the fill value
//! A, B0    a group: data (a small array of bytes), attributes shape and dtype, and present_mask, one
//!          byte for each row, where some rows are absent
//! ```
//!
//! Items are returned little-endian and in C order, for any stored form. If only a few rows of an
//! uncompressed array are needed, they are read by range; everything else is read by chunk, through
//! the cache.
//!
//! Sizes from documents are compared with the limits before memory is allocated.
//!
//! Not here: the meaning of values, and which values mean "absent".

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

use super::array::{ChunkArray, Located};
use super::fill::fill_item;
use super::grid::{Grid, count_bytes, fill_buffer};
use super::packed::PackedDense;
use super::span::length;
use super::tiny::read_flat;
use super::utf32::widen_text;
use crate::codec::{Caps, Items, swap_items};
use crate::item_box::paste_items;
use crate::key::Key;
use crate::shared::Handle;
use crate::source::Origin;

/// A standalone array of numbers, booleans or fixed-width texts.
///
/// Cheap to clone; clones share cached data.
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
    shared: Arc<Handle>,
    core: Arc<DenseCore>,
}

/// The state shared by all handles of one array.
#[derive(Debug)]
struct DenseCore {
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
    /// The chunks, or the reason why their codecs cannot be decoded.
    Chunked(Result<(ChunkArray, Items)>),
    Flat(Flat),
    Packed(PackedDense),
}

/// The small arrays of the flat form.
#[derive(Debug)]
struct Flat {
    data: Key,
    mask: Option<Key>,
    big_endian: bool,
    content: OnceCell<Bytes>,
}

impl DenseArray {
    /// Returns the array of `doc` under `key`.
    pub(crate) fn from_array(shared: &Arc<Handle>, key: &Key, doc: &ArrayDoc) -> Result<Self> {
        let (dtype, width) = match doc.data_type.kind() {
            DataTypeKind::Fixed(dtype) => (*dtype, dtype.size),
            DataTypeKind::PaddedBytes(size) => (padded_text(key, doc, *size)?, *size),
            DataTypeKind::VariableLengthBytes | DataTypeKind::Other(_) => {
                let (what, rule) = ("data_type of a standalone array", "items of one size");
                return Err(Error::new(Class::BadTag, what, rule, "another data type").at_key(key));
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
        let body = if let Origin::Pack(pack) = &shared.source {
            Body::Packed(PackedDense::open(pack, key, &grid)?)
        } else {
            Body::Chunked(ChunkArray::of_items(key, doc, shared.new_id()).at_key(key))
        };
        let (key, attributes) = (key.clone(), doc.attributes.clone());
        let core = DenseCore { key, attributes, dtype, grid, fill, texts, body };
        Ok(Self { shared: Arc::clone(shared), core: Arc::new(core) })
    }

    /// Returns the array that families A and B0 store in the group `doc` under `key`.
    pub(crate) fn from_group(shared: &Arc<Handle>, key: &Key, doc: &GroupDoc) -> Result<Self> {
        let attributes = doc.attributes.clone();
        let text = attributes.get("dtype").and_then(serde_json::Value::as_str);
        let is_links = key.name().is_some_and(|name| name.starts_with("links_"));
        let stored = match text {
            Some(text) => text.parse::<Dtype>().at_key(key)?,
            // Links of composite stores never state their type.
            None if is_links => Dtype::INT64,
            // Writers that omit the type of an attribute mean this one.
            None => Dtype::FLOAT32,
        };
        let Some(shape) = flat_shape(&attributes) else {
            let rule = "an array, or a group that says its shape";
            return Err(Error::new(Class::BadTag, "node", rule, "a group").at_key(key));
        };
        let masked = attributes.get("has_present_mask").and_then(serde_json::Value::as_bool);
        let mask = if masked == Some(true) { Some(key.child("present_mask")?) } else { None };
        let dtype = Dtype { big_endian: false, ..stored };
        check_item(shared, key, dtype.size)?;
        // All rows are one chunk; an array without rows still has a chunk.
        let chunk: Vec<u64> = shape.iter().map(|&extent| extent.max(1)).collect();
        let grid = Grid::new(shape.into(), &chunk, dtype.size);
        let grid = grid.ok_or_else(|| chunk_shape_error(key))?;
        let (data, content) = (key.child("data")?, OnceCell::new());
        let core = DenseCore {
            key: key.clone(),
            attributes,
            dtype,
            grid,
            fill: vec![0; saturating_usize(dtype.size)].into(),
            texts: None,
            body: Body::Flat(Flat { data, mask, big_endian: stored.big_endian, content }),
        };
        Ok(Self { shared: Arc::clone(shared), core: Arc::new(core) })
    }

    /// Returns its path below the root of the store.
    pub fn path(&self) -> &Key {
        &self.core.key
    }

    /// Returns the attributes of its node.
    pub fn attributes(&self) -> &Object {
        &self.core.attributes
    }

    /// Items along each axis.
    pub fn shape(&self) -> &[u64] {
        &self.core.grid.shape
    }

    /// Returns the type of a returned item: never big-endian.
    pub fn dtype(&self) -> Dtype {
        self.core.dtype
    }

    /// Returns the number of rows along the first axis; a `u64`, because the rows are not in
    /// memory.
    pub fn len(&self) -> u64 {
        self.core.grid.rows()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the fill value: the item for positions that were never stored.
    pub fn fill(&self) -> &[u8] {
        self.core.texts.as_deref().unwrap_or(&self.core.fill)
    }

    /// As [`Rows::require`](super::Rows::require): a row that equals the fill value is empty.
    pub fn require(&self, rows: u64, absent: u64) {
        let Body::Chunked(Ok((array, _))) = &self.core.body else { return };
        array.require(self.core.grid.chunk_rows(), rows, absent);
    }

    /// Reads all rows, contiguous.
    ///
    /// # Errors
    ///
    /// As [`rows`](Self::rows).
    #[boxed]
    pub async fn read_all(&self) -> Result<Bytes> {
        self.rows(0..self.len()).await
    }

    /// Returns the rows `range`, contiguous.
    ///
    /// # Errors
    ///
    /// [`Class::OutOfBounds`] when there are fewer rows; [`Class::LimitExceeded`] when they exceed
    /// the budget; [`Class::Unsupported`] when a codec is unknown; otherwise when a chunk cannot be
    /// read or does not decode to its shape.
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

    /// Returns the rows `range` in stored form; they take `bytes` bytes.
    async fn stored_rows(&self, range: &Range<u64>, bytes: u64) -> Result<Bytes> {
        match &self.core.body {
            Body::Flat(flat) => self.flat_rows(flat, range).await,
            Body::Packed(packed) => packed.rows(range, bytes).await,
            Body::Chunked(Err(error)) => Err(error.clone()),
            Body::Chunked(Ok(chunked)) => self.chunked_rows(chunked, range, bytes).await,
        }
    }

    /// Returns the rows at `places`, contiguous, in that order.
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
            // No range ends beyond 2^64 - 1.
            return Err(self.past_end_error(past.saturating_add(1)));
        }
        if let Body::Chunked(Ok(chunked)) = &self.core.body
            && self.is_read_by_range(chunked)
            && let Some(chunk_bytes) = self.core.grid.chunk_bytes()
            && chunk_bytes > MAX_WHOLE_CHUNK_BYTES
        {
            let step = self.core.grid.chunk_rows();
            let parts = places.iter().map(|place| {
                let start = (*place % step).checked_mul(row)?;
                Some((*place / step, start..start.checked_add(row)?))
            });
            let parts: Option<Vec<ChunkPart>> = parts.collect();
            let parts = parts.ok_or_else(|| self.missing_rows())?;
            return self.read_by_range(chunked, &parts, chunk_bytes).await;
        }
        let mut out = Vec::with_capacity(saturating_usize(total));
        let mut held: Option<(u64, Bytes)> = None; // a run of rows that was read, from its first
        // The rows of a chunk, or as many as may be in memory at once; any number if a row has no
        // bytes.
        let max_rows = self.shared.chunk_cap().checked_div(row).unwrap_or(u64::MAX);
        let chunk_rows = self.core.grid.chunk_rows();
        let step = NonZeroU64::new(max_rows).map_or(NonZeroU64::MIN, |max| chunk_rows.min(max));
        for &place in places {
            let start = place.strict_sub(place % step);
            let bytes = match &held {
                Some((first, bytes)) if *first == start => bytes.clone(),
                _ => {
                    let end = start.saturating_add(step.get()).min(self.len()); // the last chunk may reach beyond 2^64
                    let bytes = self.rows(start..end).await?;
                    held = Some((start, bytes.clone()));
                    bytes
                }
            };
            let from = saturating_usize((place % step).strict_mul(row)); // within the run, which is in memory
            out.extend_from_slice(&bytes[from..from.strict_add(saturating_usize(row))]);
        }
        Ok(out.into())
    }

    /// Returns one byte per row, zero if the row is absent; `None` if there is no mask and the fill
    /// value marks absent rows.
    ///
    /// # Errors
    ///
    /// When the mask cannot be read, or does not have one byte per row.
    #[boxed]
    pub async fn present_mask(&self) -> Result<Option<Bytes>> {
        let Body::Flat(Flat { mask: Some(mask), .. }) = &self.core.body else { return Ok(None) };
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

    /// Returns the byte length of the rows `range`, if they exist and fit the budget.
    fn check(&self, range: &Range<u64>) -> Result<u64> {
        if range.end > self.core.grid.rows() {
            return Err(self.past_end_error(range.end));
        }
        let Some(rows) = range.end.checked_sub(range.start) else {
            let least = Expected::AtLeast(range.start.into());
            return Err(self.range_error(Class::InvalidArgument, least, range.end));
        };
        let stored = self.row_bytes()?.checked_mul(rows);
        self.check_total(stored.and_then(|bytes| bytes.checked_mul(self.expansion())))?;
        self.check_total(stored)
    }

    /// Returns the number of returned bytes per stored byte.
    fn expansion(&self) -> u64 {
        if self.core.texts.is_some() { UTF32_BYTES } else { 1 }
    }

    /// Returns the error for item `item`, counted from row `first`, which is not text.
    fn not_text_error(&self, first: u64, item: usize) -> Error {
        let mut extents = self.core.grid.shape.iter().skip(1);
        let row_items = extents.try_fold(1_u64, |items, extent| items.checked_mul(*extent));
        let row = row_items.and_then(|items| first.checked_add(to_u64(item).checked_div(items)?));
        let rule = "text in UTF-8, padded with zero bytes";
        let error = Error::new(Class::BadTag, "text of a row", rule, "other bytes");
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

    /// Returns `rows` from `bytes`, which contain rows of `row` bytes from row `first` on.
    fn slice_rows(&self, bytes: &Bytes, row: u64, first: u64, rows: &Range<u64>) -> Result<Bytes> {
        let at = |place: u64| checked_usize(place.checked_sub(first)?.checked_mul(row)?);
        let span = at(rows.start).zip(at(rows.end));
        let span = span.filter(|(start, end)| start <= end && *end <= bytes.len());
        span.map(|(start, end)| bytes.slice(start..end)).ok_or_else(|| self.missing_rows())
    }

    /// Returns the error for rows that do not match their shape.
    fn missing_rows(&self) -> Error {
        Error::new(Class::CountMismatch, "bytes of rows", "all rows of the shape", "fewer")
            .at_key(&self.core.key)
    }

    fn past_end_error(&self, end: u64) -> Error {
        self.range_error(Class::OutOfBounds, Expected::AtMost(self.len().into()), end)
    }

    fn range_error(&self, class: Class, expected: Expected, end: u64) -> Error {
        Error::new(class, "end of a range of rows", expected, end).at_key(&self.core.key)
    }

    fn check_len(&self, key: &Key, found: u64, expected: u64) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        Err(Error::new(Class::CountMismatch, "bytes", expected, found).at_key(key))
    }

    /// Returns rows of the flat form, which is always read whole.
    async fn flat_rows(&self, flat: &Flat, range: &Range<u64>) -> Result<Bytes> {
        let Flat { data, big_endian, content, .. } = flat;
        let whole = content.get_or_try_init(|| async {
            let bytes = read_flat(&self.shared, data.clone()).await?;
            let bytes = bytes.ok_or_else(|| Error::missing(data, "its group is there"))?;
            // No file has more bytes than 64 bits can count.
            let expected =
                count_bytes(&self.core.grid.shape, self.core.grid.width).unwrap_or(u64::MAX);
            self.check_len(data, to_u64(bytes.len()), expected)?;
            Ok::<_, Error>(if *big_endian { swap_items(bytes, self.core.dtype) } else { bytes })
        });
        self.slice_rows(whole.await?, self.row_bytes()?, 0, range)
    }

    async fn chunked_rows(
        &self,
        chunked: &(ChunkArray, Items),
        range: &Range<u64>,
        bytes: u64,
    ) -> Result<Bytes> {
        if bytes == 0 {
            return Ok(Bytes::new());
        }
        let grid = &self.core.grid;
        let limit = |what, max| Error::limit(what, max, u64::MAX).at_key(&self.core.key);
        let touched = grid.touched_chunks(range, MAX_READ_CHUNKS);
        let touched = touched.ok_or_else(|| limit("chunks of one read", MAX_READ_CHUNKS))?;
        let cap = self.shared.chunk_cap();
        let chunk_bytes = grid.chunk_bytes().ok_or_else(|| limit("bytes of a chunk", cap))?;
        // Both are only compared.
        let held = chunk_bytes.saturating_mul(to_u64(touched.len()));
        let few = bytes.saturating_mul(4) < held;
        if (few || chunk_bytes > cap) && self.is_read_by_range(chunked) {
            let parts = self.parts_of_chunks(range, &touched)?;
            return self.read_by_range(chunked, &parts, chunk_bytes).await;
        }
        if let ([index], true) = (touched.as_slice(), grid.is_row_wise()) {
            let chunk = self.chunks(chunked, &touched, chunk_bytes).await.pop();
            let Some(chunk) = chunk.expect("one chunk was asked for")? else {
                return Ok(fill_buffer(bytes, &self.core.fill).into());
            };
            let number = index.first().copied().unwrap_or(0); // without axes, the only chunk
            let first = number.checked_mul(grid.chunk_rows().get());
            let first = first.ok_or_else(|| self.missing_rows())?;
            return self.slice_rows(&chunk, self.row_bytes()?, first, range);
        }
        let mut out = fill_buffer(bytes, &self.core.fill);
        // Chunks may contain much more than the requested rows.
        let chunk_size = NonZeroU64::new(chunk_bytes).expect("a chunk holds some of the bytes");
        let batch = saturating_usize(cap / chunk_size).max(1);
        for some in touched.chunks(batch) {
            for (index, chunk) in some.iter().zip(self.chunks(chunked, some, chunk_bytes).await) {
                if let Some(chunk) = chunk? {
                    let [from, to] = grid.boxes(index, range);
                    paste_items(saturating_usize(grid.width), (&chunk, &from), (&mut out, &to));
                }
            }
        }
        Ok(out.into())
    }

    /// Returns whether rows are contiguous in the stored bytes, so that they can be read without
    /// the rest of their chunk.
    fn is_read_by_range(&self, (array, items): &(ChunkArray, Items)) -> bool {
        self.core.grid.is_row_wise() && items.is_in_order() && array.chain.is_empty()
    }

    /// Returns the bytes of each of the chunks `touched` that belong to the rows `range`.
    fn parts_of_chunks(&self, range: &Range<u64>, touched: &[Vec<u64>]) -> Result<Vec<ChunkPart>> {
        let (row, step) = (self.row_bytes()?, self.core.grid.chunk_rows());
        let part = |index: &Vec<u64>| {
            let number = index.first().copied().unwrap_or(0); // without axes, the only chunk
            let first = number.checked_mul(step.get())?;
            let end = range.end.min(first.saturating_add(step.get())); // the last may reach beyond 2^64
            let (low, high) = (range.start.max(first).checked_sub(first)?, end.checked_sub(first)?);
            Some((number, low.checked_mul(row)?..high.checked_mul(row)?))
        };
        let parts: Option<Vec<ChunkPart>> = touched.iter().map(part).collect();
        parts.ok_or_else(|| self.missing_rows())
    }

    /// Returns `parts` of large uncompressed chunks, contiguous. A chunk holds whole rows: it is
    /// the first along every axis but one.
    async fn read_by_range(
        &self,
        (array, items): &(ChunkArray, Items),
        parts: &[ChunkPart],
        chunk_bytes: u64,
    ) -> Result<Bytes> {
        let mut numbers: Vec<u64> = parts.iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let axes = self.core.grid.shape.len();
        let index =
            |number: &u64| (0..axes).map(|axis| if axis == 0 { *number } else { 0 }).collect();
        let indexes: Vec<Vec<u64>> = numbers.iter().map(index).collect();
        let found = array.places(&self.shared.source, &indexes).await;
        let found: Vec<Option<Located>> = found.into_iter().collect::<Result<_>>()?;
        let place = |number: &u64| {
            found[numbers.binary_search(number).expect("every number is listed")].as_ref()
        };
        let mut gets = Vec::with_capacity(parts.len());
        for (number, part) in parts {
            if let Some(place) = place(number) {
                let short = || {
                    let (what, class) = ("bytes of a chunk", Class::CountMismatch);
                    place.locate_error(Error::new(class, what, chunk_bytes, "fewer"))
                };
                gets.push(place.part(part).ok_or_else(short)?);
            }
        }
        let mut answers = self.shared.source.read_many(&gets).await.into_iter();
        let total: u64 = parts.iter().map(|(_, part)| length(part)).sum(); // within the budget
        let mut out = Vec::with_capacity(saturating_usize(total));
        for (number, part) in parts {
            let stored = match place(number) {
                None => None,
                Some(place) => match answers.next().expect("every get has an answer")? {
                    Some(got) => {
                        self.check_len(&place.key, place.total(&got), chunk_bytes)?;
                        Some(items.swap(got.bytes))
                    }
                    None => place.check_absent().map(|()| None)?,
                },
            };
            match stored {
                Some(bytes) => out.extend_from_slice(&bytes),
                None => out.extend_from_slice(&fill_buffer(length(part), &self.core.fill)),
            }
        }
        Ok(out.into())
    }

    /// Returns the content of each chunk, little-endian and in C order, through the cache.
    async fn chunks(
        &self,
        (array, items): &(ChunkArray, Items),
        touched: &[Vec<u64>],
        chunk_bytes: u64,
    ) -> Vec<Result<Option<Bytes>>> {
        let slots: Vec<Option<u64>> =
            touched.iter().map(|index| self.core.grid.slot(index)).collect();
        // The shape gives the size of each chunk, and the caller requests few enough of them.
        let caps = self.shared.caps(chunk_bytes.min(self.shared.chunk_cap()));
        let caps = Caps { batch: u64::MAX, ..caps };
        let finish = |place: Located, bytes: Bytes| {
            self.check_len(&place.key, to_u64(bytes.len()), chunk_bytes)?;
            Ok(items.unpack(bytes))
        };
        array.get_many(&self.shared, (touched, &slots), caps, finish).await
    }
}

/// A range of bytes of a chunk, with its number along the first axis.
type ChunkPart = (u64, Range<u64>);

/// Refuses items larger than a chunk may be, because one item of each array is kept in memory.
fn check_item(shared: &Handle, key: &Key, size: u64) -> Result<()> {
    let cap = shared.chunk_cap();
    if size <= cap {
        return Ok(());
    }
    Err(Error::limit("bytes of an item", cap, size).at_key(key))
}

fn chunk_shape_error(key: &Key) -> Error {
    let (what, rule) = ("chunk_shape of a standalone array", "at least 1 along each axis");
    Error::new(Class::BadShape, what, rule, "another").at_key(key)
}

/// Returns the type in which padded bytes are returned: as many characters as an item has bytes.
fn padded_text(key: &Key, doc: &ArrayDoc, size: u64) -> Result<Dtype> {
    if *doc.fill_value.fill() == Fill::Other {
        let (what, rule) = ("fill_value of padded bytes", "no text");
        return Err(Error::new(Class::Unsupported, what, rule, "another").at_key(key));
    }
    let size = size.checked_mul(UTF32_BYTES).ok_or_else(|| {
        Error::limit("bytes of an item", u64::MAX / UTF32_BYTES, size).at_key(key)
    })?;
    Ok(Dtype { kind: DtypeKind::Text, size, big_endian: false })
}

/// Returns the shape stated by the attributes of a group of family A.
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

/// Larger chunks are not read whole for single rows.
const MAX_WHOLE_CHUNK_BYTES: u64 = 8 << 20;
/// Maximum number of chunks in one read.
const MAX_READ_CHUNKS: u64 = 1 << 20;
/// Bytes of a character in UTF-32.
const UTF32_BYTES: u64 = 4;
