//! Vertices that a file or another store adds, alone or in objects. They get numbers only where an
//! operation follows.
//!
//! ```text
//! add       chunk, piece, position and values of each vertex, one after the other, in a file
//! number    an operation follows: the rows become vertices in this order
//! rebuild   none follows: they are sorted by chunk, and the chunks are rebuilt, few at a time
//! link      pieces of a chain that follow each other are linked, one cell after the other
//! ```
//!
//! The vertices of another store are sorted by object in the same way.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bytes::Bytes;
use zvf_format::num::{index_u32, usize_from_u32};
use zvf_model::Kind;

use crate::arrays::Chunk;
use crate::changes::{Changes, read_blob};
use crate::error::Result;
use crate::geometry::{Geometry, ObjectPiece};
use crate::journal::need_listed;
use crate::levels::list_coarser;
use crate::links::{LinkFamily, loose_end_error, moved_end};
use crate::new_rows::NewRows;
use crate::numbers::{End, FragmentNumbers, NONE, VERTEX_BYTES, Vid, vertex_number};
use crate::rebuild::{PieceVertices, RebuildResult, Tally};
use crate::row_pages::RowPages;

/// Bytes by a number, in the order in which they were added. Most of them lie in a scratch file.
#[derive(Default)]
pub(crate) struct SortedParts {
    held: BTreeMap<u32, Vec<u8>>,
    held_bytes: usize,
    parts: Changes<(u32, usize)>,
}

impl SortedParts {
    /// Adds bytes, which stay together.
    pub(crate) fn push(&mut self, number: u32, bytes: &[u8]) {
        self.held.entry(number).or_default().extend_from_slice(bytes);
        self.held_bytes += bytes.len();
        if self.held_bytes >= MAX_HELD_BYTES {
            self.write_out();
        }
    }

    fn write_out(&mut self) {
        self.held_bytes = 0;
        for (number, bytes) in std::mem::take(&mut self.held) {
            self.parts.insert((number, self.parts.keys.len()), Some(bytes.into()));
        }
    }

    /// Returns the numbers that have bytes, ascending.
    fn numbers(&mut self) -> BTreeSet<u32> {
        self.write_out();
        self.parts.keys.keys().map(|(number, _)| *number).collect()
    }

    /// Reads the bytes of a number in parts.
    pub(crate) fn read(&mut self, number: u32) -> impl Iterator<Item = Result<Bytes>> {
        self.write_out();
        let parts = self.parts.keys.range((number, 0)..=(number, usize::MAX));
        parts.map(|(_, part)| need_listed("sorted rows", read_blob(part)?))
    }
}

/// Returns the chunk and the piece of an added row.
fn read_head(row: &[u8]) -> (u32, u32) {
    let (numbers, _) = row.as_chunks();
    (u32::from_le_bytes(numbers[0]), u32::from_le_bytes(numbers[1]))
}

impl Geometry {
    /// Returns whether links follow from the pieces of objects, or there are none.
    pub(crate) fn is_sortable(&self) -> bool {
        let is_chain = matches!(self.kind, Kind::Polyline | Kind::Streamline);
        is_chain || self.kind == Kind::PointCloud && !self.links.is_stored()
    }

