//! Divides the input into slices that fit in memory.
//!
//! A slice is a number of pieces in reading order, starting at a position in one of the files; it
//! may continue in the next file. The sizes of the pieces are known from the first reading.

use serde::{Deserialize, Serialize};
use zvf_format::num::to_u64;
use zvf_model::flow::Piece;
use zvf_model::{Batch, Kind};
use zvf_write::SlicePlan;

/// The position of a slice.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SlicePlace {
    /// The file in which it begins.
    pub(crate) input: usize,
    /// Number of pieces of that file before it.
    pub(crate) skip: usize,
    /// Number of its pieces.
    pub(crate) pieces: usize,
}

/// Divides pieces into slices.
pub(super) struct Slicer {
    max_bytes: u64,
    bytes: u64, // of the slice
    total: u64,
    place: SlicePlace,
    slice: SlicePlan,
    slices: Vec<SlicePlan>,
}

impl Slicer {
    /// Creates a slicer for slices that fit in this much memory of a writer.
    pub(super) fn new(memory: u64) -> Self {
        let (place, slice) = (SlicePlace::default(), SlicePlan::default());
        Self { max_bytes: memory / 4, bytes: 0, total: 0, place, slice, slices: Vec::new() }
    }

    /// Counts the next piece.
    pub(super) fn add(&mut self, input: usize, number: usize, piece: &Piece) {
        let bytes = weight(piece);
        if self.place.pieces > 0 && self.bytes + bytes > self.max_bytes {
            self.cut();
        }
        if self.place.pieces == 0 {
            self.place = SlicePlace { input, skip: number, pieces: 0 };
        }
        self.place.pieces += 1;
        self.bytes += bytes;
        self.total += bytes;
        let slice = &mut self.slice;
        match piece {
            Piece::Vertices(batch) => {
                let element_count = batch.elements().map_or(0, zvf_model::Elements::len);
                slice.vertices += to_u64(batch.len());
                slice.elements += to_u64(element_count);
                slice.lines += lines(batch);
                if batch.parts().is_empty() && batch.vertex_objects().is_none() {
                    // The writer refuses more edges than a tree has; other kinds have no trees.
                    slice.trees += to_u64(batch.len().saturating_sub(element_count));
                }
            }
            Piece::Elements { rows, .. } => {
                slice.elements += to_u64(rows.len());
            }
            Piece::Objects { .. } | Piece::Groups { .. } => {}
        }
    }

    /// Returns whether there is more than one slice so far.
    pub(super) fn is_cut(&self) -> bool {
        !self.slices.is_empty()
    }

    /// Returns the bytes of all pieces so far.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// Returns all slices.
    pub(super) fn finish(mut self) -> Vec<SlicePlan> {
        if self.place.pieces > 0 {
            self.cut();
        }
        self.slices
    }

    fn cut(&mut self) {
        let mut slice = std::mem::take(&mut self.slice);
        let SlicePlace { input, skip, pieces } = std::mem::take(&mut self.place);
        slice.source = serde_json::json!({"input": input, "skip": skip, "pieces": pieces});
        self.slices.push(slice);
        self.bytes = 0;
    }
}

/// Returns the bytes that a piece takes while it is routed.
fn weight(piece: &Piece) -> u64 {
    let columns = |fields: &[zvf_model::Field]| {
        fields.iter().map(|f| to_u64(f.column.bytes().len())).sum::<u64>()
    };
    match piece {
        Piece::Vertices(batch) => {
            let elements = batch.elements();
            let ends = elements.map_or(0, |e| to_u64(e.rows().len()) * 16);
            let attributes = elements.map_or(0, |e| columns(e.fields()));
            let vertex_bytes = to_u64(batch.len()) * BESIDE + columns(batch.fields());
            ((vertex_bytes + to_u64(batch.positions().bytes().len())) + ends) + attributes
        }
        Piece::Elements { rows, fields } => to_u64(rows.bytes().len()) * 2 + columns(fields),
        Piece::Objects { ids, fields } => to_u64(ids.len()) * 24 + columns(fields) * 2,
        Piece::Groups { groups, fields } => {
            let members = groups.iter().map(|group| to_u64(group.members.len()) * 8);
            members.sum::<u64>() + columns(fields)
        }
    }
}

/// Counts the lines of a batch, as they are numbered without ids.
fn lines(batch: &Batch) -> u64 {
    if batch.kind() != Kind::Line {
        return 0;
    }
    match batch.vertex_objects() {
        _ if !batch.parts().is_empty() => to_u64(batch.parts().iter().count()),
        Some(objects) => to_u64(objects.chunk_by(|a, b| a == b).count()),
        None => to_u64(batch.len()) / 2,
    }
}

/// Bytes per vertex besides its columns: its group, its number, its location.
const BESIDE: u64 = 28;
