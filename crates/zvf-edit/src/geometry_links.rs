//! Loads the links of one kind of a store.

use std::collections::BTreeSet;
use std::rc::Rc;

use zvf_format::num;
use zvf_model::Kind;

use crate::arrays::Chunk;
use crate::error::Result;
use crate::geometry::Geometry;
use crate::links::{End, missing_row_error};
use crate::numbers::Vid;

impl Geometry {
    /// Loads the links with an end in one of the chunks.
    pub(crate) fn load_links(&mut self, chunks: &[u32]) -> Result<()> {
        if self.kind == Kind::Line {
            return Ok(()); // recreated from the objects
        }
        let Some(mut family) = self.links.take() else { return Ok(()) };
        let keys: BTreeSet<Chunk> = chunks
            .iter()
            .map(|chunk| self.chunk_keys[num::usize_from_u32(*chunk)].clone())
            .collect();
        let snap = Rc::clone(&self.snap);
        let before = family.records.len();
        let loaded = family.load_cells_naming(&snap, &keys, &|_| true, &mut |chunk, row| {
            self.vertex_at(chunk, row).map(End::Vertex)
        });
        let fresh = before..family.records.len();
        if self.kind == Kind::Skeleton {
            for number in fresh {
                let ends: Vec<Vid> = family.records[number].vertices().collect();
                if ends.len() == 2 {
                    let (child, parent) = match family.policy.is_directed() {
                        true => self.order_child_first(ends[0], ends[1]),
                        false => (ends[0], ends[1]),
                    };
                    family.records[number].ends = vec![End::Vertex(child), End::Vertex(parent)];
                    self.parent[num::usize_from_u32(child)] = parent;
                }
            }
        }
        self.links = Some(family);
        loaded
    }

    /// Loads all links.
    pub(crate) fn load_all_links(&mut self) -> Result<()> {
        let chunks = self.all_chunks();
        self.load_links(&chunks)
    }

    /// Orders the ends of an edge, as directed families store them in either order: the child is the first row of a fragment.
    fn order_child_first(&self, a: Vid, b: Vid) -> (Vid, Vid) {
        let is_first = |v: Vid| {
            let (chunk, _) = self.home[num::usize_from_u32(v)];
            self.chunks
                .get(&chunk)
                .is_some_and(|state| state.fragments.iter().any(|list| list.first() == Some(&v)))
        };
        if is_first(b) && !is_first(a) { (b, a) } else { (a, b) }
    }

    /// Returns the vertex of a row of a chunk.
    pub(crate) fn vertex_at(&mut self, chunk: &[i64], row: u64) -> Result<Vid> {
        let number = self.chunk_number(chunk);
        self.load_chunk(number)?;
        let rows = &self.chunks[&number].rows;
        let found = num::checked_usize(row).and_then(|row| rows.get(row)).copied();
        found.ok_or_else(|| missing_row_error(&self.path, chunk, row, rows.len()))
    }
}