    /// Adds the vertices of a new object, or vertices without one, unless something else is edited:
    /// then they need numbers. Returns whether it added them.
    pub(crate) fn add_unnumbered(
        &mut self,
        object: u32,
        rows: &NewRows,
        line_starts: &[usize],
    ) -> Result<bool> {
        let is_edited = !self.vertex.list.is_empty()
            || self.columns.iter().any(|column| column.is_new)
            || self.fragment_columns.iter().any(|column| column.is_new);
        if is_edited || !self.is_sortable() {
            return Ok(false);
        }
        let (position, size) = (self.position_size(), HEAD_BYTES + self.row_size());
        let mut chunks = Vec::with_capacity(rows.count);
        for row in rows.iter() {
            let (chunk, _) = self.locate(&self.decode_position(&row[..position]))?;
            chunks.push(self.chunk_keys.number(&chunk));
        }
        let first = self.pieces.len();
        let mut pieces = vec![NONE; chunks.len()];
        if object != NONE && self.kind.is_chain() {
            for (at, chunk) in chunks.iter().enumerate() {
                let starts_line = at > 0 && line_starts.binary_search(&at).is_ok();
                if at == 0 || starts_line || chunks[at - 1] != *chunk {
                    self.pieces.push(ObjectPiece::new(object, *chunk, starts_line));
                }
                pieces[at] = index_u32(self.pieces.len() - 1);
            }
        } else if object != NONE {
            let mut sorted = chunks.clone();
            sorted.sort_unstable_by_key(|chunk| &self.chunk_keys[*chunk]);
            sorted.dedup();
            let all: HashMap<u32, u32> = sorted.iter().copied().zip(index_u32(first)..).collect();
            pieces = chunks.iter().map(|chunk| all[chunk]).collect();
            let piece = |chunk| ObjectPiece::new(object, chunk, false);
            self.pieces.extend(sorted.into_iter().map(piece));
        }
        self.held.add((self.pieces.len() - first) * PIECE_BYTES)?;
        let mut added = self.added.take().unwrap_or_else(|| RowPages::new(size));
        vertex_number(usize_from_u32(added.count()) + rows.count)?;
        for ((row, chunk), piece) in rows.iter().zip(chunks).zip(pieces) {
            added.push([chunk, piece].map(u32::to_le_bytes).as_flattened());
            added.push(row);
        }
        self.added = Some(added);
        Ok(true)
    }

    /// Adds vertices without an object. Returns them, unless they have no numbers yet.
    pub(crate) fn add_free(&mut self, rows: &NewRows) -> Result<Vec<Vid>> {
        let is_added = self.add_unnumbered(NONE, rows, &[])?;
        if is_added { Ok(Vec::new()) } else { self.add_rows(NONE, &rows.bytes) }
    }

    /// Returns the object of a piece, `NONE` for vertices without one.
    fn object_of(&self, piece: u32) -> u32 {
        self.pieces.get(usize_from_u32(piece)).map_or(NONE, |piece| piece.object)
    }

    /// Makes the added rows vertices.
    pub(crate) fn number_added(&mut self) -> Result<()> {
        let Some(added) = self.added.take() else { return Ok(()) };
        let divided = self.pieces.iter().filter(|piece| piece.starts_line);
        let divided: HashSet<u32> = divided.map(|piece| piece.object).collect();
        let (mut line, mut last) = (0, NONE);
        for n in 0..added.count() {
            let row = added.row(n)?;
            let (_, piece) = read_head(&row);
            let object = self.object_of(piece);
            let new = self.add_rows(object, &row[HEAD_BYTES..])?;
            if object == NONE {
                continue; // a point is all that it is
            }
            if piece != last && self.object_of(last) == object {
                line += u32::from(self.pieces[usize_from_u32(piece)].starts_line);
            } else if piece != last {
                line = 0;
            }
            last = piece;
            if divided.contains(&object) {
                self.line_of.extend(new.iter().map(|v| (*v, line)));
            }
            self.objects.know(object).vertices.extend(new);
        }
        self.pieces.clear();
        Ok(())
    }

