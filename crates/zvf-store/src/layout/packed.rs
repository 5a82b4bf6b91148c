//! Arrays of a packed store: cells are found through a table, everything else by the bytes of its
//! dataset.
//!
//! ```text
//! cells    table: binary search for the coordinates -> rows -> a slice of the values
//! rows     the same, with one coordinate: the number of the row
//! dense    the rows asked for are a slice, or a selection where chunks split other axes too
//! ```
//!
//! If the pack is mapped or in memory, nothing is copied or cached; otherwise the table of an array
//! is read with its first cell. A cell without a row in the table is absent: an array may list a
//! chunk that was empty.
//!
//! Not here: which arrays exist.

use std::ops::Range;

use bytes::Bytes;
use tokio::sync::OnceCell;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::key::ChunkKey;
use zvf_format::num::usize_from_u32;
use zvf_format::{Class, Expected};
use zvf_tet::AxisSlice;
use zvf_tet::pack::CellTable;

use super::array::answer_each;
use super::grid::Grid;
use super::part;
use super::span::length;
use crate::key::Key;
use crate::source::pack::Pack;
use crate::tet::strip::Strip;

/// The cells of one packed array.
#[derive(Debug)]
pub(crate) struct PackedCells {
    pack: Pack,
    key: Key,
    rank: usize,
    rows: u64,
    row_len: u64,
    values: Strip, // as many bytes as rows of that length
    cells: Strip,
    table: OnceCell<Bytes>,
}

impl PackedCells {
    /// Opens the cells of the array at `key`, each with `rank` coordinates.
    pub(crate) fn open(pack: &Pack, key: &Key, rank: usize) -> Result<Self> {
        let found = pack.array(key, |array| {
            let (values, cells) = (array.values().id(), array.cells().map(|cells| cells.id()));
            let Some(cells) = cells.filter(|_| array.cell_rank() == rank) else {
                let (what, rule) =
                    ("cells of a packed array", "a table of cells with a column for each axis");
                return Err(Error::new(Class::BadShape, what, rule, "another"));
            };
            let strips = [strip(pack, values)?, strip(pack, cells)?];
            Ok((array.rows(), array.row_len(), strips))
        })?;
        let (rows, row_len, [values, cells]) =
            found.unwrap_or((0, 1, [Strip::EMPTY, Strip::EMPTY]));
        let table = OnceCell::new();
        Ok(Self { pack: pack.clone(), key: key.clone(), rank, rows, row_len, values, cells, table })
    }

    /// Returns whether cells are returned without a copy.
    pub(crate) fn is_resident(&self) -> bool {
        self.values.is_resident(self.pack.tet())
    }

    /// Returns whether a part of a cell can be read without the rest.
    pub(crate) const fn reads_ranges(&self) -> bool {
        self.values.reads_ranges()
    }

    /// Reads the payloads of the cells at `coords`.
    pub(crate) async fn read(
        &self,
        coords: impl IntoIterator<Item = &[i64]>,
    ) -> Vec<Result<Option<Bytes>>> {
        let spans = self.spans(coords).await;
        let ranges: Vec<Range<u64>> = spans.iter().flatten().flatten().cloned().collect();
        let (tet, max_bytes) = (self.pack.tet(), self.pack.max_bytes());
        let answers = self.values.read_many(tet, &ranges, max_bytes).await;
        answer_each(spans, answers, |_, bytes| bytes.map(Some).at_key(&self.key))
    }

