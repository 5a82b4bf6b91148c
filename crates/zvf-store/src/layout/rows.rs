//! Standalone arrays of variable-length rows: object manifests, groups, names.
//!
//! ```text
//! B1, C, and 0.7 manifests   one vlen-bytes Zarr array of rank 1
//! A, B0                      a group: data (rows back to back), offsets (i64: where each starts;
//!                            the last one runs to the end)
//! ```
//!
//! A chunk of rows is decoded once and cached with a table of row ends, so that any row is found
//! without scanning:
//!
//! ```text
//! indexed the chunk as it is framed, then u32 for each row: the byte after its payload
//! ```
//!
//! Not here: the content of rows, and which rows count.

use async_recursion::async_recursion as boxed;
use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OnceCell;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::num::{saturating_usize, to_u64, usize_from_u32};
use zvf_format::vlen::VlenRows;
use zvf_format::{Class, Expected, FormatError, Found, Part};
use zvf_metadata::{ArrayDoc, GroupDoc, Object};

use super::array::{ChunkArray, Located};
use super::packed::{PackedCells, coordinate};
use super::tiny::read_flat_many;
use crate::key::Key;
use crate::shared::Handle;
use crate::source::Origin;

/// A standalone array of variable-length rows.
///
/// Cheap to clone; clones share cached data.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/three.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// let names = store.nodes().rows("parametric/names").await?.expect("the store has some");
/// assert_eq!(names.count().await?, 1);
/// assert_eq!(names.rows(&[0]).await?, ["floor"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Rows {
    shared: Arc<Handle>,
    core: Arc<RowsCore>,
}

/// The state shared by all handles of one array.
#[derive(Debug)]
struct RowsCore {
    key: Key,
    attributes: Object,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Chunked { len: u64, chunk: NonZeroU64, array: Result<ChunkArray> },
    Flat(Flat),
    Packed { len: u64, cells: PackedCells },
}

/// The two small arrays of the flat form.
#[derive(Debug)]
struct Flat {
    data: Key,
    offsets: Key,
    content: OnceCell<FlatRows>,
}

/// All rows, contiguous.
#[derive(Debug)]
struct FlatRows {
    data: Bytes,
    starts: Box<[usize]>, // never decreasing, none past the end of `data`
}

impl Rows {
    /// Returns the rows of the array `doc` under `key`, with the attributes of the node it belongs to.
    pub(crate) fn from_array(
        shared: &Arc<Handle>,
        key: &Key,
        doc: &ArrayDoc,
        attributes: &Object,
    ) -> Result<Self> {
        let refuse = |what, expected: Expected, found: Found| {
            Error::new(Class::BadShape, what, expected, found).at_key(key)
        };
        let (&[len], &[chunk]) = (doc.shape.as_slice(), doc.inner_chunk_shape()) else {
            let rank = Found::from(doc.rank());
            return Err(refuse("axes of an array of rows", Expected::Exactly(1), rank));
        };
        let Some(chunk) = NonZeroU64::new(chunk) else {
            let what = "chunk_shape of an array of rows";
            return Err(refuse(what, Expected::AtLeast(1), Found::Text("0")));
        };
        let body = if let Origin::Pack(pack) = &shared.source {
            Body::Packed { len, cells: PackedCells::open(pack, key, 1)? }
        } else {
            let array = ChunkArray::of_frames(key, doc, shared.new_id(), "codec of rows");
            Body::Chunked { len, chunk, array: array.at_key(key) }
        };
        Ok(Self::new(shared, key, attributes, body))
    }

    /// Returns the rows that families A and B0 store in the group `doc` under `key`.
    pub(crate) fn from_group(shared: &Arc<Handle>, key: &Key, doc: &GroupDoc) -> Result<Self> {
        let (data, offsets) = (key.child("data")?, key.child("offsets")?);
        let body = Body::Flat(Flat { data, offsets, content: OnceCell::new() });
        Ok(Self::new(shared, key, &doc.attributes, body))
    }

    fn new(shared: &Arc<Handle>, key: &Key, attributes: &Object, body: Body) -> Self {
        let core = RowsCore { key: key.clone(), attributes: attributes.clone(), body };
        Self { shared: Arc::clone(shared), core: Arc::new(core) }
    }