    /// Rebuilds the chunks of added vertices, few at a time, so that only their vertices are in
    /// memory. Returns the fragments of other objects that got other numbers.
    pub(crate) fn rebuild_added(
        &mut self,
        result: &mut RebuildResult,
        tally: &mut Tally,
    ) -> Result<FragmentNumbers> {
        let mut numbers = FragmentNumbers::new();
        let Some(added) = self.added.take() else { return Ok(numbers) };
        let (mut sorted, mut row) = (SortedParts::default(), Vec::new());
        for n in 0..added.count() {
            row.clear();
            added.copy_row(n, &mut row)?;
            sorted.push(read_head(&row).0, &row);
        }
        drop(added);
        for piece in self.pieces.chunk_by(|a, b| a.object == b.object) {
            tally.added.insert(self.objects.id(piece[0].object));
        }
        let chunks = sorted.numbers();
        let keys: Vec<Chunk> = self.chunk_keys_of(&chunks).collect();
        self.extend_arrays(&keys)?;
        let keeps_moves = self.links.is_stored() || !list_coarser(&self.snap)?.is_empty();
        let size = HEAD_BYTES + self.row_size();
        let (mut batch, mut pieces) = (BTreeSet::new(), PieceVertices::new());
        for chunk in &chunks {
            for part in sorted.read(*chunk) {
                let part = part?;
                let rows: Vec<&[u8]> = part.chunks_exact(size).collect();
                for run in rows.chunk_by(|a, b| read_head(a) == read_head(b)) {
                    let (_, piece) = read_head(run[0]);
                    let mut rows = Vec::new();
                    run.iter().for_each(|row| rows.extend_from_slice(&row[HEAD_BYTES..]));
                    let new = self.add_rows(self.object_of(piece), &rows)?;
                    if piece != NONE {
                        pieces.entry(piece).or_default().extend(new);
                    }
                }
            }
            self.load_chunk(*chunk)?;
            batch.insert(*chunk);
            if self.is_batch_full() || chunks.last() == Some(chunk) {
                let batch = std::mem::take(&mut batch);
                let pieces = std::mem::take(&mut pieces);
                // The objects are new: no fragment that is stored is theirs.
                numbers.extend(self.rebuild_chunks(&batch, &BTreeSet::new(), &pieces, tally)?);
                for column in &mut self.fragment_columns {
                    // The rebuilt chunks have these values.
                    column.data.retain(|(chunk, _), _| !batch.contains(chunk));
                }
                self.extend_box(tally);
                for (chunk, key) in batch.iter().zip(self.chunk_keys_of(&batch)) {
                    if keeps_moves {
                        let rows = self.chunks[chunk].rows.clone();
                        let rows = rows.map(|v| self.vertex[v].place.1).collect();
                        result.moves.insert(key.clone(), rows);
                    }
                    result.chunks.insert(key);
                }
                self.forget_vertices();
            }
        }
        Ok(numbers)
    }

    /// Returns whether many vertices are loaded. Chunks without objects are rebuilt one by one.
    fn is_batch_full(&self) -> bool {
        !self.has_objects || self.vertex.list.len() >= MAX_BATCH_VERTICES
    }

    /// Forgets all vertices. Their changes are staged.
    pub(crate) fn forget_vertices(&mut self) {
        self.held.release(self.vertex.list.len() * (self.position_size() + VERTEX_BYTES));
        self.positions.clear();
        self.vertex.list.clear();
        self.free_changed.clear();
        self.chunks.clear();
        for column in &mut self.columns {
            column.data = RowPages::new(column.ty.size());
        }
    }

    /// Writes the links between the first `added` pieces, and the links of moved rows, few cells at a time.
    /// Links of rows that a vacuum removed are dropped.
    pub(crate) fn write_moved_links(
        &self,
        family: &mut LinkFamily,
        added: usize,
        rebuilt: &RebuildResult,
    ) -> Result<()> {
        let end =
            |piece: &ObjectPiece, row: u32| (self.chunk_keys[piece.chunk].clone(), u64::from(row));
        let pieces = &self.pieces[..added];
        let ends = |at: u32| {
            let [a, b] = [0, 1].map(|n| &pieces[usize_from_u32(at) + n]);
            [end(a, a.row + a.count - 1), end(b, b.row)]
        };
        let mut cells: BTreeMap<(String, Chunk), Vec<u32>> = BTreeMap::new();
        for cell in family.cells_naming(&rebuilt.chunks, &|_| true)? {
            cells.insert(cell, Vec::new());
        }
        for (at, pair) in (0_u32..).zip(pieces.windows(2)) {
            if self.kind.is_chain() && pair[0].object == pair[1].object && !pair[1].starts_line {
                let (cell, _) = family.placement(&ends(at))?;
                cells.entry(cell).or_default().push(at);
            }
        }
        let blank = family.blank_values();
        // A link may belong to another cell than its own, of another batch: then there is one.
        for most in [MAX_BATCH_LINKS, usize::MAX] {
            (family.written, family.has_strays) = ((0, 0), false); // it begins again
            for ((offsets, source), links) in &cells {
                family.load_cell(offsets, source, &|_| true, &mut |chunk, row| {
                    let end = moved_end(&self.path, &rebuilt.moves, chunk, row)?;
                    if matches!(end, End::Removed) && !pieces.is_empty() {
                        return Err(loose_end_error(&self.path));
                    }
                    Ok(end)
                })?;
                for at in links {
                    let ends = ends(*at).map(|(chunk, row)| End::row(&chunk, row));
                    family.records.push(ends, (NONE, 0), blank.iter().map(Vec::as_slice))?;
                }
                if family.records.numbers().len() >= most {
                    family.write_cells(&self.vertices, &|_| Ok(None))?;
                }
            }
            family.write_cells(&self.vertices, &|_| Ok(None))?;
            if !family.has_strays {
                break;
            }
        }
        Ok(())
    }

