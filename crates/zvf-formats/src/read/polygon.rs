//! Builder of edges and faces.

use zvf_error::Result;
use zvf_format::Class;
use zvf_metadata::Dtype;
use zvf_model::flow::Piece;

use crate::elements::fan;
use crate::error::ByteFault;
use crate::read::Polygons;
use crate::read::values::{NamedValues, Values, take_fields};

/// Builder of elements of one width, taken batch by batch.
#[derive(Debug)]
pub struct Corners {
    polygons: Polygons,
    width: Option<u32>, // of all elements, once there is one
    current: Vec<i64>,  // the vertices of the current element
    rows: Vec<u8>,
    count: usize, // rows since the last batch
}

impl Corners {
    /// Creates a builder of elements.
    pub const fn new(polygons: Polygons) -> Self {
        Self { polygons, width: None, current: Vec::new(), rows: Vec::new(), count: 0 }
    }

    /// Checks that a face may have `corners` corners.
    pub fn check_face(&self, corners: u64) -> Result<(), ByteFault> {
        let refusal = |class, expected, hint| {
            Err(ByteFault { hint, ..ByteFault::new(class, expected, corners) })
        };
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
            Polygons::Same | Polygons::Rings => match self.width {
                Some(first) if u64::from(first) != corners => {
                    let expected = format!("{first} corners as the first face has");
                    refusal(Class::CountMismatch, expected, Some(TRIANGULATE))
                }
                _ => Ok(()),
            },
        }
    }

    /// Adds a vertex to the current element. Fails unless it is below `vertices`.
    pub fn push(&mut self, vertex: i64, vertices: u64) -> Result<(), ByteFault> {
        if u64::try_from(vertex).is_ok_and(|vertex| vertex < vertices) {
            self.current.push(vertex);
            return Ok(());
        }
        let expected = match vertices.checked_sub(1) {
            Some(last) => format!("a vertex from 0 to {last}"),
            None => "no edges or faces, as there are no vertices".to_owned(),
        };
        Err(ByteFault::new(Class::OutOfBounds, expected, vertex))
    }

    /// Adds a triangle if it is valid. Returns whether it is.
    pub fn add_triangle(&mut self, corners: [i64; 3], vertices: u64) -> bool {
        let is_vertex = |vertex: &i64| u64::try_from(*vertex).is_ok_and(|at| at < vertices);
        let is_valid = self.check_face(3).is_ok() && corners.iter().all(is_vertex);
        if is_valid {
            self.push_triangle(corners);
        }
        is_valid
    }

    /// Adds a triangle without checks. All other faces must be triangles too.
    pub fn push_triangle(&mut self, corners: [i64; 3]) {
        self.push_row(&corners);
    }

    /// Ends the current element. Returns its number of rows.
    pub fn end(&mut self) -> usize {
        let current = std::mem::take(&mut self.current);
        let before = self.count;
        match self.polygons {
            Polygons::Triangles if current.len() > 2 => {
                fan(&current).for_each(|corners| self.push_triangle(corners));
            }
            _ => self.push_row(&current),
        }
        self.current = current;
        self.current.clear(); // its buffer is reused
        self.count - before
    }

    fn push_row(&mut self, vertices: &[i64]) {
        vertices.iter().for_each(|vertex| self.rows.extend_from_slice(&vertex.to_le_bytes()));
        self.width = u32::try_from(vertices.len()).ok();
        self.count += 1;
    }

    /// Returns the number of rows in the current batch.
    pub const fn rows(&self) -> usize {
        self.count
    }

    /// Takes the current batch as a piece, with its attributes.
    pub fn take(&mut self, fields: &mut [NamedValues]) -> Result<Piece> {
        self.count = 0;
        let mut rows = Values::new(Dtype::INT64, self.width.unwrap_or(1)); // any width will do without rows
        rows.push_bytes(&std::mem::take(&mut self.rows));
        Ok(Piece::Elements { rows: rows.take()?, fields: take_fields(fields)? })
    }
}

/// Number of vertices that an element of a store can have.
pub const MAX_CORNERS: u32 = 8;
/// Maximum number of corners of a face that is split into triangles.
const MAX_POLYGON_CORNERS: u64 = 65_536;
const TRIANGULATE: &str = "use --triangles";

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(piece: Piece) -> (u32, Vec<i64>) {
        let Piece::Elements { rows, .. } = piece else { panic!("no elements") };
        let vertices =
            rows.bytes().as_chunks::<8>().0.iter().map(|vertex| i64::from_le_bytes(*vertex));
        (rows.width(), vertices.collect())
    }

    #[test]
    fn keeps_polygons_or_splits_them_into_fans() {
        let mut same = Corners::new(Polygons::Same);
        let mut fans = Corners::new(Polygons::Triangles);
        for corners in [&mut same, &mut fans] {
            corners.check_face(4).unwrap();
            [3, 1, 2, 0].iter().for_each(|vertex| corners.push(*vertex, 4).unwrap());
        }
        assert_eq!((same.end(), fans.end()), (1, 2));
        assert_eq!(rows(same.take(&mut []).unwrap()), (4, vec![3, 1, 2, 0]));
        assert_eq!(rows(fans.take(&mut []).unwrap()), (3, vec![3, 1, 2, 3, 2, 0]));
        assert_eq!((fans.rows(), rows(fans.take(&mut []).unwrap()).1), (0, vec![]));
    }

    #[test]
    fn refuses_invalid_elements() {
        let same = Corners { width: Some(3), ..Corners::new(Polygons::Same) };
        let fans = Corners::new(Polygons::Triangles);
        let words = |done: Result<(), ByteFault>| {
            let ByteFault { class, expected, hint, .. } = done.unwrap_err();
            (class, expected, hint)
        };
        let hint = Some("use --triangles");
        assert_eq!(same.check_face(3), Ok(()));
        assert_eq!(
            words(same.check_face(4)),
            (Class::CountMismatch, "3 corners as the first face has".into(), hint)
        );
        assert_eq!(
            words(same.check_face(2)),
            (Class::BadShape, "from 3 to 8 corners".into(), hint)
        );
        assert_eq!(
            words(same.check_face(9)),
            (Class::BadShape, "from 3 to 8 corners".into(), hint)
        );
        assert_eq!(
            words(fans.check_face(2)),
            (Class::BadShape, "from 3 to 65536 corners".into(), None)
        );
        assert_eq!(
            words(fans.check_face(65_537)),
            (Class::BadShape, "from 3 to 65536 corners".into(), None)
        );
        for vertex in [-1, 4] {
            let refused = Corners::new(Polygons::Same).push(vertex, 4);
            assert_eq!(words(refused), (Class::OutOfBounds, "a vertex from 0 to 3".into(), None));
        }
        let (_, expected, _) = words(Corners::new(Polygons::Same).push(0, 0));
        assert!(expected.contains("no vertices"), "{expected}");
    }
}
