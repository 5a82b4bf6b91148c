//! Numbers of vertices, chunks, fragments and links during an edit, each in few bytes, and the
//! sentinel for none.

use std::collections::HashMap;
use std::ops::{Index, IndexMut, Range};

use rustc_hash::FxHashMap;
use zvf_format::Class;
use zvf_format::num::{index_u32, usize_from_u32};

use crate::arrays::Chunk;
use crate::error::{OrFail, Result};
use crate::memory::{HeldMemory, MemoryLimit};

/// The objects that name each fragment, by chunk and fragment number.
pub(crate) type FragmentOwners = HashMap<(u32, u32), Vec<u32>>;

/// The number of a vertex within its kind.
pub(crate) type Vid = u32;

/// A vertex during an edit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vertex {
    /// Its chunk and row before the edit; `NONE` for a new vertex.
    pub(crate) home: (u32, u32),
    /// Its chunk after the edit.
    pub(crate) chunk: u32,
    /// Its chunk and row in the rebuilt chunk, `NONE` before.
    pub(crate) place: (u32, u32),
    pub(crate) owner: u32,
    /// For skeletons: the parent.
    pub(crate) parent: Vid,
    pub(crate) alive: bool,
    /// Whether a fragment held it before the edit.
    pub(crate) existed: bool,
}

/// Bytes of a vertex without its position: the vertex, and its entries in a fragment, in a selection
/// and among changed vertices.
pub(crate) const VERTEX_BYTES: usize = size_of::<Vertex>() + 24;

/// The vertices of a kind by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vertices {
    pub(crate) list: Vec<Vertex>,
}

impl Index<Vid> for Vertices {
    type Output = Vertex;

    fn index(&self, v: Vid) -> &Vertex {
        &self.list[usize_from_u32(v)]
    }
}

impl IndexMut<Vid> for Vertices {
    fn index_mut(&mut self, v: Vid) -> &mut Vertex {
        &mut self.list[usize_from_u32(v)]
    }
}

/// The keys of chunks by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkKeys {
    pub(crate) list: Vec<Chunk>,
    numbers: HashMap<Chunk, u32>,
}

impl ChunkKeys {
    /// Finds the number of a chunk.
    pub(crate) fn find(&self, key: &[i64]) -> Option<u32> {
        self.numbers.get(key).copied()
    }

    /// Returns the number of a chunk, a new one for a new chunk.
    pub(crate) fn number(&mut self, key: &[i64]) -> u32 {
        if let Some(number) = self.numbers.get(key) {
            return *number;
        }
        let number = index_u32(self.list.len());
        self.list.push(key.to_vec());
        self.numbers.insert(key.to_vec(), number);
        number
    }
}

impl Index<u32> for ChunkKeys {
    type Output = Chunk;

    fn index(&self, number: u32) -> &Chunk {
        &self.list[usize_from_u32(number)]
    }
}

/// Lists of vertices, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct VertexLists {
    pub(crate) vertices: Vec<Vid>,
    /// The end of each list.
    ends: Vec<usize>,
}

impl Index<u32> for VertexLists {
    type Output = [Vid];

    fn index(&self, list: u32) -> &[Vid] {
        let list = usize_from_u32(list);
        let start = list.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.vertices[start..self.ends[list]]
    }
}

impl VertexLists {
    pub(crate) fn push(&mut self, list: impl IntoIterator<Item = Vid>) {
        self.vertices.extend(list);
        self.ends.push(self.vertices.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Finds the list that has a vertex.
    pub(crate) fn find(&self, v: Vid) -> Option<u32> {
        let at = self.vertices.iter().position(|listed| *listed == v)?;
        Some(index_u32(self.ends.partition_point(|end| *end <= at)))
    }

    pub(crate) fn get(&self, list: u32) -> Option<&[Vid]> {
        (usize_from_u32(list) < self.len()).then(|| &self[list])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[Vid]> {
        (0..index_u32(self.len())).map(|list| &self[list])
    }
}

/// The new number of a fragment of an object that is not changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FragmentNumber {
    pub(crate) object: u32,
    pub(crate) chunk: u32,
    pub(crate) old: u32,
    pub(crate) new: u32,
}

/// The fragments that get another number. They are many.
pub(crate) type FragmentNumbers = Vec<FragmentNumber>;

/// Bytes of a record and its cell, without its ends and values.
const RECORD_BYTES: usize = size_of::<Record>() + 16;
/// Bytes of an end, with its entries in the lists of ends at a vertex.
const END_BYTES: usize = size_of::<End>() + 20;

/// The sentinel for no vertex, chunk, object or row.
pub(crate) const NONE: u32 = u32::MAX;

/// Returns the number of the next vertex after `count` others.
///
/// # Errors
///
/// When the numbers are used up: [`NONE`] is not a number of a vertex.
pub(crate) fn vertex_number(count: usize) -> Result<Vid> {
    let number = u32::try_from(count).ok().filter(|number| *number != NONE);
    number.or_fail(Class::LimitExceeded, || {
        let parts = "edit parts of the store one after the other";
        format!("expected an edit of fewer than {NONE} vertices, found more; {parts}")
    })
}

/// Maximum number of fragments of an object, as a range can name 2^62 of them in a few bytes.
pub(crate) const MAX_OBJECT_REFERENCES: u64 = 100_000_000;

/// One end of a record.
#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Debug)]
pub(crate) struct Records {
    list: Vec<Record>,
    ends: Vec<End>,
    /// Of each end, the one before it that was added at the same vertex, `NONE` at the first.
    before: Vec<u32>,
    /// The last end that was added at each vertex.
    last: FxHashMap<Vid, u32>,
    /// The bytes of a row of each column, and the rows of all records.
    pub(crate) columns: Vec<(usize, Vec<u8>)>,
    held: HeldMemory,
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
    pub(crate) fn new(limit: &MemoryLimit) -> Self {
        Self {
            list: Vec::new(),
            ends: Vec::new(),
            before: Vec::new(),
            last: FxHashMap::default(),
            columns: Vec::new(),
            held: HeldMemory::new(limit),
        }
    }

    /// Adds a record. Returns its number.
    pub(crate) fn push<'a>(
        &mut self,
        ends: impl IntoIterator<Item = End>,
        cell: (u32, u32),
        values: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<u32> {
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
        let row: usize = self.columns.iter().map(|(size, _)| size).sum();
        let ends = self.ends.len() - usize_from_u32(first);
        self.held.add(RECORD_BYTES + row + ends * END_BYTES)?;
        Ok(number)
    }

    /// Adds a column with this value in each record.
    pub(crate) fn add_column(&mut self, value: &[u8]) {
        self.columns.push((value.len(), value.repeat(self.list.len())));
    }

    /// Removes all records.
    pub(crate) fn clear(&mut self) {
        let columns = self.columns.iter().map(|(size, _)| (*size, Vec::new())).collect();
        *self = Self { columns, ..Self::new(self.held.limit()) };
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

    /// Returns the record that joins a vertex of a tree to its parent.
    pub(crate) fn edge_above(&self, child: Vid) -> Option<u32> {
        let is_edge = |number: &u32| self.ends(*number)[0] == End::Vertex(child);
        self.at(child).into_iter().find(is_edge)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vertex_numbers_exclude_none() {
        assert_eq!(vertex_number(4_294_967_294), Ok(4_294_967_294));
        for count in [4_294_967_295, 4_294_967_296, 4_294_967_299] {
            let class = vertex_number(count).unwrap_err().class;
            assert_eq!(class, Class::LimitExceeded, "{count}");
        }
    }
}
