//! Edges and faces: kept as they come, naming vertices by running number, until every vertex has its
//! row.
//!
//! An element whose vertices share a chunk is one row of that chunk's links; any other goes where
//! `zvf_format::link` places it. In a skeleton an edge that the order of rows already says is not
//! stored.
//!
//! Not here: the cells (`link`).

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use zvf_format::num::{saturating_u32_from_usize, to_u64, usize_from_u32};
use zvf_model::{Column, ColumnBuilder, Field, Kind, Value};

use crate::WriteError;
use crate::columns::Attribute;
use crate::run::Group;
use crate::schema::Schema;

/// All elements so far.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    /// Vertices of one element; 0 while there is none.
    pub(crate) width: usize,
    vertices: Vec<u64>, // a multiple of the width
    /// What is said of elements.
    pub(crate) attributes: Vec<Attribute>,
    columns: Vec<ColumnBuilder>, // one for each attribute
}

impl Elements {
    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        self.vertices.len().checked_div(self.width).unwrap_or(0)
    }

    /// Adds elements of `width` vertices, given by their running numbers.
    pub(crate) fn push(
        &mut self,
        schema: &Schema,
        width: usize,
        vertices: impl ExactSizeIterator<Item = u64>,
        fields: &[Field],
    ) -> Result<(), WriteError> {
        let kind = schema.kind;
        check_width(kind, width)?;
        if self.width == 0 {
            self.width = width;
            let attribute =
                |field: &Field| Attribute::new(field, schema.spec("link", &field.name), false);
            self.attributes = fields.iter().map(attribute).collect();
            self.columns = fields.iter().map(|field| ColumnBuilder::like(&field.column)).collect();
        }
        if width != self.width {
            return Err(WriteError::unfit(kind, "an element", self.width, width));
        }
        let count = vertices.len().checked_div(width).unwrap_or(0);
        let most = u64::from(u32::MAX);
        let found = to_u64(self.len() + count);
        if found >= most {
            return Err(WriteError::TooMuch { what: "elements of a store", most, found });
        }
        let taken = taken(kind, &mut self.attributes, fields, count, "an element attribute")?;
        for (builder, column) in self.columns.iter_mut().zip(&taken) {
            builder.push_rows(column, 0..column.len());
        }
        self.vertices.extend(vertices);
        Ok(())
    }

    /// About how many bytes they take, with what they become at the end.
    pub(crate) fn bytes(&self) -> u64 {
        let attributes = self.attributes.iter().map(|attribute| to_u64(attribute.stride()));
        let attributes = attributes.fold(ELEMENT, u64::saturating_add);
        let ends = to_u64(self.vertices.len()) * 16;
        to_u64(self.len()).saturating_mul(attributes).saturating_add(ends)
    }

    /// Forgets all elements, but not what they are.
    pub(crate) fn clear(&mut self) -> Result<(), WriteError> {
        self.vertices.clear();
        self.columns = crate::ingest::builders_like(&self.attributes)?;
        Ok(())
    }

    /// The attributes, one column each, as they are kept.
    pub(crate) fn finish_columns(&mut self) -> Vec<Column> {
        std::mem::take(&mut self.columns).into_iter().map(ColumnBuilder::finish).collect()
    }

    /// The vertices of element `number`.
    pub(crate) fn vertices(&self, number: u32) -> &[u64] {
        let start = usize_from_u32(number) * self.width;
        self.vertices.get(start..start + self.width).unwrap_or(&[])
    }

    /// Tells elements within a chunk, each with that chunk, from those between chunks.
    pub(crate) fn resolve(
        &self,
        places: &Places,
        implied: Option<&[Vec<Group>]>,
    ) -> Result<Resolved, WriteError> {
        if self.width == 0 {
            return Ok(Resolved::default());
        }
        let block = BLOCK * self.width;
        let blocks: Vec<Resolved> = self
            .vertices
            .par_chunks(block)
            .enumerate()
            .map(|(at, vertices)| self.block(at * BLOCK, vertices, places, implied))
            .collect::<Result<_, WriteError>>()?;
        let mut all = Resolved::default();
        for block in blocks {
            all.inside.extend(block.inside);
            all.between.extend(block.between);
        }
        all.inside.par_sort_by_key(|(chunk, _)| *chunk);
        Ok(all)
    }

    fn block(
        &self,
        first: usize,
        vertices: &[u64],
        places: &Places,
        implied: Option<&[Vec<Group>]>,
    ) -> Result<Resolved, WriteError> {
        let mut out = Resolved::default();
        let mut ends = Vec::with_capacity(self.width);
        for (element, vertices) in (first..).zip(vertices.chunks_exact(self.width)) {
            ends.clear();
            for vertex in vertices {
                let end = places.locate(*vertex).ok_or_else(|| WriteError::NoSuchVertex {
                    element: to_u64(element),
                    vertex: *vertex,
                    vertices: to_u64(places.0.len()),
                })?;
                ends.push(end);
            }
            let chunk = ends.first().map_or(0, |(chunk, _)| *chunk);
            if ends.iter().any(|(other, _)| *other != chunk) {
                out.between.push(saturating_u32_from_usize(element));
            } else if !implied.is_some_and(|groups| is_implied(&ends, groups)) {
                out.inside.push((chunk, saturating_u32_from_usize(element)));
            }
        }
        Ok(out)
    }
}

