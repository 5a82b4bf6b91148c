//! Objects that are meshes in fragments: each of these gives its vertices, then its faces.

use zvf_format::Class;
use zvf_metadata::Dtype;
use zvf_model::{Batch, Column, Kind, ObjectId};

use super::folder::bad;
use crate::ConvertError;
use crate::read::values::{column, no_batch};
use crate::read::{Header, Piece, Reader};

/// A folder of such objects.
pub(super) trait Fragments: Send + 'static {
    /// What is known of a fragment before it is read.
    type Fragment: Send + 'static;

    /// The fragments of an object, in their order; none past the last object.
    fn list(&self, object: usize) -> Result<Option<Vec<Self::Fragment>>, ConvertError>;

    /// Reads a fragment.
    fn read(&self, fragment: &Self::Fragment) -> Result<Fragment, ConvertError>;
}

/// The mesh of a fragment.
pub(super) struct Fragment {
    /// What errors call it.
    pub(super) name: String,
    pub(super) positions: Column,
    /// Three for each face, counted from the first vertex of the fragment.
    pub(super) corners: Vec<u32>,
}

/// The pieces of all objects, and `last` after them.
pub(super) fn read_all<F: Fragments>(header: Header, source: F, last: Piece) -> Reader {
    let mut pieces = Pieces {
        source,
        next: 0,
        object: ObjectId(0),
        fragments: Vec::new().into_iter(),
        vertices: 0,
        faces: None,
        last: Some(last),
    };
    Reader::from_steps(header, move || pieces.step())
}

/// A folder in the course of being read.
struct Pieces<F: Fragments> {
    source: F,
    next: usize, // the object whose list is read next
    object: ObjectId,
    fragments: std::vec::IntoIter<F::Fragment>, // the rest of those of that object
    vertices: u64,
    faces: Option<Piece>, // of the fragment whose vertices are read
    last: Option<Piece>,
}

impl<F: Fragments> Pieces<F> {
    fn step(&mut self) -> Result<Option<Piece>, ConvertError> {
        if let Some(faces) = self.faces.take() {
            return Ok(Some(faces));
        }
        loop {
            if let Some(fragment) = self.fragments.next() {
                return self.take(self.source.read(&fragment)?).map(Some);
            }
            let Some(fragments) = self.source.list(self.next)? else { return Ok(self.last.take()) };
            self.fragments = fragments.into_iter();
            self.object = ObjectId(self.next.cast_signed() as i64);
            self.next += 1;
        }
    }

    /// Gives the vertices of a fragment, and keeps its faces.
    fn take(&mut self, fragment: Fragment) -> Result<Piece, ConvertError> {
        let Fragment { name, positions, corners } = fragment;
        let vertices = positions.len();
        let mut rows = Vec::with_capacity(corners.len() * 8);
        for (at, corner) in corners.into_iter().enumerate() {
            if corner as usize >= vertices {
                let place = format!("{name}, face {}", at / 3);
                let expected = format!("a vertex below {vertices}");
                return Err(bad(Class::OutOfBounds, &place, expected, corner.to_string()).into());
            }
            rows.extend_from_slice(&(u64::from(corner) + self.vertices).to_le_bytes());
        }
        self.vertices += vertices as u64;
        self.faces =
            Some(Piece::Elements { rows: column(Dtype::INT64, 3, rows)?, fields: Vec::new() });
        let owners = vec![Some(self.object); vertices];
        let batch = Batch::new(Kind::Mesh, positions);
        Ok(Piece::Vertices(batch.with_vertex_objects(owners).map_err(no_batch)?))
    }
}
