//! Records of one cell: the rows and chunks that each joins.

use zvf_format::key::ChunkKey;
use zvf_format::link::{LinkCell, LinkRecord};
use zvf_format::num::to_u64;

/// The records of one cell, with endpoints in the order of the writer's input.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// # let level = zvf_model::LevelReader::open(&store, zvf_model::LevelId(0)).await?;
/// let links = level.links(zvf_format::key::Delta::SAME).await?.expect("the level has links");
/// let records = links.segments()[1].read(&[0], zvf_store::Caching::Once).await.remove(0)?;
/// assert_eq!((records.len(), records.width(), records.stored_row(0)), (1, 2, 0));
/// assert_eq!(records.ends(0).collect::<Vec<_>>(), [(0, 0), (1, 1)]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkRecords {
    chunks: Box<[ChunkKey]>,  // one a place
    width: usize,             // endpoints of a record, not 0
    rows: Vec<u64>,           // `width` a record
    places: Option<Vec<u8>>,  // likewise, places in `chunks`; `None` where endpoint k is at place k
    stored: Option<Vec<u64>>, // one a record; `None` where record i is row i
    duplicated: bool,
}

impl LinkRecords {
    /// Creates an empty list of records between `chunks`.
    pub(super) fn new(chunks: &[ChunkKey], width: usize) -> Self {
        let (rows, chunks) = (Vec::new(), chunks.into());
        Self { chunks, width, rows, places: None, stored: None, duplicated: false }
    }

    /// Returns the same list for a family in which records are stored once per chunk.
    pub(super) fn with_duplicated(self, duplicated: bool) -> Self {
        Self { duplicated, ..self }
    }

    /// Reserves memory for exactly `more` records: the bytes of a cell determine their number.
    pub(super) fn reserve(&mut self, more: usize) {
        self.rows.reserve_exact(more * self.width); // records that are in memory
        if let Some(places) = &mut self.places {
            places.reserve_exact(more * self.width);
        }
    }

    /// Adds all records of a cell.
    pub(super) fn push_cell(&mut self, cell: &LinkCell<'_>) {
        self.reserve(cell.len());
        if self.places.is_some() || !cell.add_plain_rows(&mut self.rows) {
            cell.records().for_each(|record| self.push(&record));
        }
    }

    /// Adds a stored record.
    pub(super) fn push(&mut self, record: &LinkRecord) {
        let identity = record.iter_in_input_order().enumerate().all(|(i, (place, _))| i == place);
        if identity && self.places.is_none() {
            self.rows.extend_from_slice(record.rows());
        } else {
            self.push_ends(record.iter_in_input_order());
        }
    }

    /// Adds a record by rows, with endpoint k in chunk k.
    pub(super) fn push_rows(&mut self, rows: &[u64]) {
        self.rows.extend_from_slice(rows);
    }

    /// Adds a record by the chunk number and row of each endpoint.
    pub(super) fn push_ends(&mut self, ends: impl Iterator<Item = (usize, u64)>) {
        let width = self.width;
        let (before, room) = (self.rows.len(), self.rows.capacity());
        let places = self.places.get_or_insert_with(|| {
            let record_places = (0..width).map(|place| u8::try_from(place).unwrap_or(u8::MAX)); // below 8
            let mut all = Vec::with_capacity(room);
            all.extend(record_places.cycle().take(before));
            all
        });
        for (place, row) in ends {
            places.push(u8::try_from(place).unwrap_or(u8::MAX)); // below 8
            self.rows.push(row);
        }
    }

    /// Sets the rows in which the records are stored.
    pub(super) fn with_stored_rows(self, rows: Vec<u64>) -> Self {
        Self { stored: Some(rows), ..self }
    }

