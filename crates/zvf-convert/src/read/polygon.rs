//! Edges and faces in the making.

use zvf_format::Class;
use zvf_metadata::Dtype;

use super::roles::MAX_CORNERS;
use super::values::{NamedValues, Values, take_all};
use super::{Piece, Polygons};
use crate::ConvertError;
use crate::error::BadInput;

/// Elements of one width, taken away batch by batch.
#[derive(Debug)]
pub(super) struct Corners {
    polygons: Polygons,
    width: Option<u32>, // of all elements, once there was one
    one: Vec<i64>,      // the vertices of the element that is read
    rows: Vec<u8>,
    count: usize, // rows since the last batch
}

/// What is wrong with an element.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) class: Class,
    pub(super) expected: String,
    pub(super) hint: Option<&'static str>,
}

impl Refusal {
    /// As a fault, given where it is and what was found.
    pub(super) fn at(self, bad: impl FnOnce(Class, String) -> BadInput) -> ConvertError {
        let bad = bad(self.class, self.expected);
        self.hint.map_or(bad.clone(), |hint| bad.with_hint(hint)).into()
    }
}

impl Corners {
    pub(super) const fn new(polygons: Polygons) -> Self {
        Self { polygons, width: None, one: Vec::new(), rows: Vec::new(), count: 0 }
    }

    /// Checks that a face may have `corners` of them.
    pub(super) fn face(&self, corners: u64) -> Result<(), Refusal> {
        let refusal = |class, expected, hint| Err(Refusal { class, expected, hint });
        let first = self.width.map(u64::from);
        match self.polygons {
            Polygons::Triangles if (3..=MAX_POLYGON_CORNERS).contains(&corners) => Ok(()),
            Polygons::Triangles => {
                let expected = format!("from 3 to {MAX_POLYGON_CORNERS} corners");
                refusal(Class::BadShape, expected, None)
            }
            Polygons::Same | Polygons::Rings
                if !(3..=u64::from(MAX_CORNERS)).contains(&corners) =>
            {
                let expected = format!("from 3 to {MAX_CORNERS} corners");
                refusal(Class::BadShape, expected, Some(TRIANGULATE))
            }
            Polygons::Same | Polygons::Rings if first.is_some_and(|first| first != corners) => {
                let expected = format!("{} corners as the first face has", first.unwrap_or(0));
                refusal(Class::CountMismatch, expected, Some(TRIANGULATE))
            }
            Polygons::Same | Polygons::Rings => Ok(()),
        }
    }

    /// Adds a vertex to the element that is read; there are `vertices` of them.
    pub(super) fn push(&mut self, vertex: i64, vertices: u64) -> Result<(), Refusal> {
        if u64::try_from(vertex).is_ok_and(|vertex| vertex < vertices) {
            self.one.push(vertex);
            return Ok(());
        }
        let expected = format!("a vertex from 0 to {}", vertices.saturating_sub(1));
        Err(Refusal { class: Class::OutOfBounds, expected, hint: None })
    }

    /// Adds a face of three corners, unless something is wrong with it; whether it did.
    pub(super) fn add_triangle(&mut self, corners: [i64; 3], vertices: u64) -> bool {
        let is_vertex = |vertex: &i64| u64::try_from(*vertex).is_ok_and(|at| at < vertices);
        let is_sound = self.face(3).is_ok() && corners.iter().all(is_vertex);
        if is_sound {
            self.push_triangle(corners);
        }
        is_sound
    }

    /// Adds a face of three corners whose vertices are there; all faces have three.
    pub(super) fn push_triangle(&mut self, corners: [i64; 3]) {
        corners.iter().for_each(|vertex| self.rows.extend_from_slice(&vertex.to_le_bytes()));
        self.width = Some(3);
        self.count += 1;
    }

