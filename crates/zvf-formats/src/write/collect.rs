//! Collector of all pieces of one kind in memory, for formats whose header has counts.

use zvf_error::{Error, Result};
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_model::flow::{Group, Header, Piece};
use zvf_model::{Batch, Column, ColumnBuilder, Elements, Field, ObjectId, Parts};

use crate::elements::element_vertices;
use crate::error::{cannot_hold, other_columns};

/// The collected pieces of one kind.
///
/// Vertices are one batch, with the parts or owners of all pieces one after another. The edges of batches and those
/// of [`Piece::Elements`] are one table, over all vertices. Attributes of objects are in input order.
#[derive(Debug)]
pub struct CollectedPieces {
    /// The header of the kind.
    pub header: Header,
    positions: ColumnBuilder,
    fields: Vec<(Field, ColumnBuilder)>,
    owners: Vec<Option<ObjectId>>,
    offsets: Vec<usize>,
    part_objects: Vec<ObjectId>,
    has_parts: bool,
    has_owners: bool,
    width: usize,
    elements: Vec<usize>,
    element_fields: Vec<(Field, ColumnBuilder)>,
    /// The objects that have attributes, in input order.
    pub objects: Vec<ObjectId>,
    object_fields: Vec<(Field, ColumnBuilder)>,
    /// All groups.
    pub groups: Vec<Group>,
    group_fields: Vec<(Field, ColumnBuilder)>,
    bytes: u64,
    max_bytes: u64,
    format: &'static str,
}

impl CollectedPieces {
    /// Creates an empty collector for a kind of `header`, which holds at most `max_bytes`.
    #[must_use]
    pub fn new(header: &Header, max_bytes: u64, format: &'static str) -> Self {
        let builders = |fields: &[Field]| -> Vec<(Field, ColumnBuilder)> {
            fields.iter().map(|f| (f.clone(), ColumnBuilder::empty_like(&f.column))).collect()
        };
        let elements = header.elements.as_ref();
        Self {
            header: header.clone(),
            positions: ColumnBuilder::empty_like(&header.positions),
            fields: builders(&header.fields),
            owners: Vec::new(),
            offsets: vec![0],
            part_objects: Vec::new(),
            has_parts: false,
            has_owners: false,
            width: 0,
            elements: Vec::new(),
            element_fields: elements.map_or_else(Vec::new, |e| builders(&e.fields)),
            objects: Vec::new(),
            object_fields: builders(&header.object_fields),
            groups: Vec::new(),
            group_fields: builders(&header.group_fields),
            bytes: 0,
            max_bytes,
            format,
        }
    }

    /// Adds a piece.
    ///
    /// # Errors
    ///
    /// When the memory limit is exceeded, or the piece has other columns than the header.
    pub fn push(&mut self, piece: Piece) -> Result<()> {
        match piece {
            Piece::Vertices(batch) => self.push_batch(&batch),
            Piece::Elements { rows, fields } => {
                self.reserve_bytes(rows.bytes().len())?;
                let numbers = element_vertices(&rows)?.map(|row| usize::try_from(row).ok());
                let numbers: Option<Vec<usize>> = numbers.collect();
                let Some(numbers) = numbers else {
                    return Err(self.column_error("negative vertices"));
                };
                self.set_width(usize_from_u32(rows.width()))?;
                self.elements.extend(numbers);
                let size = push_fields(&mut self.element_fields, &fields);
                self.reserve_columns(size, "element columns")
            }
            Piece::Objects { ids, fields } => {
                self.reserve_bytes(ids.len() * 8)?;
                self.objects.extend(ids);
                let size = push_fields(&mut self.object_fields, &fields);
                self.reserve_columns(size, "object columns")
            }
            Piece::Groups { groups, fields } => {
                let members: usize = groups.iter().map(|group| group.members.len()).sum();
                self.reserve_bytes(members * 8)?;
                self.groups.extend(groups);
                let size = push_fields(&mut self.group_fields, &fields);
                self.reserve_columns(size, "group columns")
            }
        }
    }

    fn push_batch(&mut self, batch: &Batch) -> Result<()> {
        let before = self.positions.len();
        let positions = batch.positions();
        if positions.stride() != self.header.positions.stride() {
            return Err(self.column_error("positions"));
        }
        self.reserve_bytes(positions.bytes().len())?;
        self.positions.push_rows(positions, 0..batch.len());
        let size = push_fields(&mut self.fields, batch.fields());
        self.reserve_columns(size, "vertex columns")?;
        let has_owners = self.has_owners || batch.vertex_objects().is_some();
        let owners = if has_owners { batch.len() } else { 0 };
        self.reserve_bytes(owners * size_of::<Option<ObjectId>>())?;
        self.reserve_bytes(batch.parts().len() * size_of::<(usize, ObjectId)>())?;
        match batch.vertex_objects() {
            Some(owners) => {
                self.has_owners = true;
                self.owners.resize(before, None);
                self.owners.extend_from_slice(owners);
            }
            None if self.has_owners => self.owners.resize(before + batch.len(), None),
            None => {}
        }
        if !batch.parts().offsets().is_empty() {
            self.has_parts = true;
            for part in batch.parts().iter() {
                self.offsets.push(before + part.rows.end);
                self.part_objects.push(part.object);
            }
        }
        if let Some(elements) = batch.elements() {
            self.reserve_bytes(elements.rows().len() * 8)?;
            self.set_width(elements.width())?;
            self.elements.extend(elements.rows().iter().map(|row| row + before));
            let size = push_fields(&mut self.element_fields, elements.fields());
            self.reserve_columns(size, "element columns")?;
        }
        Ok(())
    }

