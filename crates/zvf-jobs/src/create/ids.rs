//! Ids of the objects of several files: those of a file come after those of the previous files.
//!
//! ```text
//! first file        ids as they are                          0 1 2
//! next file         shifted to begin after the largest       0 1    -> 3 4
//! without objects   trees and lines are numbered on; a graph or a mesh is one object
//! ```
//!
//! A file with negative ids is shifted by that much more, so that all its ids come after those of
//! the others.

use std::future::ready;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use zvf_convert::read::{FileReader, renumber};
use zvf_format::num::to_u64;
use zvf_model::flow::{Header, Piece, Source};
use zvf_model::{Batch, Kind, ObjectId, Parts};

use crate::Error;
use crate::error::bad_request_error;

/// How the ids of a file are mapped to ids of the store.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shift {
    by: i64,
    whole: bool, // vertices of which nothing is said are object `by`
}

impl Shift {
    /// Returns the id that 0 is mapped to.
    pub(super) const fn first_id(self) -> i64 {
        self.by
    }

    /// Maps the ids of a piece to ids of the store, and adds `before`, the number of vertices of
    /// earlier files, to the vertex numbers of its elements.
    pub(crate) fn apply(self, mut piece: Piece, before: u64) -> Result<Piece, Error> {
        if let Piece::Vertices(batch) = piece {
            let is_named = !batch.parts().is_empty() || batch.vertex_objects().is_some();
            if self.whole && !is_named && !batch.is_empty() {
                let whole = Parts::new(vec![0, batch.len()], vec![ObjectId(self.by)])?;
                return Ok(Piece::Vertices(batch.with_parts(whole)?));
            }
            piece = Piece::Vertices(batch);
        }
        if self.by == 0 && before == 0 {
            return Ok(piece);
        }
        renumber(piece, &mut |id| self.id(id), &|n| count_on(n, before))
    }

    fn id(self, id: ObjectId) -> Result<ObjectId, Error> {
        id.0.checked_add(self.by).map(ObjectId).ok_or_else(id_overflow_error)
    }
}

/// Converts a vertex number of a file to one over all files.
fn count_on(n: i64, before: u64) -> Result<i64, Error> {
    // A negative number would refer to vertices of other files.
    let counted = n.checked_add_unsigned(before).filter(|_| n >= 0 || before == 0);
    counted.ok_or_else(|| {
        let expected = "a vertex of the same file, by a number from 0 on";
        bad_request_error("an element", expected, &n.to_string())
    })
}

/// A file among others: its pieces with the ids and vertex numbers of the store.
pub(super) struct Shifted {
    pub(super) reader: FileReader,
    pub(super) shift: Shift,
    /// Number of vertices in earlier files.
    pub(super) before: u64,
}

impl Source for Shifted {
    fn header(&self) -> &Header {
        self.reader.header()
    }

    fn header_mut(&mut self) -> &mut Header {
        self.reader.header_mut()
    }

    fn next_piece(&mut self) -> BoxFuture<'_, Result<Option<Piece>, Error>> {
        let piece = self.reader.next().transpose();
        let shifted = |piece: Piece| self.shift.apply(piece, self.before);
        Box::pin(ready(piece.and_then(|piece| piece.map(shifted).transpose())))
    }

    fn notes(&self) -> Vec<String> {
        self.reader.notes()
    }
}

/// Returns the error for ids that overflow because they continue from file to file.
fn id_overflow_error() -> Error {
    let expected = "files whose ids fit 64 bits one after the other: keep the ids of files, or create a store of each";
    bad_request_error("the ids of objects", expected, "larger ones")
}

/// Determines the shift of ids while files are scanned.
pub(super) struct Numbering {
    keep: bool,
    first: bool,
    next: i64, // one past the largest id of the files so far
    file: File,
}

/// The state of one file so far.
#[derive(Default)]
struct File {
    low: i64, // not above 0
    high: Option<i64>,
    unsaid: u64, // trees and lines without ids
}

