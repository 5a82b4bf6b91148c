//! The flow of geometry from a source to a sink, in pieces.
//!
//! ```text
//! let losses = …                               what the sink cannot hold, before the first byte
//! flow(&mut source, &mut sink, progress)?      once for each kind: the header, then its pieces
//! let report = sink.finish()?                  what was written, and losses that only values show
//! ```
//!
//! A source is a file of any format, or the answer of a store; a sink is a file, a store that is
//! being written, or the body of a response. Vertices come before the elements that refer to them,
//! and before the attributes of their object; groups come anywhere. A sink that needs all of it at
//! once collects the pieces until `finish`.
//!
//! Not here: formats (`zvf-convert`), layouts (`zvf-write`), publication.

use std::fmt;
use std::ops::ControlFlow;

use futures_util::future::BoxFuture;
use serde_json::Value as Json;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;

use crate::{Batch, Column, Field, Kind, ObjectId, Parts};

/// A source of geometry of one kind.
pub trait Source: Send {
    /// Returns the description of the contents.
    fn header(&self) -> &Header;

    /// Returns the description of the contents, for adding information from elsewhere.
    fn header_mut(&mut self) -> &mut Header;

    /// Returns the next piece; `None` after the last one.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    fn next_piece(&mut self) -> BoxFuture<'_, Result<Option<Piece>>>;

    /// Returns the approximate number of vertices, if known.
    fn expected_vertices(&self) -> Option<u64> {
        self.header().vertices
    }

    /// Returns notes for the reader that are not errors. The list is complete after the last piece.
    fn notes(&self) -> Vec<String>;
}

/// A sink of geometry: a file, or a store.
pub trait Sink {
    /// Begins a kind of geometry, before its first piece.
    ///
    /// # Errors
    ///
    /// When the sink cannot hold the kind, when it is the second kind of a sink of one kind, or
    /// when writing fails.
    fn begin(&mut self, header: &Header) -> Result<()>;

    /// Adds a piece of the current kind.
    ///
    /// # Errors
    ///
    /// When the sink cannot hold the piece, when the piece does not fit the header, or when writing
    /// fails.
    fn write(&mut self, piece: Piece) -> Result<()>;

    /// Completes the output.
    ///
    /// # Errors
    ///
    /// When writing fails, or the input was incomplete.
    fn finish(self: Box<Self>) -> Result<FlowReport>;
}

/// Moves all pieces of `source` to `sink`, and returns the number of vertices. `on_progress` gets
/// the number so far, after each piece, and may stop it.
///
/// # Errors
///
/// When reading or writing fails, or `on_progress` stops it.
pub async fn flow<S: Source + ?Sized, T: Sink + ?Sized>(
    source: &mut S,
    sink: &mut T,
    on_progress: &mut impl FnMut(u64) -> ControlFlow<()>,
) -> Result<u64, FlowError> {
    sink.begin(source.header()).map_err(FlowError::Sink)?;
    let mut vertices = 0;
    while let Some(piece) = source.next_piece().await.map_err(FlowError::Source)? {
        if let Piece::Vertices(batch) = &piece {
            vertices += to_u64(batch.len());
        }
        sink.write(piece).map_err(FlowError::Sink)?;
        if on_progress(vertices).is_break() {
            return Err(FlowError::Stopped);
        }
    }
    Ok(vertices)
}

/// Why a flow ended early, and on which side.
#[derive(Clone, Debug)]
pub enum FlowError {
    /// The source cannot be read.
    Source(Error),
    /// The sink cannot be written.
    Sink(Error),
    /// The progress function stopped it.
    Stopped,
}

impl From<FlowError> for Error {
    fn from(error: FlowError) -> Self {
        match error {
            FlowError::Source(error) | FlowError::Sink(error) => error,
            FlowError::Stopped => Self::custom(Class::Cancelled, "stopped"),
        }
    }
}

/// The counts and the losses of a written output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowReport {
    /// Vertices.
    pub vertices: u64,
    /// Objects, if the sink has them.
    pub objects: u64,
    /// Edges or faces.
    pub elements: u64,
    /// Losses that depend on the values.
    pub losses: Vec<Loss>,
}

/// A difference between the output and its input.
///
/// ```
/// use zvf_model::flow::Loss;
///
/// let loss = Loss::new("groups are dropped: TCK holds none");
/// assert_eq!(loss.to_string(), "groups are dropped: TCK holds none");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss(String);

