//! Geometry as columns: the answer of a query, the output of a reader, the input of a writer.
//!
//! ```text
//! vertices   positions, fields                one row each
//! parts      offsets into the vertices        one part for an object, or for a run of one
//! elements   rows of vertices, fields         one edge or face each, where the kind has links
//! ```
//!
//! Every column of one kind has the same number of rows, offsets never decrease, and elements refer
//! to vertices of this batch: the builder refuses anything else, so users of a batch can rely on
//! it.

use thiserror::Error;

use crate::{Column, Field, Kind, ObjectId};

/// A batch of geometry.
///
/// ```
/// use zvf_metadata::Dtype;
/// use zvf_model::{Batch, Column, Kind, ObjectId, Parts};
///
/// let points = [0.0_f32, 0.0, 1.0, 1.0, 5.0, 5.0].map(f32::to_le_bytes).concat();
/// let positions = Column::new(Dtype::FLOAT32, 2, points.into())?;
/// let parts = Parts::new(vec![0, 2, 3], vec![ObjectId(7), ObjectId(9)])?;
/// let batch = Batch::new(Kind::Polyline, positions).with_parts(parts)?;
/// assert_eq!(batch.parts().iter().map(|part| part.rows.len()).collect::<Vec<_>>(), [2, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    kind: Kind,
    positions: Column,
    fields: Vec<Field>,                            // as many rows as positions
    vertex_objects: Option<Vec<Option<ObjectId>>>, // likewise
    parts: Parts,                                  // within the positions
    elements: Option<Elements>,                    // naming rows of the positions
}

impl Batch {
    /// Creates a batch of vertices of `kind` and nothing else.
    pub const fn new(kind: Kind, positions: Column) -> Self {
        Self {
            kind,
            positions,
            fields: Vec::new(),
            vertex_objects: None,
            parts: Parts::NONE,
            elements: None,
        }
    }

    /// Returns the same with one more attribute of the vertices.
    ///
    /// # Errors
    ///
    /// When its number of rows differs from that of the positions.
    pub fn with_field(mut self, field: Field) -> Result<Self, BadBatch> {
        same_length("a vertex attribute", field.column.len(), self.len())?;
        self.fields.push(field);
        Ok(self)
    }

    /// Returns the same batch with these attributes of the vertices instead of its own.
    ///
    /// # Errors
    ///
    /// When the number of rows of one differs from that of the positions.
    pub fn with_fields(self, fields: impl IntoIterator<Item = Field>) -> Result<Self, BadBatch> {
        fields.into_iter().try_fold(Self { fields: Vec::new(), ..self }, Self::with_field)
    }

    /// Returns some vertices, which share the memory of these, without parts and elements.
    ///
    /// # Panics
    ///
    /// When the rows do not exist.
    pub fn slice(&self, rows: std::ops::Range<usize>) -> Self {
        let slice = |field: &Field| field.with_column(field.column.slice(rows.clone()));
        let (positions, fields) = (self.positions.slice(rows.clone()), &self.fields);
        let fields = fields.iter().map(slice).collect();
        let vertex_objects = self.vertex_objects.as_ref().map(|all| all[rows.clone()].to_vec());
        Self { fields, vertex_objects, ..Self::new(self.kind, positions) }
    }

    /// Returns the same batch with the object of each vertex.
    ///
    /// # Errors
    ///
    /// When there is not one entry per vertex.
    pub fn with_vertex_objects(self, objects: Vec<Option<ObjectId>>) -> Result<Self, BadBatch> {
        same_length("the list of owners", objects.len(), self.len())?;
        Ok(Self { vertex_objects: Some(objects), ..self })
    }

    /// Returns the same batch, divided into parts.
    ///
    /// # Errors
    ///
    /// When the parts do not end at the last vertex.
    pub fn with_parts(self, parts: Parts) -> Result<Self, BadBatch> {
        same_length("the parts", parts.offsets.last().copied().unwrap_or(0), self.len())?; // no parts end at 0
        Ok(Self { parts, ..self })
    }

    /// Returns the same batch with edges or faces.
    ///
    /// # Errors
    ///
    /// When one refers to a missing vertex.
    pub fn with_elements(self, elements: Elements) -> Result<Self, BadBatch> {
        match elements.rows.iter().find(|row| **row >= self.len()) {
            Some(row) => Err(BadBatch::NoSuchVertex { row: *row, vertices: self.len() }),
            None => Ok(Self { elements: Some(elements), ..self }),
        }
    }

