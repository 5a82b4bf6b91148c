//! The header and the pieces of a reader.

use serde_json::Value as Json;
use zvf_error::Result;
use zvf_model::{Batch, Column, Field, Kind, ObjectId, Parts};

use super::values::batch_error;

/// The contents of a file.
///
/// Columns have no rows here. They state name, type and width.
///
/// ```
/// use zvf_convert::read::{self, Format, Input, ReadOptions};
///
/// let tree: &[u8] = b"1 1 0 0 0 2.5 -1\n2 3 0 0 9 1 1\n";
/// let reader = read::open(Input::reader(tree), Some(Format::Swc), &ReadOptions::default())?;
/// let header = reader.header();
/// assert_eq!((header.kind, header.unit()), (zvf_model::Kind::Skeleton, Some("micrometer")));
/// assert_eq!(header.fields.iter().map(|field| &*field.name).collect::<Vec<_>>(), ["radius", "type"]);
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The kind of the geometry.
    pub kind: Kind,
    /// The names of the axes.
    pub axes: Vec<String>,
    /// The unit of each axis, if the format states any; otherwise empty.
    pub units: Vec<Option<String>>,
    /// The coordinate space of the positions.
    pub space: Option<Space>,
    /// The coordinate reference system, as the format has it: PROJJSON, or text.
    pub crs: Option<Json>,
    /// What is needed to write the file back and is not geometry, by the name of a format: `headers/NAME` of a store.
    pub records: Vec<(String, Json)>,
    /// The type of positions; its width is the number of axes.
    pub positions: Column,
    /// The attributes of vertices.
    pub fields: Vec<Field>,
    /// Whether vertices belong to objects: by the parts of a batch, or by the object of each vertex.
    pub objects: bool,
    /// The attributes of objects.
    pub object_fields: Vec<Field>,
    /// The attribute of objects that is their original id (`segment_id`), if that is not the id of the object.
    pub id_field: Option<String>,
    /// Whether there are groups of objects.
    pub groups: bool,
    /// The attributes of groups.
    pub group_fields: Vec<Field>,
    /// Other kinds in the same file: each is read by opening it again with [`ReadOptions::kind`].
    ///
    /// [`ReadOptions::kind`]: super::ReadOptions::kind
    pub other_kinds: Vec<Kind>,
    /// Edges or faces, if there are any.
    pub elements: Option<ElementHeader>,
    /// The number of vertices that the file claims, if it does.
    pub vertices: Option<u64>,
    /// What the file also holds and is not read.
    pub left_out: Vec<String>,
    /// What of it is read in another way than one may expect, in sentences.
    pub notes: Vec<String>,
}

impl Header {
    /// Creates the header of a file with vertices of `kind` and nothing else.
    #[must_use]
    pub const fn new(kind: Kind, axes: Vec<String>, positions: Column) -> Self {
        Self {
            kind,
            axes,
            units: Vec::new(),
            space: None,
            crs: None,
            records: Vec::new(),
            positions,
            fields: Vec::new(),
            objects: false,
            object_fields: Vec::new(),
            id_field: None,
            groups: false,
            group_fields: Vec::new(),
            other_kinds: Vec::new(),
            elements: None,
            vertices: None,
            left_out: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Sets the unit of all axes.
    #[must_use]
    pub fn with_unit(mut self, unit: &str) -> Self {
        self.units = vec![Some(unit.to_owned()); self.axes.len()];
        self
    }

    /// Returns the unit, if all axes have the same one.
    #[must_use]
    pub fn unit(&self) -> Option<&str> {
        let first = self.units.first()?.as_deref()?;
        self.units.iter().all(|unit| unit.as_deref() == Some(first)).then_some(first)
    }

    /// Returns a batch with these columns and no rows.
    pub(crate) fn empty_batch(&self) -> Result<Batch> {
        let fields = self.fields.iter().cloned();
        let batch = Batch::new(self.kind, self.positions.clone());
        let batch = fields.into_iter().try_fold(batch, Batch::with_field).map_err(batch_error)?;
        if !self.objects {
            return Ok(batch);
        }
        if self.kind.is_chain() {
            let parts = Parts::new(vec![0], Vec::new()).map_err(batch_error)?;
            return batch.with_parts(parts).map_err(batch_error);
        }
        batch.with_vertex_objects(Vec::new()).map_err(batch_error)
    }
}

/// The coordinate space of positions.
///
/// ```
/// let space = zvf_convert::read::Space { name: Some("scanner".into()), ..Default::default() };
/// assert!(space.affine.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Space {
    /// Its name, such as `scanner`, `tkr`, `talairach`.
    pub name: Option<String>,
    /// A 4x4 matrix in the file, in the direction that the format defines.
    pub affine: Option<[[f64; 4]; 4]>,
    /// Whether the reader applied the matrix to the positions.
    pub is_applied: bool,
}

/// The edges or faces of a file.
///
/// ```
/// use zvf_convert::read::ElementHeader;
///
/// let triangles = ElementHeader { width: Some(3), fields: Vec::new() };
/// assert_eq!(triangles.width, Some(3));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ElementHeader {
    /// Vertices of each element; not known in advance for a mesh from a stream.
    pub width: Option<u32>,
    /// Their attributes.
    pub fields: Vec<Field>,
}

/// A part of the contents of a file.
///
/// ```
/// use zvf_convert::read::{self, Format, Input, Piece, ReadOptions};
///
/// let text: &[u8] = b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\n\
///     element edge 1\nproperty int vertex1\nproperty int vertex2\nend_header\n0\n1\n2\n2 0\n";
/// let reader = read::open(Input::reader(text), None, &ReadOptions::default())?;
/// let pieces: Vec<Piece> = reader.collect::<Result<_, _>>()?;
/// let [Piece::Vertices(batch), Piece::Elements { rows, .. }] = &pieces[..] else { panic!() };
/// assert_eq!((batch.len(), rows.as_slice::<i64>()), (3, Some(&[2, 0][..])));
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Vertices with their attributes. The parts or the vertex objects state which objects they belong to. A part is an
    /// object, or another run of the object of an earlier part. Trees come with their edges, which refer to vertices of
    /// the batch.
    Vertices(Batch),
    /// Edges or faces.
    Elements {
        /// The vertices of each, `int64`, counted from the first of the file.
        rows: Column,
        /// Their attributes, one row for each element.
        fields: Vec<Field>,
    },
    /// Objects whose vertices are complete, or that have none, with their attributes.
    Objects {
        /// The ids of the objects.
        ids: Vec<ObjectId>,
        /// Their attributes, one row for each object.
        fields: Vec<Field>,
    },
    /// Groups of objects, each once, in their order.
    Groups {
        /// The groups.
        groups: Vec<Group>,
        /// Their attributes, one row for each group.
        fields: Vec<Field>,
    },
}

/// A group of objects.
///
/// ```
/// use zvf_convert::read::Group;
/// use zvf_model::ObjectId;
///
/// let left = Group { name: Some("left".into()), members: vec![ObjectId(3), ObjectId(7)] };
/// assert_eq!(left.members.len(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its objects.
    pub members: Vec<ObjectId>,
}