    /// Returns its path below the root of the store.
    pub fn path(&self) -> &Key {
        &self.core.key
    }

    /// Returns the attributes of the array, or of the object index for manifests.
    pub fn attributes(&self) -> &Object {
        &self.core.attributes
    }

    /// Returns how many rows are stored.
    ///
    /// # Errors
    ///
    /// When the rows have the form of family A and cannot be read.
    #[boxed]
    pub async fn count(&self) -> Result<u64> {
        match &self.core.body {
            Body::Chunked { len, .. } | Body::Packed { len, .. } => Ok(*len),
            Body::Flat(flat) => Ok(to_u64(self.read_flat(flat).await?.starts.len())),
        }
    }

    /// From now on, refuses to read a chunk that is absent, where at most `absent` of the first
    /// `rows` rows are empty.
    pub fn require(&self, rows: u64, absent: u64) {
        if let Body::Chunked { chunk, array: Ok(array), .. } = &self.core.body {
            array.require(*chunk, rows, absent);
        }
    }

    /// Returns the rows `range`, each with its own length.
    ///
    /// # Errors
    ///
    /// As [`rows`](Self::rows).
    #[boxed]
    pub async fn range(&self, range: Range<u64>) -> Result<Vec<Bytes>> {
        let end = range.end;
        if end > self.count().await? {
            return Err(self.past_end_error(end, self.count().await?));
        }
        let places: Vec<u64> = range.collect();
        self.rows(&places).await
    }

    /// Returns the rows at `places`, in that order; rows that were never written are empty.
    ///
    /// # Errors
    ///
    /// [`Class::OutOfBounds`] when there is no such row; [`Class::Unsupported`] when a codec is
    /// unknown; otherwise when a chunk cannot be read or does not match the array's document.
    #[boxed]
    pub async fn rows(&self, places: &[u64]) -> Result<Vec<Bytes>> {
        let len = self.count().await?;
        if let Some(&past) = places.iter().find(|&&place| place >= len) {
            // No range ends beyond 2^64 - 1.
            return Err(self.past_end_error(past.saturating_add(1), len));
        }
        match &self.core.body {
            Body::Chunked { array, chunk, .. } => {
                let array = array.as_ref().map_err(Clone::clone)?;
                self.read_chunked(array, *chunk, places).await
            }
            Body::Packed { cells, .. } => {
                let coords: Vec<[i64; 1]> = places.iter().map(|&at| coordinate(at)).collect();
                let rows = cells.read(coords.iter().map(<[i64; 1]>::as_slice)).await;
                rows.into_iter().map(|row| row.map(Option::unwrap_or_default)).collect()
            }
            Body::Flat(flat) => {
                let flat = self.read_flat(flat).await?;
                Ok(places.iter().map(|&place| flat.row(saturating_usize(place))).collect())
            }
        }
    }
}

impl Rows {
    async fn read_chunked(
        &self,
        array: &ChunkArray,
        chunk: NonZeroU64,
        places: &[u64],
    ) -> Result<Vec<Bytes>> {
        let mut order: Vec<(u64, usize)> =
            places.iter().enumerate().map(|(at, place)| (*place / chunk, at)).collect();
        order.sort_unstable();
        let runs: Vec<&[(u64, usize)]> = order.chunk_by(|a, b| a.0 == b.0).collect();
        let mut rows = vec![Bytes::new(); places.len()];
        let (mut runs, mut at_once) = (runs.as_slice(), FIRST_CHUNKS);
        while !runs.is_empty() {
            let (group, rest) = runs.split_at_checked(at_once).unwrap_or((runs, &[]));
            runs = rest;
            let numbers: Vec<u64> = group.iter().map(|run| run[0].0).collect(); // no run is empty
            let chunks = self.indexed_chunks(array, chunk, &numbers).await?;
            for (run, indexed) in group.iter().zip(&chunks) {
                // All rows of a chunk that was never written are empty.
                if let Some(indexed) = indexed {
                    take_rows(indexed, chunk, run, places, &mut rows);
                }
            }
            let held: usize = chunks.iter().flatten().map(Bytes::len).sum(); // in memory
            let count = NonZeroUsize::new(group.len()).expect("some chunks were read");
            let mean = NonZeroU64::new(to_u64(held / count)).unwrap_or(NonZeroU64::MIN);
            let room = self.shared.budget.max_bytes() / HELD_SHARE;
            at_once = saturating_usize(room / mean).clamp(1, MAX_CHUNKS);
        }
        Ok(rows)
    }