    /// Returns the same batch without edges or faces.
    #[must_use]
    pub fn without_elements(self) -> Self {
        Self { elements: None, ..self }
    }

    /// Returns the same batch without objects, of vertices and of parts.
    #[must_use]
    pub fn without_objects(self) -> Self {
        Self { vertex_objects: None, parts: Parts::NONE, ..self }
    }

    /// Returns the kind of geometry.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the number of vertices.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns whether there are no vertices.
    pub const fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Returns the positions of the vertices in their stored type.
    pub const fn positions(&self) -> &Column {
        &self.positions
    }

    /// Returns the attributes of the vertices.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the attribute of the vertices with that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| *field.name == *name)
    }

    /// Returns the object of each vertex, if requested.
    pub fn vertex_objects(&self) -> Option<&[Option<ObjectId>]> {
        self.vertex_objects.as_deref()
    }

    /// Returns the parts; empty if the geometry has none.
    pub const fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Returns the edges or faces, if the kind has them.
    pub const fn elements(&self) -> Option<&Elements> {
        self.elements.as_ref()
    }
}

/// Consecutive vertices that belong together. Parts of chains are lines: an object may have several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    offsets: Vec<usize>, // empty, or one more than parts; first 0, never descending
    objects: Vec<ObjectId>, // one a part
    starts: Vec<bool>,   // empty, or one a part
}

/// One part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPart {
    /// Its vertices.
    pub rows: std::ops::Range<usize>,
    /// The object that the part is, or is a run of.
    pub object: ObjectId,
}

impl Parts {
    /// No parts.
    pub const NONE: Self = Self { offsets: Vec::new(), objects: Vec::new(), starts: Vec::new() };

    /// Creates parts: part `k` has the vertices from `offsets[k]` to `offsets[k + 1]` and belongs
    /// to `objects[k]`.
    ///
    /// # Errors
    ///
    /// When there is not exactly one more offset than objects, or offsets do not start at 0 or
    /// decrease.
    pub fn new(offsets: Vec<usize>, objects: Vec<ObjectId>) -> Result<Self, BadBatch> {
        same_length("the offsets of parts", offsets.len(), objects.len() + 1)?;
        if offsets.first() != Some(&0) || !offsets.is_sorted() {
            return Err(BadBatch::Offsets);
        }
        Ok(Self { offsets, objects, starts: Vec::new() })
    }

    /// Sets for each part whether it starts a line. The others continue the line of their object,
    /// for example if a line is longer than a batch, or rows of several objects alternate.
    ///
    /// # Errors
    ///
    /// When there is not one value per part.
    pub fn with_starts(self, starts: Vec<bool>) -> Result<Self, BadBatch> {
        same_length("the starts of parts", starts.len(), self.len())?;
        let is_usual = starts.iter().enumerate().all(|(part, starts)| *starts == (part > 0));
        Ok(Self { starts: if is_usual { Vec::new() } else { starts }, ..self })
    }

    /// Returns the same parts with other objects.
    ///
    /// # Errors
    ///
    /// When there is not one object per part.
    pub fn with_objects(&self, objects: Vec<ObjectId>) -> Result<Self, BadBatch> {
        same_length("the objects of parts", objects.len(), self.len())?;
        Ok(Self { objects, ..self.clone() })
    }

    /// Returns whether a part starts a line. By default all parts do, except the first of a batch,
    /// which may continue the line of its object.
    pub fn starts_line(&self, part: usize) -> bool {
        self.starts.get(part).copied().unwrap_or(part > 0)
    }

    /// Returns the number of parts.
    pub const fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns the start of each part, and the end of the last; empty without parts.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// Returns the object of each part.
    pub fn objects(&self) -> &[ObjectId] {
        &self.objects
    }

    /// Returns the parts in order.
    pub fn iter(&self) -> impl Iterator<Item = BatchPart> {
        let ends = self.offsets.iter().skip(1);
        let rows = self.offsets.iter().zip(ends).map(|(start, end)| *start..*end);
        rows.zip(&self.objects).map(|(rows, object)| BatchPart { rows, object: *object })
    }
}

/// Edges, faces or other links between vertices of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Elements {
    width: usize,       // not 0
    rows: Vec<usize>,   // a multiple of the width
    fields: Vec<Field>, // one row an element
}

impl Elements {
    /// Creates elements of `width` vertices each.
    ///
    /// # Errors
    ///
    /// When `width` is 0 or `rows` is not a whole number of elements.
    pub fn new(width: usize, rows: Vec<usize>) -> Result<Self, BadBatch> {
        if rows.len().checked_rem(width) != Some(0) {
            return Err(BadBatch::Width { rows: rows.len(), width });
        }
        Ok(Self { width, rows, fields: Vec::new() })
    }

