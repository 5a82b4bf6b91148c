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
//! Not here: what a value means, and which of them say "absent".

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OnceCell;
use zvf_format::{Class, Expected, Found};
use zvf_metadata::{ArrayDoc, DataTypeKind, Dtype, DtypeKind, GroupDoc, Object};

use super::fill::fill_item;
use super::grid::{Grid, bytes_of, filled};
use super::packed::PackedDense;
use super::shard::Shards;
use super::tiny::flat;
use super::zarr::{Stored, ZarrArray};
use crate::codec::{Coding, Packing, swap, untranspose};
use crate::error::{Op, StoreError};
use crate::key::Key;
use crate::num::{to_u64, to_usize};
use crate::shared::{Caching, Shared};
use crate::source::{Get, Source};

/// A standalone array of numbers, booleans or texts of a fixed width.
///
/// Cheap to clone; clones share what was read.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), zvf_store::StoreError> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/three.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// let objects = store.dense("parametric/objects").await?.expect("the store has some");
/// assert_eq!((objects.shape(), objects.dtype().to_string().as_str()), (&[1, 5][..], "float64"));
/// assert_eq!(objects.rows(0..1).await?[32..], (-2.5_f64).to_le_bytes());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Dense {
    shared: Arc<Shared>,
    core: Arc<DenseCore>,
}

/// What all handles of one array share.
#[derive(Debug)]
pub(crate) struct DenseCore {
    key: Key,
    attributes: Object,
    dtype: Dtype,
    grid: Grid,
    fill: Box<[u8]>, // one item
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// Or why its codecs cannot be undone.
    Chunked(Result<Chunked, StoreError>),
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
    /// The array of `doc` under `key`.
    pub(crate) fn of_array(shared: &Shared, key: &Key, doc: &ArrayDoc) -> Result<Self, StoreError> {
        let DataTypeKind::Fixed(dtype) = doc.data_type.kind() else {
            let expected = Expected::Rule("items of one size");
            let found = Found::Text("another data type");
            let what = "data_type of a standalone array";
            return Err(
                StoreError::refused(Class::BadTag, Op::Parse, what, expected, found).with_key(key)
            );
        };
        let (shape, chunk) = (doc.shape.as_slice().into(), doc.inner_chunk_shape().into());
        let grid = Grid { shape, chunk, width: dtype.size };
        let fill = fill_item(doc.fill_value.fill(), *dtype);
        if let Source::Pack(pack) = &shared.source {
            let body = Body::Packed(PackedDense::open(pack, key, &grid)?);
            let (key, attributes) = (key.clone(), doc.attributes.clone());
            return Ok(Self { key, attributes, dtype: *dtype, grid, fill, body });
        }
        let body = Coding::of(doc)
            .and_then(|coding| {
                let Packing::Items { big_endian, order } = coding.packing else {
                    return Err(StoreError::unsupported(
                        Op::Decode,
                        "codec of numbers",
                        "vlen-bytes",
                    ));
                };
                let shards = Shards::of(doc, coding.index)?;
                let array = ZarrArray { key: key.clone(), chain: coding.chain, shards };
                Ok(Chunked { array, id: shared.new_id(), order, big_endian })
            })
            .map_err(|error| error.with_key(key));
        Ok(Self {
            key: key.clone(),
            attributes: doc.attributes.clone(),
            dtype: *dtype,
            grid,
            fill,
            body: Body::Chunked(body),
        })
    }

    /// The array that families A and B0 keep in the group `doc` under `key`.
    pub(crate) fn of_group(key: &Key, doc: &GroupDoc) -> Result<Self, StoreError> {
        let attributes = doc.attributes.clone();
        let text = attributes.get("dtype").and_then(serde_json::Value::as_str);
        // Links of composite stores say nothing of their type, which is always this.
        let stored = match text {
            Some(text) => {
                Dtype::parse(text).map_err(|error| StoreError::from(error).with_key(key))?
            }
            None => Dtype::INT64,
        };
        let Some(shape) = flat_shape(&attributes) else {
            let expected = Expected::Rule("an array, or a group that says its shape");
            let found = Found::Text("a group");
            return Err(StoreError::refused(Class::BadTag, Op::Parse, "node", expected, found)
                .with_key(key));
        };
        let masked = attributes.get("has_present_mask").and_then(serde_json::Value::as_bool);
        let mask = if masked == Some(true) { Some(key.child("present_mask")?) } else { None };
        let dtype = Dtype { big_endian: false, ..stored };
        let chunk = shape.iter().map(|&extent| extent.max(1)).collect();
        Ok(Self {
            key: key.clone(),
            attributes,
            dtype,
            grid: Grid { shape: shape.into(), chunk, width: dtype.size },
            fill: vec![0; to_usize(dtype.size)].into(),
            body: Body::Flat {
                data: key.child("data")?,
                mask,
                big_endian: stored.big_endian,
                content: OnceCell::new(),
            },
        })
    }
}