    /// Sorts the vertices of objects by the number of their object, and those without one by
    /// [`NONE`]. Nothing is edited, and all values are to be loaded.
    pub(crate) fn sort_by_object(&mut self) -> Result<SortedParts> {
        let (mut sorted, chunks) = (SortedParts::default(), self.all_chunks());
        let mut batch = Vec::new();
        for chunk in &chunks {
            self.load_chunk(*chunk)?;
            batch.push(*chunk);
            if !self.is_batch_full() && chunks.last() != Some(chunk) {
                continue;
            }
            let owners = self.owners_in(&batch.iter().copied().collect())?;
            for chunk in batch.drain(..) {
                let mut free = Vec::new();
                for (fragment, list) in (0_u32..).zip(self.chunks[&chunk].fragments.iter()) {
                    let Some(objects) = owners.get(&(chunk, fragment)) else {
                        free.extend(list);
                        continue;
                    };
                    let head = [chunk, fragment, index_u32(list.len())].map(u32::to_le_bytes);
                    let bytes = self.raw_rows(list, head.concat())?;
                    // An object may name a fragment several times.
                    let objects = objects.chunk_by(|a, b| a == b);
                    objects.for_each(|object| sorted.push(object[0], &bytes));
                }
                free.sort_unstable();
                sorted.push(NONE, &self.raw_rows(&free, Vec::new())?);
            }
            self.forget_vertices();
        }
        Ok(sorted)
    }

    /// Returns the rows of an object from sorted ones, and the indexes at which its other lines
    /// start.
    pub(crate) fn object_rows(
        &mut self,
        object: u32,
        sorted: &mut SortedParts,
    ) -> Result<(Vec<u8>, Vec<usize>)> {
        let (size, mut fragments) = (self.row_size(), HashMap::new());
        for part in sorted.read(object) {
            let mut part = part?;
            while !part.is_empty() {
                let (place, count) = (read_head(&part), read_head(&part[4..]).1);
                let rows = part.split_to(FRAGMENT_HEAD_BYTES + usize_from_u32(count) * size);
                fragments.insert(place, rows.slice(FRAGMENT_HEAD_BYTES..));
            }
        }
        let (lines, mut rows, mut starts) = (self.line_starts(object)?, Vec::new(), Vec::new());
        for (n, (chunk, fragment)) in self.ordered_references(object)?.into_iter().enumerate() {
            starts.extend(lines.contains(&n).then_some(rows.len() / size));
            let found = fragments.get(&(chunk, fragment));
            rows.extend_from_slice(found.ok_or_else(|| self.missing_fragment(chunk, fragment))?);
        }
        Ok((rows, starts))
    }

    /// Appends the positions and values of vertices to `out`.
    pub(crate) fn raw_rows(&self, vertices: &[Vid], mut out: Vec<u8>) -> Result<Vec<u8>> {
        for v in vertices {
            out.extend_from_slice(self.position_bytes(*v));
            self.columns.iter().try_for_each(|column| column.data.copy_row(*v, &mut out))?;
        }
        Ok(out)
    }
}

/// Bytes of a piece, with its fragment in a manifest and its link to the next piece.
const PIECE_BYTES: usize = size_of::<ObjectPiece>() + 64;
/// Bytes of the chunk and the piece in front of an added row.
const HEAD_BYTES: usize = 2 * size_of::<u32>();
/// Bytes of the chunk, the number and the rows of a fragment in front of its sorted rows.
const FRAGMENT_HEAD_BYTES: usize = 3 * size_of::<u32>();
/// Bytes of sorted rows that are held, about.
const MAX_HELD_BYTES: usize = 1 << 23;
/// Vertices that are loaded together, about.
const MAX_BATCH_VERTICES: usize = 1 << 16;
/// Links that are loaded together, about.
const MAX_BATCH_LINKS: usize = 1 << 14;