    fn set_width(&mut self, width: usize) -> Result<()> {
        if self.width != 0 && self.width != width {
            return Err(self.column_error("elements of two widths"));
        }
        self.width = width;
        Ok(())
    }

    /// Reserves the bytes of added columns. There is no size where the columns differ from those of
    /// the header.
    fn reserve_columns(&mut self, size: Option<usize>, what: &str) -> Result<()> {
        let size = size.ok_or_else(|| self.column_error(what))?;
        self.reserve_bytes(size)
    }

    fn reserve_bytes(&mut self, bytes: usize) -> Result<()> {
        self.bytes += to_u64(bytes);
        if self.bytes <= self.max_bytes {
            return Ok(());
        }
        let what = format!("more than {} bytes of geometry at once", self.max_bytes);
        Err(cannot_hold(self.format, what, "raise --memory-limit, or narrow what is written"))
    }

    fn column_error(&self, what: &str) -> Error {
        other_columns("those of the header", format!("{what} that the header does not name"))
    }

    /// Returns the number of vertices.
    #[must_use]
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns whether there are no vertices.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the attributes of objects, in the order of [`objects`](Self::objects).
    #[must_use]
    pub fn take_object_fields(&mut self) -> Vec<Field> {
        finish_fields(&mut self.object_fields)
    }

    /// Takes the attributes of groups, in the order of [`groups`](Self::groups).
    #[must_use]
    pub fn take_group_fields(&mut self) -> Vec<Field> {
        finish_fields(&mut self.group_fields)
    }

    /// Takes all vertices with their parts or owners, and all elements.
    ///
    /// # Errors
    ///
    /// When an element names a vertex that does not exist.
    pub fn take_batch(&mut self) -> Result<Batch> {
        let empty = ColumnBuilder::empty_like(&self.header.positions);
        let positions = std::mem::replace(&mut self.positions, empty).finish();
        let mut batch = Batch::new(self.header.kind, positions);
        for field in finish_fields(&mut self.fields) {
            batch = batch.with_field(field).map_err(from_bad_batch)?;
        }
        if self.has_parts {
            let offsets = std::mem::take(&mut self.offsets);
            let objects = std::mem::take(&mut self.part_objects);
            let parts = Parts::new(offsets, objects).map_err(from_bad_batch)?;
            batch = batch.with_parts(parts).map_err(from_bad_batch)?;
        }
        if self.has_owners {
            let owners = std::mem::take(&mut self.owners);
            batch = batch.with_vertex_objects(owners).map_err(from_bad_batch)?;
        }
        if self.width > 0 {
            let rows = std::mem::take(&mut self.elements);
            let mut elements = Elements::new(self.width, rows).map_err(from_bad_batch)?;
            for field in finish_fields(&mut self.element_fields) {
                elements = elements.with_field(field).map_err(from_bad_batch)?;
            }
            batch = batch.with_elements(elements).map_err(from_bad_batch)?;
        }
        Ok(batch)
    }
}

/// Appends rows to columns of the same names and types, and returns their size in bytes; `None` when the columns differ.
fn push_fields(to: &mut [(Field, ColumnBuilder)], from: &[Field]) -> Option<usize> {
    if to.len() != from.len() {
        return None;
    }
    let mut bytes = 0;
    for ((like, builder), field) in to.iter_mut().zip(from) {
        let (column, added) = (&like.column, &field.column);
        if like.name != field.name
            || (column.dtype(), column.width()) != (added.dtype(), added.width())
        {
            return None;
        }
        if like.categories != field.categories {
            like.categories.clone_from(&field.categories);
        }
        builder.push_rows(added, 0..added.len());
        bytes += added.bytes().len();
    }
    Some(bytes)
}

/// Returns the values so far, and begins anew.
pub fn finish_fields(fields: &mut [(Field, ColumnBuilder)]) -> Vec<Field> {
    let finish = |(field, builder): &mut (Field, ColumnBuilder)| {
        let empty = ColumnBuilder::empty_like(&field.column);
        let column: Column = std::mem::replace(builder, empty).finish();
        field.with_column(column)
    };
    fields.iter_mut().map(finish).collect()
}

/// Creates the error for columns that do not fit together.
pub fn from_bad_batch(error: zvf_model::BadBatch) -> Error {
    cannot_hold("a batch", error, "the input contradicts itself")
}

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;
    use zvf_model::Kind;

    use super::*;

    #[test]
    fn owners_and_parts_count() {
        let positions = Column::new(Dtype::FLOAT32, 3, vec![0; 1200].into()).unwrap();
        let axes = ["x", "y", "z"].map(str::to_owned).to_vec();
        let header = Header::new(Kind::Polyline, axes, positions.slice(0..0));
        let bare = Batch::new(Kind::Polyline, positions);
        let owned = bare.clone().with_vertex_objects(vec![None; 100]).unwrap();
        let parts = Parts::new((0..=100).collect(), vec![ObjectId(0); 100]).unwrap();
        let divided = bare.clone().with_parts(parts).unwrap();
        for (batch, bytes) in [(bare, 1200), (owned, 2800), (divided, 2800)] {
            for (max_bytes, fits) in [(bytes, true), (bytes - 1, false)] {
                let mut collected = CollectedPieces::new(&header, max_bytes, "npz");
                let pushed = collected.push(Piece::Vertices(batch.clone()));
                assert_eq!(pushed.is_ok(), fits, "{max_bytes}");
            }
        }
    }
}