impl Dense {
    pub(crate) fn new(shared: &Arc<Shared>, core: Arc<DenseCore>) -> Self {
        Self { shared: Arc::clone(shared), core }
    }

    /// Its path below the root of the store.
    #[must_use]
    pub fn path(&self) -> &Key {
        &self.core.key
    }

    /// The attributes of its node.
    #[must_use]
    pub fn attributes(&self) -> &Object {
        &self.core.attributes
    }

    /// Items along each axis.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.core.grid.shape
    }

    /// The type of an item as it is handed out: never big-endian.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.core.dtype
    }

    /// Rows along the first axis.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.core.grid.rows()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The item that stands for what was never stored.
    #[must_use]
    pub fn fill(&self) -> &[u8] {
        &self.core.fill
    }

    /// All rows, back to back.
    ///
    /// # Errors
    ///
    /// As [`rows`](Self::rows).
    pub async fn whole(&self) -> Result<Bytes, StoreError> {
        self.rows(0..self.len()).await
    }

    /// The rows `range`, back to back.
    ///
    /// # Errors
    ///
    /// [`Class::OutOfBounds`] when there are fewer rows; [`Class::LimitExceeded`] when they are more than
    /// the budget; [`Class::Unsupported`] when a codec is unknown; otherwise when a chunk cannot be read
    /// or does not decode to what the shape says.
    pub async fn rows(&self, range: Range<u64>) -> Result<Bytes, StoreError> {
        let bytes = self.check(&range)?;
        match &self.core.body {
            Body::Flat { .. } => self.flat_rows(&range).await,
            Body::Packed(packed) => packed.rows(&self.core.grid, &range, bytes).await,
            Body::Chunked(Err(error)) => Err(error.clone()),
            Body::Chunked(Ok(chunked)) => self.chunked_rows(chunked, &range, bytes).await,
        }
    }

    /// The rows at `places`, back to back, in that order.
    ///
    /// # Errors
    ///
    /// As [`rows`](Self::rows).
    pub async fn take(&self, places: &[u64]) -> Result<Bytes, StoreError> {
        let row = self.check(&(0..0)).and(self.row_bytes())?;
        let total = row.checked_mul(to_u64(places.len()));
        self.check_total(total)?;
        if let Some(&past) = places.iter().find(|&&place| place >= self.len()) {
            return Err(self.past_the_end(past.saturating_add(1)));
        }
        let mut out = Vec::with_capacity(to_usize(total.unwrap_or(0)));
        let mut held: Option<(u64, Bytes)> = None; // a run of rows that was read, from its first
        let step = self.core.grid.chunk_rows().max(1);
        for &place in places {
            let start = place.saturating_sub(place.checked_rem(step).unwrap_or(0));
            let bytes = match &held {
                Some((first, bytes)) if *first == start => bytes.clone(),
                _ => {
                    let end = start.saturating_add(step).min(self.len());
                    let bytes = self.rows(start..end).await?;
                    held = Some((start, bytes.clone()));
                    bytes
                }
            };
            let at = to_usize(place.saturating_sub(start).saturating_mul(row));
            out.extend_from_slice(
                bytes.get(at..at.saturating_add(to_usize(row))).unwrap_or_default(),
            );
        }
        Ok(out.into())
    }

    /// One byte for each row, zero where it is absent; `None` where no mask is kept and the fill value
    /// says it.
    ///
    /// # Errors
    ///
    /// When the mask cannot be read, or does not have one byte for each row.
    pub async fn present_mask(&self) -> Result<Option<Bytes>, StoreError> {
        let Body::Flat { mask: Some(mask), .. } = &self.core.body else { return Ok(None) };
        let bytes = flat(&self.shared, mask.clone()).await?;
        let bytes = bytes.ok_or_else(|| StoreError::absent(mask, "has_present_mask is set"))?;
        self.check_len(mask, bytes.len(), self.len())?;
        Ok(Some(bytes))
    }
}

impl Dense {
    fn row_bytes(&self) -> Result<u64, StoreError> {
        self.core.grid.row_bytes().ok_or_else(|| {
            StoreError::limit(Op::Read, "bytes of a row", self.shared.chunk_cap(), u64::MAX)
                .with_key(&self.core.key)
        })
    }

