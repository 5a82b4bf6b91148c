//! Edges and faces in input order, with running vertex numbers, until every vertex has its row.
//!
//! Not here: the locations of their ends (`stages::join`), and the cells (`stages::link_cells`).

use zvf_error::{Error, Result};
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_model::{Column, ColumnBuilder, Field, Kind, Value};

use crate::columns::Attribute;
use crate::error::unfit_error;
use crate::schema::Schema;

/// All elements so far.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    /// Vertices per element; 0 without elements.
    pub(crate) width: usize,
    vertices: Vec<u64>, // a multiple of the width
    /// The attributes of elements.
    pub(crate) attributes: Vec<Attribute>,
    columns: Vec<ColumnBuilder>, // one for each attribute
}

impl Elements {
    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        self.vertices.len().checked_div(self.width).unwrap_or(0) // none yet
    }

    /// Adds elements of `width` vertices, given by their running numbers.
    pub(crate) fn push(
        &mut self,
        schema: &Schema,
        width: usize,
        vertices: impl ExactSizeIterator<Item = u64>,
        fields: &[Field],
    ) -> Result<()> {
        let kind = schema.kind;
        check_width(kind, width)?;
        if self.width == 0 {
            self.width = width;
            let attribute =
                |field: &Field| Attribute::new(field, schema.spec("link", &field.name), false);
            self.attributes = fields.iter().map(attribute).collect();
            self.columns =
                fields.iter().map(|field| ColumnBuilder::empty_like(&field.column)).collect();
        }
        if width != self.width {
            return Err(unfit_error(kind, "an element", self.width, width));
        }
        let count = vertices.len() / width;
        let max = u64::from(u32::MAX);
        let found = to_u64(self.len() + count);
        if found >= max {
            return Err(Error::limit("elements of a store", max, found));
        }
        let what = "an element attribute";
        let taken = take_columns(kind, &mut self.attributes, fields, count, what)?;
        for (builder, column) in self.columns.iter_mut().zip(&taken) {
            builder.push_rows(column, 0..column.len());
        }
        self.vertices.extend(vertices);
        Ok(())
    }

    /// Returns the approximate number of bytes, including those for later steps.
    pub(crate) fn bytes(&self) -> u64 {
        // An element that is too large is never stored.
        let attributes = self.attributes.iter().map(|attribute| to_u64(attribute.stride()));
        let attributes = attributes.fold(ELEMENT, u64::saturating_add);
        let ends = to_u64(self.vertices.len()) * 16;
        to_u64(self.len()).saturating_mul(attributes).saturating_add(ends)
    }

    /// Removes all elements, but keeps their description.
    pub(crate) fn clear(&mut self) {
        self.vertices.clear();
    }

    /// Takes the attributes, one column each, in stored form.
    pub(crate) fn finish_columns(&mut self) -> Vec<Column> {
        let taken = std::mem::take(&mut self.columns).into_iter();
        let columns: Vec<Column> = taken.map(ColumnBuilder::finish).collect();
        self.columns = columns.iter().map(ColumnBuilder::empty_like).collect();
        columns
    }

    /// Returns the vertices of all elements.
    pub(crate) fn all_vertices(&self) -> &[u64] {
        &self.vertices
    }

    /// Returns the vertices of element `number`.
    pub(crate) fn vertices(&self, number: u32) -> &[u64] {
        let start = usize_from_u32(number) * self.width;
        &self.vertices[start..start + self.width]
    }
}

/// Takes the columns of a batch; it must have exactly these attributes.
pub(crate) fn take_columns(
    kind: Kind,
    attributes: &mut [Attribute],
    fields: &[Field],
    rows: usize,
    what: &str,
) -> Result<Vec<Column>> {
    let is_unknown =
        |field: &&Field| attributes.iter().all(|attribute| *attribute.name != *field.name);
    if let Some(field) = fields.iter().find(is_unknown) {
        let names: Vec<&str> = attributes.iter().map(|attribute| &*attribute.name).collect();
        let expected = format!("one of the first batch ({})", names.join(", "));
        return Err(unfit_error(kind, what, expected, format!("{:?}", &*field.name)));
    }
    let mut columns = Vec::with_capacity(attributes.len());
    for attribute in attributes {
        let mut named = fields.iter().filter(|field| *field.name == *attribute.name);
        let (Some(field), None) = (named.next(), named.next()) else {
            let expected = format!("{:?}, once, as in the first batch", &*attribute.name);
            return Err(unfit_error(kind, what, expected, "none or several"));
        };
        if field.column.len() != rows {
            let what = format!("{what} {:?}", &*field.name);
            let expected = format!("of {rows} rows");
            return Err(unfit_error(kind, what, expected, field.column.len()));
        }
        columns.push(attribute.take(kind, field)?);
    }
    Ok(columns)
}

/// Returns running vertex numbers from a column of integers.
pub(crate) fn numbers(kind: Kind, rows: &Column) -> Result<Vec<u64>> {
    let width = usize_from_u32(rows.width());
    let places = (0..rows.len()).flat_map(|row| (0..width).map(move |c| (row, c)));
    let number = |(row, c)| match rows.value(row, c) {
        Value::Int(n) => u64::try_from(n).ok(),
        Value::UInt(n) => Some(n),
        Value::Null | Value::Bool(_) | Value::Float(_) | Value::Text(_) => None,
    };
    let unfit =
        |(row, c)| unfit_error(kind, "an element", "numbers of vertices", rows.value(row, c));
    places.map(|at| number(at).ok_or_else(|| unfit(at))).collect()
}

/// Refuses elements of a width that the kind does not support.
pub(crate) fn check_width(kind: Kind, width: usize) -> Result<()> {
    let unfit = |expected: &str| Err(unfit_error(kind, "an element", expected, width));
    if kind == Kind::Skeleton {
        return crate::types::tree::check_width(width);
    }
    if !kind.has_links() {
        return unfit("none: this kind has no elements");
    }
    if kind == Kind::Mesh {
        return if (3..=8).contains(&width) { Ok(()) } else { unfit("3 to 8 vertices") };
    }
    if width == 2 { Ok(()) } else { unfit("2 vertices") }
}

/// Bytes of the data derived from an element, besides its ends.
const ELEMENT: u64 = 32;