    /// Ends the element; how many rows it makes.
    pub(super) fn end(&mut self) -> usize {
        let one = std::mem::take(&mut self.one);
        let before = self.count;
        match (self.polygons, one.split_first()) {
            (Polygons::Triangles, Some((first, rest))) if one.len() > 2 => {
                for pair in rest.windows(2) {
                    self.row([first].into_iter().chain(pair));
                }
            }
            _ => self.row(one.iter()),
        }
        self.one = one;
        self.one.clear(); // its memory is used again
        self.count - before
    }

    fn row<'a>(&mut self, vertices: impl Iterator<Item = &'a i64>) {
        let before = self.rows.len();
        vertices.for_each(|vertex| self.rows.extend_from_slice(&vertex.to_le_bytes()));
        let width = (self.rows.len() - before) / 8;
        self.width = u32::try_from(width).ok();
        self.count += 1;
    }

    /// Rows since the last batch.
    pub(super) const fn rows(&self) -> usize {
        self.count
    }

    /// The rows so far with their attributes; none remain.
    pub(super) fn take(&mut self, fields: &mut [NamedValues]) -> Result<Piece, ConvertError> {
        self.count = 0;
        let mut rows = Values::new(Dtype::INT64, self.width.unwrap_or(1)); // without rows any width
        rows.push_bytes(&std::mem::take(&mut self.rows));
        Ok(Piece::Elements { rows: rows.take()?, fields: take_all(fields)? })
    }
}

/// Corners of a face that becomes triangles.
const MAX_POLYGON_CORNERS: u64 = 65_536;
const TRIANGULATE: &str = "ask for triangles";

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(piece: Piece) -> (u32, Vec<i64>) {
        let Piece::Elements { rows, .. } = piece else { panic!("no elements") };
        let vertices = rows.bytes().as_chunks::<8>().0.iter().map(|one| i64::from_le_bytes(*one));
        (rows.width(), vertices.collect())
    }

    #[test]
    fn polygons_as_they_are_and_as_fans() {
        let mut same = Corners::new(Polygons::Same);
        let mut fans = Corners::new(Polygons::Triangles);
        for corners in [&mut same, &mut fans] {
            corners.face(4).unwrap();
            [3, 1, 2, 0].iter().for_each(|vertex| corners.push(*vertex, 4).unwrap());
        }
        assert_eq!((same.end(), fans.end()), (1, 2));
        assert_eq!(rows(same.take(&mut []).unwrap()), (4, vec![3, 1, 2, 0]));
        assert_eq!(rows(fans.take(&mut []).unwrap()), (3, vec![3, 1, 2, 3, 2, 0]));
        assert_eq!((fans.rows(), rows(fans.take(&mut []).unwrap()).1), (0, vec![]));
    }

    #[test]
    fn what_cannot_be() {
        let same = Corners { width: Some(3), ..Corners::new(Polygons::Same) };
        let fans = Corners::new(Polygons::Triangles);
        let words = |done: Result<(), Refusal>| {
            let Refusal { class, expected, hint } = done.unwrap_err();
            (class, expected, hint)
        };
        let hint = Some("ask for triangles");
        assert_eq!(same.face(3), Ok(()));
        assert_eq!(
            words(same.face(4)),
            (Class::CountMismatch, "3 corners as the first face has".into(), hint)
        );
        assert_eq!(words(same.face(2)), (Class::BadShape, "from 3 to 8 corners".into(), hint));
        assert_eq!(words(same.face(9)), (Class::BadShape, "from 3 to 8 corners".into(), hint));
        assert_eq!(words(fans.face(2)), (Class::BadShape, "from 3 to 65536 corners".into(), None));
        assert_eq!(
            words(fans.face(65_537)),
            (Class::BadShape, "from 3 to 65536 corners".into(), None)
        );
        for vertex in [-1, 4] {
            let refused = Corners::new(Polygons::Same).push(vertex, 4);
            assert_eq!(words(refused), (Class::OutOfBounds, "a vertex from 0 to 3".into(), None));
        }
    }
}
