//! The vertices and fragments of an edit by number, and the sentinel for none.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};

use zvf_format::Class;
use zvf_format::num::{index_u32, usize_from_u32};

use crate::arrays::Chunk;
use crate::error::{OrFail, Result};

/// The number of a vertex within its kind.
pub(crate) type Vid = u32;

/// A vertex during an edit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vertex {
    /// Its chunk and row before the edit; the chunk is `NONE` for a new vertex.
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

    pub(crate) fn get(&self, list: u32) -> Option<&[Vid]> {
        (usize_from_u32(list) < self.len()).then(|| &self[list])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[Vid]> {
        (0..index_u32(self.len())).map(|list| &self[list])
    }
}

/// The new number of a fragment of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FragmentNumber {
    pub(crate) object: u32,
    pub(crate) chunk: u32,
    /// The index of the piece in a changed object, `NONE` in another one.
    pub(crate) piece: u32,
    /// The old number in an object that is not changed.
    pub(crate) old: u32,
    pub(crate) new: u32,
}

/// The new numbers of fragments. They are many.
pub(crate) type FragmentNumbers = Vec<FragmentNumber>;

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