    /// How many bytes the rows `range` are, when they exist and may be held.
    fn check(&self, range: &Range<u64>) -> Result<u64, StoreError> {
        if range.end > self.core.grid.rows() {
            return Err(self.past_the_end(range.end));
        }
        let Some(rows) = range.end.checked_sub(range.start) else {
            let (expected, found) = (Expected::AtLeast(range.start.into()), Found::from(range.end));
            let what = "end of a range of rows";
            return Err(StoreError::refused(
                Class::InvalidArgument,
                Op::Read,
                what,
                expected,
                found,
            )
            .with_key(&self.core.key));
        };
        self.check_total(self.row_bytes()?.checked_mul(rows))
    }

    fn check_total(&self, bytes: Option<u64>) -> Result<u64, StoreError> {
        let cap = self.shared.chunk_cap();
        match bytes {
            Some(bytes) if bytes <= cap => Ok(bytes),
            other => {
                let found = other.unwrap_or(u64::MAX);
                Err(StoreError::limit(Op::Read, "bytes of rows", cap, found)
                    .with_key(&self.core.key))
            }
        }
    }

    fn past_the_end(&self, end: u64) -> StoreError {
        let (expected, found) = (Expected::AtMost(self.core.grid.rows().into()), Found::from(end));
        StoreError::refused(Class::OutOfBounds, Op::Read, "end of a range of rows", expected, found)
            .with_key(&self.core.key)
    }

    fn check_len(&self, key: &Key, found: usize, expected: u64) -> Result<(), StoreError> {
        if to_u64(found) == expected {
            return Ok(());
        }
        let (what, expected) = ("bytes", Expected::Exactly(expected.into()));
        let class = Class::CountMismatch;
        Err(StoreError::refused(class, Op::Decode, what, expected, Found::from(found))
            .with_key(key))
    }

    /// Rows of the group form, all of which are read at once.
    async fn flat_rows(&self, range: &Range<u64>) -> Result<Bytes, StoreError> {
        let Body::Flat { data, big_endian, content, .. } = &self.core.body else {
            return Ok(Bytes::new());
        };
        let whole = content.get_or_try_init(|| async {
            let bytes = flat(&self.shared, data.clone()).await?;
            let bytes = bytes.ok_or_else(|| StoreError::absent(data, "its group is there"))?;
            let expected =
                bytes_of(&self.core.grid.shape, self.core.grid.width).unwrap_or(u64::MAX);
            self.check_len(data, bytes.len(), expected)?;
            Ok::<_, StoreError>(self.little(bytes, *big_endian))
        });
        let (whole, row) = (whole.await?, self.row_bytes()?);
        let [start, end] = [range.start, range.end].map(|at| to_usize(at.saturating_mul(row)));
        Ok(whole.slice(start.min(whole.len())..end.min(whole.len())))
    }

    async fn chunked_rows(
        &self,
        chunked: &Chunked,
        range: &Range<u64>,
        bytes: u64,
    ) -> Result<Bytes, StoreError> {
        if bytes == 0 {
            return Ok(Bytes::new());
        }
        let Some(touched) = self.core.grid.touched(range, MOST_CHUNKS) else {
            let (what, most) = ("chunks of one read", MOST_CHUNKS);
            return Err(StoreError::limit(Op::Read, what, most, u64::MAX).with_key(&self.core.key));
        };
        let Some(chunk_bytes) = self.core.grid.chunk_bytes() else {
            let (what, most) = ("bytes of a chunk", self.shared.chunk_cap());
            return Err(StoreError::limit(Op::Read, what, most, u64::MAX).with_key(&self.core.key));
        };
        let few = bytes.saturating_mul(4) < chunk_bytes.saturating_mul(to_u64(touched.len()));
        if few
            && self.core.grid.is_row_wise()
            && chunked.order.is_none()
            && chunked.array.chain.is_empty()
        {
            return self.rows_by_range(chunked, range, bytes, &touched, chunk_bytes).await;
        }
        let chunks = self.chunks(chunked, &touched, chunk_bytes).await;
        if let ([index], true) = (touched.as_slice(), self.core.grid.is_row_wise()) {
            let [Ok(Some(chunk))] = chunks.as_slice() else {
                return match chunks.into_iter().next() {
                    Some(Err(error)) => Err(error),
                    _ => Ok(filled(bytes, &self.core.fill).into()),
                };
            };
            let row = self.row_bytes()?;
            let first =
                index.first().map_or(0, |index| index.saturating_mul(self.core.grid.chunk_rows()));
            let start = to_usize(range.start.saturating_sub(first).saturating_mul(row));
            return Ok(chunk.slice(start..start.saturating_add(to_usize(bytes))));
        }
        let mut out = filled(bytes, &self.core.fill);
        for (index, chunk) in touched.iter().zip(chunks) {
            if let Some(chunk) = chunk? {
                self.core.grid.paste(&chunk, index, range, &mut out);
            }
        }
        Ok(out.into())
    }

