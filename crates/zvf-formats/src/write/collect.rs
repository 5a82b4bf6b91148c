//! Collector of all pieces of one kind in memory, for formats whose header has counts.

use zvf_error::{Error, Result};
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_model::flow::{Group, Header, Piece};
use zvf_model::{BadBatch, Batch, ColumnBuilder, Elements, Field, ObjectId, Parts};

use crate::elements::element_vertices;
use crate::error::{cannot_hold, other_columns};
use crate::table::vertex_owners;
use crate::write::FormatOptions;
use crate::write::collected_input::CollectedInput;

/// The collected pieces of one kind.
///
/// Vertices are one batch, with the parts or owners of all pieces one after another. The edges of batches and those
/// of [`Piece::Elements`] are one table, over all vertices. Attributes of objects are in input order.
#[derive(Debug)]
pub struct CollectedPieces {
    /// The header of the kind.
    pub header: Header,
    options: FormatOptions,
    positions: ColumnBuilder,
    fields: Vec<FieldBuilder>,
    owners: Option<Vec<Option<ObjectId>>>,
    offsets: Vec<usize>, // none without parts
    part_objects: Vec<ObjectId>,
    width: usize,
    elements: Vec<usize>,
    element_fields: Vec<FieldBuilder>,
    objects: Vec<ObjectId>,
    object_fields: Vec<FieldBuilder>,
    groups: Vec<Group>,
    group_fields: Vec<FieldBuilder>,
    bytes: u64,
    format: &'static str,
}