    /// Reads parts of the cells at `coords`.
    pub(crate) async fn read_parts(
        &self,
        asks: &[(&[i64], &[Range<u64>])],
    ) -> Vec<Result<Option<Vec<Bytes>>>> {
        let spans = self.spans(asks.iter().map(|(coords, _)| *coords)).await;
        let parts: Vec<Result<Option<Vec<Range<u64>>>>> = spans
            .into_iter()
            .zip(asks)
            .map(|(span, (_, ranges))| {
                let Some(span) = span? else { return Ok(None) };
                let inside = |range: &Range<u64>| part::part_span(&span, range);
                ranges.iter().map(inside).collect::<Result<_>>().map(Some).at_key(&self.key)
            })
            .collect();
        let flat: Vec<Range<u64>> = parts.iter().flatten().flatten().flatten().cloned().collect();
        let (tet, max_bytes) = (self.pack.tet(), self.pack.max_bytes());
        let mut answers = self.values.read_many(tet, &flat, max_bytes).await.into_iter();
        let answer = |parts: Result<Option<Vec<Range<u64>>>>| {
            let Some(parts) = parts? else { return Ok(None) };
            let pieces: Vec<_> = answers.by_ref().take(parts.len()).collect();
            pieces.into_iter().collect::<Result<Vec<_>>>().map(Some).at_key(&self.key)
        };
        parts.into_iter().map(answer).collect()
    }

    /// Returns the lengths of the payloads at `coords`.
    pub(crate) async fn sizes(
        &self,
        coords: impl IntoIterator<Item = &[i64]>,
    ) -> Vec<Result<Option<u64>>> {
        let size = |span: Result<Option<Range<u64>>>| Ok(span?.map(|span| length(&span)));
        self.spans(coords).await.into_iter().map(size).collect()
    }

    /// Returns the coordinates of all cells.
    pub(crate) async fn keys(&self) -> Result<Vec<ChunkKey>> {
        let bytes = self.table().await?;
        let table = self.parse_table(&bytes)?;
        let mut keys = Vec::with_capacity(table.len());
        for cell in table.iter() {
            let coords: Vec<i64> = cell.at_key(&self.key)?.coords().collect();
            keys.push(ChunkKey::new(&coords).at_key(&self.key)?);
        }
        Ok(keys)
    }

    /// Returns the spans of the payloads at `coords` within the values.
    async fn spans(
        &self,
        coords: impl IntoIterator<Item = &[i64]>,
    ) -> Vec<Result<Option<Range<u64>>>> {
        let bytes = self.table().await;
        let table = bytes.as_ref().map_err(Clone::clone).and_then(|bytes| self.parse_table(bytes));
        let span = |coords: &[i64]| {
            let table = table.as_ref().map_err(Clone::clone)?;
            let Some(cell) = table.find(coords).at_key(&self.key)? else { return Ok(None) };
            let at = |row: u64| row.checked_mul(self.row_len);
            let end = cell.first().checked_add(cell.count()).and_then(at);
            let span = at(cell.first()).zip(end).map(|(start, end)| start..end);
            span.map(Some).ok_or_else(too_many_bytes_error).at_key(&self.key)
        };
        coords.into_iter().map(span).collect()
    }

    fn parse_table<'b>(&self, bytes: &'b Bytes) -> Result<CellTable<'b>> {
        CellTable::parse(bytes, self.rank, self.rows).at_key(&self.key)
    }

    /// Returns the table of cells, without a copy if it is resident, otherwise read once.
    async fn table(&self) -> Result<Bytes> {
        let (tet, all) = (self.pack.tet(), 0..self.cells.len());
        if let Some(bytes) = self.cells.resident_bytes(tet, &all) {
            return Ok(bytes);
        }
        let max_bytes = self.pack.max_bytes();
        let read = || async {
            if all.end > max_bytes {
                return Err(Error::limit("bytes of a table of cells", max_bytes, all.end));
            }
            self.cells.read(tet, all.clone(), max_bytes).await
        };
        self.table.get_or_try_init(read).await.cloned().at_key(&self.key)
    }
}

/// The items of one packed array.
#[derive(Debug)]
pub(crate) struct PackedDense {
    pack: Pack,
    key: Key,
    values: Option<Strip>, // none where chunks split other axes than the first
}