impl Loss {
    /// Describes a loss and its reason in words.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The contents of a file.
///
/// Columns have no rows here. They state name, type and width.
///
/// ```
/// use zvf_metadata::Dtype;
/// use zvf_model::flow::Header;
/// use zvf_model::{Column, Kind};
///
/// let axes = ["x", "y"].map(str::to_owned).to_vec();
/// let header = Header::new(Kind::PointCloud, axes, Column::empty(Dtype::FLOAT32, 2)?);
/// assert_eq!(header.with_unit("meter").unit(), Some("meter"));
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
    /// The coordinate reference system in the form of the format: PROJJSON, or text.
    pub crs: Option<Json>,
    /// Data that is needed to write the file back but is not geometry, by the name of a format:
    /// `headers/NAME` of a store.
    pub records: Vec<(String, Json)>,
    /// The type of positions; its width is the number of axes.
    pub positions: Column,
    /// The attributes of vertices.
    pub fields: Vec<Field>,
    /// Whether vertices belong to objects: by the parts of a batch, or by the object of each
    /// vertex.
    pub objects: bool,
    /// The attributes of objects.
    pub object_fields: Vec<Field>,
    /// The attribute of objects that is their original id (`segment_id`), if it differs from the
    /// object id.
    pub id_field: Option<String>,
    /// Whether there are groups of objects.
    pub groups: bool,
    /// The attributes of groups.
    pub group_fields: Vec<Field>,
    /// Other kinds in the same file: to read one, open the file again.
    pub other_kinds: Vec<Kind>,
    /// Edges or faces, if there are any.
    pub elements: Option<ElementHeader>,
    /// The number of vertices that the file states, if any.
    pub vertices: Option<u64>,
    /// Contents of the file that are not read.
    pub left_out: Vec<String>,
    /// Sentences about contents that are read in an unexpected way.
    pub notes: Vec<String>,
}

impl Header {
    /// Creates the header of a file with vertices of `kind` and nothing else.
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

    /// Creates the header of batches with the columns of this one.
    pub fn from_batch(batch: &Batch, axes: Vec<String>) -> Self {
        let empty = |field: &Field| field.with_column(field.column.slice(0..0));
        let elements = batch.elements().map(|elements| ElementHeader {
            width: u32::try_from(elements.width()).ok(),
            fields: elements.fields().iter().map(empty).collect(),
        });
        Self {
            fields: batch.fields().iter().map(empty).collect(),
            objects: batch.vertex_objects().is_some() || !batch.parts().offsets().is_empty(),
            elements,
            ..Self::new(batch.kind(), axes, batch.positions().slice(0..0))
        }
    }

    /// Sets the unit of all axes.
    #[must_use]
    pub fn with_unit(mut self, unit: &str) -> Self {
        self.units = vec![Some(unit.to_owned()); self.axes.len()];
        self
    }

    /// Returns the unit, if all axes have the same one.
    pub fn unit(&self) -> Option<&str> {
        let first = self.units.first()?.as_deref()?;
        self.units.iter().all(|unit| unit.as_deref() == Some(first)).then_some(first)
    }

    /// Returns a batch with these columns and no rows.
    ///
    /// # Errors
    ///
    /// When two columns have the same name.
    pub fn empty_batch(&self) -> Result<Batch> {
        let batch = Batch::new(self.kind, self.positions.clone());
        let batch = self.fields.iter().cloned().try_fold(batch, Batch::with_field)?;
        Ok(if !self.objects {
            batch
        } else if self.kind.is_chain() {
            batch.with_parts(Parts::new(vec![0], Vec::new())?)?
        } else {
            batch.with_vertex_objects(Vec::new())?
        })
    }
}

/// The coordinate space of positions.
///
/// ```
/// let space = zvf_model::flow::Space { name: Some("scanner".into()), ..Default::default() };
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
/// use zvf_model::flow::ElementHeader;
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
/// use zvf_model::ObjectId;
/// use zvf_model::flow::Piece;
///
/// let left = Piece::Objects { ids: vec![ObjectId(3)], fields: Vec::new() };
/// assert_eq!(left.clone(), left);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Vertices with their attributes. The parts or the vertex objects state which objects they
    /// belong to. A part is an object, or another run of the object of an earlier part. Trees
    /// include their edges, which refer to vertices of the batch.
    Vertices(Batch),
    /// Edges or faces.
    Elements {
        /// The vertices of each, `int64`, counted from the first vertex of the file.
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
    /// Groups of objects, each once, in order.
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
/// use zvf_model::flow::Group;
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
