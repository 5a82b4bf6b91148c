//! The flat form of 0.6 and 0.7: one blob of records that contain the chunks of their endpoints.
//!
//! The blob is read once, and its records are grouped by their chunks, so that they can be
//! requested like the cells of other versions. Each record keeps its row number.

use std::collections::BTreeMap;

use zvf_error::Result;
use zvf_format::key::ChunkKey;
use zvf_format::link::FlatLinks;
use zvf_format::num::to_u64;

use super::records::LinkRecords;

/// The records of one blob, by their chunks, in numeric order.
#[derive(Debug)]
pub(super) struct Blob {
    pub(super) cells: Vec<LinkRecords>,
}

impl Blob {
    pub(super) fn new(bytes: &[u8], width: usize, rank: usize) -> Result<Self> {
        let links = FlatLinks::parse(bytes, width, rank)?;
        let mut cells: BTreeMap<Vec<i64>, (LinkRecords, Vec<u64>)> = BTreeMap::new();
        for (at, record) in links.records().enumerate() {
            let (chunks, rows): (Vec<ChunkKey>, Vec<u64>) = record.endpoints().unzip();
            let components = chunks.iter().flat_map(|chunk| chunk.components()).copied().collect();
            let cell = cells.entry(components);
            let (records, stored) =
                cell.or_insert_with(|| (LinkRecords::new(&chunks, width), Vec::new()));
            records.push_rows(&rows);
            stored.push(to_u64(at));
        }
        let cells = cells.into_values().map(|(records, stored)| records.with_stored_rows(stored));
        Ok(Self { cells: cells.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_between_the_same_chunks_are_together() {
        let records = [[0_i64, 2, 1, 0], [5, 1, 0, 0], [0, 3, 1, 4]];
        let bytes: Vec<u8> = records.iter().flatten().flat_map(|n| n.to_le_bytes()).collect();
        let blob = Blob::new(&bytes, 2, 1).unwrap();
        let found: Vec<_> = blob
            .cells
            .iter()
            .flat_map(|cell| (0..cell.len()).map(move |i| (cell, i)))
            .map(|(cell, i)| {
                let ends: Vec<_> = cell.endpoints(i).map(|(c, row)| format!("{c}/{row}")).collect();
                (cell.stored_row(i), ends.join(" "))
            })
            .collect();
        let expected = [(0, "0/2 1/0"), (2, "0/3 1/4"), (1, "5/1 0/0")];
        assert_eq!(found, expected.map(|(row, ends)| (row, ends.to_owned())));
        assert!(Blob::new(&bytes[..40], 2, 1).is_err());
    }
}
