//! The records of a family of links during an edit, by number. Each is held in few bytes.

use std::ops::{Index, IndexMut, Range};

use rustc_hash::FxHashMap;
use zvf_format::num::{index_u32, usize_from_u32};

use crate::arrays::Chunk;
use crate::numbers::{NONE, Vid};

/// One end of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A vertex of level 0.
    Vertex(Vid),
    /// A row of another level, or one whose new number is known.
    Row(Box<(Chunk, u64)>),
    /// A row that was removed.
    Removed,
}

impl End {
    pub(crate) fn row(chunk: &Chunk, row: u64) -> Self {
        Self::Row(Box::new((chunk.clone(), row)))
    }
}

/// One link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// The index of its first end.
    first: u32,
    /// The number of its cell, and its row there; the cell is `NONE` for a new link.
    pub(crate) cell: (u32, u32),
    pub(crate) alive: bool,
    pub(crate) changed: bool,
}

impl Record {
    /// Returns whether it was added, removed or changed.
    pub(crate) fn is_changed(&self) -> bool {
        if self.cell.0 == NONE { self.alive } else { !self.alive || self.changed }
    }
}

/// Records by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    list: Vec<Record>,
    ends: Vec<End>,
    /// Of each end, the one before it that was added at the same vertex, `NONE` at the first.
    before: Vec<u32>,
    /// The last end that was added at each vertex.
    last: FxHashMap<Vid, u32>,
    /// The bytes of a row of each column, and the rows of all records.
    pub(crate) columns: Vec<(usize, Vec<u8>)>,
}

impl Index<u32> for Records {
    type Output = Record;

    fn index(&self, number: u32) -> &Record {
        &self.list[usize_from_u32(number)]
    }
}

impl IndexMut<u32> for Records {
    fn index_mut(&mut self, number: u32) -> &mut Record {
        &mut self.list[usize_from_u32(number)]
    }
}

impl Records {
    /// Adds a record. Returns its number.
    pub(crate) fn push<'a>(
        &mut self,
        ends: impl IntoIterator<Item = End>,
        cell: (u32, u32),
        values: impl IntoIterator<Item = &'a [u8]>,
    ) -> u32 {
        let (number, first) = (index_u32(self.list.len()), index_u32(self.ends.len()));
        for end in ends {
            let at = index_u32(self.ends.len());
            self.before.push(match end {
                End::Vertex(v) => self.last.insert(v, at).unwrap_or(NONE),
                End::Row(_) | End::Removed => NONE,
            });
            self.ends.push(end);
        }
        for ((_, rows), value) in self.columns.iter_mut().zip(values) {
            rows.extend_from_slice(value);
        }
        self.list.push(Record { first, cell, alive: true, changed: cell.0 == NONE });
        number
    }

    /// Adds a column with this value in each record.
    pub(crate) fn add_column(&mut self, value: &[u8]) {
        self.columns.push((value.len(), value.repeat(self.list.len())));
    }

    /// Removes all records.
    pub(crate) fn clear(&mut self) {
        let columns = self.columns.iter().map(|(size, _)| (*size, Vec::new())).collect();
        *self = Self { columns, ..Self::default() };
    }

    /// Returns the numbers of all records.
    pub(crate) fn numbers(&self) -> Range<u32> {
        0..index_u32(self.list.len())
    }

    /// Returns the numbers of the records that are not removed.
    pub(crate) fn alive(&self) -> impl Iterator<Item = u32> {
        self.numbers().filter(|number| self[*number].alive)
    }

    fn span(&self, number: u32) -> Range<usize> {
        let next = self.list.get(usize_from_u32(number) + 1);
        let end = next.map_or(self.ends.len(), |next| usize_from_u32(next.first));
        usize_from_u32(self[number].first)..end
    }

    pub(crate) fn ends(&self, number: u32) -> &[End] {
        &self.ends[self.span(number)]
    }

    pub(crate) fn ends_mut(&mut self, number: u32) -> &mut [End] {
        let span = self.span(number);
        &mut self.ends[span]
    }

    /// Returns the ends of a record that are vertices of level 0.
    pub(crate) fn vertices(&self, number: u32) -> impl Iterator<Item = Vid> {
        let ends = self.ends(number).iter();
        ends.filter_map(|end| if let End::Vertex(v) = end { Some(*v) } else { None })
    }

    /// Returns the records that were added with an end at a vertex, and are not removed.
    pub(crate) fn at(&self, v: Vid) -> Vec<u32> {
        let mut found = Vec::new();
        let mut at = self.last.get(&v).copied().unwrap_or(NONE);
        while at != NONE {
            let number = index_u32(self.list.partition_point(|record| record.first <= at)) - 1;
            if self[number].alive && found.last() != Some(&number) {
                found.push(number);
            }
            at = self.before[usize_from_u32(at)];
        }
        found.reverse();
        found
    }

    /// Returns the value of a record in a column.
    pub(crate) fn value(&self, number: u32, column: usize) -> &[u8] {
        let (size, rows) = &self.columns[column];
        &rows[usize_from_u32(number) * size..][..*size]
    }

    /// Returns the values of a record in all columns.
    pub(crate) fn values(&self, number: u32) -> Vec<Vec<u8>> {
        (0..self.columns.len()).map(|column| self.value(number, column).to_vec()).collect()
    }

    pub(crate) fn set_value(&mut self, number: u32, column: usize, value: &[u8]) {
        let (size, rows) = &mut self.columns[column];
        rows[usize_from_u32(number) * *size..][..*size].copy_from_slice(value);
    }
}