    /// Returns these chunks, each followed by its table of ends.
    async fn indexed_chunks(
        &self,
        array: &ChunkArray,
        chunk: NonZeroU64,
        numbers: &[u64],
    ) -> Result<Vec<Option<Bytes>>> {
        let indexes: Vec<Vec<u64>> = numbers.iter().map(|number| vec![*number]).collect();
        let slots: Vec<Option<u64>> = numbers.iter().copied().map(Some).collect();
        let caps = self.shared.caps(self.shared.chunk_cap());
        let finish = |place: Located, bytes| place.locate(with_ends(bytes, chunk.get()));
        let found = array.get_many(&self.shared, (&indexes, &slots), caps, finish).await;
        found.into_iter().collect()
    }

    /// Returns the content of the flat form, read once.
    async fn read_flat<'a>(&self, flat: &'a Flat) -> Result<&'a FlatRows> {
        let Flat { data, offsets, content } = flat;
        let read = || async {
            let both = vec![Ok(data.clone()), Ok(offsets.clone())];
            let both = read_flat_many(&self.shared, both).await.into_iter().zip([data, offsets]);
            let missing = |key| Error::missing(key, "its group is there");
            let both = both.map(|(bytes, key)| bytes?.ok_or_else(|| missing(key)));
            let [data, starts] = both.collect::<Vec<_>>().try_into().expect("two were asked for");
            let (data, starts) = (data?, starts?);
            let starts = parse_starts(&starts, data.len()).at_key(offsets)?;
            Ok(FlatRows { data, starts })
        };
        content.get_or_try_init(read).await
    }

    fn past_end_error(&self, end: u64, len: u64) -> Error {
        Error::new(Class::OutOfBounds, "end of a range of rows", Expected::AtMost(len.into()), end)
            .at_key(&self.core.key)
    }
}

impl FlatRows {
    /// Returns row `place`, which exists.
    fn row(&self, place: usize) -> Bytes {
        let end = self.starts[place..].get(1).copied().unwrap_or(self.data.len()); // the last row
        self.data.slice(self.starts[place]..end)
    }
}

/// Returns the starts of rows, after checking them against the length of the data.
fn parse_starts(bytes: &[u8], data: usize) -> Result<Box<[usize]>, FormatError> {
    let refuse = |class, at: usize, expected, found: Found| {
        let at = to_u64(at).saturating_mul(8); // a byte of what was read
        FormatError::new(class, Part::Manifest, "offsets", at, expected, found)
    };
    let (numbers, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        let (expected, found) = (Expected::MultipleOf(8), Found::from(bytes.len()));
        return Err(refuse(Class::Misaligned, numbers.len(), expected, found));
    }
    let max = i128::from(to_u64(data));
    let mut last = 0_i64;
    let mut starts = Vec::with_capacity(numbers.len());
    for (at, number) in numbers.iter().enumerate() {
        let start = i64::from_le_bytes(*number);
        if start < last {
            let expected = Expected::AtLeast(last.into());
            return Err(refuse(Class::NotMonotonic, at, expected, start.into()));
        }
        if i128::from(start) > max {
            return Err(refuse(Class::OutOfBounds, at, Expected::AtMost(max), start.into()));
        }
        last = start;
        starts.push(usize::try_from(start).unwrap_or(data)); // not above `data`
    }
    Ok(starts.into())
}

/// Returns the chunk followed by its table of ends.
fn with_ends(bytes: Bytes, count: u64) -> Result<Bytes, FormatError> {
    let rows = VlenRows::parse(&bytes, count)?;
    let mut end = COUNT_BYTES;
    // Each row is preceded by a length that is as wide as its end, so this is not larger than the
    // chunk.
    let mut ends = Vec::with_capacity(rows.len().saturating_mul(END_BYTES));
    for payload in rows.iter() {
        // A chunk is at most as large as its limit, far below 2^32.
        end = end.saturating_add(LENGTH_BYTES).saturating_add(payload.len());
        let end = u32::try_from(end).map_err(|_large| too_long_error(end))?;
        ends.extend_from_slice(&end.to_le_bytes());
    }
    let mut indexed = Vec::from(bytes);
    indexed.truncate(end);
    indexed.extend_from_slice(&ends);
    Ok(indexed.into())
}

