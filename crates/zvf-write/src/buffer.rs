//! Routed rows until the end: in memory, and beyond the setting in the scratch folder.
//!
//! Not here: what is in a spilled file (`spill`).

use crate::WriteError;
use crate::chunks::ChunkTable;
use crate::num::{place, to_u32};
use crate::run::{Piece, Run};
use crate::spill::{Scratch, Spill};

/// All rows given so far.
#[derive(Debug)]
pub(crate) struct Buffer {
    spills: Vec<Spill>,
    runs: Vec<Run>,
    bytes: u64, // of the runs
    memory: u64,
    scratch: Scratch,
    by_chunk: Vec<Vec<(u32, u32)>>, // once sealed: for each chunk, runs and segments
}

impl Buffer {
    /// Nothing yet; at most about `memory` bytes are held.
    pub(crate) fn new(memory: u64, scratch: Scratch) -> Self {
        let (spills, runs) = (Vec::new(), Vec::new());
        Self { spills, runs, bytes: 0, memory, scratch, by_chunk: Vec::new() }
    }

    /// Takes one more batch.
    pub(crate) fn push(&mut self, run: Run, table: &ChunkTable) -> Result<(), WriteError> {
        self.bytes = self.bytes.saturating_add(run.bytes());
        self.runs.push(run);
        if self.bytes > self.memory {
            self.spill(table)?;
        }
        Ok(())
    }

    /// How many bytes were put aside.
    pub(crate) fn spilled(&self) -> u64 {
        self.spills.iter().map(Spill::bytes).fold(0, u64::saturating_add)
    }

    /// No more batches come: the pieces of each chunk can be asked for.
    pub(crate) fn seal(&mut self, table: &ChunkTable) -> Result<(), WriteError> {
        if !self.spills.is_empty() {
            return self.spill(table);
        }
        self.by_chunk = index(&self.runs, table);
        Ok(())
    }

    /// The rows of a chunk, in the order given.
    pub(crate) fn chunk(&self, chunk: u32) -> Result<Held<'_>, WriteError> {
        let spilled = self.spills.iter().filter_map(|spill| spill.load(chunk).transpose());
        let loaded = spilled.collect::<Result<Vec<_>, _>>()?;
        let places = self.by_chunk.get(place(chunk)).map_or(&[][..], Vec::as_slice);
        Ok(Held { loaded, runs: &self.runs, places })
    }

    fn spill(&mut self, table: &ChunkTable) -> Result<(), WriteError> {
        let runs = std::mem::take(&mut self.runs);
        self.bytes = 0;
        if runs.is_empty() {
            return Ok(());
        }
        let by_chunk = index(&runs, table);
        self.spills.push(self.scratch.spill(&runs, &by_chunk)?);
        Ok(())
    }
}

/// The rows of one chunk.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    loaded: Vec<Run>, // of one segment each
    runs: &'a [Run],
    places: &'a [(u32, u32)],
}

impl Held<'_> {
    /// Its pieces, in the order given.
    pub(crate) fn pieces(&self) -> Vec<Piece<'_>> {
        pieces(self.loaded.iter(), self.runs, self.places)
    }
}

/// The pieces of a chunk.
pub(crate) fn pieces<'a>(
    loaded: impl Iterator<Item = &'a Run>,
    runs: &'a [Run],
    places: &'a [(u32, u32)],
) -> Vec<Piece<'a>> {
    let held = places
        .iter()
        .filter_map(|(run, segment)| runs.get(place(*run)).map(|run| run.piece(place(*segment))));
    loaded.map(|run| run.piece(0)).chain(held).collect()
}

/// For each chunk, which segments of which runs it is.
fn index(runs: &[Run], table: &ChunkTable) -> Vec<Vec<(u32, u32)>> {
    let mut by_chunk = vec![Vec::new(); table.len()];
    for (number, run) in runs.iter().enumerate() {
        for (at, segment) in run.segments.iter().enumerate() {
            if let Some(places) = by_chunk.get_mut(place(segment.chunk)) {
                places.push((to_u32(number), to_u32(at)));
            }
        }
    }
    by_chunk
}