impl PackedDense {
    /// Opens the items of the array at `key` over `grid`.
    pub(crate) fn open(pack: &Pack, key: &Key, grid: &Grid) -> Result<Self> {
        // No pack has more bytes than 64 bits can count.
        let expected = super::grid::count_bytes(&grid.shape, grid.width).unwrap_or(u64::MAX);
        let found = pack.array(key, |array| {
            let bytes = array.geometry().byte_len();
            let by_bytes = array.geometry().rank() == 1;
            if bytes != expected || (!by_bytes && array.rows() != grid.rows()) {
                let what = "bytes of a packed array";
                return Err(Error::new(Class::CountMismatch, what, expected, bytes));
            }
            let id = array.values().id();
            let dataset = pack.tet().datasets().get(usize_from_u32(id));
            dataset.map_or(Ok(None), |dataset| Strip::open(pack.tet(), dataset))
        })?;
        let values = match found {
            Some(values) => values,
            None if expected == 0 => Some(Strip::EMPTY),
            None => return Err(Error::missing(key, "the documents have this array")),
        };
        Ok(Self { pack: pack.clone(), key: key.clone(), values })
    }

    /// Returns the rows `range` of the array, which take `bytes` bytes.
    pub(crate) async fn rows(&self, range: &Range<u64>, bytes: u64) -> Result<Bytes> {
        if bytes == 0 {
            return Ok(Bytes::new());
        }
        let (tet, max_bytes) = (self.pack.tet(), self.pack.max_bytes());
        let read = async {
            let Some(values) = &self.values else {
                let Some(dataset) = self.pack.values(&self.key) else {
                    return Err(Error::missing(&self.key, "the pack has this array"));
                };
                let mut axes: Vec<AxisSlice> =
                    dataset.shape().iter().map(|&extent| AxisSlice::all(extent)).collect();
                if let Some(first) = axes.first_mut() {
                    *first = AxisSlice { start: range.start, stop: range.end, step: 1 };
                }
                return tet.read(dataset, &axes, max_bytes).await;
            };
            // The size of all rows was computed, and the range is not empty.
            let row = range.end.checked_sub(range.start).and_then(|rows| bytes.checked_div(rows));
            let start = row.and_then(|row| range.start.checked_mul(row));
            let part = start.and_then(|start| Some(start..start.checked_add(bytes)?));
            values.read(tet, part.ok_or_else(too_many_bytes_error)?, max_bytes).await
        };
        read.await.at_key(&self.key)
    }
}

/// Returns the content of the small array at `key`; `None` if there is no such array.
pub(crate) async fn read_flat(pack: &Pack, key: &Key) -> Result<Option<Bytes>> {
    if !pack.has_node(key) {
        return Ok(None);
    }
    let Some(dataset) = pack.values(key) else { return Ok(Some(Bytes::new())) };
    let (tet, max_bytes) = (pack.tet(), pack.max_bytes());
    let read = async {
        match Strip::open(tet, dataset)? {
            Some(strip) if strip.len() <= max_bytes => {
                strip.read(tet, 0..strip.len(), max_bytes).await
            }
            _ => tet.read_all(dataset, max_bytes).await,
        }
    };
    read.await.map(Some).at_key(key)
}

fn strip(pack: &Pack, id: u32) -> Result<Strip> {
    let dataset = pack.tet().datasets().get(usize_from_u32(id));
    let strip = dataset.map_or(Ok(None), |dataset| Strip::open(pack.tet(), dataset))?;
    let rule = "one chunk, or several along the first axis";
    let (what, found) = ("chunks of a packed array", "several along another");
    strip.ok_or_else(|| Error::new(Class::BadShape, what, rule, found))
}

/// Returns the error for rows whose size overflows 64 bits.
fn too_many_bytes_error() -> Error {
    let most = Expected::AtMost(u64::MAX.into());
    Error::new(Class::OutOfBounds, "bytes of packed rows", most, "more")
}

/// Returns a row number as coordinates.
pub(crate) fn coordinate(place: u64) -> [i64; 1] {
    [i64::try_from(place).unwrap_or(i64::MAX)] // no table holds that one
}