fn too_long_error(end: usize) -> FormatError {
    let (class, expected) = (Class::LimitExceeded, Expected::AtMost(u32::MAX.into()));
    FormatError::new(class, Part::VlenRows, "end of a row", 0, expected, end)
}

/// Returns row `place` of a chunk of `count` rows with a table from [`with_ends`], so all offsets
/// fit in memory.
fn row(indexed: &Bytes, count: u64, place: u64) -> Bytes {
    let (_, words) = indexed.as_rchunks::<END_BYTES>();
    let ends = &words[words.len().strict_sub(saturating_usize(count))..];
    let end_of = |place: usize| usize_from_u32(u32::from_le_bytes(ends[place]));
    let place = saturating_usize(place);
    let before = place.checked_sub(1).map_or(COUNT_BYTES, end_of);
    indexed.slice(before.strict_add(LENGTH_BYTES)..end_of(place))
}

/// Places the rows of a chunk in the answer. If they are less than half of the chunk, they are
/// copied, so that they do not keep it alive.
fn take_rows(
    indexed: &Bytes,
    chunk: NonZeroU64,
    run: &[(u64, usize)],
    places: &[u64],
    rows: &mut [Bytes],
) {
    let mut bytes = 0_usize;
    for (_, at) in run {
        rows[*at] = row(indexed, chunk.get(), places[*at] % chunk);
        bytes = bytes.saturating_add(rows[*at].len()); // only compared
    }
    if bytes < indexed.len() / 2 {
        for (_, at) in run {
            rows[*at] = Bytes::copy_from_slice(&rows[*at]);
        }
    }
}

/// Number of chunks read at once: at first, and at most; and the part of the budget that they may
/// use.
const FIRST_CHUNKS: usize = 8;
const MAX_CHUNKS: usize = 64;
const HELD_SHARE: u64 = 8;
/// Bytes of the count before all items, and of the length before each.
const COUNT_BYTES: usize = 4;
const LENGTH_BYTES: usize = 4;
/// Bytes of one end in the table.
const END_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_through_the_table() {
        let chunk = b"\x03\0\0\0\x02\0\0\0ab\0\0\0\0\x01\0\0\0c*"; // an extra byte is only a lint
        let indexed = with_ends(Bytes::from_static(chunk), 3).unwrap();
        assert_eq!(indexed[19..], *b"\x0a\0\0\0\x0e\0\0\0\x13\0\0\0");
        for (place, payload) in [(0, &b"ab"[..]), (1, b""), (2, b"c")] {
            assert_eq!(row(&indexed, 3, place), payload);
        }
        assert_eq!(
            with_ends(Bytes::from_static(chunk), 4).unwrap_err().to_string(),
            "CountMismatch in vlen rows, count at byte 0: expected 4, found 3",
        );
    }

    #[test]
    fn starts_are_checked() {
        let bytes =
            |starts: &[i64]| starts.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(*parse_starts(&bytes(&[0, 3, 3, 9]), 9).unwrap(), [0, 3, 3, 9]);
        #[rustfmt::skip]
        let table: [(Vec<u8>, &str); 4] = [
            (bytes(&[0, 4, 3]), "NotMonotonic in object manifest, offsets at byte 16: expected at least 4, found 3"),
            (bytes(&[-1]), "NotMonotonic in object manifest, offsets at byte 0: expected at least 0, found -1"),
            (bytes(&[0, 10]), "OutOfBounds in object manifest, offsets at byte 8: expected at most 9, found 10"),
            (vec![0; 9], "Misaligned in object manifest, offsets at byte 8: expected a multiple of 8, found 9"),
        ];
        for (bytes, message) in table {
            assert_eq!(parse_starts(&bytes, 9).unwrap_err().to_string(), message);
        }
    }
}