impl Numbering {
    /// Starts after the files of other kinds; `keep` leaves all ids unchanged.
    pub(super) fn new(next: i64, keep: bool) -> Self {
        Self { keep, first: next == 0, next, file: File::default() }
    }

    /// Processes a piece of the file.
    pub(super) fn add(&mut self, piece: &Piece) {
        match piece {
            Piece::Vertices(batch) => {
                let owners = batch.vertex_objects().unwrap_or_default().iter().copied().flatten();
                let parts = batch.parts().objects().iter().copied();
                self.file.add_ids(parts.chain(owners));
                if batch.parts().is_empty() && batch.vertex_objects().is_none() {
                    self.file.unsaid += count_unnamed_objects(batch);
                }
            }
            Piece::Objects { ids, .. } => self.file.add_ids(ids.iter().copied()),
            Piece::Elements { .. } | Piece::Groups { .. } => {}
        }
    }

    /// Ends the file; with `is_one_object`, a file without objects counts as one object.
    pub(super) fn end(&mut self, is_one_object: bool) -> Result<Shift, Error> {
        let File { low, high, unsaid } = std::mem::take(&mut self.file);
        let whole = is_one_object && high.is_none();
        let high = high.or(whole.then_some(0));
        let by = if self.keep || self.first {
            0
        } else if high.is_some() && self.next == i64::MAX {
            return Err(id_overflow_error()); // the last id of all may be taken
        } else {
            self.next.checked_sub(low).ok_or_else(id_overflow_error)?
        };
        let after = match high {
            // The largest id has no successor.
            Some(high) => high.checked_add(by).ok_or_else(id_overflow_error)?.saturating_add(1),
            None => self.next,
        };
        self.next =
            self.next.max(after).checked_add_unsigned(unsaid).ok_or_else(id_overflow_error)?;
        self.first = false;
        Ok(Shift { by, whole })
    }

    /// Returns the first free id.
    pub(super) const fn next(&self) -> i64 {
        self.next
    }
}

impl File {
    fn add_ids(&mut self, ids: impl Iterator<Item = ObjectId>) {
        for ObjectId(id) in ids {
            self.low = self.low.min(id);
            self.high = Some(self.high.map_or(id, |high| high.max(id)));
        }
    }
}