    /// Returns how many records there are.
    pub fn len(&self) -> usize {
        self.rows.len() / self.width
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the number of endpoints per record.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the chunks that the records join. The first is the source.
    pub fn chunks(&self) -> &[ChunkKey] {
        &self.chunks
    }

    /// Returns the endpoints of record `i` in input order: the index of each in
    /// [`chunks`](Self::chunks), and its row there; empty past the end.
    pub fn ends(&self, i: usize) -> impl Iterator<Item = (usize, u64)> + '_ {
        let start = i.saturating_mul(self.width); // past the end of any rows
        let span = start..start.saturating_add(self.width);
        let rows = self.rows.get(span.clone()).unwrap_or_default();
        let places = self.places.as_ref().and_then(|places| places.get(span));
        rows.iter().enumerate().map(move |(end, row)| {
            let place = places.and_then(|places| places.get(end)).map(|place| usize::from(*place));
            (place.unwrap_or(end), *row)
        })
    }

    /// Returns the endpoints of record `i` in input order: chunks and rows; empty past the end.
    pub fn endpoints(&self, i: usize) -> impl Iterator<Item = (&ChunkKey, u64)> + '_ {
        self.ends(i).filter_map(|(place, row)| Some((self.chunks.get(place)?, row)))
    }

    /// Returns the row in which record `i` is stored, counted within the cell, or within the whole
    /// blob in the flat form of 0.6 and 0.7. It locates the attributes.
    pub fn stored_row(&self, i: usize) -> u64 {
        match &self.stored {
            Some(stored) => stored.get(i).copied().unwrap_or(u64::MAX), // a record past the end has no row
            None => to_u64(i),
        }
    }

    /// Returns whether record `i` is the copy that counts: in a duplicated family, the one led by
    /// the smallest endpoint; otherwise always.
    pub fn is_leading(&self, i: usize) -> bool {
        if !self.duplicated || self.chunks.windows(2).all(|two| two.first() == two.last()) {
            return true;
        }
        let lead = self.ends(i).find(|(place, _)| *place == 0).map(|(_, row)| row);
        let Some((source, lead)) = self.chunks.first().zip(lead) else { return true };
        self.endpoints(i).all(|(chunk, row)| source.cmp_numeric(chunk).then(lead.cmp(&row)).is_le())
    }
}

#[cfg(test)]
mod tests {
    use zvf_format::link::Permutation;

    use super::*;

    fn key(x: i64) -> ChunkKey {
        ChunkKey::new(&[x]).unwrap()
    }

    #[test]
    fn endpoints_keep_their_order() {
        let mut records = LinkRecords::new(&[key(0), key(5)], 2);
        records.push(&LinkRecord::new(&[1, 2], None).unwrap());
        let swapped = Permutation::new(&[1, 0]).unwrap();
        records.push(&LinkRecord::new(&[3, 4], Some(swapped)).unwrap());
        records.push(&LinkRecord::new(&[7, 8], None).unwrap());
        let ends =
            |i| records.endpoints(i).map(|(c, row)| (c.to_string(), row)).collect::<Vec<_>>();
        assert_eq!(ends(0), [("0".to_owned(), 1), ("5".to_owned(), 2)]);
        assert_eq!(ends(1), [("5".to_owned(), 4), ("0".to_owned(), 3)]);
        assert_eq!(ends(2), [("0".to_owned(), 7), ("5".to_owned(), 8)]);
        assert_eq!((records.len(), ends(3).len(), records.stored_row(2)), (3, 0, 2));
        assert_eq!(records.with_stored_rows(vec![9, 4, 6]).stored_row(1), 4);
    }

    #[test]
    fn a_single_copy_leads() {
        let swapped = Some(Permutation::new(&[1, 0]).unwrap());
        for (chunks, rows, order, leads) in [
            ([0, 5], [9, 1], None, true),
            ([0, 5], [9, 1], swapped, true),
            ([5, 0], [1, 9], None, false),
            ([5, 0], [1, 9], swapped, false),
            ([5, 5], [9, 1], None, true), // both ends in the same chunk: stored once, in order
        ] {
            let mut records = LinkRecords::new(&chunks.map(key), 2).with_duplicated(true);
            records.push(&LinkRecord::new(&rows, order).unwrap());
            assert_eq!(records.is_leading(0), leads, "{chunks:?} {rows:?}");
            assert!(records.with_duplicated(false).is_leading(0));
        }
    }
}
