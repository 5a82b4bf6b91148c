//! What a reader yields, and what it says before.

use zvf_model::{Batch, Column, Field, Kind, ObjectId};

/// What a file holds.
///
/// Columns have no rows here: they say name, type and width.
///
/// ```
/// use zvf_convert::read::{self, Format, Input, ReadOptions};
///
/// let tree: &[u8] = b"1 1 0 0 0 2.5 -1\n2 3 0 0 9 1 1\n";
/// let reader = read::open(Input::reader(tree), Some(Format::Swc), &ReadOptions::default())?;
/// let header = reader.header();
/// assert_eq!((header.kind, header.unit), (zvf_model::Kind::Skeleton, Some("micrometer")));
/// assert_eq!(header.fields.iter().map(|field| &*field.name).collect::<Vec<_>>(), ["radius", "type"]);
/// # Ok::<(), zvf_convert::ConvertError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// What the geometry is.
    pub kind: Kind,
    /// The names of the axes.
    pub axes: Vec<String>,
    /// The unit of all axes, where the format has one.
    pub unit: Option<&'static str>,
    /// The type of positions, as wide as there are axes.
    pub positions: Column,
    /// The attributes of vertices.
    pub fields: Vec<Field>,
    /// Whether vertices belong to objects: as parts of a batch, or as the owner of each vertex.
    pub objects: bool,
    /// The attributes of objects.
    pub object_fields: Vec<Field>,
    /// Edges or faces, where there are any.
    pub elements: Option<ElementHeader>,
    /// How many vertices the file claims to hold, where it does.
    pub vertices: Option<u64>,
    /// What the file holds besides, and is not read.
    pub left_out: Vec<String>,
}

impl Header {
    /// Vertices of `kind` and nothing else.
    pub(super) const fn new(kind: Kind, axes: Vec<String>, positions: Column) -> Self {
        Self {
            kind,
            axes,
            unit: None,
            positions,
            fields: Vec::new(),
            objects: false,
            object_fields: Vec::new(),
            elements: None,
            vertices: None,
            left_out: Vec::new(),
        }
    }
}

/// Edges or faces to come.
///
/// ```
/// use zvf_convert::read::ElementHeader;
///
/// let triangles = ElementHeader { width: Some(3), fields: Vec::new() };
/// assert_eq!(triangles.width, Some(3));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ElementHeader {
    /// Vertices of each; not known before they are read where a mesh comes from a stream.
    pub width: Option<u32>,
    /// Their attributes.
    pub fields: Vec<Field>,
}

/// Some of what a file holds.
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
/// # Ok::<(), zvf_convert::ConvertError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Vertices with their attributes; the parts or owners say which objects they belong to. A part is
    /// an object, or one more run of the object of an earlier part. Trees come with their edges, which
    /// name vertices of the batch.
    Vertices(Batch),
    /// Edges or faces.
    Elements {
        /// The vertices of each, `int64`, counted from the first of the file.
        rows: Column,
        /// Their attributes, one row an element.
        fields: Vec<Field>,
    },
    /// Objects whose vertices are complete, or that have none, and what is said of them.
    Objects {
        /// Which objects.
        ids: Vec<ObjectId>,
        /// Their attributes, one row an object.
        fields: Vec<Field>,
    },
}
