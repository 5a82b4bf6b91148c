//! Reader of meshes in fragments: each fragment yields its vertices, then its faces.

use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::{FileReader, ReadOptions, default_axes, new_column};
use zvf_metadata::Dtype;
use zvf_model::flow::{ElementHeader, Header, Piece};
use zvf_model::{Batch, Column, Kind, ObjectId};

use crate::precomputed::read::folder::spot;

/// A source of objects in fragments.
pub(crate) trait Fragments: Send + 'static {
    /// The location of a fragment.
    type Fragment: Send + 'static;

    /// Lists the fragments of an object in order. Returns `None` after the last object.
    fn list(&self, object: usize) -> Result<Option<Vec<Self::Fragment>>>;

    /// Reads a fragment.
    fn read(&self, fragment: &Self::Fragment) -> Result<Fragment>;
}

/// The mesh of a fragment.
pub(crate) struct Fragment {
    /// The name for errors.
    pub(crate) name: String,
    pub(crate) positions: Column,
    /// Three for each face, counted from the first vertex of the fragment.
    pub(crate) corners: Vec<u32>,
}

/// The header of a folder of meshes.
pub(crate) fn mesh_header(options: &ReadOptions) -> Result<Header> {
    if let Some(kind) = options.kind.filter(|kind| *kind != Kind::Mesh) {
        return spot("the folder").refuse(Class::Unsupported, "mesh", kind);
    }
    let elements = Some(ElementHeader { width: Some(3), fields: Vec::new() });
    let positions = new_column(Dtype::FLOAT32, 3, Vec::new())?;
    Ok(Header { elements, ..Header::new(Kind::Mesh, default_axes(3), positions) })
}

/// Reads the fragments of all objects, then yields `last`.
pub(crate) fn read_all<F: Fragments>(header: Header, source: F, last: Piece) -> FileReader {
    let mut pieces = Pieces {
        source,
        next: 0,
        object: ObjectId(-1),
        fragments: Vec::new().into_iter(),
        vertex_count: 0,
        faces: None,
        last: Some(last),
    };
    FileReader::from_steps(header, move || pieces.read_next())
}

/// Reader of the pieces of a source.
struct Pieces<F: Fragments> {
    source: F,
    next: usize,                                // the place of the next object
    object: ObjectId,                           // that of the fragments: the place before
    fragments: std::vec::IntoIter<F::Fragment>, // the remaining fragments of the object
    vertex_count: u64,
    faces: Option<Piece>, // the faces of the fragment whose vertices were yielded last
    last: Option<Piece>,
}

impl<F: Fragments> Pieces<F> {
    fn read_next(&mut self) -> Result<Option<Piece>> {
        if let Some(faces) = self.faces.take() {
            return Ok(Some(faces));
        }
        loop {
            if let Some(fragment) = self.fragments.next() {
                let fragment = self.source.read(&fragment)?;
                return self.split_fragment(fragment).map(Some);
            }
            let Some(fragments) = self.source.list(self.next)? else { return Ok(self.last.take()) };
            self.fragments = fragments.into_iter();
            self.object = ObjectId(self.object.0 + 1);
            self.next += 1;
        }
    }

    /// Returns the vertices of a fragment, and stores its faces for the next call of `read_next`.
    fn split_fragment(&mut self, fragment: Fragment) -> Result<Piece> {
        let Fragment { name, positions, corners } = fragment;
        let vertices = positions.len();
        let mut rows = Vec::with_capacity(corners.len() * 8);
        for (at, corner) in corners.into_iter().enumerate() {
            let place = format!("{name}, face {}", at / 3);
            let expected = format_args!("a vertex below {vertices}");
            let here = spot(&place);
            here.ensure((corner as usize) < vertices, Class::OutOfBounds, expected, corner)?;
            rows.extend_from_slice(&(u64::from(corner) + self.vertex_count).to_le_bytes());
        }
        self.vertex_count += vertices as u64;
        self.faces =
            Some(Piece::Elements { rows: new_column(Dtype::INT64, 3, rows)?, fields: Vec::new() });
        let owners = vec![Some(self.object); vertices];
        let batch = Batch::new(Kind::Mesh, positions);
        Ok(Piece::Vertices(batch.with_vertex_objects(owners)?))
    }
}