/// Counts the objects of a batch without ids, as the writer numbers them.
fn count_unnamed_objects(batch: &Batch) -> u64 {
    let edges = batch.elements().map_or(0, zvf_model::Elements::len);
    let count = if batch.kind() == Kind::Skeleton {
        batch.len().saturating_sub(edges) // the writer refuses more edges than a tree has
    } else if batch.kind() == Kind::Line {
        batch.len() / 2
    } else {
        0
    };
    to_u64(count)
}

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;
    use zvf_model::Column;

    use super::*;

    fn batch(kind: Kind, rows: usize) -> Batch {
        Batch::new(kind, Column::new(Dtype::FLOAT32, 1, vec![0; rows * 4].into()).unwrap())
    }

    fn parts(ids: &[i64]) -> Piece {
        let ids = ids.iter().copied().map(ObjectId).collect::<Vec<_>>();
        let parts = Parts::new((0..=ids.len()).collect(), ids.clone()).unwrap();
        Piece::Vertices(batch(Kind::Streamline, ids.len()).with_parts(parts).unwrap())
    }

    fn ids(piece: Piece) -> Vec<i64> {
        match piece {
            Piece::Vertices(batch) => match batch.vertex_objects() {
                Some(owners) => owners.iter().map(|id| id.map_or(-9, |id| id.0)).collect(),
                None => batch.parts().objects().iter().map(|id| id.0).collect(),
            },
            Piece::Objects { ids, .. } => ids.iter().map(|id| id.0).collect(),
            Piece::Elements { .. } | Piece::Groups { .. } => Vec::new(),
        }
    }

    #[test]
    fn ids_of_a_file_follow_earlier_ids() {
        let owned = |ids: &[Option<i64>]| {
            let ids = ids.iter().map(|id| id.map(ObjectId)).collect();
            Piece::Vertices(batch(Kind::PointCloud, 3).with_vertex_objects(ids).unwrap())
        };
        let declared = |id| Piece::Objects { ids: vec![ObjectId(id)], fields: Vec::new() };
        let files = [
            vec![parts(&[4, -2]), declared(6)],
            vec![parts(&[0]), declared(1)],
            vec![parts(&[-3, 2])],
            vec![owned(&[Some(1), None, Some(0)])],
        ];
        for (keep, expected) in [
            (
                false,
                [
                    vec![vec![4, -2], vec![6]],
                    vec![vec![7], vec![8]],
                    vec![vec![9, 14]],
                    vec![vec![16, -9, 15]],
                ],
            ),
            (
                true,
                [
                    vec![vec![4, -2], vec![6]],
                    vec![vec![0], vec![1]],
                    vec![vec![-3, 2]],
                    vec![vec![1, -9, 0]],
                ],
            ),
        ] {
            let mut numbering = Numbering::new(0, keep);
            for (file, expected) in files.iter().zip(expected) {
                file.iter().for_each(|piece| numbering.add(piece));
                let shift = numbering.end(false).unwrap();
                let found: Vec<Vec<i64>> =
                    file.iter().map(|piece| ids(shift.apply(piece.clone(), 0).unwrap())).collect();
                assert_eq!(found, expected, "keep {keep}");
            }
            assert_eq!(numbering.next(), if keep { 7 } else { 17 });
        }
    }

    #[test]
    fn rows_without_objects_are_counted() {
        let mut numbering = Numbering::new(5, false);
        let edges = zvf_model::Elements::new(2, vec![1, 0]).unwrap();
        let trees = batch(Kind::Skeleton, 3).with_elements(edges).unwrap();
        numbering.add(&Piece::Vertices(trees.clone()));
        let shift = numbering.end(false).unwrap();
        assert_eq!(shift.apply(Piece::Vertices(trees.clone()), 0).unwrap(), Piece::Vertices(trees));
        assert_eq!(numbering.next(), 7);
        let mesh = Piece::Vertices(batch(Kind::Mesh, 3));
        for object in [7, 8] {
            numbering.add(&mesh);
            assert_eq!(ids(numbering.end(true).unwrap().apply(mesh.clone(), 0).unwrap()), [object]);
        }
        numbering.add(&Piece::Vertices(batch(Kind::Line, 6)));
        numbering.end(false).unwrap();
        assert_eq!(numbering.next(), 12);
    }

    #[test]
    fn ids_that_overflow_are_refused() {
        let max = i64::MAX;
        let after = |first: &[i64], second_ids: &[i64]| {
            let mut numbering = Numbering::new(0, false);
            numbering.add(&parts(first));
            numbering.end(false).unwrap();
            numbering.add(&parts(second_ids));
            numbering.end(false).and_then(|shift| shift.apply(parts(second_ids), 0)).map(ids)
        };
        assert_eq!(after(&[max - 3], &[0, 1]).unwrap(), [max - 2, max - 1]);
        assert_eq!(after(&[1], &[max - 2]).unwrap(), [max]);
        for (first, second_ids) in
            [([max].as_slice(), [0].as_slice()), (&[5], &[max - 3]), (&[1], &[i64::MIN, 0])]
        {
            let error = after(first, second_ids).unwrap_err();
            assert_eq!(
                error.class(),
                zvf_format::Class::InvalidArgument,
                "{first:?} {second_ids:?}"
            );
        }
        // A file may have changed since it was scanned.
        let shift = Shift { by: 3, whole: false };
        assert!(shift.apply(parts(&[max - 2]), 0).is_err());
    }
}
