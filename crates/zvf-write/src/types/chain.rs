//! Lines, polylines and streamlines: where a chain is cut into runs.
//!
//! A chain is cut wherever it enters another chunk, and nowhere else; each run is a fragment of its
//! chunk, in the order in which runs are met. As rows of a chunk stay in that order, the row of every
//! vertex is known as soon as it is given, and so are the links between runs.
//!
//! Not here: the links themselves (`link`), which join the runs of an object in its manifest's order.

use zvf_format::num::{saturating_u32_from_usize, to_u64, usize_from_u32};
use zvf_model::{Kind, ObjectId, Part};

use crate::WriteError;
use crate::objects::Entry;

/// The runs so far.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    chunks: Vec<Chunk>,
    /// The last vertex given: its object, its chunk and the entry of its run.
    last: Option<(i64, u32)>,
    /// One for each run.
    pub(crate) entries: Vec<Entry>,
    /// Lines without objects, numbered as they come.
    pub(crate) lines: i64,
}

/// What a chunk holds so far.
#[derive(Clone, Debug, Default)]
struct Chunk {
    rows: u64,
    owners: Vec<i64>, // of each fragment
}

impl Chains {
    /// Cuts the parts of a batch, given the chunk of each row; the group of each row is its fragment.
    pub(crate) fn cut(
        &mut self,
        parts: impl Iterator<Item = Part>,
        chunks: &[u32],
        known: usize,
    ) -> Vec<u64> {
        self.chunks.resize(known, Chunk::default());
        let mut groups = Vec::with_capacity(chunks.len());
        for part in parts {
            let rows = chunks.get(part.rows).unwrap_or(&[]);
            for run in rows.chunk_by(|a, b| a == b) {
                let Some(number) = run.first().copied() else { continue };
                let Some(chunk) = self.chunks.get_mut(usize_from_u32(number)) else { continue };
                let first = chunk.rows;
                chunk.rows = first + to_u64(run.len());
                let last = chunk.rows - 1;
                let goes_on = self.last == Some((part.object.0, number));
                match self.entries.last_mut().filter(|_| goes_on) {
                    Some(entry) => entry.last = last,
                    None => {
                        let fragment = saturating_u32_from_usize(chunk.owners.len());
                        chunk.owners.push(part.object.0);
                        let object = part.object.0;
                        self.entries.push(Entry { object, chunk: number, fragment, first, last });
                    }
                }
                self.last = Some((part.object.0, number));
                let group = to_u64(chunk.owners.len()) - 1;
                groups.extend(std::iter::repeat_n(group, run.len()));
            }
        }
        groups
    }

    /// Gives away the runs so far: those that follow are numbered anew. Lines are counted on.
    pub(crate) fn take(&mut self) -> Self {
        let lines = self.lines;
        std::mem::replace(self, Self { lines, ..Self::default() })
    }

    /// The object of each fragment of a chunk.
    pub(crate) fn owners(&self, chunk: u32) -> &[i64] {
        self.chunks.get(usize_from_u32(chunk)).map_or(&[], |chunk| chunk.owners.as_slice())
    }
}

/// The ids of so many objects that nobody names, from `first` on; `i64::MAX` is none of them.
pub(crate) fn ids_from(first: i64, count: usize) -> Result<std::ops::Range<i64>, WriteError> {
    let (most, found) = (i64::MAX.cast_unsigned(), first.unsigned_abs() + to_u64(count));
    match first.checked_add_unsigned(to_u64(count)) {
        Some(end) => Ok(first..end),
        None => Err(WriteError::TooMuch { what: "ids of objects", most, found }),
    }
}

/// Pairs of vertices as lines numbered from `first`.
pub(crate) fn pairs(rows: usize, first: i64) -> Result<Vec<Part>, WriteError> {
    if !rows.is_multiple_of(2) {
        return Err(WriteError::unfit(Kind::Line, "vertices without parts", "two a line", rows));
    }
    let starts = (0..rows).step_by(2).zip(ids_from(first, rows / 2)?);
    Ok(starts.map(|(start, id)| Part { rows: start..start + 2, object: ObjectId(id) }).collect())
}

/// Refuses a part that is no line.
pub(crate) fn check_lines<'a>(mut parts: impl Iterator<Item = &'a Part>) -> Result<(), WriteError> {
    match parts.find(|part| part.rows.len() != 2) {
        Some(part) => {
            let what = format!("object {}", part.object);
            Err(WriteError::unfit(Kind::Line, what, "two vertices", part.rows.len()))
        }
        None => Ok(()),
    }
}

/// Refuses an object that is several lines, given the runs of all, by object.
pub(crate) fn check_once(runs: &[Entry]) -> Result<(), WriteError> {
    let rows = |runs: &[Entry]| {
        let counts = runs.iter().map(|run| run.last - run.first + 1);
        counts.sum::<u64>()
    };
    let mut objects = runs.chunk_by(|a, b| a.object == b.object);
    match objects.find(|runs| rows(runs) != 2) {
        Some(runs) => {
            let what = format!("object {}", runs.first().map_or(0, |run| run.object));
            Err(WriteError::unfit(Kind::Line, what, "two vertices", rows(runs)))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(rows: std::ops::Range<usize>, object: i64) -> Part {
        Part { rows, object: ObjectId(object) }
    }

    #[test]
    fn chains_are_cut_where_the_chunk_changes() {
        let mut chains = Chains::default();
        let parts = [part(0..4, 5), part(4..6, 9)];
        let groups = chains.cut(parts.into_iter(), &[0, 0, 1, 0, 0, 0], 2);
        assert_eq!(groups, [0, 0, 0, 1, 2, 2]);
        // The same object goes on in the next batch, and so does its run.
        let groups = chains.cut([part(0..2, 9)].into_iter(), &[0, 1], 2);
        assert_eq!(groups, [2, 1]);
        let rows = |e: &Entry| (e.object, e.chunk, e.fragment, e.first, e.last);
        assert_eq!(
            chains.entries.iter().map(rows).collect::<Vec<_>>(),
            [(5, 0, 0, 0, 1), (5, 1, 0, 0, 0), (5, 0, 1, 2, 2), (9, 0, 2, 3, 5), (9, 1, 1, 1, 1)]
        );
        assert_eq!(chains.owners(0), [5, 5, 9]);
    }

    #[test]
    fn lines_have_two_ends() {
        assert_eq!(pairs(4, 7).unwrap(), [part(0..2, 7), part(2..4, 8)]);
        assert_eq!(
            pairs(3, 0).unwrap_err().to_string(),
            "a batch of line: vertices without parts must be two a line, found 3"
        );
        assert_eq!(
            check_lines([part(0..3, 4)].iter()).unwrap_err().to_string(),
            "a batch of line: object 4 must be two vertices, found 3"
        );
    }

    #[test]
    fn ids_that_are_used_up_are_refused() {
        assert_eq!(ids_from(i64::MAX - 2, 2).unwrap(), i64::MAX - 2..i64::MAX);
        assert!(ids_from(i64::MAX, 0).unwrap().is_empty());
        assert_eq!(
            pairs(4, i64::MAX - 1).unwrap_err().to_string(),
            "ids of objects: 9223372036854775808 is more than 9223372036854775807"
        );
    }
}