    /// What each of the chunks holds, little-endian and in C order, through the cache.
    async fn chunks(
        &self,
        chunked: &Chunked,
        touched: &[Vec<u64>],
        chunk_bytes: u64,
    ) -> Vec<Result<Option<Bytes>, StoreError>> {
        let slots: Vec<Option<u64>> =
            touched.iter().map(|index| self.core.grid.slot(index)).collect();
        let fetch = |missing: Vec<usize>| async move {
            let wanted: Vec<Vec<u64>> =
                missing.iter().filter_map(|&i| touched.get(i).cloned()).collect();
            let caps = self.shared.caps(chunk_bytes.min(self.shared.chunk_cap()));
            let chunks = chunked.array.chunks(&self.shared.source, &wanted, caps).await;
            chunks.into_iter().map(|chunk| self.in_order(chunked, chunk, chunk_bytes)).collect()
        };
        self.shared.through_cache(chunked.id, &slots, Caching::Keep, fetch).await
    }

    fn in_order(
        &self,
        chunked: &Chunked,
        chunk: Result<Stored, StoreError>,
        chunk_bytes: u64,
    ) -> Result<Option<Bytes>, StoreError> {
        let Some((place, bytes)) = chunk? else { return Ok(None) };
        self.check_len(&place.key, bytes.len(), chunk_bytes)?;
        let bytes = match &chunked.order {
            None => bytes,
            Some(order) => {
                let shape: Vec<usize> = self.core.grid.chunk.iter().map(|&n| to_usize(n)).collect();
                untranspose(&bytes, &shape, order, to_usize(self.core.grid.width)).into()
            }
        };
        Ok(Some(self.little(bytes, chunked.big_endian)))
    }

    fn little(&self, bytes: Bytes, big_endian: bool) -> Bytes {
        // Text has units of four bytes; everything else is one unit.
        let unit = if self.core.dtype.kind == DtypeKind::Text {
            4
        } else {
            to_usize(self.core.dtype.size)
        };
        if !big_endian || unit == 1 {
            return bytes;
        }
        let mut items = Vec::from(bytes);
        swap(&mut items, unit);
        items.into()
    }

    /// Few rows of chunks that are stored as they are.
    async fn rows_by_range(
        &self,
        chunked: &Chunked,
        range: &Range<u64>,
        bytes: u64,
        touched: &[Vec<u64>],
        chunk_bytes: u64,
    ) -> Result<Bytes, StoreError> {
        let (row, step) = (self.row_bytes()?, self.core.grid.chunk_rows());
        let part = |index: &Vec<u64>| {
            let first = index.first().map_or(0, |index| index.saturating_mul(step));
            let low = range.start.max(first).saturating_sub(first);
            let high = range.end.min(first.saturating_add(step)).saturating_sub(first);
            low.saturating_mul(row)..high.saturating_mul(row)
        };
        let places = chunked.array.places(&self.shared.source, touched).await;
        let mut gets = Vec::with_capacity(touched.len());
        for (place, index) in places.iter().zip(touched) {
            let Some(place) = place.as_ref().map_err(Clone::clone)? else { continue };
            let get: Option<Get> = place.part(&part(index));
            gets.push(get.ok_or_else(|| {
                let what = "bytes of a chunk";
                let expected = Expected::Exactly(chunk_bytes.into());
                let found = Found::Text("fewer");
                place.blame(StoreError::refused(
                    Class::CountMismatch,
                    Op::Decode,
                    what,
                    expected,
                    found,
                ))
            })?);
        }
        let mut answers = self.shared.source.read_many(&gets).await.into_iter();
        let mut out = filled(bytes, &self.core.fill);
        let mut at = 0_usize;
        for (place, index) in places.into_iter().zip(touched) {
            let part = part(index);
            let end = at.saturating_add(to_usize(part.end.saturating_sub(part.start)));
            let got = if place.as_ref().is_ok_and(Option::is_some) {
                answers.next().unwrap_or(Ok(None))?
            } else {
                None
            };
            if let (Ok(Some(place)), Some(got)) = (place, got) {
                self.check_len(&place.key, to_usize(place.total(&got)), chunk_bytes)?;
                let bytes = self.little(got.bytes, chunked.big_endian);
                if let Some(to) = out.get_mut(at..end).filter(|to| to.len() == bytes.len()) {
                    to.copy_from_slice(&bytes);
                }
            }
            at = end;
        }
        Ok(out.into())
    }
}

/// The shape that the attributes of a group of family A give.
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

/// Chunks that one read may touch.
const MOST_CHUNKS: u64 = 1 << 20;