/// Elements told apart.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    /// Those within a chunk, by chunk, in the order given.
    pub(crate) inside: Vec<(u32, u32)>,
    /// Those between chunks, in the order given.
    pub(crate) between: Vec<u32>,
}

/// Whether an edge from child to parent is what the order of rows says.
fn is_implied(ends: &[(u32, u64)], groups: &[Vec<Group>]) -> bool {
    let [(chunk, child), (_, parent)] = ends else { return false };
    let fragments = groups.get(usize_from_u32(*chunk)).map_or(&[][..], Vec::as_slice);
    let first = fragments.binary_search_by_key(child, |group| group.start).is_ok();
    parent.checked_add(1) == Some(*child) && !first
}

/// The chunk and the row of every vertex.
#[derive(Debug)]
pub(crate) struct Places(Vec<AtomicU64>); // chunk, then row, 32 bits each

impl Places {
    /// Of so many vertices, none of which has a place yet.
    pub(crate) fn new(vertices: u64) -> Self {
        Self((0..vertices).map(|_| AtomicU64::new(u64::MAX)).collect())
    }

    /// Puts vertices, given by their numbers in the order of their rows, into a chunk.
    pub(crate) fn put(&self, chunk: u32, numbers: &[u64]) {
        for (row, number) in (0_u64..).zip(numbers) {
            let slot = usize::try_from(*number).ok().and_then(|number| self.0.get(number));
            if let Some(slot) = slot {
                slot.store(u64::from(chunk) << 32 | row, Ordering::Relaxed);
            }
        }
    }

    /// Where vertex `number` is.
    pub(crate) fn locate(&self, number: u64) -> Option<(u32, u64)> {
        let slot = usize::try_from(number).ok().and_then(|number| self.0.get(number))?;
        let place = slot.load(Ordering::Relaxed);
        let chunk = u32::try_from(place >> 32).unwrap_or(u32::MAX);
        (chunk != u32::MAX).then_some((chunk, place & u64::from(u32::MAX)))
    }
}

/// The columns of a batch as they are kept; all attributes must be there, and no others.
pub(crate) fn taken(
    kind: Kind,
    attributes: &mut [Attribute],
    fields: &[Field],
    rows: usize,
    what: &str,
) -> Result<Vec<Column>, WriteError> {
    let known = |field: &&Field| attributes.iter().all(|known| known.name != field.name);
    if let Some(field) = fields.iter().find(known) {
        let names: Vec<&str> = attributes.iter().map(|known| &*known.name).collect();
        let expected = format!("one of the first batch ({})", names.join(", "));
        return Err(WriteError::unfit(kind, what, expected, format!("{:?}", &*field.name)));
    }
    let mut columns = Vec::with_capacity(attributes.len());
    for attribute in attributes {
        let mut named = fields.iter().filter(|field| field.name == attribute.name);
        let (Some(field), None) = (named.next(), named.next()) else {
            let expected = format!("{:?}, once, as in the first batch", &*attribute.name);
            return Err(WriteError::unfit(kind, what, expected, "none or several"));
        };
        if field.column.len() != rows {
            let what = format!("{what} {:?}", &*field.name);
            let expected = format!("of {rows} rows");
            return Err(WriteError::unfit(kind, what, expected, field.column.len()));
        }
        columns.push(attribute.take(kind, field)?);
    }
    Ok(columns)
}

/// Running numbers of vertices in a column of integers.
pub(crate) fn numbers(kind: Kind, rows: &Column) -> Result<Vec<u64>, WriteError> {
    let width = usize_from_u32(rows.width());
    let places = (0..rows.len()).flat_map(|row| (0..width).map(move |c| (row, c)));
    let number = |(row, c)| match rows.value(row, c) {
        Value::Int(n) => u64::try_from(n).ok(),
        Value::UInt(n) => Some(n),
        Value::Null | Value::Bool(_) | Value::Float(_) | Value::Text(_) => None,
    };
    let unfit =
        |(row, c)| WriteError::unfit(kind, "an element", "numbers of vertices", rows.value(row, c));
    places.map(|at| number(at).ok_or_else(|| unfit(at))).collect()
}

fn check_width(kind: Kind, width: usize) -> Result<(), WriteError> {
    let unfit = |expected: &str| Err(WriteError::unfit(kind, "an element", expected, width));
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

const BLOCK: usize = 1 << 14;
/// Bytes of what is made of an element beside its ends.
const ELEMENT: u64 = 32;
