//! Tables of keys that several arrays share: arrays of one level mostly list the same chunks.
//!
//! A table of 10^5 keys takes megabytes and milliseconds. Comparing two lists takes a fraction of
//! that, and a list that is valid for the grid of one array is valid for the same grid of another.

use std::sync::{Arc, Mutex, Weak};

use zvf_error::Result;
use zvf_format::grid::Grid;
use zvf_metadata::KeyList;

use super::table::KeyTable;
use crate::sync::lock;

/// The tables of long lists in use.
#[derive(Debug, Default)]
pub(crate) struct SharedTables(Mutex<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    keys: KeyList,
    grid: Grid,
    table: Weak<KeyTable>,
}

impl SharedTables {
    /// Returns the table of `keys` for an array with this grid: that of another array, or the
    /// result of `parse`.
    pub(crate) fn find_or_parse(
        &self,
        keys: &KeyList,
        grid: &Grid,
        parse: impl FnOnce() -> Result<Arc<KeyTable>>,
    ) -> Result<Arc<KeyTable>> {
        if keys.len() < MIN_SHARED_KEYS {
            return parse();
        }
        // Concurrent callers with the same list wait for it.
        let mut entries = lock(&self.0);
        entries.retain(|entry| entry.table.strong_count() > 0);
        let same = |entry: &&Entry| {
            entry.grid == *grid && entry.keys.len() == keys.len() && entry.keys == *keys
        };
        if let Some(table) = entries.iter().find(same).and_then(|entry| entry.table.upgrade()) {
            return Ok(table);
        }
        let table = parse()?;
        if entries.len() < MAX_TABLES {
            let (keys, table) = (keys.clone(), Arc::downgrade(&table));
            entries.push(Entry { keys, grid: *grid, table });
        }
        Ok(table)
    }
}

/// Shorter lists are parsed fast enough.
const MIN_SHARED_KEYS: usize = 1000;
/// Number of lists that are compared with a new one.
const MAX_TABLES: usize = 16;

#[cfg(test)]
mod tests {
    use zvf_format::key::ChunkKey;

    use super::*;

    fn parse(keys: &KeyList) -> Result<Arc<KeyTable>> {
        let keys = keys.iter().map(|key| key.parse::<ChunkKey>().unwrap());
        Ok(Arc::new(KeyTable::new(1, keys)?))
    }

    #[test]
    fn equal_lists_share_a_table_while_it_is_used() {
        let list = |n: usize| (0..n).map(|key| key.to_string()).collect::<KeyList>();
        let (tables, long_list) = (SharedTables::default(), list(MIN_SHARED_KEYS));
        let find = |keys: &KeyList, origin, cells| {
            let grid = Grid::new(&[origin], &[cells]).unwrap();
            tables.find_or_parse(keys, &grid, || parse(keys)).unwrap()
        };
        let first = find(&long_list, 0, 2000);
        assert_eq!(first.len(), MIN_SHARED_KEYS);
        assert!(Arc::ptr_eq(&first, &find(&list(MIN_SHARED_KEYS), 0, 2000)));
        for (keys, origin, grid) in
            [(&list(MIN_SHARED_KEYS + 1), 0, 2000), (&long_list, 1, 2000), (&long_list, 0, 1999)]
        {
            assert!(!Arc::ptr_eq(&first, &find(keys, origin, grid)));
        }
        let short_list = list(3);
        assert!(!Arc::ptr_eq(&find(&short_list, 0, 9), &find(&short_list, 0, 9)));
        drop(first);
        let is_parsed = std::cell::Cell::new(false);
        let grid = Grid::new(&[0], &[2000]).unwrap();
        let table = tables.find_or_parse(&long_list, &grid, || {
            is_parsed.set(true);
            parse(&long_list)
        });
        assert!(is_parsed.get() && table.is_ok());
    }
}
