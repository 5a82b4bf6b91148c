//! Lines, polylines and streamlines: divides chains into runs.
//!
//! A chain is divided wherever it enters another chunk, and nowhere else; each run is a fragment of
//! its chunk, in the order of occurrence. Rows of a chunk keep that order. An object may have
//! several lines: a run states whether a line starts with it.
//!
//! Not here: the links between runs (`stages::join`), which join the runs of an object in the order
//! of its manifest.

use zvf_error::{Error, Result};
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_model::{BatchPart, Kind, ObjectId};

use crate::error::unfit_error;

/// Consecutive vertices of a line in a chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Run {
    pub(crate) object: i64,
    /// Whether it starts a line instead of continuing the previous run of its object.
    pub(crate) starts_line: bool,
}

/// The runs so far.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    of_chunks: Vec<Vec<Run>>, // the fragments of each chunk
    runs: u64,
    ends: Option<[(i64, u32); 2]>, // the object and the chunk of the first vertex given, and of the last
    /// Lines without objects, numbered in input order.
    pub(crate) lines: i64,
}

impl Chains {
    /// Divides the parts of a batch, given the chunk of each row; the group of each row is its
    /// fragment. Each part states whether it starts a line.
    pub(crate) fn cut(
        &mut self,
        parts: impl Iterator<Item = (BatchPart, bool)>,
        chunks: &[u32],
        chunk_count: usize,
    ) -> Vec<u64> {
        self.of_chunks.resize(chunk_count, Vec::new());
        let mut groups = Vec::with_capacity(chunks.len());
        for (part, mut starts_line) in parts {
            for run in chunks[part.rows].chunk_by(|a, b| a == b) {
                let chunk = run[0];
                let runs = &mut self.of_chunks[usize_from_u32(chunk)];
                let end = (part.object.0, chunk);
                if starts_line || self.ends.is_none_or(|[_, last]| last != end) {
                    runs.push(Run { object: part.object.0, starts_line });
                    self.runs += 1;
                }
                starts_line = false;
                self.ends = Some([self.ends.map_or(end, |[first, _]| first), end]);
                let group = to_u64(runs.len()) - 1;
                groups.extend(std::iter::repeat_n(group, run.len()));
            }
        }
        groups
    }

    /// Returns the number of runs.
    pub(crate) const fn runs(&self) -> u64 {
        self.runs
    }

    /// Returns the object and the chunk of the first and of the last vertex.
    pub(crate) const fn ends(&self) -> Option<[(i64, u32); 2]> {
        self.ends
    }

    /// Takes the runs so far: later ones are numbered from 0. Line numbers continue.
    pub(crate) fn take(&mut self) -> Self {
        let lines = self.lines;
        std::mem::replace(self, Self { lines, ..Self::default() })
    }

    /// Returns the fragments of a chunk.
    pub(crate) fn runs_of(&self, chunk: u32) -> &[Run] {
        self.of_chunks.get(usize_from_u32(chunk)).map_or(&[], Vec::as_slice)
    }
}

/// Returns this many ids for unnamed objects, from `first` on; `i64::MAX` is never used.
pub(crate) fn ids_from(first: i64, count: usize) -> Result<std::ops::Range<i64>> {
    let (max, found) = (i64::MAX.cast_unsigned(), first.unsigned_abs() + to_u64(count));
    match first.checked_add_unsigned(to_u64(count)) {
        Some(end) => Ok(first..end),
        None => Err(Error::limit("ids of objects", max, found)),
    }
}

/// Returns pairs of vertices as lines, numbered from `first`.
pub(crate) fn pairs(rows: usize, first: i64) -> Result<Vec<BatchPart>> {
    if !rows.is_multiple_of(2) {
        return Err(unfit_error(Kind::Line, "vertices without parts", "two a line", rows));
    }
    let starts = (0..rows).step_by(2).zip(ids_from(first, rows / 2)?);
    Ok(starts
        .map(|(start, id)| BatchPart { rows: start..start + 2, object: ObjectId(id) })
        .collect())
}

/// Refuses a part that is not a line.
pub(crate) fn check_lines<'a>(mut parts: impl Iterator<Item = &'a BatchPart>) -> Result<()> {
    match parts.find(|part| part.rows.len() != 2) {
        Some(part) => {
            let what = format!("object {}", part.object);
            Err(unfit_error(Kind::Line, what, "two vertices", part.rows.len()))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(rows: std::ops::Range<usize>, object: i64) -> BatchPart {
        BatchPart { rows, object: ObjectId(object) }
    }

    #[test]
    fn chains_are_cut_where_the_chunk_changes() {
        let mut chains = Chains::default();
        let parts = [(part(0..4, 5), false), (part(4..6, 9), true)];
        let groups = chains.cut(parts.into_iter(), &[0, 0, 1, 0, 0, 0], 2);
        assert_eq!(groups, [0, 0, 0, 1, 2, 2]);
        // The same object and its run continue in the next batch.
        let groups = chains.cut([(part(0..2, 9), false)].into_iter(), &[0, 1], 2);
        assert_eq!(groups, [2, 1]);
        assert_eq!((chains.runs(), chains.ends()), (5, Some([(5, 0), (9, 1)])));
        let run = |object, starts_line| Run { object, starts_line };
        assert_eq!(chains.runs_of(1), [run(5, false), run(9, false)]);
        assert_eq!(chains.runs_of(0), [run(5, false), run(5, false), run(9, true)]);
        // Another line of the object where the last one ends.
        assert_eq!(chains.cut([(part(0..3, 9), true)].into_iter(), &[1, 1, 0], 2), [2, 2, 3]);
        assert_eq!(chains.runs_of(1)[2..], [run(9, true)]);
        assert_eq!(chains.runs_of(0)[3..], [run(9, false)]);
    }

    #[test]
    fn lines_have_two_ends() {
        assert_eq!(pairs(4, 7).unwrap(), [part(0..2, 7), part(2..4, 8)]);
        assert_eq!(
            pairs(3, 0).unwrap_err().sentence(),
            "a batch of line: vertices without parts: expected two a line, found 3"
        );
        assert_eq!(
            check_lines([part(0..3, 4)].iter()).unwrap_err().sentence(),
            "a batch of line: object 4: expected two vertices, found 3"
        );
    }

    #[test]
    fn exhausted_ids_are_refused() {
        assert_eq!(ids_from(i64::MAX - 2, 2).unwrap(), i64::MAX - 2..i64::MAX);
        assert!(ids_from(i64::MAX, 0).unwrap().is_empty());
        assert_eq!(
            pairs(4, i64::MAX - 1).unwrap_err().sentence(),
            "ids of objects: expected at most 9223372036854775807, found 9223372036854775808"
        );
    }
}