    /// Returns the same with one more attribute of the elements.
    ///
    /// # Errors
    ///
    /// When it has another number of rows.
    pub fn with_field(mut self, field: Field) -> Result<Self, BadBatch> {
        same_length("an element attribute", field.column.len(), self.len())?;
        self.fields.push(field);
        Ok(self)
    }

    /// Returns the same with these attributes instead of its own.
    ///
    /// # Errors
    ///
    /// When one has another number of rows.
    pub fn with_fields(self, fields: impl IntoIterator<Item = Field>) -> Result<Self, BadBatch> {
        fields.into_iter().try_fold(Self { fields: Vec::new(), ..self }, Self::with_field)
    }

    /// Returns the number of vertices per element.
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.rows.len() / self.width
    }

    /// Returns whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the vertices of all elements, one after the other.
    pub fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// Returns the elements in order, each its vertices in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[usize]> {
        self.rows.chunks_exact(self.width)
    }

    /// Returns the attributes of the elements.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }
}

fn same_length(what: &'static str, found: usize, expected: usize) -> Result<(), BadBatch> {
    if found == expected { Ok(()) } else { Err(BadBatch::Length { what, found, expected }) }
}

/// Columns that do not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BadBatch {
    /// The number of rows is wrong.
    #[error("{what} must have {expected} rows, found {found}")]
    Length {
        /// The column with these rows.
        what: &'static str,
        /// The actual number.
        found: usize,
        /// The required number.
        expected: usize,
    },
    /// Offsets of parts that do not start at 0, or decrease.
    #[error("the offsets of parts must start at 0 and never descend")]
    Offsets,
    /// Not a whole number of elements.
    #[error("{rows} vertices are not a whole number of elements of {width}")]
    Width {
        /// Number of vertices.
        rows: usize,
        /// Vertices per element.
        width: usize,
    },
    /// An element refers to a missing vertex.
    #[error("an element names vertex {row} of {vertices}")]
    NoSuchVertex {
        /// The vertex that it refers to.
        row: usize,
        /// Number of vertices.
        vertices: usize,
    },
}

impl From<BadBatch> for zvf_error::Error {
    fn from(error: BadBatch) -> Self {
        Self::from_cause(zvf_format::Class::CountMismatch, error)
    }
}

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;

    use super::*;

    fn column(rows: usize) -> Column {
        Column::new(Dtype::FLOAT32, 1, vec![0; rows * 4].into()).unwrap()
    }

    #[test]
    fn mismatched_columns_are_refused() {
        let batch = || Batch::new(Kind::Mesh, column(3));
        let parts = |offsets: &[usize]| Parts::new(offsets.to_vec(), vec![ObjectId(0)]);
        let errors = [
            batch().with_field(Field::new("a", column(2))).err(),
            batch().with_vertex_objects(vec![None]).err(),
            batch().with_parts(parts(&[0, 2]).unwrap()).err(),
            batch().with_elements(Elements::new(3, vec![0, 1, 3]).unwrap()).err(),
            parts(&[0]).err(),
            parts(&[1, 1]).err(),
            Parts::new(vec![0, 2, 1], vec![ObjectId(0); 2]).err(),
            Elements::new(0, vec![]).err(),
            Elements::new(2, vec![0]).err(),
            Elements::new(1, vec![0]).unwrap().with_field(Field::new("a", column(2))).err(),
        ];
        let messages: Vec<String> = errors.into_iter().map(|e| e.unwrap().to_string()).collect();
        assert_eq!(
            messages,
            [
                "a vertex attribute must have 3 rows, found 2",
                "the list of owners must have 3 rows, found 1",
                "the parts must have 3 rows, found 2",
                "an element names vertex 3 of 3",
                "the offsets of parts must have 2 rows, found 1",
                "the offsets of parts must start at 0 and never descend",
                "the offsets of parts must start at 0 and never descend",
                "0 vertices are not a whole number of elements of 0",
                "1 vertices are not a whole number of elements of 2",
                "an element attribute must have 1 rows, found 2",
            ]
        );
    }

    #[test]
    fn an_empty_batch_has_empty_columns() {
        let batch = Batch::new(Kind::Graph, column(0));
        assert!(batch.is_empty() && batch.parts().is_empty() && batch.elements().is_none());
        let parts = Parts::new(vec![0], vec![]).unwrap();
        assert!(batch.with_parts(parts).is_ok());
    }
}