impl CollectedPieces {
    /// Creates an empty collector for a kind of `header`, which holds at most the memory of the
    /// options.
    pub fn new(header: &Header, options: &FormatOptions, format: &'static str) -> Self {
        let elements = header.elements.as_ref();
        Self {
            header: header.clone(),
            options: options.clone(),
            positions: ColumnBuilder::empty_like(&header.positions),
            fields: FieldBuilder::list(&header.fields),
            owners: None,
            offsets: Vec::new(),
            part_objects: Vec::new(),
            width: 0,
            elements: Vec::new(),
            element_fields: elements.map_or_else(Vec::new, |e| FieldBuilder::list(&e.fields)),
            objects: Vec::new(),
            object_fields: FieldBuilder::list(&header.object_fields),
            groups: Vec::new(),
            group_fields: FieldBuilder::list(&header.group_fields),
            bytes: 0,
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
        // Parts have their objects.
        let has_owners = batch.vertex_objects().is_some() && batch.parts().is_empty();
        let owners = if self.owners.is_some() || has_owners { batch.len() } else { 0 };
        self.reserve_bytes(owners * size_of::<Option<ObjectId>>())?;
        self.reserve_bytes(batch.parts().len() * size_of::<(usize, ObjectId)>())?;
        if owners > 0 {
            if self.owners.is_none() && !self.offsets.is_empty() {
                return Err(self.column_error("objects of vertices beside parts"));
            }
            let all = self.owners.get_or_insert_default();
            all.resize(before, None);
            all.extend(vertex_owners(batch).unwrap_or_default());
            all.resize(before + batch.len(), None);
        }
        if !batch.parts().offsets().is_empty() {
            if self.offsets.is_empty() {
                self.offsets.push(0);
            }
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
        let limit = self.options.memory / 3; // to encode it takes twice as much again
        if self.bytes <= limit {
            return Ok(());
        }
        let what = format!("more than {limit} bytes of geometry at once");
        Err(cannot_hold(self.format, what, "raise --memory-limit, or narrow what is written"))
    }

    fn column_error(&self, what: &str) -> Error {
        other_columns("those of the header", format!("{what} that the header does not name"))
    }

    /// Returns the number of vertices.
    pub(crate) fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns everything: all vertices with their parts or owners, elements, objects and groups.
    ///
    /// # Errors
    ///
    /// When an element names a vertex that does not exist.
    pub fn finish(mut self) -> Result<CollectedInput> {
        let object_fields = FieldBuilder::take_all(&mut self.object_fields);
        let group_fields = FieldBuilder::take_all(&mut self.group_fields);
        let Self { header, options, objects, groups, .. } = self;
        let batch = Batch::new(header.kind, self.positions.finish());
        let fields = FieldBuilder::take_all(&mut self.fields);
        let mut batch = add_fields(batch, fields, Batch::with_field)?;
        if !self.offsets.is_empty() {
            let parts = Parts::new(self.offsets, self.part_objects);
            batch = parts.and_then(|parts| batch.with_parts(parts)).map_err(from_bad_batch)?;
        }
        if let Some(owners) = self.owners {
            batch = batch.with_vertex_objects(owners).map_err(from_bad_batch)?;
        }
        if self.width > 0 {
            let elements = Elements::new(self.width, self.elements).map_err(from_bad_batch)?;
            let fields = FieldBuilder::take_all(&mut self.element_fields);
            let elements = add_fields(elements, fields, Elements::with_field)?;
            batch = batch.with_elements(elements).map_err(from_bad_batch)?;
        }
        Ok(CollectedInput { header, batch, objects, object_fields, groups, group_fields, options })
    }
}

fn add_fields<T>(
    to: T,
    fields: Vec<Field>,
    add: impl Fn(T, Field) -> Result<T, BadBatch>,
) -> Result<T> {
    fields.into_iter().try_fold(to, add).map_err(from_bad_batch)
}

/// A field whose column grows.
#[derive(Debug)]
pub struct FieldBuilder {
    field: Field,
    rows: ColumnBuilder,
}

impl FieldBuilder {
    /// Creates empty fields as these.
    pub fn list<'a>(fields: impl IntoIterator<Item = &'a Field>) -> Vec<Self> {
        let empty = |field: &Field| Self {
            field: field.clone(),
            rows: ColumnBuilder::empty_like(&field.column),
        };
        fields.into_iter().map(empty).collect()
    }

    /// Appends rows of a field of the same type. Its categories replace those before.
    pub fn push(&mut self, from: &Field, rows: std::ops::Range<usize>) {
        if self.field.categories != from.categories {
            self.field.categories.clone_from(&from.categories);
        }
        self.rows.push_rows(&from.column, rows);
    }

    /// Takes the rows of all fields so far.
    pub fn take_all(fields: &mut [Self]) -> Vec<Field> {
        let take = |Self { field, rows }: &mut Self| {
            let empty = ColumnBuilder::empty_like(&field.column);
            field.with_column(std::mem::replace(rows, empty).finish())
        };
        fields.iter_mut().map(take).collect()
    }
}

/// Appends rows to columns of the same names and types, and returns their size in bytes; `None` when the columns differ.
fn push_fields(to: &mut [FieldBuilder], from: &[Field]) -> Option<usize> {
    if to.len() != from.len() {
        return None;
    }
    let mut bytes = 0;
    for (builder, field) in to.iter_mut().zip(from) {
        let (column, added) = (&builder.field.column, &field.column);
        if builder.field.name != field.name
            || (column.dtype(), column.width()) != (added.dtype(), added.width())
        {
            return None;
        }
        builder.push(field, 0..added.len());
        bytes += added.bytes().len();
    }
    Some(bytes)
}

/// Creates the error for columns that do not fit together.
pub fn from_bad_batch(error: BadBatch) -> Error {
    cannot_hold("a batch", error, "the input contradicts itself")
}

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;
    use zvf_model::{Column, Kind};

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
                let options = FormatOptions { memory: 3 * max_bytes, ..FormatOptions::default() };
                let mut collected = CollectedPieces::new(&header, &options, "npz");
                let pushed = collected.push(Piece::Vertices(batch.clone()));
                assert_eq!(pushed.is_ok(), fits, "{max_bytes}");
            }
        }
    }
}
